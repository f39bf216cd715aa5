"""RANGE of constants: known before the model runs. Others are the CPU's."""

from __future__ import annotations

import math

import numpy as np

from ...operation import Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import INDEX_DTYPES
from ..arguments import require_type, shape_constant
from .constants import LARGEST_FILLED, Constant


def _parse(node: TfliteNode) -> Parsed:
    numbers = INDEX_DTYPES | {"float32"}
    require_type(numbers, *node.inputs, *node.outputs)
    start, limit, step = (
        shape_constant(tensor, what, numbers).reshape(-1)[0]
        for tensor, what in zip(node.inputs, ("start", "limit", "step"), strict=True)
    )
    if not step:
        raise Unsupported("a step of 0 reaches no limit")
    reached = (limit > start) == (step > 0) and limit != start
    count = math.ceil(abs((limit - start) / step)) if reached else 0
    if not 0 < count <= LARGEST_FILLED:
        raise Unsupported(f"it has {count} values; at least 1 and at most {LARGEST_FILLED} are supported")
    values = start + np.arange(count, dtype=start.dtype) * step
    return Parsed(Constant((values.astype(node.outputs[0].dtype),)))


TFLITE = (TfliteOp("RANGE", _parse, max_version=1, inputs=3),)
