"""Arrays in the CPU's memory that are bound to tensors. Each has a buffer on the device; runs copy between the two."""

from __future__ import annotations

import copy

import numpy as np

from .arrays import ArrayLayout, array_layout
from .device import Device, Resource

_MOST_PADDING = 2
"""The largest size of rows with their padding, as a multiple of the rows alone, that is copied in one piece."""


class HostArray:
    """An array in the CPU's memory, with the buffer on the device that kernels read or write.

    If the array has no gaps, the buffer holds its bytes in the same order, and kernels read halves or channels-first
    arrays as they are. Otherwise the buffer holds the elements C-contiguous.
    """

    def __init__(
        self,
        device: Device,
        array: np.ndarray,
        label: str,
        before: HostArray | None = None,
        *,
        copies_padding: bool = False,
    ) -> None:
        """``before`` is the array that was bound until now. Its buffer is used again if it has the right size.

        ``copies_padding``: rows of an input with a little padding between them are copied with it, in one piece.
        """
        self._array, self._copies_padding = array, copies_padding
        self._order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
        block = self._block_of(array)
        self._is_block = block.flags.c_contiguous
        self._content = block if self._is_block else np.empty(array.shape, array.dtype)
        """The C-contiguous array that is copied: a view of the array itself, or memory in which its elements are
        gathered.
        """
        strides = array.strides if self._is_block else None
        self.layout: ArrayLayout = array_layout(label, 0, array.shape, array.dtype, strides)
        """The layout of the buffer."""
        nbytes = -(-self._content.nbytes // 16) * 16
        if before is not None and before.buffer.nbytes == nbytes:
            self.buffer: Resource = before.buffer
        else:
            self.buffer = device.buffer(nbytes, label)

    def _block_of(self, array: np.ndarray) -> np.ndarray:
        """The array's memory in the order of its addresses: C-contiguous, if it has no gaps that are left out."""
        piece = _one_piece(array) if self._copies_padding else array
        return array.transpose(self._order) if piece is array else piece

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
            made._content = self._block_of(array)
        return made


def _one_piece(array: np.ndarray) -> np.ndarray:
    """Rows with padding between them as one piece of memory, which is copied at once; the array if most is padding."""
    if not array.size or array.flags.c_contiguous or any([step < 0 or step % array.itemsize for step in array.strides]):
        return array
    reach = 1
    for size, step in zip(array.shape, array.strides, strict=True):
        reach += (size - 1) * step // array.itemsize
    if reach > _MOST_PADDING * array.size:
        return array
    return np.lib.stride_tricks.as_strided(array, (reach,), (array.itemsize,), writeable=False)
