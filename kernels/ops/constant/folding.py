"""Operators on small constant integers, computed when the model is read: the arithmetic around SHAPE.

Converters compute the target of a RESHAPE from the shape of a tensor. Where shapes are static, so is the target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...tensor import TensorInfo
from ..movement.slice import dense_slice

Arrays = list[np.ndarray]

INTEGERS = frozenset({"int32", "int64"})
FLOAT_MAX = 64
"""Values of an operand: shapes are short, and what is long is better computed on a device."""


def _strided_slice(options: Any, inputs: Arrays) -> np.ndarray:
    begins, ends, steps = (given.reshape(-1).tolist() for given in inputs[1:4])
    taken = dense_slice(inputs[0].ndim, begins, ends, steps, options)
    index = tuple(cut.begin if cut.drop else slice(cut.begin, cut.end, cut.step) for cut in taken.cuts)
    result = np.asarray(inputs[0][index])
    for place in taken.new:
        result = np.expand_dims(result, place)
    return result


def _plain(options: Any, operand: np.ndarray) -> np.ndarray:
    if options.FusedActivationFunction():
        raise ValueError("an activation function of integers is not folded")
    return operand


FOLDS: dict[str, Callable[[Any, Arrays], np.ndarray]] = {
    "ADD": lambda options, inputs: inputs[0] + _plain(options, inputs[1]),
    "CAST": lambda _, inputs: inputs[0],
    "CONCATENATION": lambda options, inputs: np.concatenate(inputs, options.Axis()),
    "EXPAND_DIMS": lambda _, inputs: inputs[0],
    "GATHER": lambda options, inputs: np.take(inputs[0], inputs[1], options.Axis()),
    "MUL": lambda options, inputs: inputs[0] * _plain(options, inputs[1]),
    "PACK": lambda options, inputs: np.stack(inputs, options.Axis()),
    "REDUCE_PROD": lambda _, inputs: np.prod(inputs[0], tuple(inputs[1].reshape(-1).tolist())),
    "RESHAPE": lambda _, inputs: inputs[0],
    "SQUEEZE": lambda _, inputs: inputs[0],
    "STRIDED_SLICE": _strided_slice,
    "SUB": lambda options, inputs: inputs[0] - _plain(options, inputs[1]),
}
"""What each makes of its inputs, but for the shape and type, which are the output's."""


def fold(name: str, options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> np.ndarray | None:
    """The value of the only output, where all inputs are constant integers; None where it has to be computed."""
    known = [tensor.constant for tensor in inputs if tensor is not None and tensor.dtype in INTEGERS]
    arrays = [array for array in known if array is not None and array.size <= FLOAT_MAX]
    if name not in FOLDS or len(arrays) != len(inputs) or len(outputs) != 1 or outputs[0].dtype not in INTEGERS:
        return None
    try:
        result = np.asarray(FOLDS[name](options, arrays))
        return result.reshape(outputs[0].shape).astype(outputs[0].dtype)
    except (AttributeError, IndexError, TypeError, ValueError):
        return None  # its parse says what is wrong
