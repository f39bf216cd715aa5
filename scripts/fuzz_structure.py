"""Runs mutants of models through the whole pipeline: ``python scripts/fuzz_structure.py --road gl --count 2000``.

A mutant is a valid flatbuffer with up to three changes in any table: numbers, names, lists, options, buffers, tables,
types and scales of tensors (mutants.py). With ``--windows`` short chains of operators of real models are changed too.
Each mutant is inspected, read, claimed and lowered; on a device it is also allocated, run with noise, with equal values
and with a picture, and compared with LiteRT. Batches run in separate processes with limits of time and memory. These
faults are counted, and kept in ``--keep`` with their reason: crashes, hangs, unexpected exceptions, wrong results, more
than 2 GB of memory, and models that LiteRT refuses for a reason without a decision in refusals.py. If LiteRT alone
crashes or hangs on the same file, the fault counts as LiteRT's. The exit status is 1 if anything is framebind's. With
``--processes`` that many batches run at once. An interrupt ends the run with the counts so far. POSIX only.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import logging
import math
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ai_edge_litert.interpreter as litert
import numpy as np

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.read.model import Model
from framebind.delegate.read.reader import read_model
from framebind.interop.null.device import NullDevice
from framebind.tools.certify.devices import backend_of, open_context
from framebind.tools.certify.pictures import picture_inputs
from framebind.tools.commands.inspect import inspect
from mutants import mutant, sources
from null_programs import program_on_null
from refusals import promise_for
from windows import windows

ADDRESS_SPACE = 24 << 30
"""Limit of the address space that mutants take on top of what a process with an open device has: CUDA reserves more
than the machine has memory.
"""
RESIDENT = 2 << 30
"""Memory that a mutant may take on top of what its process had before, in bytes."""
SECONDS = {"null": 10, "gl": 30, "gles": 30}
"""Limit for one mutant: PoCL compiles slowly."""
PATIENCE = 5
"""A mutant that seems to hang is tried again in a separate process, with its limit times this."""
BATCH = 50
"""Mutants of one process."""
EVERY_SECONDS = 10
"""Time between two lines of progress."""
FAULTS = ("crash", "hang", "odd exception", "wrong result", "memory", "undecided")
"""The last: framebind runs a model that LiteRT refuses, and refusals.py has no decision about it."""
RAN = ("the same", "explained", "undefined", "promised", "wrong result", "undecided")
"""Outcomes of models that framebind ran, once with each kind of input."""
KNOWN = (fb.FramebindError,)
INPUTS = ("noise", "ties", "picture")
"""Each model runs once with each of these kinds of input."""
KERNELS = (litert.OpResolverType.AUTO, litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
"""LiteRT's sets of kernels: with XNNPACK, and without."""
LARGE = 1 << 22
"""Values of outputs above which they are not compared: all that LiteRT and framebind compute is kept for it."""
CHAIN_STEPS = {"int8": 8.0, "uint8": 8.0, "int16": 1024.0}
"""Steps that quantized outputs of several operators may be off: scales that a mutant changed enlarge one step. Random
graphs (test_random_graphs.py) measure what is right.
"""
INDICES = "indices of MaxPoolingWithArgmax2D are MediaPipe's, not XNNPACK's"
INFINITE = "LiteRT's running sum of squares, once infinite, stays so"
UNWRITTEN = "LiteRT's kernel writes another type than the file declares, and leaves memory unwritten"
"""The reason for an operator that stays on the CPU: half results in a tensor declared float32, for one."""
UNLIKE: dict[tuple[str, int], Callable[[Any, Any], str]] = {
    ("MaxPoolingWithArgmax2D", 1): lambda ours, theirs: INDICES,
    ("LOCAL_RESPONSE_NORMALIZATION", 0): lambda ours, theirs: INFINITE if only_zeros_differ(ours, theirs) else "",
}
"""The reason why a result differs from LiteRT's, or "", by operator and number of its output: see docs/operators.md."""
UNDEFINED = {"RIGHT_SHIFT", "STABLEHLO_SHIFT_LEFT"}
"""Operators whose results are undefined for random inputs: C does not say what a shift by more than the width is."""


# The road of one mutant -----------------------------------------------------------------------------------------------


