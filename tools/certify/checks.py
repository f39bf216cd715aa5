"""Checks: a model, its inputs, LiteRT's results for them, and the largest error that the GPU may have.

The plan of a certification has the most informative subjects first, because the time may not suffice for all.

Errors are the largest difference as a part of the largest expected value; for quantized operators, the largest
difference in steps of the output.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ai_edge_litert.interpreter as litert
import ai_edge_litert.schema_py_generated as schema
import flatbuffers
import numpy as np
import numpy.typing as npt

from ...delegate.compiler import StorageRule
from ...delegate.lower.precision import choose_storage
from ...delegate.read.reader import read_model
from .cases.lstm_models import FORMS, Form, lstm
from .cases.network_models import NETWORKS
from .cases.operator_models import run_model, run_on_cpu, runtime_inputs
from .cases.quantized_models import Quantized, cases, random_inputs
from .cases.runs import Run, all_halves, all_runs, first_runs, kept_cover
from .graphs.comparison import KERNEL_SETS, case_of, compare
from .graphs.recipe import recipe_from
from .pictures import picture_inputs

Array = npt.NDArray[Any]
Inputs = Sequence[Array]
Kind = Literal["operator", "quantized", "lstm", "network", "graph", "model"]
OPERATOR_BOUND = {False: 1e-5, True: 1e-2}
"""The largest error of an operator or a small network, with tensors in 32 bits (False) and 16 (True), as in
tests/kernels.
"""
MODEL_BOUND = {False: 1e-4, True: 1e-2}
"""The largest error of a whole model, with tensors in 32 bits (False) and 16 (True)."""
ROUNDINGS = 3
"""Runs of LiteRT with moved weights, from which a bound is derived."""


@dataclass(frozen=True)
class Subject:
    """Something to check, by name: small enough to be sent to another process and kept in a file."""

    kind: Kind
    name: str
    half: bool = False

    @property
    def group(self) -> str:
        """The operator or model under which its result is counted."""
        if self.kind == "graph":
            return f"graphs, {recipe_from(self.name).storage}"
        if self.kind == "network":
            return self.name
        return Path(self.name).stem if self.kind == "model" else self.name.split(" ")[0]

    @property
    def label(self) -> str:
        """The name without folders, which may be private."""
        if self.kind == "graph":
            return str(recipe_from(self.name))
        return Path(self.name).name if self.kind == "model" else self.name


@dataclass(frozen=True)
class Check:
    """A model to run on the device with each of its inputs, by name; "" is the name of only ones.

    ``measure`` takes inputs and the outputs for them. It returns the error of these and the largest that is allowed.
    """

    model: bytes
    inputs: Mapping[str, Inputs]
    measure: Callable[[Inputs, list[Array]], tuple[float, float]]
    half: bool = False
    storage_rule: StorageRule = choose_storage


def check_of(subject: Subject) -> Check:
    """The check of a subject."""
    return _CHECKS[subject.kind](subject)


def relative_error(result: Array, expected: Array) -> float:
    """The largest difference as a part of the largest expected value, or the difference itself if all are 0."""
    if result.shape != expected.shape:
        return float("inf")
    if expected.size == 0:
        return 0.0
    difference = np.abs(result.astype(np.float64) - expected).max()
    return float(difference / (np.abs(expected.astype(np.float64)).max() or 1.0))


def largest_error(results: Sequence[Array], expected: Sequence[Array]) -> float:
    """The largest relative error of several outputs; NaN and infinity count as such."""
    errors = [relative_error(result, value) for result, value in zip(results, expected, strict=True)]
    return float(np.max(errors))


# Operators ------------------------------------------------------------------------------------------------------------


@functools.cache
def _runs() -> dict[str, Run]:
    return {str(run): run for run in all_runs()}


def _operator(subject: Subject) -> Check:
    run = _runs()[subject.name]
    model, inputs = run.model, runtime_inputs(run.case)
    if run.half:
        inputs = [-x.astype(np.float16).astype(np.float32) for x in inputs]
    bound = 0.0 if run.case.exact and not run.half else OPERATOR_BOUND[run.half]

    def measure(given: Inputs, results: list[Array]) -> tuple[float, float]:
        return largest_error(results, run_on_cpu(model, given)), bound

    return Check(model, {"": inputs}, measure, run.half, all_halves if run.half else choose_storage)


@functools.cache
def _quantized_cases() -> dict[str, Quantized]:
    return {str(case): case for case in cases()}


def _quantized(subject: Subject) -> Check:
    model = _quantized_cases()[subject.name].model

    def measure(given: Inputs, results: list[Array]) -> tuple[float, float]:
        expected = _on_cpu(model, given)
        steps = [0.05 if value.dtype == np.float32 else 1 for value in expected]
        rounded = [
            [np.rint(array.astype(np.float64) / step) for array, step in zip(values, steps, strict=True)]
            for values in (results, expected)
        ]
        return float(max(np.abs(a - b).max() for a, b in zip(*rounded, strict=True))), 1.0

    return Check(model, {"": _random_inputs(model)}, measure)


@functools.cache
def _forms() -> dict[str, Form]:
    return {f"LSTM {form}": form for form in FORMS}


def _lstm(subject: Subject) -> Check:
    model = lstm(_forms()[subject.name])

    def measure(given: Inputs, results: list[Array]) -> tuple[float, float]:
        return largest_error(results, run_on_cpu(model, given)), OPERATOR_BOUND[False]

    return Check(model, {"": _random_inputs(model)}, measure)


def _network(subject: Subject) -> Check:
    model, given = NETWORKS[subject.name]()

    def measure(inputs: Inputs, results: list[Array]) -> tuple[float, float]:
        return largest_error(results, run_on_cpu(model, inputs)), OPERATOR_BOUND[subject.half]

    return Check(model, {"": given}, measure, subject.half)


def _graph(subject: Subject) -> Check:
    """A random graph; errors and bounds are multiples of one operator's error."""
    case = case_of(recipe_from(subject.name))

    def measure(_: Inputs, results: list[Array]) -> tuple[float, float]:
        found = compare(case, results)
        return found.error, found.bound

    return Check(case.model, {"": [case.input]}, measure, case.recipe.half)


