"""Exact arithmetic and comparisons of int32, as fused expressions, and the bounds of their results.

In an expression ``v`` and ``w`` are int4. Results of 32 bits wrap around as LiteRT's do. An int64 tensor is on the GPU
only if every value fits 32 bits, so that its bounds must be known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from ...operation import Unsupported
from ...tensor import INT32_BOUNDS, Bounds, TensorInfo, bounds_of


def _corners(operator: Callable[[int, int], int]) -> Callable[[Bounds, Bounds], Bounds]:
    """The bounds of an operator that is monotonic in each operand, for bounds of both."""

    def bounds(left: Bounds, right: Bounds) -> Bounds:
        results = [operator(v, w) for v, w in itertools.product(left, right)]
        return min(results), max(results)

    return bounds


def _squares(left: Bounds, right: Bounds) -> Bounds:
    return 0, max((v - w) ** 2 for v, w in itertools.product(left, right))


def _quotients(left: Bounds, right: Bounds) -> Bounds:
    """A quotient is not larger than the dividend."""
    largest = max(map(abs, left))
    return -largest, largest


def _rests(left: Bounds, right: Bounds) -> Bounds:
    """A remainder is nearer to zero than the divisor, and has its sign."""
    return min(right[0] + 1, 0), max(right[1] - 1, 0)


ARITHMETIC: dict[str, tuple[str, Callable[[Bounds, Bounds], Bounds]]] = {
    "ADD": ("WRAP_ADD(v, w)", _corners(lambda v, w: v + w)),
    "DIV": ("quotients(v, w)", _quotients),
    "FLOOR_DIV": ("floor_quotients(v, w)", _quotients),
    "FLOOR_MOD": ("floor_rests(v, w)", _rests),
    "MAXIMUM": ("max(v, w)", _corners(max)),
    "MINIMUM": ("min(v, w)", _corners(min)),
    "MUL": ("WRAP_MUL(v, w)", _corners(lambda v, w: v * w)),
    "REMAINDER": ("(v - quotients(v, w) * w)", _quotients),
    "SQUARED_DIFFERENCE": ("WRAP_MUL(WRAP_SUB(v, w), WRAP_SUB(v, w))", _squares),
    "SUB": ("WRAP_SUB(v, w)", _corners(lambda v, w: v - w)),
}
"""Each operator's expression, and the bounds of its results for bounds of its operands."""
DIVISIONS = frozenset({"DIV", "FLOOR_DIV", "FLOOR_MOD"})
SIGNS: dict[str, tuple[str, Callable[[Bounds], Bounds]]] = {
    "ABS": ("max(v, WRAP_SUB(I4(0), v))", lambda bounds: (0, max(map(abs, bounds)))),
    "NEG": ("WRAP_SUB(I4(0), v)", lambda bounds: (-bounds[1], -bounds[0])),
    "SIGN": ("clamp(v, I4(-1), I4(1))", lambda bounds: (-1, 1)),
}
"""Each expression of operators of one operand, and the bounds of its results for bounds of the operand."""
INTEGER_EXPRESSIONS: dict[str, str] = {
    **{name: expression for name, (expression, _) in (*ARITHMETIC.items(), *SIGNS.items())},
    "BITWISE_AND": "(v & w)",
    "BITWISE_XOR": "(v ^ w)",
    "EQUAL": "IS_EQUAL(v, w)",
    "GREATER": "IS_LESS(w, v)",
    "GREATER_EQUAL": "(I4(1) - IS_LESS(v, w))",
    "LESS": "IS_LESS(v, w)",
    "LESS_EQUAL": "(I4(1) - IS_LESS(w, v))",
    "NOT_EQUAL": "(I4(1) - IS_EQUAL(v, w))",
    "RELU": "max(v, I4(0))",
    "RELU6": "clamp(v, I4(0), I4(6))",
    "RELU_N1_TO_1": "clamp(v, I4(-1), I4(1))",
}
"""Expressions of kernels that compute on int32, by the names that they have for floats."""


def arithmetic_bounds(name: str, left: TensorInfo, right: TensorInfo, dtype: str) -> Bounds:
    """The bounds of a result. Raises Unsupported if it is int64 and may have more than 32 bits."""
    return wrapped(ARITHMETIC[name][1](known_bounds(left), known_bounds(right)), dtype)


def sign_bounds(name: str, source: TensorInfo, dtype: str) -> Bounds:
    """The bounds of a result of an operator of one operand."""
    return wrapped(SIGNS[name][1](known_bounds(source)), dtype)


def wrapped(bounds: Bounds, dtype: str) -> Bounds:
    """The bounds of a result after it wraps around at 32 bits. Raises Unsupported if it is int64 and may need more than
    32 bits.
    """
    if INT32_BOUNDS[0] <= bounds[0] and bounds[1] <= INT32_BOUNDS[1]:
        return bounds
    if dtype != "int32":
        raise Unsupported(f"its result is {dtype}, and may have more than the 32 bits of integers on the GPU")
    return INT32_BOUNDS  # it wraps around


def require_nonzero(divisor: TensorInfo) -> None:
    """Raise Unsupported if an integer may be zero: LiteRT stops at a division by it, which the GPU cannot."""
    lowest, highest = known_bounds(divisor)
    constant = divisor.constant
    if not constant.all() if constant is not None else lowest <= 0 <= highest:
        raise Unsupported(f"its divisor '{divisor.name}' may be 0, at which LiteRT stops and the GPU cannot")


def known_bounds(tensor: TensorInfo) -> Bounds:
    """The smallest and largest value that a tensor can hold. Raises Unsupported if they may have more than 32 bits."""
    bounds = bounds_of(tensor)
    if bounds is None or bounds[0] < INT32_BOUNDS[0] or bounds[1] > INT32_BOUNDS[1]:
        raise Unsupported(
            f"tensor '{tensor.name}' is {tensor.dtype}, and may hold more than the 32 bits of integers on the GPU"
        )
    return bounds
