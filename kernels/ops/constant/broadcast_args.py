"""BROADCAST_ARGS: the shape to which two shapes broadcast. It is constant if they are; else the CPU computes it."""

from __future__ import annotations

import numpy as np

from ...operation import Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import INDEX_DTYPES, LARGEST_RANK, broadcast_shape
from ..arguments import constant, require_type
from .constants import Constant


def _parse(node: TfliteNode) -> Parsed:
    require_type(INDEX_DTYPES, *node.inputs, *node.outputs)
    shapes = [tuple(constant(tensor, "shape").reshape(-1).tolist()) for tensor in node.inputs]
    try:
        shape = broadcast_shape(shapes)
    except ValueError as error:
        raise Unsupported(str(error)) from error
    return Parsed(Constant((np.array(shape, node.outputs[0].dtype),)))


TFLITE = (TfliteOp("BROADCAST_ARGS", _parse, max_version=1, inputs=2, max_rank=LARGEST_RANK),)