def _random_inputs(model: bytes) -> list[Array]:
    details = litert.Interpreter(model_content=model).get_input_details()
    return list(random_inputs(details).values())


# Models ---------------------------------------------------------------------------------------------------------------


def _model(subject: Subject) -> Check:
    """A whole model, with noise and with pictures."""
    model = Path(subject.name).read_bytes()
    quantized = is_quantized(model)

    def measure(given: Inputs, results: list[Array]) -> tuple[float, float]:
        expected = _on_cpu(model, given)
        error = largest_error(results, expected)
        bound = _step_bound(expected) if quantized else MODEL_BOUND[subject.half]
        if not error <= bound:  # LiteRT's further runs take time, and are made only if their disagreement decides
            bound = max(bound, own_disagreement(model, given, expected, half=subject.half))
        return error, bound

    return Check(model, model_inputs(model), measure, subject.half)


def is_quantized(model: bytes) -> bool:
    """True if the model computes in integers of 8 or 16 bits somewhere."""
    return any(
        tensor.quantization is not None and tensor.constant is None
        for subgraph in read_model(model).subgraphs
        for tensor in subgraph.tensors
    )


def model_inputs(model: bytes) -> dict[str, Inputs]:
    """Noise and pictures for a whole model, by name."""
    details: list[dict[str, Any]] = litert.Interpreter(model_content=model).get_input_details()
    noise = _noise(details)
    return {"noise": noise, **picture_inputs(details, noise)}


def own_disagreement(model: bytes, inputs: Inputs, expected: Inputs, *, half: bool) -> float:
    """Difference between LiteRT's own results for the same inputs, as a part of the largest value.

    It is the largest of two numbers:

    - twice the difference from ``expected`` of its other sets of kernels, if these have all operators, and of runs
      whose weights are moved by half the last place of a float, or of a half with ``half``. Twice, as the GPU's
      rounding is one more draw. This says how well a result is determined, for instance of a model that decides between
      nearly equal values. Equal pixels stay equal.
    - the rounding of its longest MEAN or SUM, whose values all its kernels add one after the other.
    """
    found: list[float] = []
    for kernels in KERNEL_SETS[1:]:
        with contextlib.suppress(RuntimeError):  # a custom operator that only XNNPACK has
            found.append(largest_error(_on_cpu(model, inputs, kernels), expected))
    for seed in range(ROUNDINGS):
        moved = _moved_weights(model, 2.0**-11 if half else 2.0**-24, seed)
        found.append(largest_error(_on_cpu(moved, inputs), expected))
    return max(2 * max(found), _longest_sum(model) * 2.0**-24)


def _longest_sum(model: bytes) -> int:
    """The most values that a MEAN or SUM of the model adds up; 0 if there is none."""
    return max(
        (
            math.prod(subgraph.tensors[operator.inputs[0]].shape)
            // max(math.prod(subgraph.tensors[operator.outputs[0]].shape), 1)
            for subgraph in read_model(model).subgraphs
            for operator in subgraph.operators
            if operator.name in ("MEAN", "SUM")
        ),
        default=0,
    )


