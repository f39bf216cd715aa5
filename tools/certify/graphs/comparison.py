"""Comparison of a random graph on a device with LiteRT's CPU kernels, and the bound of its error.

The bound is measured in the same run. It is the disagreement of LiteRT's own three sets of kernels, but at least the
error of one operator: 1e-5 of its largest value, or one step of an integer. If a graph exceeds this, such an error is
put into LiteRT's own run after each operator in turn, and the differences at the outputs are added up. For graphs in
halves, the rounding of each tensor and constant to 16 bits is always put there as well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import ai_edge_litert.interpreter as litert
import numpy as np

from ..cases.operator_models import run_model
from .draft import Array, Draft
from .recipe import Recipe, drafted
from .storage import Ranges, Storage, float_twin, with_constants, write

KERNEL_SETS = (
    litert.OpResolverType.AUTO,
    litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    litert.OpResolverType.BUILTIN_REF,
)
"""LiteRT's own sets of CPU kernels: with XNNPACK, its optimized ones, its reference ones."""
OPERATOR_ERROR = 1e-5
"""The largest error of one operator in floats, as a part of its largest value: the bound of the operator cases."""
LARGEST_VALUE = 1e4
"""A graph with larger values would test overflow and cancellation instead of kernels."""


class UnusableError(Exception):
    """The graph has nothing to compare: LiteRT refuses it, or its values are too large."""


@dataclass(frozen=True)
class Case:
    """A recipe as a model: bytes, input, and the data for bounds. ``exact`` is the draft that LiteRT computes."""

    recipe: Recipe
    model: bytes
    exact: Draft
    storage: Storage
    ranges: Ranges | None
    input: Array
    expected: list[Array]


@dataclass(frozen=True)
class Comparison:
    """The worst output: its error and its bound, both as multiples of one operator's error, and the bound's origin."""

    error: float
    bound: float
    origin: str

    @property
    def passed(self) -> bool:
        """True if every output is within its bound; NaN is not."""
        return self.error <= self.bound


def case_of(recipe: Recipe) -> Case:
    """The model of a recipe and LiteRT's results. Raises UnusableError."""
    draft = drafted(recipe)
    if not draft.operators:
        raise UnusableError("no layer applies")
    x = np.clip(np.random.default_rng(recipe.seed).normal(size=recipe.shape), -3, 3).astype(np.float32)
    exact, storage = (float_twin(draft), "float32") if recipe.storage == "dynamic" else (draft, recipe.storage)
    values = _every_value(write(float_twin(draft), "float32"), x)
    activations = [i for i, entry in enumerate(draft.entries) if entry.role == "activation"]
    if not all(np.abs(values[i]).max() <= LARGEST_VALUE for i in activations):  # or not a number
        raise UnusableError("values are too large")
    ranges = {i: (float(values[i].min()), float(values[i].max())) for i in activations}
    given = ranges if storage in ("int8", "int16") else None
    if given is not None:
        x = np.random.default_rng(recipe.seed).integers(-100, 101, recipe.shape).astype(storage)
        if storage == "int16":
            x *= 300
    model = write(draft, recipe.storage, given)
    expected = run_on_cpu(model if exact is draft else write(exact, storage), [x])
    return Case(recipe, model, exact, storage, given, x, expected)


def compare(case: Case, results: Sequence[Array]) -> Comparison:
    """The error of a device's results. The parts of the bound that take time are measured only if they decide."""
    units = [_unit(value) for value in case.expected]
    errors = [
        _distance(result, value) / unit for result, value, unit in zip(results, case.expected, units, strict=True)
    ]
    bounds, origin = [1.0] * len(units), "one operator"
    steps: tuple[tuple[str, Callable[[Case], list[float]]], ...] = (
        ("LiteRT's disagreement", _disagreement), ("errors of each operator, propagated", _propagated),
    )  # fmt: skip
    for name, measure in steps:
        if all(error <= bound for error, bound in zip(errors, bounds, strict=True)):
            break
        measured = [value / unit for value, unit in zip(measure(case), units, strict=True)]
        joined = max if measure is _disagreement else lambda a, b: a + b
        bounds, origin = [joined(bound, value) for bound, value in zip(bounds, measured, strict=True)], name
    worst = max(range(len(units)), key=lambda i: errors[i] / bounds[i] if errors[i] == errors[i] else np.inf)
    return Comparison(float(errors[worst]), float(bounds[worst]), origin)


