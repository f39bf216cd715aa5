"""``python -m framebind culprit``: finds the operator that makes a model's results on the GPU differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

import framebind as fb

from ...video.models import find_model
from ...video.network import shapes
from ..common.flags import GpuFlags, with_flags
from ..common.output import AsJson, print_json, print_line
from ..measure.inputs import InputFlags, Inputs, gaussian_input
from ..measure.reference import check_reference, set_inputs
from ..measure.tensors import largest_error

Array = npt.NDArray[Any]
RELATIVE_TOLERANCE = {"f32": 1e-3, "f16": 1e-2}
"""The allowed error as a part of an output's largest value, by storage. docs/precision.md has the errors of models."""
NOWHERE = 2**31 - 1
"""The number of an operator that no model has: a range of only this number leaves all operators to the CPU."""

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A .tflite file, or a name that `models` lists.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same random inputs.")]
Tolerance = Annotated[
    float | None,
    typer.Option(
        min=0.0, help="The allowed error of an element; by default a thousandth of the output's largest value."
    ),
]


@dataclasses.dataclass(frozen=True)
class Difference:
    """The largest absolute error of the output that is furthest beyond its tolerance. It is infinite if only one value
    is NaN.
    """

    output: str
    error: float
    tolerance: float

    @property
    def exceeds(self) -> bool:
        """True if the error is more than the tolerance."""
        return self.error > self.tolerance

    def __str__(self) -> str:
        return f"output '{self.output}' is off by {self.error:.3g} (tolerance {self.tolerance:.3g})"


Measure = Callable[[int, int], Difference]
"""Compares with the CPU, while operators from the first number to the second one may be on the GPU."""


@with_flags
def culprit(
    model: Model,
    tolerance: Tolerance = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    *,
    flags: GpuFlags,
    given: InputFlags,
) -> None:
    """Find the operator that makes a model's results on the GPU differ from LiteRT's on the CPU, by bisection.

    It runs the model with fewer and fewer operators on the GPU. Inputs are random, as those of diff, or come from
    files. Exit status 1 if a culprit was found.

    Example: python -m framebind culprit model.tflite --backend cl --tolerance 0.01 --input-file image:frame.npy
    """
    path = find_model(model)
    with flags.api.open_context(flags.device):
        options = flags.options(path)
        operators, measure = comparison(path, options, given.read(), seed, tolerance)
        count = max(operator.index for operator in operators) + 1
        last = count - 1 if options.last_delegate_node_index is None else options.last_delegate_node_index
        report: Callable[[str], None] = (lambda line: None) if as_json else print_line
        found = find(_reported(measure, report), options.first_delegate_node_index, min(last, count - 1))
    if as_json:
        print_json(_content(path, found, operators))
    else:
        print_line(_sentence(found, operators))
    if isinstance(found, Culprit):
        raise typer.Exit(1)


@dataclasses.dataclass(frozen=True)
class Culprit:
    """The operators from ``first`` to ``last`` differ from the CPU together: without either of these two they agree."""

    first: int
    last: int
    difference: Difference
    """The difference that these operators cause, with all others on the CPU."""
    rest: Difference | None
    """The difference that the later operators cause; None if there are none."""


def find(measure: Measure, first: int, last: int) -> Culprit | Difference:
    """The first culprit among these operators, or the difference of all of them if it is within the tolerance.

    Raises ModelError if the CPU alone differs.
    """
    whole = measure(first, last)
    if not whole.exceeds:
        return whole
    nothing = measure(NOWHERE, NOWHERE)
    if nothing.exceeds:
        raise fb.ModelError(f"LiteRT's own kernels differ from each other, with no operator on the GPU: {nothing}")
    low, high = first - 1, last  # up to low they agree, up to high they differ
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if measure(first, middle).exceeds else (middle, high)
    end, low, high = high, first, high + 1  # from low on they differ, from high on they agree
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if measure(middle, end).exceeds else (low, middle)
    return Culprit(low, end, measure(low, end), measure(end + 1, last) if end < last else None)


