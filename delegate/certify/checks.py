"""Checks: a model, its inputs, LiteRT's results for them, and the largest error that the GPU may have.

Errors are the largest difference as a part of the largest expected value; for quantized operators, the largest
difference in steps of the output.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ai_edge_litert.interpreter as litert
import numpy as np
import numpy.typing as npt

from ..compiler import StorageRule
from ..lower.precision import choose_storage
from ..read.reader import read_model
from .cases.compiled import Run, all_halves
from .cases.cover import all_runs
from .cases.lstm_models import FORMS, Form, lstm
from .cases.operator_models import run_on_cpu, runtime_inputs
from .cases.quantized_models import Quantized, cases, random_inputs
from .graphs.comparison import KERNEL_SETS, case_of, compare
from .graphs.recipe import recipe_from

Array = npt.NDArray[Any]
Kind = Literal["operator", "quantized", "lstm", "graph", "model"]
OPERATOR_BOUND = {False: 1e-5, True: 1e-2}
"""By whether tensors are kept in 16 bits: the largest error of an operator. tests/kernels has the same bounds."""
MODEL_BOUND = {False: 1e-4, True: 1e-2}
"""The same for a whole model."""


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
        return Path(self.name).stem if self.kind == "model" else self.name.split(" ")[0]

    @property
    def label(self) -> str:
        """The name without folders, which may be private."""
        if self.kind == "graph":
            return str(recipe_from(self.name))
        return Path(self.name).name if self.kind == "model" else self.name


@dataclass(frozen=True)
class Check:
    """A model to run on the device. ``measure`` returns the error of its outputs and the largest that is allowed."""

    model: bytes
    inputs: Sequence[Array]
    measure: Callable[[list[Array]], tuple[float, float]]
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

    def measure(results: list[Array]) -> tuple[float, float]:
        return largest_error(results, run_on_cpu(model, inputs)), bound

    return Check(model, inputs, measure, run.half, all_halves if run.half else choose_storage)


@functools.cache
def _quantized_cases() -> dict[str, Quantized]:
    return {str(case): case for case in cases()}


def _quantized(subject: Subject) -> Check:
    model = _quantized_cases()[subject.name].model
    inputs = _random_inputs(model)

    def measure(results: list[Array]) -> tuple[float, float]:
        expected = _on_cpu(model, inputs)
        steps = [0.05 if value.dtype == np.float32 else 1 for value in expected]
        rounded = [
            [np.rint(array.astype(np.float64) / step) for array, step in zip(values, steps, strict=True)]
            for values in (results, expected)
        ]
        return float(max(np.abs(a - b).max() for a, b in zip(*rounded, strict=True))), 1.0

    return Check(model, inputs, measure)


@functools.cache
def _forms() -> dict[str, Form]:
    return {f"LSTM {form}": form for form in FORMS}


def _lstm(subject: Subject) -> Check:
    model = lstm(_forms()[subject.name])
    inputs = _random_inputs(model)

    def measure(results: list[Array]) -> tuple[float, float]:
        return largest_error(results, run_on_cpu(model, inputs)), OPERATOR_BOUND[False]

    return Check(model, inputs, measure)


def _graph(subject: Subject) -> Check:
    """A random graph; errors and bounds are multiples of one operator's error."""
    case = case_of(recipe_from(subject.name))

    def measure(results: list[Array]) -> tuple[float, float]:
        found = compare(case, results)
        return found.error, found.bound

    return Check(case.model, [case.input], measure, case.recipe.half)


def _random_inputs(model: bytes) -> list[Array]:
    details = litert.Interpreter(model_content=model).get_input_details()
    return list(random_inputs(details).values())


# Models ---------------------------------------------------------------------------------------------------------------


def _model(subject: Subject) -> Check:
    path = Path(subject.name)
    model = path.read_bytes()
    inputs = _picture_like_inputs(model)
    is_quantized = any(
        tensor.quantization is not None and tensor.constant is None
        for subgraph in read_model(model).subgraphs
        for tensor in subgraph.tensors
    )

    def measure(results: list[Array]) -> tuple[float, float]:
        expected = _on_cpu(model, inputs)
        error = largest_error(results, expected)
        bound = _step_bound(expected) if is_quantized else MODEL_BOUND[subject.half]
        if not error <= bound:  # the slow kernels of LiteRT run only if their disagreement decides
            others = [_on_cpu(model, inputs, kernels) for kernels in KERNEL_SETS[1:]]
            bound = max(bound, *(largest_error(other, expected) for other in others))
        return error, bound

    return Check(model, inputs, measure, subject.half)


def _step_bound(expected: Sequence[Array]) -> float:
    """Four quantization steps of an output, as a part of its largest value: the least over all outputs."""
    bounds: list[float] = []
    for value in expected:
        different = np.unique(value.astype(np.float64))
        if different.size > 1:
            bounds.append(4.001 * float(np.diff(different).min()) / float(np.abs(different).max()))
    return min(bounds, default=0.0)


def _picture_like_inputs(model: bytes) -> list[Array]:
    """Random values for each input: floats from 0 to 1, integers of 8 bits over their range, others small."""
    generator = np.random.default_rng(0)
    found: list[Array] = []
    details: list[dict[str, Any]] = litert.Interpreter(model_content=model).get_input_details()
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


def _on_cpu(
    model: bytes, inputs: Sequence[Array], kernels: litert.OpResolverType = litert.OpResolverType.AUTO
) -> list[Array]:
    interpreter = litert.Interpreter(model_content=model, num_threads=2, experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


_CHECKS: dict[Kind, Callable[[Subject], Check]] = {
    "operator": _operator, "quantized": _quantized, "lstm": _lstm, "graph": _graph, "model": _model,
}  # fmt: skip
