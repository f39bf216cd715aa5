"""Errors of a model on the GPU against the CPU: of its outputs, and of all tensors along it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import framebind as fb

from .inputs import gaussian_input
from .reference import set_inputs

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class OutputDifference:
    """Absolute errors of an output.

    ``avg_error`` is the mean over all runs and elements, ``std_dev`` the standard deviation over runs of the mean over
    elements, ``max_error`` the largest of all.
    """

    name: str
    avg_error: float
    std_dev: float
    max_error: float


class TensorError(NamedTuple):
    """The largest error of a tensor, as a part of the largest value that it has on the CPU.

    ``operator`` is the number of the operator that computes it, ``operator_name`` its name; ``name`` is the tensor's,
    ``shape`` its shape as text.
    """

    operator: int
    operator_name: str
    name: str
    shape: str
    on_gpu: bool
    error: float


def tensor_errors(path: Path, options: fb.GpuDelegateOptions, seed: int) -> list[TensorError]:
    """The errors of the tensors that the main subgraph computes, for one random input.

    Each operator runs separately, so that its result can be read: nothing is fused, and errors of operators add up as
    in the model.
    """
    delegate = fb.GpuDelegate(options)
    on_cpu = fb.Interpreter(path, num_threads=1, experimental_preserve_all_tensors=True, delegate="cpu")
    on_gpu = fb.Interpreter(path, num_threads=1, experimental_preserve_all_tensors=True)
    try:
        on_gpu.modify_graph_with_delegate(delegate)
        random = np.random.default_rng(seed)
        details = on_cpu.get_input_details()
        values = {detail["index"]: gaussian_input(detail, random) for detail in details}
        for interpreter in (on_cpu, on_gpu):
            interpreter.allocate_tensors()
            set_inputs(interpreter, values)
            interpreter.invoke()
        return _errors(on_cpu, on_gpu)
    finally:
        delegate.close()


def _errors(on_cpu: fb.Interpreter, on_gpu: fb.Interpreter) -> list[TensorError]:
    every: list[dict[str, Any]] = on_cpu.get_tensor_details()
    details = {detail["index"]: detail for detail in every}
    found: list[TensorError] = []
    for operator in on_gpu.delegated_ops():
        for tensor in operator.outputs if operator.subgraph == 0 else ():
            try:
                expected, got = on_cpu.get_tensor(tensor), on_gpu.get_tensor(tensor)
            except (ValueError, fb.FramebindError):  # a state, or a tensor without memory of its own
                continue
            name, shape = str(details[tensor]["name"]), " x ".join(map(str, expected.shape))
            error, on = relative_error(expected, got), operator.runs_on == "gpu"
            found.append(TensorError(operator.index, operator.name, name, shape, on, error))
    return found


def relative_error(expected: Array, found: Array) -> float:
    """The largest error as a part of the largest finite value that is expected; infinite if only one is a number."""
    if expected.dtype.kind not in "fiub" or not expected.size:
        return 0.0
    finite = expected[np.isfinite(expected)].astype(np.float64)
    return largest_error(expected, found) / (float(np.abs(finite).max(initial=0.0)) or 1.0)


def largest_error(expected: Array, found: Array) -> float:
    """The largest absolute error; infinite if only one of two values is a number, or if the shapes differ."""
    if expected.shape != found.shape:
        return float("inf")
    return float(np.nan_to_num(absolute_errors(expected, found), nan=np.inf, posinf=np.inf).max(initial=0.0))


def absolute_errors(expected: Array, found: Array) -> npt.NDArray[np.float64]:
    """The absolute error of each element.

    It is 0 if both are not a number or the same infinity, and not a number if only one of them is not.
    """
    is_same = (expected == found) | ((expected != expected) & (found != found))
    with np.errstate(invalid="ignore", over="ignore"):
        errors = np.abs(expected.astype(np.float64) - found.astype(np.float64))
    return np.where(is_same, 0.0, errors)
