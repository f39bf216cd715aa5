"""Mutants of models by structure, through the whole road: ``python scripts/fuzz_structure.py --road gl --count 2000``.

A mutant is a sound flatbuffer in which one to three fields of any table have another value: numbers, names, lists,
options, buffers and tables themselves. Each is inspected, read, claimed and lowered; on the roads "gl" and "cl" it is
also allocated, run, and compared with LiteRT. Batches run in processes of their own with limits of time and memory.

Counted apart, and kept in ``--keep`` with their reason: crashes, hangs, odd exceptions, wrong results, and more than 2
GB of memory. A crash or hang of LiteRT alone on the same file is counted as LiteRT's. The exit status is 1 if anything
is framebind's. POSIX only.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import logging
import os
import random
import resource
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ai_edge_litert.interpreter as litert
import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

import framebind as fb
from framebind.delegate.certify.cases.compiled import program_on_null
from framebind.delegate.certify.cases.operator_cases import CASES
from framebind.delegate.certify.cases.operator_models import case_model, output_shapes
from framebind.delegate.certify.devices import backend_of, open_context
from framebind.delegate.certify.graphs.comparison import case_of
from framebind.delegate.certify.graphs.recipe import draw
from framebind.delegate.claim.claims import claim
from framebind.delegate.read.reader import read_model
from framebind.demos.commands.inspect import inspect
from framebind.interop.record.null import NullDevice

ADDRESS_SPACE = 24 << 30
RESIDENT = 2 << 30
"""Memory that a mutant may take on top of what its process had before, in bytes."""
SECONDS = {"null": 10, "gl": 30, "cl": 60}
"""Limit for one mutant: PoCL compiles slowly."""
PATIENCE = 5
"""A mutant that seems to hang is given as many times its limit in a process of its own."""
BATCH = 100
FAULTS = ("crash", "hang", "odd exception", "wrong result", "memory")
NUMBERS = (0, -1, 1, 2, 3, 5, 7, 100, 127, 128, 2**15, 2**16, 2**31 - 1, -(2**31), -2, 2**40)
FLOATS = (float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1e38, 1e-38, 0.5, 300.0)
TEXTS = (b"", b"\xff\xfe\xfd", b"a\x1b[31mb\x00c", b"x" * 3000, "\u202e\U0001f600".encode(), b"[/bold]")
KNOWN = (fb.FramebindError,)
CHAIN_STEPS = {"int8": 8.0, "uint8": 8.0, "int16": 1024.0}
"""Steps that quantized outputs of several operators may be off: scales that a mutant changed enlarge one step. Random
graphs (test_random_graphs.py) measure what is right.
"""
UNDEFINED = {"RIGHT_SHIFT", "STABLEHLO_SHIFT_LEFT"}
"""Operators whose results are undefined for random inputs: C does not say what a shift by more than the width is."""


# Mutants --------------------------------------------------------------------------------------------------------------


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


# The road of one mutant -----------------------------------------------------------------------------------------------


def outcome_of(content: bytes, road: str) -> str:
    """The outcome of a mutant: how far it came, or a fault and its reason."""
    try:
        reached = _without_gpu(content)
        if road == "null" or reached != "lowered":
            return reached
        return _through_invoke(content, road)
    except MemoryError:
        return "memory: MemoryError"
    except BaseException as error:
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        where = f"{Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno}" if place is not None else ""
        return f"odd exception: {type(error).__name__} at {where}: {error}"[:600]


def _without_gpu(content: bytes) -> str:
    with tempfile.NamedTemporaryFile(suffix=".tflite") as file:
        file.write(content)
        file.flush()
        try:
            inspect(file.name)
        except KNOWN:
            pass
    try:
        model = read_model(content)
    except fb.ModelError:
        return "refused by the reader"
    for subgraph in model.subgraphs[1:]:
        claim(subgraph, lambda: NullDevice().traits.target)
    try:
        _, program = program_on_null(content)
        if program is not None:
            program.record()
    except KNOWN as error:
        return f"refused when lowered: {type(error).__name__}"
    return "lowered"


def _through_invoke(content: bytes, road: str) -> str:
    expected = on_litert(content)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend_of(road)))
    try:
        interpreter = fb.Interpreter(model_content=content, num_threads=1)
        interpreter.modify_graph_with_delegate(delegate)
        interpreter.allocate_tensors()
        results = run(interpreter)
    except (*KNOWN, RuntimeError, ValueError) as error:
        is_said_so = isinstance(error, (*KNOWN, RuntimeError)) or str(error) == expected
        if "defect of framebind" in str(error) or not is_said_so:
            raise
        return "refused by both" if isinstance(expected, str) else f"refused by the delegate alone: {error}"[:300]
    finally:
        delegate.close()
    if isinstance(expected, str):
        return f"run by the delegate alone: LiteRT says {expected}"[:300]
    return difference(results, expected, content)


def on_litert(content: bytes, kernels: Any = litert.OpResolverType.AUTO) -> list[Any] | str:
    """LiteRT's results, or its error."""
    try:
        interpreter = litert.Interpreter(model_content=content, num_threads=1, experimental_op_resolver_type=kernels)
        interpreter.allocate_tensors()
        return run(interpreter)
    except (RuntimeError, ValueError) as error:
        return str(error)