def outcome_of(content: bytes, road: str) -> str:
    """The outcome of a mutant: the last phase that it reached, or a fault and its reason."""
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
        claim(subgraph, lambda: NullDevice().traits.target, subgraphs=model.subgraphs)
    try:
        _, program = program_on_null(content)
        if program is not None:
            program.record()
    except KNOWN as error:
        return f"refused when lowered: {type(error).__name__}"
    return "lowered"


def _through_invoke(content: bytes, road: str) -> str:
    expected = on_litert(content)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend_of(road), is_precision_loss_allowed=False))
    try:
        interpreter = fb.Interpreter(model_content=content, num_threads=1)
        interpreter.modify_graph_with_delegate(delegate)
        interpreter.allocate_tensors()
        is_mistyped = any("is declared" in operator.reason for operator in interpreter.delegated_ops())
        results = run(interpreter)
    except (*KNOWN, RuntimeError, ValueError) as error:
        is_said_so = isinstance(error, (*KNOWN, RuntimeError)) or str(error) == expected
        if "defect of framebind" in str(error) or not is_said_so:
            raise
        return "refused by both" if isinstance(expected, str) else f"refused by the delegate alone: {error}"[:300]
    finally:
        delegate.close()
    if isinstance(expected, str):  # XNNPACK refuses some models that LiteRT's other kernels run
        expected = on_litert(content, KERNELS[1])
    if isinstance(expected, str):
        promise = promise_for(expected)
        return f"promised: {promise}" if promise else f"undecided: LiteRT says {expected}"[:300]
    outcome = difference(results, expected, content)
    return f"explained: {UNWRITTEN}" if outcome.startswith("wrong result") and is_mistyped else outcome


def on_litert(content: bytes, kernels: Any = KERNELS[0]) -> list[list[Any]] | str:
    """LiteRT's results, or its error."""
    try:
        interpreter = litert.Interpreter(model_content=content, num_threads=1, experimental_op_resolver_type=kernels)
        interpreter.allocate_tensors()
        return run(interpreter)
    except (RuntimeError, ValueError) as error:
        return str(error)


def run(interpreter: Any) -> list[list[Any]]:
    """The outputs for each kind of input, the same in each run."""
    found: list[list[Any]] = []
    for kind in INPUTS:
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], input_of(kind, detail))
        interpreter.invoke()
        if sum(math.prod(map(int, detail["shape"])) for detail in interpreter.get_output_details()) > LARGE:
            raise RuntimeError(f"more than {LARGE} values are not compared")
        found.append([interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()])
    return found


def input_of(kind: str, detail: Mapping[str, Any]) -> Any:
    """Noise; "ties": five different values; or a picture, whose three channels repeat. Noise if no picture fits."""
    shape, dtype = tuple(int(n) for n in detail["shape"]), np.dtype(detail["dtype"])
    if dtype.kind not in "fiub":
        raise RuntimeError(f"inputs of {dtype} are not set")
    if kind == "picture" and len(shape) > 2:
        whole = (1, *shape[-3:-1], 3)
        pictures = list(picture_inputs([{"shape": whole, "dtype": dtype}], [np.empty(0)]).values())
        if pictures:
            channels = pictures[sum(shape) % len(pictures)][0][0][..., np.arange(shape[-1]) % 3]
            return np.broadcast_to(channels, shape).astype(dtype)
    generator = np.random.default_rng(0)
    values = generator.integers(-2, 3, shape) / 2 if kind == "ties" else generator.uniform(-2, 2, shape)
    if dtype.kind == "b":
        return values > 0
    values = values * (1 if dtype.kind == "f" else 20)
    return (np.abs(values) if dtype.kind == "u" else values).astype(dtype)


def difference(results: Sequence[list[Any]], expected: Sequence[list[Any]], content: bytes) -> str:
    """ "the same", or "wrong result" if LiteRT's sets of kernels agree among themselves and not with the GPU."""
    model = read_model(content)
    if any(operator.name in UNDEFINED for subgraph in model.subgraphs for operator in subgraph.operators):
        return "undefined"
    others = on_litert(content, KERNELS[1])
    if isinstance(others, str):
        others = expected
    for kind, *outputs in zip(INPUTS, results, expected, others, strict=True):
        for number, (ours, theirs, other) in enumerate(zip(*outputs, strict=True)):
            if fault := _fault(ours, theirs, other, largest_error(theirs, model)):
                reason = UNLIKE.get(made_by(model, number), lambda *_: "")(ours, theirs)
                if reason:
                    return f"explained: {reason}"
                return f"wrong result: output {number} {fault}, with {kind}"
    return "the same"


