"""Valid flatbuffers of models with up to three changes, for fuzz_structure.py.

A change gives a field of any table another value, or makes what such values seldom make together: integers with a
scale, a tensor declared to have another type, constants with equal values.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from framebind.tools.certify.cases.operator_cases import CASES
from framebind.tools.certify.cases.operator_models import case_model, output_shapes
from framebind.tools.certify.cases.quantized_models import cases
from framebind.tools.certify.graphs.comparison import case_of
from framebind.tools.certify.graphs.recipe import draw

INTEGERS = {schema.TensorType.INT32, schema.TensorType.INT64}
TYPES = tuple(sorted(value for name, value in vars(schema.TensorType).items() if name.isupper()))
NUMBER_TYPES: dict[int, Any] = {
    schema.TensorType.FLOAT32: np.dtype(np.float32), schema.TensorType.INT8: np.dtype(np.int8),
    schema.TensorType.UINT8: np.dtype(np.uint8),
}  # fmt: skip
NUMBERS = (0, -1, 1, 2, 3, 5, 7, 100, 127, 128, 2**15, 2**16, 2**31 - 1, -(2**31), -2, 2**40)
FLOATS = (float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1e38, 1e-38, 0.5, 300.0)
SCALES = (0.5, 2.0, 1.0, 0.1, 3.6e-43, 1e-9, 300.0)
STEPS = (0.5, 1.0, 8.0)
"""Distances of the values of constants that get equal ones."""
DIRECTED = 0.4
"""The part of the changes that are those of ``CHANGES``."""
TEXTS = (b"", b"\xff\xfe\xfd", b"a\x1b[31mb\x00c", b"x" * 3000, "\u202e\U0001f600".encode(), b"[/bold]")


def sources(extra: Sequence[Path]) -> list[bytes]:
    """The models to change: one per operator, in floats and quantized, random graphs in every storage, and files."""
    first = {case.operator: case for case in reversed(CASES)}
    models = [case_model(case, output_shapes(case)) for case in first.values()]
    quantized = {str(case).split(" ")[0]: case.model for case in reversed(cases())}
    graphs = [case_of(draw(seed)).model for seed in range(20)]
    return [*models, *quantized.values(), *graphs, *(path.read_bytes() for path in extra)]


def mutant(content: bytes, generator: random.Random) -> bytes:
    """The model with up to three changes."""
    while True:
        model: Any = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
        for _ in range(generator.choice((0, 1, 1, 1, 2, 3))):
            (generator.choice(CHANGES) if generator.random() < DIRECTED else change)(model, generator)
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


def scale_integers(model: Any, generator: random.Random) -> None:
    """Give a tensor of 32- or 64-bit integers a scale, rather a constant: an axis, a size, indices."""
    chosen = [tensor for tensor in _all_tensors(model) if tensor.type in INTEGERS]
    constants = [tensor for tensor in chosen if _data(model, tensor) is not None]
    if chosen:
        tensor = generator.choice(constants or chosen)
        tensor.quantization = _quantization(generator)


def declare_type(model: Any, generator: random.Random) -> None:
    """Declare a tensor to have another type. One that gets an integer type gets a scale now and then."""
    chosen = _all_tensors(model)
    if chosen:
        tensor = generator.choice(chosen)
        tensor.type = generator.choice(TYPES)
        if generator.random() < 0.3:
            tensor.quantization = _quantization(generator) if generator.random() < 0.7 else None


def repeat_values(model: Any, generator: random.Random) -> None:
    """Round a constant in floats or 8-bit integers so that many of its values are equal."""
    chosen = [
        tensor for tensor in _all_tensors(model) if tensor.type in NUMBER_TYPES and _data(model, tensor) is not None
    ]
    if chosen:
        tensor, step = generator.choice(chosen), generator.choice(STEPS)
        data, dtype = _data(model, tensor), NUMBER_TYPES[tensor.type]
        if data.nbytes % dtype.itemsize == 0:
            values = np.rint(data.view(dtype).astype(np.float64) / step) * step
            if dtype.kind in "iu":
                values = np.clip(values, np.iinfo(dtype).min, np.iinfo(dtype).max)
            model.buffers[tensor.buffer].data = values.astype(dtype).view(np.uint8)


CHANGES = (scale_integers, declare_type, repeat_values)


def _all_tensors(model: Any) -> list[Any]:
    """The tensors of all subgraphs that a mutant still has."""
    return [table for table in tables(model) if isinstance(table, schema.TensorT)]


def _data(model: Any, tensor: Any) -> Any:
    """The bytes of a constant, or None: a mutant's tensor may name no buffer."""
    buffers = model.buffers or []
    data = getattr(buffers[tensor.buffer], "data", None) if 0 <= tensor.buffer < len(buffers) else None
    return data if isinstance(data, np.ndarray) and data.size else None


def _quantization(generator: random.Random) -> Any:
    quantization: Any = schema.QuantizationParametersT()
    quantization.scale, quantization.zeroPoint = [generator.choice(SCALES)], [generator.choice((0, 0, 0, 3, -128))]
    return quantization


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
    """A value for a field that it has not. ``others`` are those of the same field in other tables."""
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
    """A changed list: shorter, longer, in another order, or with another element."""
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