def run(interpreter: Any) -> list[Any]:
    """The outputs for random inputs, the same in each run."""
    generator = np.random.default_rng(0)
    for detail in interpreter.get_input_details():
        shape, dtype = tuple(int(n) for n in detail["shape"]), np.dtype(detail["dtype"])
        if dtype.kind not in "fiub":
            raise RuntimeError(f"inputs of {dtype} are not set")
        values = generator.uniform(-2, 2, shape) * (1 if dtype.kind in "fb" else 20)
        interpreter.set_tensor(detail["index"], (np.abs(values) if dtype.kind == "u" else values).astype(dtype))
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def difference(results: Sequence[Any], expected: Sequence[Any], content: bytes) -> str:
    """ "the same", or "wrong result" if LiteRT's sets of kernels agree among themselves and not with the GPU."""
    others = on_litert(content, litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    operators = [operator for subgraph in read_model(content).subgraphs for operator in subgraph.operators]
    if any(operator.name in UNDEFINED for operator in operators):
        return "undefined"
    steps = CHAIN_STEPS if len(operators) > 1 else {}
    part = 0.1 if has_hybrid_operators(content) else 1e-3
    for number, (ours, theirs) in enumerate(zip(results, expected, strict=True)):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"wrong result: output {number} is {ours.shape} {ours.dtype}, not {theirs.shape} {theirs.dtype}"
        if theirs.dtype.kind not in "fiub" or theirs.size == 0:
            continue
        with np.errstate(all="ignore"):
            error, own = (
                float(np.abs(values.astype(np.float64) - theirs).max())
                for values in (ours, theirs if isinstance(others, str) else others[number])
            )
            scale = float(np.abs(theirs.astype(np.float64)).max())
        unit = steps.get(theirs.dtype.name, 2.0) if theirs.dtype.kind in "iu" else part * (scale or 1.0)
        if not np.isfinite(scale) or not np.isfinite(own):
            continue  # NaN and infinity: drivers differ
        if not error <= max(unit, 2 * own):
            return f"wrong result: output {number} is off by {error:.3g} of {scale:.3g}; LiteRT's kernels by {own:.3g}"
    return "the same"


def has_hybrid_operators(content: bytes) -> bool:
    """Whether an operator multiplies floats by 8-bit weights: LiteRT rounds the floats to 8 bits there, the GPU not."""
    for subgraph in read_model(content).subgraphs:
        for operator in subgraph.operators:
            dtypes = {subgraph.tensors[i].dtype for i in operator.inputs if i >= 0}
            if operator.name != "DEQUANTIZE" and "float32" in dtypes and dtypes & {"int8", "uint8"}:
                return True
    return False


# Processes ------------------------------------------------------------------------------------------------------------


def batches(mutants: Sequence[bytes], road: str) -> Iterator[tuple[int, str]]:
    """The outcome of each mutant, by number. A process that dies takes one mutant with it."""
    first = 0
    while first < len(mutants):
        last, status = first, 0
        for number, outcome in _apart(list(enumerate(mutants))[first : first + BATCH], road):
            if number < 0:
                status = int(outcome)
            else:
                last = number + 1
                yield number, outcome
        if status and last < min(first + BATCH, len(mutants)):
            yield last, _blame(mutants[last], road, signal.Signals(status).name if status > 0 else "an exit")
            last += 1
        first = last


def _blame(content: bytes, road: str, name: str) -> str:
    """The outcome of a mutant whose process died: LiteRT's fault if it dies on the model by itself.

    A hang is tried again by itself with more time: the machine may have been busy.
    """
    if name == "SIGALRM":
        again = dict(_apart([(0, content)], road, patience=PATIENCE))
        if 0 in again:
            return again[0]
    alone = list(_apart([(0, content)], "LiteRT"))
    kind = "hang" if name == "SIGALRM" else "crash"
    return f"LiteRT's own {kind}" if not any(number == 0 for number, _ in alone) else f"{kind}: {name}"


def _apart(mutants: Sequence[tuple[int, bytes]], road: str, patience: int = 1) -> Iterator[tuple[int, str]]:
    """Outcomes from a forked process, then (-1, the signal that ended it, or 0)."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _serve(mutants, road, writer, patience)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            number, outcome = json.loads(line)
            yield number, outcome
    _, status = os.waitpid(child, 0)
    yield -1, str(os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status))


def _serve(mutants: Sequence[tuple[int, bytes]], road: str, writer: int, patience: int) -> None:
    """Run mutants in this process and end it; it ends early if one takes too much memory."""
    faulthandler.disable()  # the parent tells of it
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    logging.disable(logging.CRITICAL)
    context = open_context(road) if road in ("gl", "cl") else None
    for number, content in mutants:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        signal.alarm(SECONDS.get(road, 30) * patience)
        outcome = str(on_litert(content)) if road == "LiteRT" else outcome_of(content, road)
        signal.alarm(0)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
        if grown > RESIDENT:
            outcome = f"memory: {grown >> 20} MB ({outcome})"
        os.write(writer, (json.dumps([number, outcome]) + "\n").encode())
        if grown > RESIDENT // 4:
            os._exit(0)
    del context
    os._exit(0)


# Command --------------------------------------------------------------------------------------------------------------


def fuzz(
    models: Sequence[bytes], seed: int, count: int, road: str, report: Callable[[bytes, str], Any]
) -> Counter[str]:
    """Run ``count`` mutants; returns how many ended how. ``report`` is given each fault."""
    counts: Counter[str] = Counter()
    for start in range(0, count, BATCH):
        numbers = range(start, min(start + BATCH, count))
        generators = [random.Random(f"{seed} {number}") for number in numbers]
        mutants = [mutant(generator.choice(models), generator) for generator in generators]
        for number, outcome in batches(mutants, road):
            kind = outcome.split(":")[0]
            counts[kind] += 1
            if kind in FAULTS:
                report(mutants[number], outcome)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description="Mutants of models by structure, through the whole road.")
    parser.add_argument("models", nargs="*", type=Path, help="models to change beside the built-in ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--road", choices=("null", "gl", "cl"), default="null")
    parser.add_argument("--keep", type=Path, default=Path("faults"), help="a folder for the files that are at fault")
    arguments = parser.parse_args()

    def keep(content: bytes, outcome: str) -> None:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        path = (
            arguments.keep
            / f"{outcome.split(':')[0].replace(' ', '-')}-{hashlib.sha256(content).hexdigest()[:8]}.tflite"
        )
        path.write_bytes(content)
        path.with_suffix(".txt").write_text(outcome + "\n", encoding="utf-8")
        print(f"{path}: {outcome}", flush=True)

    counts = fuzz(sources(arguments.models), arguments.seed, arguments.count, arguments.road, keep)
    for kind, count in counts.most_common():
        print(f"{count:8d} {kind}")
    return int(any(kind in counts for kind in FAULTS))


if __name__ == "__main__":
    sys.exit(main())