@functools.lru_cache(maxsize=ROUNDINGS)
def _moved_weights(model: bytes, part: float, seed: int) -> bytes:
    """The model with each constant in floats larger or smaller by this part of it; halves become floats first.

    Kept for the model's next inputs: the flatbuffer is read and written in Python, which takes longer than a run.
    """
    random = np.random.default_rng(seed)
    table: Any = schema.ModelT.InitFromPackedBuf(model, 0)
    for graph in table.subgraphs:
        graph.operators = [operator for operator in graph.operators if not _becomes_float(table, graph, operator)]
        for number in {tensor.buffer for tensor in graph.tensors if tensor.type == schema.TensorType.FLOAT32}:
            buffer = table.buffers[number]
            if buffer.data is not None and len(buffer.data):
                values = np.asarray(buffer.data, np.uint8).view(np.float32)
                signs = random.integers(0, 2, values.shape) * 2 - 1
                buffer.data = (values * (1 + part * signs)).astype(np.float32).view(np.uint8)
    builder = flatbuffers.Builder(len(model))
    builder.Finish(table.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _becomes_float(table: Any, graph: Any, operator: Any) -> bool:
    """Make the output of a DEQUANTIZE of constant halves a constant. False for other operators."""
    code = table.operatorCodes[operator.opcodeIndex]
    if max(code.builtinCode, code.deprecatedBuiltinCode) != schema.BuiltinOperator.DEQUANTIZE:
        return False
    source, result = graph.tensors[operator.inputs[0]], graph.tensors[operator.outputs[0]]
    data = table.buffers[source.buffer].data
    if source.type != schema.TensorType.FLOAT16 or data is None:
        return False
    buffer: Any = schema.BufferT()
    result.buffer = len(table.buffers)
    buffer.data = np.asarray(data, np.uint8).view(np.float16).astype(np.float32).view(np.uint8)
    table.buffers.append(buffer)
    return True


def _step_bound(expected: Sequence[Array]) -> float:
    """Four quantization steps of an output, as a part of its largest value: the least over all outputs."""
    bounds: list[float] = []
    for value in expected:
        different = np.unique(value.astype(np.float64))
        if different.size > 1:
            bounds.append(4.001 * float(np.diff(different).min()) / float(np.abs(different).max()))
    return min(bounds, default=0.0)


def _noise(details: list[dict[str, Any]]) -> list[Array]:
    """Random values for each input: floats from 0 to 1, integers of 8 bits over their range, others small."""
    generator = np.random.default_rng(0)
    found: list[Array] = []
    for detail in details:
        shape, dtype = tuple(int(n) for n in detail["shape"]), np.dtype(detail["dtype"])
        if dtype.kind == "f":
            found.append(generator.random(shape).astype(dtype))
        elif dtype.kind == "b":
            found.append(generator.random(shape) > 0.5)
        else:
            limits = np.iinfo(dtype)
            low, high = (limits.min, limits.max) if limits.bits == 8 else (0, 99)
            found.append(generator.integers(low, high, shape, endpoint=True).astype(dtype))
    return found


def _on_cpu(model: bytes, inputs: Inputs, kernels: litert.OpResolverType = litert.OpResolverType.AUTO) -> list[Array]:
    """LiteRT's results. Raises RuntimeError if these kernels lack a custom operator."""
    interpreter = litert.Interpreter(model_content=model, num_threads=2, experimental_op_resolver_type=kernels)
    return run_model(interpreter, inputs)


_CHECKS: dict[Kind, Callable[[Subject], Check]] = {
    "operator": _operator, "quantized": _quantized, "lstm": _lstm, "network": _network, "graph": _graph,
    "model": _model,
}  # fmt: skip


# The plan -----------------------------------------------------------------------------------------------------------

GRAPHS = {False: 60, True: 1000}
"""The number of random graphs, whose seeds begin at 0, in a default plan (False) and in one of everything (True)."""


def subjects(models: Sequence[Path], *, everything: bool) -> list[Subject]:
    """The subjects to check on each device. ``models`` are compared in 32 bits and in 16.

    First comes a case of each operator, then small networks for the kernels of passes, a case of each kernel signature,
    quantized operators, random graphs and models, then the cases that reach every feature of the kernels; with
    ``everything`` all other cases follow.
    """
    ordered: list[Subject] = [
        *_operator_subjects(first_runs(kept_cover("features"))),
        *(Subject("network", name, half) for name in NETWORKS for half in (False, True)),
        *_operator_subjects(kept_cover("signatures")),
        *(Subject("quantized", str(case)) for case in cases()),
        *(Subject("lstm", f"LSTM {form}") for form in FORMS),
        *(Subject("graph", str(seed)) for seed in range(GRAPHS[everything])),
        *(Subject("model", str(path), half) for path in models for half in (False, True)),
        *_operator_subjects(kept_cover("features")),
        *(_operator_subjects(all_runs()) if everything else ()),
    ]
    return list(dict.fromkeys(ordered))


def _operator_subjects(runs: Iterable[Run]) -> Iterable[Subject]:
    return (Subject("operator", str(run), run.half) for run in runs)