def comparison(
    path: Path, options: fb.GpuDelegateOptions, inputs: Inputs, seed: int, tolerance: float | None
) -> tuple[list[fb.DelegatedOp], Measure]:
    """The model's operators, and the function that compares it with LiteRT's CPU interpreter on the same inputs."""
    reference = fb.Interpreter(path, num_threads=1, delegate="cpu")
    inputs = inputs.fitted(reference)
    details = reference.get_input_details()
    random = np.random.default_rng(seed)
    values = {detail["index"]: inputs.values(detail, random, gaussian_input) for detail in details}
    check_reference(path, values)
    reference.allocate_tensors()
    outputs = reference.get_output_details()
    names = [str(detail["name"]) for detail in outputs]
    expected = _run(reference, values)
    relative = RELATIVE_TOLERANCE[options.storage]
    tolerances = [tolerance if tolerance is not None else _tolerance(output, relative) for output in expected]

    def measure(first: int, last: int) -> Difference:
        delegate = fb.GpuDelegate(
            dataclasses.replace(options, first_delegate_node_index=first, last_delegate_node_index=last)
        )
        interpreter = fb.Interpreter(path, num_threads=1)
        try:
            interpreter.modify_graph_with_delegate(delegate)
            inputs.fitted(interpreter)
            interpreter.allocate_tensors()
            found = _run(interpreter, values)
        finally:
            delegate.close()
        errors = map(largest_error, expected, found)
        differences = [Difference(*row) for row in zip(names, errors, tolerances, strict=True)]
        return max(differences, key=lambda d: d.error / d.tolerance if d.tolerance else d.error)

    return reference.delegated_ops(), measure


def _run(interpreter: fb.Interpreter, values: dict[int, Array]) -> list[Array]:
    set_inputs(interpreter, values)
    interpreter.invoke()
    return [interpreter.get_tensor(tensor) for tensor in shapes(interpreter.get_output_details())]


def _tolerance(output: Array, relative: float) -> float:
    """The error that does not count as a difference: integers may differ by one step of rounding."""
    finite = output[np.isfinite(output)] if output.dtype.kind == "f" else output
    largest = float(np.abs(finite.astype(np.float64)).max(initial=0.0))
    return max(relative * largest, 1.0 if output.dtype.kind in "iu" else 1e-30)


def _reported(measure: Measure, report: Callable[[str], None]) -> Measure:
    """Wrap a function of runs, so that it reports a line for each run."""

    def reported(first: int, last: int) -> Difference:
        found = measure(first, last)
        which = "none" if first == NOWHERE else f"{first} to {last}"
        report(f"on the GPU {which:>12}: {found}")
        return found

    return reported


def _sentence(found: Culprit | Difference, operators: list[fb.DelegatedOp]) -> str:
    if isinstance(found, Difference):
        return f"No operator makes a difference: {found}. A smaller --tolerance finds what contributes most."
    first, last, main = found.first, found.last, [operator for operator in operators if operator.subgraph == 0]

    def name(index: int) -> str:
        return main[index].name if index < len(main) else "of another subgraph"

    if first == last:
        text = f"Operator {last} ({name(last)}) is the culprit: alone on the GPU, {found.difference}."
    else:
        ends = f"{first} ({name(first)}) to {last} ({name(last)})"
        text = f"Operators {ends} make it together: with these alone on the GPU, {found.difference}."
    others_differ = found.rest is not None and found.rest.exceeds
    if others_differ:
        text += f" Operators behind make a difference, too: go on with --first-node {last + 1}."
    before = last > 0 and (others_differ or last > len(main) // 2)
    keep = f"last_delegate_node_index={last - 1}" if before else f"first_delegate_node_index={last + 1}"
    return f"{text} Until it is mended, leave it to the CPU: GpuDelegateOptions({keep})."


def _content(path: Path, found: Culprit | Difference, operators: list[fb.DelegatedOp]) -> dict[str, Any]:
    """The finding as JSON. "operators" is empty if there is no culprit."""
    if isinstance(found, Difference):
        return {"model": path.stem, "operators": [], "difference": dataclasses.asdict(found)}
    within = [op for op in operators if op.subgraph == 0 and found.first <= op.index <= found.last]
    rows = [{"index": op.index, "name": op.name} for op in within]
    return {"model": path.stem, "operators": rows, "difference": dataclasses.asdict(found.difference)}