def only_zeros_differ(ours: Any, theirs: Any) -> bool:
    """Whether the results are the same where LiteRT's are not 0: it divides by an infinite sum elsewhere."""
    return ours.shape == theirs.shape and np.allclose(ours[theirs != 0], theirs[theirs != 0], rtol=1e-3, atol=0)


def made_by(model: Model, number: int) -> tuple[str, int]:
    """The operator that computes an output of the model, and the number of the operator's own output."""
    tensor = model.subgraphs[0].outputs[number]
    makers = [operator for operator in model.subgraphs[0].operators if tensor in operator.outputs]
    return (makers[-1].name, makers[-1].outputs.index(tensor)) if makers else ("", 0)


def largest_error(expected: Any, model: Model) -> float:
    """The largest error that an output may have if LiteRT's kernels agree on it."""
    operators = [operator for subgraph in model.subgraphs for operator in subgraph.operators]
    if expected.dtype.kind in "iu":
        return CHAIN_STEPS.get(expected.dtype.name, 2.0) if len(operators) > 1 else 2.0
    scale = (
        np.abs(expected[np.isfinite(expected)].astype(np.float64)).max(initial=0) if expected.dtype.kind == "f" else 0
    )
    bound = (0.1 if has_hybrid_operators(model) else 1e-3) * (scale or 1.0)
    made = [
        (subgraph.tensors[i].quantization, subgraph.tensors[i].dtype)
        for subgraph in model.subgraphs
        for operator in subgraph.operators
        for i in operator.outputs
    ]
    steps = [CHAIN_STEPS.get(dtype, 2.0) * max(q.scales) for q, dtype in made if q is not None]
    return max([bound, *steps])


def _fault(ours: Any, theirs: Any, other: Any, bound: float) -> str:
    """The fault of an output, or ""."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"is {ours.shape} {ours.dtype}, not {theirs.shape} {theirs.dtype}"
    if theirs.dtype.kind not in "fiub" or theirs.size == 0 or other.shape != theirs.shape:
        return ""  # the last: LiteRT's kernels disagree on the shape
    with np.errstate(all="ignore"):
        error, own = (float(np.abs(values.astype(np.float64) - theirs).max()) for values in (ours, other))
        scale = float(np.abs(theirs.astype(np.float64)).max())
    if not np.isfinite(scale) or not np.isfinite(own) or error <= max(bound, 2 * own):
        return ""  # NaN and infinity: drivers differ
    return f"is off by {error:.3g} of {scale:.3g}; LiteRT's kernels by {own:.3g}"


def has_hybrid_operators(model: Model) -> bool:
    """Whether an operator multiplies floats by 8-bit weights: LiteRT rounds the floats to 8 bits there, the GPU not."""
    for subgraph in model.subgraphs:
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
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    logging.disable(logging.CRITICAL)
    try:
        context = None if road in ("null", "LiteRT") else open_context(road)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + ADDRESS_SPACE
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for number, content in mutants:
            if not _serve_one(number, content, road, writer, patience):
                break
        del context
        os._exit(0)
    finally:
        os._exit(1)  # no device, or the reader has gone: nothing of this copy of the parent may go on


def _serve_one(number: int, content: bytes, road: str, writer: int, patience: int) -> bool:
    """Run a mutant and write its outcome; whether the process may go on with another."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    signal.alarm(SECONDS.get(road, 60) * patience)
    outcome = str(list(map(partial(on_litert, content), KERNELS))) if road == "LiteRT" else outcome_of(content, road)
    signal.alarm(0)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    if grown > RESIDENT:
        outcome = f"memory: {grown >> 20} MB ({outcome})"
    os.write(writer, (json.dumps([number, outcome]) + "\n").encode())
    return grown <= RESIDENT // 4


# Command --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """The mutants to run: the models they are made from, and the numbers that each is drawn by."""

    models: Sequence[bytes]
    seed: int
    count: int
    road: str

    def batch(self, first: int) -> list[tuple[str, bytes]]:
        """The outcome of each mutant from ``first`` to the end of its batch, and the mutant if it is a fault."""
        numbers = range(first, min(first + BATCH, self.count))
        generators = [random.Random(f"{self.seed} {number}") for number in numbers]
        mutants = [mutant(generator.choice(self.models), generator) for generator in generators]
        return [
            (outcome, mutants[number] if outcome.split(":")[0] in FAULTS else b"")
            for number, outcome in batches(mutants, self.road)
        ]


