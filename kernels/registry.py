"""The table of operators: one line for each file of this room that has some."""

from __future__ import annotations

from . import (
    batch_space,
    conv,
    cumsum,
    depthwise,
    elementwise,
    fully_connected,
    indices,
    logic,
    matmul,
    move,
    normalization,
    pad,
    pool,
    quantize,
    rank,
    reduce,
    resize,
    slice,
    transpose_conv,
    view,
)
from .operator import Operator

OPERATORS: dict[str, Operator] = {
    operator.name: operator
    for operator in (
        *batch_space.OPERATORS,
        *conv.OPERATORS,
        *cumsum.OPERATORS,
        *depthwise.OPERATORS,
        *elementwise.OPERATORS,
        *fully_connected.OPERATORS,
        *indices.OPERATORS,
        *logic.OPERATORS,
        *matmul.OPERATORS,
        *move.OPERATORS,
        *normalization.OPERATORS,
        *pad.OPERATORS,
        *pool.OPERATORS,
        *quantize.OPERATORS,
        *rank.OPERATORS,
        *reduce.OPERATORS,
        *resize.OPERATORS,
        *slice.OPERATORS,
        *transpose_conv.OPERATORS,
        *view.OPERATORS,
    )
}
"""By TensorFlow Lite name (CONV_2D ...) or custom operator's name."""
