"""Arrays in the CPU's memory that are bound to tensors. Each has a buffer on the device; runs copy between the two."""

from __future__ import annotations

import copy

import numpy as np

from .arrays import ArrayLayout, array_layout
from .device import Device, Resource


class HostArray:
    """An array in the CPU's memory, with the buffer on the device that kernels read or write.

    If the array has no gaps, the buffer holds its bytes in the same order, and kernels read halves or channels-first
    arrays as they are. Otherwise the buffer holds the elements C-contiguous.
    """

    def __init__(self, device: Device, array: np.ndarray, label: str, before: HostArray | None = None) -> None:
        """``before`` is the array that was bound until now. Its buffer is used again if it has the right size."""
        self._array = array
        self._order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
        block = array.transpose(self._order)
        self._is_block = block.flags.c_contiguous
        self._content = block if self._is_block else np.empty(array.shape, array.dtype)
        """The C-contiguous array that is copied: a view of the array itself, or memory in which its elements are
        gathered.
        """
        strides = array.strides if self._is_block else None
        self.layout: ArrayLayout = array_layout(label, 0, array.shape, array.dtype, strides)
        """The layout of the buffer."""
        nbytes = -(-array.nbytes // 16) * 16
        if before is not None and before.buffer.nbytes == nbytes:
            self.buffer: Resource = before.buffer
        else:
            self.buffer = device.buffer(nbytes, label)

    @property
    def content(self) -> np.ndarray:
        """The numbers in the order in which the buffer has them."""
        return self._content.reshape(-1)

    def upload(self, device: Device, reason: str) -> None:
        """Copy the array's present content to the device. Counted."""
        if not self._is_block:
            np.copyto(self._content, self._array)
        device.write(self.buffer, self._content, reason)

    def download(self, device: Device, reason: str) -> None:
        """Copy the buffer, which kernels wrote, to the array. Counted; it waits for the kernels."""
        device.read(self.buffer, self._content, reason)
        if not self._is_block:
            np.copyto(self._array, self._content)

    def like(self, array: np.ndarray) -> bool:
        """Whether another array has the shape, strides and type of this one, so that it can replace it."""
        mine = self._array
        return (array.shape, array.strides, array.dtype) == (mine.shape, mine.strides, mine.dtype) and (
            array.flags.writeable == mine.flags.writeable
        )

    def exchanged(self, array: np.ndarray) -> HostArray:
        """A HostArray of another array that is ``like`` this one, with the same buffer."""
        made = copy.copy(self)
        made._array = array
        if self._is_block:
            made._content = array.transpose(self._order)
        return made
