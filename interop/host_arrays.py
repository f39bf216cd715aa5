"""Arrays in the CPU's memory that are bound to tensors: a buffer stands for each on the device, and runs copy."""

from __future__ import annotations

import copy

import numpy as np

from .arrays import ArrayLayout, array_layout
from .device import Device, Resource


class HostArray:
    """An array of the CPU's, with the buffer that kernels read or write in its place.

    The buffer holds the array's bytes in their order in memory if there are no gaps between them, so that halves and
    channels first are what kernels see. Else it holds the elements C-contiguous.
    """

    def __init__(self, device: Device, array: np.ndarray, label: str, before: HostArray | None = None) -> None:
        """``before`` is the array that was bound until now: its buffer is used again if it is large enough."""
        self._array = array
        self._order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
        block = array.transpose(self._order)
        self._is_block = block.flags.c_contiguous
        self._content = block if self._is_block else np.empty(array.shape, array.dtype)
        """A C-contiguous array of what is copied: the array's own memory, or a place to gather it."""
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
        """Copy the array's content of now to the device, counted."""
        if not self._is_block:
            np.copyto(self._content, self._array)
        device.write(self.buffer, self._content, reason)

    def download(self, device: Device, reason: str) -> None:
        """Copy what kernels wrote to the array, counted. It waits for them."""
        device.read(self.buffer, self._content, reason)
        if not self._is_block:
            np.copyto(self._array, self._content)

    def like(self, array: np.ndarray) -> bool:
        """Whether another array is the same to kernels, so that it can take this one's place."""
        mine = self._array
        return (array.shape, array.strides, array.dtype) == (mine.shape, mine.strides, mine.dtype) and (
            array.flags.writeable == mine.flags.writeable
        )

    def exchanged(self, array: np.ndarray) -> HostArray:
        """The same buffer for another array that is ``like`` this one."""
        made = copy.copy(self)
        made._array = array
        if self._is_block:
            made._content = array.transpose(self._order)
        return made
