"""Constant folding: operators on small constant integers are computed when the model is read.

Converters compute the target shape of a RESHAPE from the SHAPE of a tensor. If shapes are static, so is the target.
"""

from __future__ import annotations

import numpy as np

from ...operation import TfliteNode, TfliteOp
from ...tensor import INDEX_DTYPES

MOST_VALUES = 64
"""The size of the largest operand that is folded: shapes are short, and a device computes long tensors better."""


def fold(row: TfliteOp, node: TfliteNode) -> np.ndarray | None:
    """The value of the only output, if all inputs are constant integers; None if it has to be computed."""
    known = [tensor.constant for tensor in node.inputs if tensor is not None and tensor.dtype in INDEX_DTYPES]
    arrays = [array for array in known if array is not None and array.size <= MOST_VALUES]
    if row.fold is None or len(arrays) != len(node.inputs) or len(node.outputs) != 1:
        return None
    if node.outputs[0].dtype not in INDEX_DTYPES:
        return None
    try:
        result = np.asarray(row.fold(node.options, arrays))
        return result.reshape(node.outputs[0].shape).astype(node.outputs[0].dtype)
    except (AttributeError, IndexError, TypeError, ValueError):
        return None  # its parse says what is wrong
