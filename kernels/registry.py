"""The table of operators: one line for each file of this room that has some."""

from __future__ import annotations

from . import conv, depthwise, elementwise, move, pad, pool, reduce, resize, transpose_conv
from .operator import Operator

OPERATORS: dict[str, Operator] = {
    operator.name: operator
    for operator in (
        *conv.OPERATORS,
        *depthwise.OPERATORS,
        *elementwise.OPERATORS,
        *move.OPERATORS,
        *pad.OPERATORS,
        *pool.OPERATORS,
        *reduce.OPERATORS,
        *resize.OPERATORS,
        *transpose_conv.OPERATORS,
    )
}
"""By TensorFlow Lite name (CONV_2D ...) or custom operator's name."""