class Findings:
    """Counts of outcomes, printed now and then and written to a file; faults are kept in a folder."""

    def __init__(self, plan: Plan, folder: Path, summary: Path | None) -> None:
        self.plan, self.folder, self.summary = plan, folder, summary
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self.started = self.printed = time.monotonic()

    def add(self, outcomes: Sequence[tuple[str, bytes]]) -> None:
        for outcome, content in outcomes:
            kind = outcome.split(":")[0]
            self.counts[outcome if kind in ("explained", "promised", "refused when lowered") else kind] += 1
            if content:
                self._keep(content, outcome)
        if time.monotonic() - self.printed >= EVERY_SECONDS:
            self.printed = time.monotonic()
            print(
                f"{self.counts.total():7d} of {self.plan.count}, {self._rate():.0f} per s: {dict(self.counts)}",
                flush=True,
            )
            self.write()

    def _rate(self) -> float:
        return self.counts.total() / (time.monotonic() - self.started)

    def _keep(self, content: bytes, outcome: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        kind = outcome.split(":")[0].replace(" ", "-")
        path = self.folder / f"{kind}-{hashlib.sha256(content).hexdigest()[:8]}.tflite"
        path.write_bytes(content)
        path.with_suffix(".txt").write_text(outcome + "\n", encoding="utf-8")
        self.faults.append(f"{path.name}: {outcome}")
        print(f"{path}: {outcome}", flush=True)

    def write(self) -> None:
        """Write the summary, whole or not at all."""
        if self.summary is None:
            return
        content = {
            "road": self.plan.road,
            "seed": self.plan.seed,
            "asked": self.plan.count,
            "run": self.counts.total(),
            "invokes": len(INPUTS) * sum(n for kind, n in self.counts.items() if kind.split(":")[0] in RAN),
            "seconds": round(time.monotonic() - self.started, 1),
            "outcomes": dict(self.counts.most_common()),
            "faults": self.faults,
        }
        beside = self.summary.with_name(self.summary.name + ".part")
        beside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        beside.replace(self.summary)


def fuzz(plan: Plan, findings: Findings, processes: int, seconds: float) -> None:
    """Run the batches, as many at once as there are processes, until all are run or the seconds are over."""
    late = time.monotonic() + seconds
    with multiprocessing.get_context("fork").Pool(processes, _leave_interrupts_to_the_parent) as pool:
        results = pool.imap_unordered(plan.batch, range(0, plan.count, BATCH))
        while True:
            try:
                findings.add(results.next(timeout=max(late - time.monotonic(), 0)))
            except (StopIteration, multiprocessing.TimeoutError):
                return


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def main() -> int:
    parser = argparse.ArgumentParser(description="Mutants of models by structure, through the whole road.")
    parser.add_argument("models", nargs="*", type=Path, help="models to change beside the built-in ones")
    parser.add_argument("--windows", type=int, default=0, help="windows to cut out of each model of FRAMEBIND_MODELS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--road", default="null", help="null, gl, gles, cuda, cl, or cl:NAME")
    parser.add_argument("--processes", type=int, default=1, help="batches at once")
    parser.add_argument("--seconds", type=float, default=1e9, help="end after this time, with what was run till then")
    parser.add_argument("--keep", type=Path, default=Path("faults"), help="a folder for the files that are at fault")
    parser.add_argument("--summary", type=Path, help="a file for the counts as JSON, written as it goes")
    arguments = parser.parse_args()
    models = [*sources(arguments.models), *(windows(arguments.windows) if arguments.windows else [])]
    plan = Plan(models, arguments.seed, arguments.count, arguments.road)
    findings = Findings(plan, arguments.keep, arguments.summary)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        fuzz(plan, findings, arguments.processes, arguments.seconds)
    except KeyboardInterrupt:
        print("interrupted")
    findings.write()
    print(f"{findings.counts.total()} of {plan.count} mutants on the road {plan.road}")
    for kind, count in findings.counts.most_common():
        print(f"{count:8d} {kind}")
    return int(bool(findings.faults))


if __name__ == "__main__":
    sys.exit(main())
