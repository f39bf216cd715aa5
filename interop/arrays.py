"""Arrays of other libraries as they describe themselves: shape, strides, type of the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..kernels.tensor import strides_of
from .errors import BindingError

SLICE_ALIGNMENT = 16
"""The alignment in bytes of memory from which kernels read four numbers at once."""


class ArrayLayout(NamedTuple):
    """The array that a buffer holds. Its first element is the buffer's first byte."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Elements from one index to the next along each dimension; none is negative."""
    dtype: np.dtype[Any]
    is_aligned: bool = True
    """True if the array begins at a multiple of SLICE_ALIGNMENT bytes."""
    read_only: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes from the first element to the end of the last; 0 if there is none."""
        if 0 in self.shape:
            return 0
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * self.dtype.itemsize

    @property
    def overlaps_itself(self) -> bool:
        """Whether two elements may be the same memory, as in a broadcast array or in sliding windows."""
        reach = 0
        for stride, size in sorted(zip(self.strides, self.shape, strict=True)):
            if size > 1 and stride <= reach:
                return True
            reach += (size - 1) * stride
        return False


class _Addresses:
    """A stand-in array at made-up addresses, so that NumPy can compare the addresses of elements. Nobody reads its
    memory.
    """

    def __init__(self, layout: ArrayLayout, start: int) -> None:
        steps = tuple(layout.dtype.itemsize * stride for stride in layout.strides)
        self.__array_interface__ = {
            "shape": layout.shape, "typestr": layout.dtype.str, "strides": steps, "version": 3,
            "data": ((1 << 32) + start, True),
        }  # fmt: skip


def check_unmasked(array: np.ndarray) -> None:
    """Raise BindingError for an array of numpy.ma: its memory says nothing about the values that are masked. A plain
    array does not import numpy.ma, which takes many milliseconds.
    """
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
        raise BindingError(
            f"an array of {array.shape} {array.dtype} of numpy.ma has a mask, which a GPU does not see: give what its "
            "filled(value) returns, with the value that stands for masked ones"
        )


def filled_array(array: np.ndarray, label: str) -> np.ndarray:
    """The plain array on the memory of one that is to be filled with what ``label`` holds.

    Raises BindingError if it is read-only, or has gaps.
    """
    array = np.asarray(array)  # the attributes of a subclass may be anything
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise BindingError(f"{label} can be read into a writable C-contiguous array only")
    return array


def share_elements(one: ArrayLayout, one_start: int, other: ArrayLayout, other_start: int) -> bool:
    """Whether two arrays have an element in common. They lie in one allocation, and begin at these bytes of it."""
    return np.shares_memory(np.asarray(_Addresses(one, one_start)), np.asarray(_Addresses(other, other_start)))


def array_layout(
    what: str,
    pointer: int,
    shape: Sequence[int],
    dtype: np.dtype[Any],
    strides: Sequence[int] | None,
    *,
    read_only: bool = False,
) -> ArrayLayout:
    """The layout of an array that begins at the address ``pointer``. ``strides`` are in bytes; None: C-contiguous.

    Raises BindingError, in which ``what`` is the array, if kernels cannot address its elements.
    """
    steps = [dtype.itemsize * stride for stride in strides_of(shape)] if strides is None else list(strides)
    if len(steps) != len(shape):
        raise BindingError(f"{what} cannot be bound: it has {len(shape)} dimensions and {len(steps)} strides")
    steps = [step if size > 1 else 0 for size, step in zip(shape, steps, strict=True)]
    if 0 in shape:
        raise BindingError(f"{what} cannot be bound: it is empty")
    if min(steps, default=0) < 0:
        raise BindingError(
            f"{what} cannot be bound: its strides are {tuple(steps)} bytes, and kernels count upwards; bind a copy"
        )
    if pointer % dtype.itemsize or any([step % dtype.itemsize for step in steps]):
        raise BindingError(
            f"{what} cannot be bound: it begins at {pointer:#x} and its strides are {tuple(steps)} bytes, and all of "
            f"these must be multiples of the {dtype.itemsize} bytes of a number; bind a copy"
        )
    return ArrayLayout(
        tuple(shape), tuple([step // dtype.itemsize for step in steps]), dtype,
        is_aligned=pointer % SLICE_ALIGNMENT == 0, read_only=read_only,
    )  # fmt: skip


def unmasked_array(array: npt.ArrayLike) -> np.ndarray[Any, Any]:
    """The array, or one made of a list of numbers. Raises BindingError if it has a mask, which a GPU does not see."""
    if isinstance(array, np.ndarray):
        check_unmasked(array)
    return np.asarray(array)
