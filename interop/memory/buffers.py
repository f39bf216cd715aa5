"""The base of buffers of every API, and copies between them and arrays of NumPy."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..arrays import check_unmasked, filled_array, unmasked_array
from ..deprecated import accepts_old, old_empty, old_read, old_write
from ..errors import BindingError
from ..transfers import transfers
from .base import BaseMemory, C
from .read_ring import HostCopy, ReadRing

if TYPE_CHECKING:
    from typing_extensions import Self


class BaseBuffer(BaseMemory[C]):
    """Base of GlBuffer, ClBuffer and CudaArray: bytes, which may be numbers of a shape and a dtype."""

    format = ""
    size = (0, 0)

    shape: tuple[int, ...]
    """The shape of what ``read`` returns. For a buffer of bytes it is that of its whole words."""
    dtype: np.dtype[Any]
    """The type of what ``read`` returns. For a buffer of bytes it is float32."""

    def _hold(self, nbytes: int, shape: Sequence[int] | None = None, dtype: npt.DTypeLike = np.float32) -> None:
        """Set the size, and the shape and dtype of what the buffer holds. Without a shape it holds bytes."""
        self.nbytes, self.dtype = nbytes, np.dtype(dtype)
        self.shape = (nbytes // self.dtype.itemsize,) if shape is None else tuple(shape)

    @classmethod
    def from_array(cls, array: npt.ArrayLike) -> Self:
        """Make a buffer with the content of an array in the current context. The copy is counted.

        Parameters
        ----------
        array : numpy.ndarray
            Any shape and dtype. It is copied in C order.

        Returns
        -------
        GlBuffer, ClBuffer or CudaArray
            A buffer of the array's shape, dtype and bytes.

        Raises
        ------
        BindingError
            If the array is empty, or has a mask.
        DeviceError
            If no context of the API is current on this thread, or GPU memory runs out.

        Examples
        --------
        >>> with fb.GlContext.headless():
        ...     fb.GlBuffer.from_array(np.arange(6, dtype=np.int32).reshape(2, 3)).read()
        array([[0, 1, 2],
               [3, 4, 5]], dtype=int32)
        """
        array = unmasked_array(array)
        made = cls.empty(array.shape, array.dtype)
        made.write(array)
        return made

    @classmethod
    @accepts_old(old_empty("shape", "dtype", "label"), "(shape, dtype) in the current context")
    def empty(cls, shape: Sequence[int], dtype: npt.DTypeLike = np.float32, *, label: str = "") -> Self:
        """Make a buffer of undefined content in the current context.

        Parameters
        ----------
        shape : sequence of int
            The shape, of at least one element.
        dtype : numpy dtype
            The type of an element.
        label : str
            Description for error messages.

        Returns
        -------
        GlBuffer, ClBuffer or CudaArray
            A buffer of this shape and dtype.

        Raises
        ------
        BindingError
            If the shape has no element.
        DeviceError
            If no context of the API is current on this thread, or GPU memory runs out.

        Examples
        --------
        >>> with fb.GlContext.headless():
        ...     buffer = fb.GlBuffer.empty((2, 3))
        ...     buffer.shape, buffer.dtype, buffer.nbytes
        ((2, 3), dtype('float32'), 24)
        """
        return cls._made(shape, dtype, label)

    @classmethod
    @abstractmethod
    def _made(cls, shape: Sequence[int], dtype: npt.DTypeLike, label: str) -> Self:
        """A new buffer in the current context: see ``empty``."""

    @accepts_old(old_write, "(array, offset=..., reason=...) in the current context")
    def write(self, array: npt.ArrayLike, *, offset: int = 0, reason: str = "buffer upload") -> None:
        """Copy an array's bytes into the buffer, after the work that was submitted before. The copy is counted.

        Parameters
        ----------
        array : numpy.ndarray
            Any shape and dtype. Its bytes are copied in C order; the array may be changed afterwards.
        offset : int
            The buffer's byte at which they begin.
        reason : str
            The phrase under which ``transfers`` counts the copy.

        Raises
        ------
        BindingError
            If the bytes lie outside the buffer, the buffer is released, or the array has a mask.
        DeviceError
            If the buffer's context is not current on this thread.

        Examples
        --------
        >>> with fb.GlContext.headless():
        ...     buffer = fb.GlBuffer.from_array(np.zeros(4, np.float32))
        ...     buffer.write(np.ones(1, np.float32), offset=8)
        ...     buffer.read()
        array([0., 0., 1., 0.], dtype=float32)
        """
        self.upload(self._current_context(), unmasked_array(array), reason, offset)

    @accepts_old(old_read, "(out, offset=..., reason=...) in the current context")
    def read(
        self, out: np.ndarray | None = None, *, offset: int = 0, reason: str = "buffer readback"
    ) -> np.ndarray[Any, Any]:
        """Copy the buffer's content to the host. Waits for the work that was submitted before. The copy is counted.

        Parameters
        ----------
        out : numpy.ndarray, optional
            A writable C-contiguous array of any shape and dtype, which is filled with the buffer's bytes from
            ``offset`` on. Without it, a new array of the buffer's shape and dtype.
        offset : int
            The buffer's first byte to copy.
        reason : str
            The phrase under which ``transfers`` counts the copy.

        Returns
        -------
        numpy.ndarray
            ``out``, or the new array.

        Raises
        ------
        BindingError
            If the bytes lie outside the buffer, the buffer is released, or ``out`` cannot be filled.
        DeviceError
            If the buffer's context is not current on this thread.

        Examples
        --------
        >>> with fb.GlContext.headless():
        ...     buffer = fb.GlBuffer.from_array(np.arange(4, dtype=np.float32))
        ...     buffer.read(np.empty(2, np.float32), offset=8)
        array([2., 3.], dtype=float32)
        """
        context = self._current_context()
        if out is None:
            return self._values(context, reason, offset)
        self.download(context, out, reason, offset)
        return out

    def read_ring(self, slots: int = 2, *, reason: str = "buffer readback") -> ReadRing:
        """Make room on the host for copies of the content that are taken later, so that no frame waits for the GPU.

        Parameters
        ----------
        slots : int
            The most copies that are on their way at once, each with memory of its own.
        reason : str
            The phrase under which ``transfers`` counts the copies.

        Returns
        -------
        ReadRing
            ``push()`` starts a copy of what the work submitted so far leaves in the buffer, and waits for nothing;
            ``take()`` gives the oldest one. ``release()``, or the end of a ``with`` block, frees the memory.

        Raises
        ------
        BindingError
            If there is no slot, the buffer is released, or it is an array with gaps.
        DeviceError
            If the buffer's context is not current on this thread, or memory runs out.

        Examples
        --------
        >>> with fb.GlContext.headless():
        ...     buffer = fb.GlBuffer.from_array(np.arange(3, dtype=np.int32))
        ...     ring = buffer.read_ring()
        ...     ring.push()  # then submit the next frame, and take the result of this one
        ...     ring.take()
        array([0, 1, 2], dtype=int32)
        """
        if slots < 1:
            raise BindingError(f"a ring of {slots} copies of {self.label} takes none: give at least 1 slot")
        context, copies = self._current_context(), list[HostCopy]()
        try:
            copies += (self._host_copy(context) for _ in range(slots))
        except BaseException:
            for copy in copies:
                copy.release()
            raise
        return ReadRing(self, copies, self._current_context, reason)

    def _values(self, context: C, reason: str, offset: int) -> np.ndarray[Any, Any]:
        """The content as a new array of the buffer's shape and dtype."""
        values = np.empty(self.shape, self.dtype)
        self.download(context, values, reason, offset)
        return values

    def upload(self, context: C, array: np.ndarray, reason: str, offset: int = 0) -> None:
        check_unmasked(array)
        array = np.ascontiguousarray(array)
        self.check_range(offset, array.nbytes)
        if array.nbytes:
            transfers.count("upload", array.nbytes, reason)
            self._copy_in(context, array, offset)

    def download(self, context: C, out: np.ndarray, reason: str, offset: int = 0) -> None:
        array = filled_array(out, self.label)
        self.check_range(offset, array.nbytes)
        if array.nbytes:
            transfers.count("download", array.nbytes, reason)
            self._copy_out(context, array, offset)

    @abstractmethod
    def _copy_in(self, context: C, array: np.ndarray, offset: int) -> None:
        """Copy a C-contiguous array to byte ``offset``."""

    @abstractmethod
    def _copy_out(self, context: C, array: np.ndarray, offset: int) -> None:
        """Fill a C-contiguous array from byte ``offset`` on."""

    @abstractmethod
    def _host_copy(self, context: C) -> HostCopy:
        """Memory of the host for one copy of the content."""

    def check_range(self, offset: int, nbytes: int) -> None:
        """Raise BindingError if the bytes lie outside."""
        if offset < 0 or offset + nbytes > self.nbytes:
            raise BindingError(f"bytes {offset} to {offset + nbytes} lie outside {self.label}, which has {self.nbytes}")


def checked_nbytes(shape: Sequence[int], dtype: npt.DTypeLike, label: str = "") -> int:
    """The bytes of an array. Raises BindingError if it has none."""
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    if nbytes <= 0:
        what = f"'{label}'" if label else "a buffer"
        raise BindingError(f"{what} of {nbytes} bytes is impossible: it has at least 1")
    return nbytes
