"""The table of operators: one line for each file of this room that has some."""

from __future__ import annotations

from . import (
    batch_space,
    constants,
    conv,
    cumsum,
    depthwise,
    elementwise,
    fully_connected,
    indices,
    logic,
    lstm,
    matmul,
    move,
    normalization,
    pad,
    pool,
    quantize,
    rank,
    reduce,
    resampler,
    resize,
    slice,
    top_k,
    transpose_conv,
    unpooling,
    view,
)
from .operator import Operator

OPERATORS: dict[str, Operator] = {
    operator.name: operator
    for operator in (
        *batch_space.OPERATORS,
        *constants.OPERATORS,
        *conv.OPERATORS,
        *cumsum.OPERATORS,
        *depthwise.OPERATORS,
        *elementwise.OPERATORS,
        *fully_connected.OPERATORS,
        *indices.OPERATORS,
        *logic.OPERATORS,
        *lstm.OPERATORS,
        *matmul.OPERATORS,
        *move.OPERATORS,
        *normalization.OPERATORS,
        *pad.OPERATORS,
        *pool.OPERATORS,
        *quantize.OPERATORS,
        *rank.OPERATORS,
        *reduce.OPERATORS,
        *resampler.OPERATORS,
        *resize.OPERATORS,
        *slice.OPERATORS,
        *top_k.OPERATORS,
        *transpose_conv.OPERATORS,
        *unpooling.OPERATORS,
        *view.OPERATORS,
    )
}
"""By TensorFlow Lite name (CONV_2D ...) or custom operator's name."""
