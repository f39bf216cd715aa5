"""Constant folding: operators on small constants are computed before the model runs.

Converters compute the target shape of a RESHAPE from the SHAPE of a tensor. If the shapes are known, so is the target.
Scaled sizes go through float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...operation import TfliteNode, TfliteOp
from ...tensor import INDEX_DTYPES, TensorInfo

MOST_VALUES = 64
"""The most values of an operand that is folded: shapes are short, and long tensors are better computed on the device.
"""


MOST_RESULTS = MOST_VALUES**2
"""The size of the largest result. A few bytes of a file could ask TILE for any size."""
_DTYPES = INDEX_DTYPES | {"float32", "bool"}


def fold(
    row: TfliteOp, node: TfliteNode, output_shapes: Callable[[], list[tuple[int, ...]] | None]
) -> list[np.ndarray] | None:
    """The values of the outputs, if all inputs are small constants; None if they have to be computed.

    ``output_shapes`` returns the shapes of the outputs, or None if they do not follow from the inputs.
    """
    if row.fold is None or not all(map(_is_plain, (*node.inputs, *node.outputs))):
        return None
    known = [tensor.constant.astype(tensor.dtype) for tensor in node.inputs if tensor and tensor.constant is not None]
    shapes = output_shapes() if len(known) == len(node.inputs) else None
    if shapes is None or max((array.size for array in known), default=0) > MOST_VALUES:
        return None
    if any(math.prod(shape) > MOST_RESULTS for shape in shapes):
        return None
    try:
        with np.errstate(all="ignore"):
            folded = row.fold(node.options, known)
        results = folded if isinstance(folded, list) else [folded]
        return [
            np.asarray(result).reshape(shape).astype(output.dtype)
            for result, shape, output in zip(results, shapes, node.outputs, strict=True)
        ]
    except (AttributeError, IndexError, TypeError, ValueError):
        return None  # its parse says what is wrong


def _is_plain(tensor: TensorInfo | None) -> bool:
    """Whether a tensor's stored values are what it stands for."""
    return tensor is not None and tensor.dtype in _DTYPES and tensor.quantization is None
