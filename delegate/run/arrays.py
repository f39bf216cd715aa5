"""Arrays as tensors: the view through which kernels read or write an array in place, by its shape, strides and type."""

from __future__ import annotations

import math
from typing import Any, Literal, cast

import numpy as np

from ...interop.arrays import ArrayLayout
from ...interop.errors import BindingError
from ...kernels.ops.pointwise.quantize import stored_values
from ...kernels.tensor import TO_CHANNELS_FIRST, TO_CHANNELS_LAST, Shape, TensorInfo, permuted
from ...kernels.views import Dense, Sliced, Strided
from ..plan.binding import Binding

_BHWC, _BCHW, _OF_NCHW = (0, 1, 2, 3), TO_CHANNELS_FIRST, TO_CHANNELS_LAST
"""The axes of BHWC in the order of an array's dimensions: the same, with channels first, and with channels last for a
tensor that has them first.
"""
_LAST_NUMBER = (1 << 31) - 1
"""The last element of a buffer that a kernel can address."""


def array_view(layout: ArrayLayout, tensor: TensorInfo, where: str, *, write: bool) -> Dense | Sliced | Strided:
    """The view of an array that is bound to a tensor. Raises BindingError, which begins with ``where``."""
    check_type(layout.dtype, where)
    if write:
        check_written(layout, where)
    shape = tensor.bhwc
    strides = _bhwc_strides(layout, tensor)
    if strides is None:
        raise BindingError(f"{where}: its shape is {layout.shape}, and {_fitting(tensor)}")
    dtype = cast(Literal["float32", "float16"], layout.dtype.name)
    view = Strided(shape, dtype, strides)
    if view.nbytes // view.itemsize > _LAST_NUMBER:
        raise BindingError(f"{where}: it reaches over {view.nbytes} bytes, and kernels count to {_LAST_NUMBER} numbers")
    if strides != _dense_strides(shape) or (shape[3] % 4 == 0 and not layout.is_aligned):
        return view
    if dtype == "float32":
        return Dense(shape)
    return Sliced(shape, "f16") if shape[3] % 4 == 0 else view


def check_type(dtype: np.dtype[Any], where: str) -> None:
    """Raise BindingError if kernels do not read or write numbers of that type as a tensor's values."""
    if dtype not in (np.dtype(np.float32), np.dtype(np.float16)):  # big-endian numbers have the same names
        raise BindingError(
            f"{where}: its numbers are {dtype}, and a tensor's values are float32 or float16; convert it, for instance "
            "with torch's .float() or NumPy's .astype(numpy.float32)"
        )


def check_written(layout: ArrayLayout, where: str) -> None:
    """Raise BindingError if the model cannot write an array."""
    if layout.read_only:
        raise BindingError(f"{where}: it is read-only, and the model writes it; bind a copy")
    if layout.overlaps_itself:
        raise BindingError(
            f"{where}: with its strides, {layout.strides}, elements share memory, and the model writes each; bind an "
            "array without such strides"
        )


def _bhwc_strides(layout: ArrayLayout, tensor: TensorInfo) -> tuple[int, int, int, int] | None:
    """The strides along the tensor's BHWC axes, 0 along those of size 1; None if the shapes do not fit.

    Dimensions of size 1 may be anywhere, or left out. An array for a tensor of rank 4 may also have channels first, or
    last if the tensor has them first. An array of one dimension has the values in the tensor's order.
    """
    shape, given = tensor.bhwc, [(n, step) for n, step in zip(layout.shape, layout.strides, strict=True) if n != 1]
    orders = (_BHWC, *([_OF_NCHW] if tensor.channels_first else []), _BCHW)
    for order in orders if len(tensor.shape) == 4 else orders[:1]:
        axes = [axis for axis in order if shape[axis] > 1]
        if [shape[axis] for axis in axes] == [n for n, _ in given]:
            return _by_axis({axis: step for axis, (_, step) in zip(axes, given, strict=True)})
    if len(layout.shape) == 1 and layout.shape[0] >= math.prod(shape):
        return _by_axis({axis: step * layout.strides[0] for axis, step in enumerate(_dense_strides(shape))})
    return None


def _by_axis(strides: dict[int, int]) -> tuple[int, int, int, int]:
    b, y, x, c = (strides.get(axis, 0) for axis in range(4))
    return b, y, x, c


def _dense_strides(shape: Shape) -> tuple[int, int, int, int]:
    """The strides of values in BHWC order without padding, 0 along axes of size 1."""
    return _by_axis({axis: math.prod(shape[axis + 1 :]) for axis in range(4) if shape[axis] > 1})


def _fitting(tensor: TensorInfo) -> str:
    """Text for messages: the shapes of arrays that fit a tensor."""
    text = f"the tensor's {tensor.shape}"
    if len(tensor.shape) == 4:
        order, words = (_OF_NCHW, "channels last") if tensor.channels_first else (_BCHW, "channels first")
        text += f", or {permuted(tensor.bhwc, order)} with {words}"
    return f"{text} (dimensions of 1 may be left out), or {math.prod(tensor.shape)} values in one dimension fit"


def memory_of(view: Strided | Sliced) -> np.ndarray:
    """Memory for the numbers of an array with that view, in their order."""
    kind = view.dtype if isinstance(view, Strided) else "float16"
    return np.empty(view.nbytes // np.dtype(kind).itemsize, kind)


def array_values(view: Dense | Strided | Sliced, memory: np.ndarray) -> np.ndarray:
    """The tensor's values in BHWC order, from an array's numbers in their order in memory."""
    if not isinstance(view, Strided):
        return memory.reshape(view.shape)
    steps = tuple(stride * view.itemsize for stride in view.strides)
    return np.lib.stride_tricks.as_strided(memory, view.shape, steps)


def fill(array: np.ndarray, values: np.ndarray, tensor: TensorInfo) -> None:
    """Put a tensor's values into an array of the type and shape that ``tensor`` has in the model."""
    numbers = values.reshape(array.shape)
    array[...] = numbers if array.dtype == np.float32 else stored_values(tensor, numbers.astype(np.float32))


def fill_from_host(array: np.ndarray, binding: Binding, tensor: TensorInfo) -> None:
    """Fill an array from the arrays in the CPU's memory that are bound to the tensor, one for each frame if there are
    frames.
    """
    for number, part in enumerate(binding.parts):
        assert part.hosts and isinstance(part.view, Dense | Strided | Sliced)
        target = array[number : number + 1] if binding.frames else array
        fill(target, array_values(part.view, part.hosts[0].content), tensor)
