"""Valid flatbuffers of models in which one to three fields of any table have another value, for fuzz_structure.py."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from framebind.delegate.certify.cases.operator_cases import CASES
from framebind.delegate.certify.cases.operator_models import case_model, output_shapes
from framebind.delegate.certify.graphs.comparison import case_of
from framebind.delegate.certify.graphs.recipe import draw

NUMBERS = (0, -1, 1, 2, 3, 5, 7, 100, 127, 128, 2**15, 2**16, 2**31 - 1, -(2**31), -2, 2**40)
FLOATS = (float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1e38, 1e-38, 0.5, 300.0)
TEXTS = (b"", b"\xff\xfe\xfd", b"a\x1b[31mb\x00c", b"x" * 3000, "\u202e\U0001f600".encode(), b"[/bold]")


def sources(extra: Sequence[Path]) -> list[bytes]:
    """The models to change: one per operator, random graphs in every storage, and files."""
    first = {case.operator: case for case in reversed(CASES)}
    models = [case_model(case, output_shapes(case)) for case in first.values()]
    return [*models, *(case_of(draw(seed)).model for seed in range(20)), *(path.read_bytes() for path in extra)]


def mutant(content: bytes, generator: random.Random) -> bytes:
    """The model with one to three changed fields."""
    while True:
        model: Any = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
        for _ in range(generator.choice((1, 1, 1, 2, 3))):
            change(model, generator)
        flat = flatbuffers.Builder(1024)
        try:
            flat.Finish(model.Pack(flat), b"TFL3")
        except Exception:  # a value that the format cannot hold: another one then
            continue
        return bytes(flat.Output())


def change(model: Any, generator: random.Random) -> None:
    """Give one field another value. Every kind of table is as likely, and every field of it."""
    by_kind: dict[str, list[Any]] = {}
    for table in tables(model):
        if vars(table):
            by_kind.setdefault(type(table).__name__, []).append(table)
    table = generator.choice(by_kind[generator.choice(sorted(by_kind))])
    name = generator.choice(sorted(vars(table)))
    others = [getattr(other, name) for other in by_kind[type(table).__name__]]
    setattr(table, name, changed(getattr(table, name), others, generator))


def tables(value: Any) -> Iterator[Any]:
    """A table and all below it."""
    if hasattr(value, "__dict__"):
        yield value
        for below in vars(value).values():
            yield from tables(below)
    elif isinstance(value, list) and value and hasattr(value[0], "__dict__"):
        for below in value:
            yield from tables(below)


def changed(value: Any, others: Sequence[Any], generator: random.Random) -> Any:
    """Another value for a field. ``others`` are those of the same field in other tables."""
    if generator.random() < 0.25:
        return generator.choice(others)
    if isinstance(value, bool | np.bool_):
        return not value
    if isinstance(value, int | np.integer):
        return generator.choice((*NUMBERS, int(value) + 1, int(value) - 1))
    if isinstance(value, float | np.floating):
        return generator.choice(FLOATS)
    if isinstance(value, bytes | str):
        return generator.choice(TEXTS)
    if isinstance(value, list | np.ndarray):
        return changed_list(list(value), generator)
    if value is None:
        return generator.choice([0, 1, -1, [0], [1, 2], b"x", None])
    return None  # a table


def changed_list(values: list[Any], generator: random.Random) -> list[Any] | None:
    """Another list: shorter, longer, in another order, or with another element."""
    kind = generator.randrange(7)
    if not values or kind == 0:
        return generator.choice([[], None, [0], [1, 1]])
    place = generator.randrange(len(values))
    if kind == 1:
        values.pop(place)
    elif kind == 2:
        values.append(values[place])
    elif kind == 3:
        values = values[: len(values) // 2]
    elif kind == 4:
        generator.shuffle(values)
    elif not hasattr(values[0], "__dict__"):
        values[place] = changed(values[place], values, generator)
    return values
