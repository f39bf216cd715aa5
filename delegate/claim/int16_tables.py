"""LiteRT's tables of int16 functions: 513 values over the whole range of the input, with straight lines between them.

The lines leave the curve where it bends within 128 steps of the input, as the logarithm does near 0, and where its
values leave the output's range. The GPU computes the function itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ...kernels.operation import Unsupported
from ...kernels.tensor import TensorInfo

_Values = npt.NDArray[np.float64]
LARGEST_ERROR = 4
"""Steps, of 65,536, by which LiteRT's table may differ from the function on the GPU. Where the curve is smooth, the
table is up to 3 steps off.
"""
_LOWEST, _HIGHEST = -32768, 32767


def _log(values: _Values) -> _Values:
    """The logarithm; minus infinity for numbers up to 0, of which LiteRT makes the lowest integer."""
    return np.log(np.maximum(values, 0))


def _reciprocal_root(values: _Values) -> _Values:
    """1 / sqrt; infinity for numbers up to 0, of which LiteRT makes the highest integer."""
    return 1 / np.sqrt(np.maximum(values, 0))


def _gelu(values: _Values) -> _Values:
    """The GELU by tanh, which bends as the one by erf does."""
    return 0.5 * values * (1 + np.tanh(0.79788456 * (values + 0.044715 * values**3)))


_FUNCTIONS: dict[str, Callable[[_Values], _Values]] = {
    "EXP": np.exp, "GELU": _gelu, "LOG": _log, "RSQRT": _reciprocal_root,
}  # fmt: skip
"""The functions that LiteRT interpolates for int16, by the operator's name. Those of LOGISTIC, TANH and SOFTMAX have
tables of their own, whose range does not depend on the scale.
"""
INTERPOLATED = frozenset(_FUNCTIONS)


def refuse_coarse_table(name: str, source: TensorInfo, result: TensorInfo) -> None:
    """Raise Unsupported if LiteRT's table of an operator of int16 is far from the function at these scales."""
    if source.dtype != "int16" or source.quantization is None or result.quantization is None:
        return
    error = table_error(name, source.quantization.scales[0], result.quantization.scales[0])
    if not error <= LARGEST_ERROR:
        raise Unsupported(
            f"LiteRT interpolates int16 between 513 values, which at the scales of '{source.name}' and '{result.name}' "
            f"is up to {error:.0f} steps off"
        )


def table_error(name: str, source_scale: float, result_scale: float) -> float:
    """The largest difference of LiteRT's table and the function, in steps of the result; NaN if the table overflows."""

    def steps(integers: _Values) -> _Values:
        exact = _FUNCTIONS[name](integers * source_scale) / result_scale
        return np.nan_to_num(exact, nan=np.nan, posinf=_HIGHEST, neginf=_LOWEST)

    integers = np.arange(_LOWEST, _HIGHEST + 1.0)
    with np.errstate(all="ignore"):
        table = _table(steps)
        index, offset = np.divmod(integers - _LOWEST, 128)
        first, next_ = table[index.astype(int)], table[index.astype(int) + 1]
        found = first + np.rint((next_ - first) * offset / 128)
        wanted = np.clip(np.rint(steps(integers)), _LOWEST, _HIGHEST)
    return float(np.abs(found - wanted).max())


def _table(steps: Callable[[_Values], _Values]) -> _Values:
    """LiteRT's 513 values of a function. Half of a line's error in its middle is taken from its first value."""
    ends = np.linspace(_LOWEST, _HIGHEST, 513)
    values = np.rint(steps(ends))
    middles = steps((ends[:-1] + ends[1:]) / 2)
    errors = (values[:-1] + values[1:]) / 2 - middles
    values[:-1] -= np.rint(errors / 2)
    return np.clip(values, _LOWEST, _HIGHEST)
