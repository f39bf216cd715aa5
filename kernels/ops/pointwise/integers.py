"""Exact arithmetic and comparisons of int32, as fused expressions, and the range of their results.

In an expression ``v`` and ``w`` are int4. Results of 32 bits wrap around as LiteRT's do. An int64 tensor is on the GPU
only if every value fits 32 bits, so that its bounds must be known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from ...operation import Unsupported
from ...tensor import INT32_BOUNDS, Bounds, TensorInfo, bounds_of

ARITHMETIC: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "ADD": ("WRAP_ADD(v, w)", lambda v, w: v + w),
    "MAXIMUM": ("max(v, w)", max),
    "MINIMUM": ("min(v, w)", min),
    "MUL": ("WRAP_MUL(v, w)", lambda v, w: v * w),
    "SUB": ("WRAP_SUB(v, w)", lambda v, w: v - w),
}
"""Each operator's expression, and the same on single numbers: monotonic in each, so that bounds follow from bounds."""
INTEGER_EXPRESSIONS: dict[str, str] = {
    **{name: expression for name, (expression, _) in ARITHMETIC.items()},
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
    """The bounds of a result, and of 0, which a fused activation may make of it. Raises Unsupported if it is int64 and
    may have more than 32 bits.
    """
    corners = itertools.product(known_bounds(left), known_bounds(right))
    results = [ARITHMETIC[name][1](v, w) for v, w in corners]
    bounds = min(*results, 0), max(*results, 0)
    if INT32_BOUNDS[0] <= bounds[0] and bounds[1] <= INT32_BOUNDS[1]:
        return bounds
    if dtype != "int32":
        raise Unsupported(f"its result is {dtype}, and may have more than the 32 bits of integers on the GPU")
    return INT32_BOUNDS  # it wraps around


def known_bounds(tensor: TensorInfo) -> Bounds:
    """The smallest and largest value that a tensor can hold. Raises Unsupported if they may have more than 32 bits."""
    bounds = bounds_of(tensor)
    if bounds is None or bounds[0] < INT32_BOUNDS[0] or bounds[1] > INT32_BOUNDS[1]:
        raise Unsupported(
            f"tensor '{tensor.name}' is {tensor.dtype}, and may hold more than the 32 bits of integers on the GPU"
        )
    return bounds