def run_on_cpu(model: bytes, inputs: Sequence[Array], kernels: litert.OpResolverType = KERNEL_SETS[0]) -> list[Array]:
    """The outputs that LiteRT computes. Raises UnusableError if it refuses the model."""
    try:
        interpreter = litert.Interpreter(model_content=model, experimental_op_resolver_type=kernels)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise UnusableError(f"LiteRT refuses it: {str(error).strip()}") from error
    return run_model(interpreter, inputs)


def _unit(expected: Array) -> float:
    """The error that a single operator with this result may have."""
    return 1.0 if expected.dtype.kind == "i" else OPERATOR_ERROR * float(np.abs(expected).max() or 1.0)


def _distance(a: Array, b: Array) -> float:
    if a.shape != b.shape:
        return float("inf")
    return float(np.abs(a.astype(np.float64) - b).max()) if a.size else 0.0


def _disagreement(case: Case) -> list[float]:
    """The largest difference of each output between LiteRT's sets of kernels. The reference set lacks some operators:
    then the others count.
    """
    model = write(case.exact, case.storage, case.ranges)
    others: list[list[Array]] = []
    for kernels in KERNEL_SETS[1:]:
        with contextlib.suppress(UnusableError):
            others.append(run_on_cpu(model, [case.input], kernels))
    return [max(_distance(other[i], value) for other in others) for i, value in enumerate(case.expected)]


def _propagated(case: Case) -> list[float]:
    """The effect of each operator's error, and of constants in halves, on each output, summed over the operators."""
    model = write(case.exact, case.storage, case.ranges)
    values = _every_value(model, case.input)
    expected = run_on_cpu(model, [case.input], KERNEL_SETS[1])
    generator = np.random.default_rng(case.recipe.seed)
    found = np.zeros(len(expected))
    for number, operator in enumerate(case.exact.operators):
        tail = write(case.exact, case.storage, case.ranges, without=number)
        tensors = [i for i in dict.fromkeys([0, *operator.outputs])]
        inputs = [values[i] if i == 0 else _disturbed(values[i], generator, half=case.recipe.half) for i in tensors]
        found += [_distance(a, b) for a, b in zip(run_on_cpu(tail, inputs, KERNEL_SETS[1]), expected, strict=True)]
    if case.recipe.half:
        rounded = with_constants(case.exact, lambda v: v.astype(np.float16).astype(np.float32))
        results = run_on_cpu(
            write(rounded, case.storage), [case.input.astype(np.float16).astype(np.float32)], KERNEL_SETS[1]
        )
        found += [_distance(a, b) for a, b in zip(results, expected, strict=True)]
    return found.tolist()


def _disturbed(value: Array, generator: np.random.Generator, *, half: bool) -> Array:
    """The value with the error of one operator in each element, and rounded to 16 bits if the GPU may keep it so."""
    if value.dtype.kind == "i":
        limits = np.iinfo(value.dtype)
        moved = value.astype(np.int64) + generator.integers(-1, 2, value.shape)
        return np.clip(moved, limits.min, limits.max).astype(value.dtype)
    moved = value + OPERATOR_ERROR * np.abs(value).max() * generator.choice([-1, 1], value.shape)
    return _in_halves(moved) if half else moved.astype(np.float32)


def _in_halves(value: Array) -> Array:
    """The value rounded to 16 bits."""
    return value.astype(np.float16).astype(np.float32)


def _every_value(model: bytes, x: Array) -> Mapping[int, Array]:
    """Every tensor that LiteRT's plain kernels compute, by number."""
    try:
        interpreter = litert.Interpreter(
            model_content=model, experimental_op_resolver_type=KERNEL_SETS[1], experimental_preserve_all_tensors=True
        )
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise UnusableError(f"LiteRT refuses it: {str(error).strip()}") from error
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return {detail["index"]: interpreter.get_tensor(detail["index"]) for detail in interpreter.get_tensor_details()}
