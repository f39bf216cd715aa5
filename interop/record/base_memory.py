"""The bases of buffers and pictures of every API: their life, and copies between them and arrays of NumPy."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ...kernels.views import TEXTURE_CHANNELS
from ..arrays import ArrayLayout, check_unmasked, filled_array
from ..deprecated import accepts_old, old_empty, old_read, old_write
from ..errors import BindingError
from ..transfers import transfers
from ..uncopied import Uncopied
from .read_ring import HostCopy, ReadRing

if TYPE_CHECKING:
    from typing_extensions import Self

C = TypeVar("C")
"""The API's contexts."""
_FORMATS = {
    ("uint8", 1): "r8", ("float16", 1): "r32f", ("float32", 1): "r32f",
    ("uint8", 4): "rgba8", ("float16", 4): "rgba16f", ("float32", 4): "rgba32f",
}  # fmt: skip
"""The format of a picture by the type and the number of its channels."""


class BaseMemory(Uncopied, Generic[C]):
    """Base of buffers and pictures: memory that is owned or borrowed, given up on release or at the end of a ``with``
    block.
    """

    label: str
    format: str
    size: tuple[int, int]
    nbytes: int
    offset = 0
    layout: ArrayLayout | None = None
    released: Any
    """True once the memory is released. A bool because each run reads it; a property of memory that others may release.
    """

    @abstractmethod
    def release(self) -> None:
        """Free the memory, or let go of it if it is borrowed. May be called more than once."""

    @abstractmethod
    def upload(self, context: C, array: np.ndarray, reason: str, offset: int = 0) -> None:
        """Copy an array into the memory, in a context that need not be current. Counted. For devices."""

    @abstractmethod
    def download(self, context: C, out: np.ndarray, reason: str, offset: int = 0) -> None:
        """Fill an array from the memory, in a context that need not be current. Counted. For devices."""

    @abstractmethod
    def _current_context(self) -> C:
        """The context that is current on the calling thread, which must be one in which the memory can be used.

        Raises BindingError if the memory is released, DeviceError for the context.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.label}{', released' if self.released else ''}>"


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
        array = _plain(array)
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
        self.upload(self._current_context(), _plain(array), reason, offset)

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


class BasePicture(BaseMemory[C]):
    """Base of GlTexture, ClImage and CudaImage: (height, width) texels of a format. Row 0 is the top of the picture."""

    nbytes = 0

    @classmethod
    def from_array(cls, array: npt.ArrayLike) -> Self:
        """Make a picture with the content of an array in the current context. The copy is counted.

        Parameters
        ----------
        array : numpy.ndarray
            (height, width), or (height, width, channels) of 1, 3 or 4 channels; uint8, float32 or float16. Three
            channels become RGBA with alpha 1; one channel of float16 becomes "r32f".

        Returns
        -------
        GlTexture, ClImage or CudaImage
            A picture of the array's size: "r8", "r32f", "rgba8", "rgba16f" or "rgba32f".

        Raises
        ------
        BindingError
            If shape or type are others, or the array has a mask.
        DeviceError
            If no context of the API is current on this thread, or GPU memory runs out.

        Examples
        --------
        >>> with fb.GlContext.headless():
        ...     fb.GlTexture.from_array(np.zeros((48, 64, 3), np.uint8)).format
        'rgba8'
        """
        array = _plain(array)
        channels = 1 if array.ndim == 2 else array.shape[-1] if array.ndim == 3 else 0
        format = _FORMATS.get((array.dtype.name, 4 if channels == 3 else channels))
        if format is None:
            raise BindingError(
                f"an array of shape {array.shape} and type {array.dtype} makes no texture: it takes HxW, HxWx1, HxWx3 "
                "or HxWx4 of uint8, float16 or float32"
            )
        made = cls.empty(array.shape[1], array.shape[0], format)
        made.write(array)
        return made

    @classmethod
    @accepts_old(old_empty("width", "height", "format", "label"), "(width, height, format) in the current context")
    def empty(cls, width: int, height: int, format: str = "rgba8", *, label: str = "") -> Self:
        """Make a picture of undefined content in the current context.

        Parameters
        ----------
        width, height : int
            The size in texels.
        format : {"rgba8", "rgba16f", "rgba32f", "r8", "r32f"}
            Channels and type of a texel.
        label : str
            Description for error messages.

        Returns
        -------
        GlTexture, ClImage or CudaImage
            A picture of this size and format.

        Raises
        ------
        BindingError
            If the format is unknown or the size impossible.
        DeviceError
            If no context of the API is current on this thread, or GPU memory runs out.

        Examples
        --------
        >>> with fb.GlContext.headless():
        ...     fb.GlTexture.empty(64, 48, "r8").size
        (64, 48)
        """
        return cls._made(width, height, format, label)

    @classmethod
    @abstractmethod
    def _made(cls, width: int, height: int, format: str, label: str) -> Self:
        """A new picture in the current context: see ``empty``."""

    @accepts_old(old_write, "(array, reason=...) in the current context")
    def write(self, array: npt.ArrayLike, *, reason: str = "texture upload") -> None:
        """Replace the whole content, after the work that was submitted before. The copy is counted.

        Parameters
        ----------
        array : numpy.ndarray
            (height, width), or (height, width, channels), in the type of the format's channels; float32 is taken for
            float16 and the reverse. Of three channels the alpha becomes 1.
        reason : str
            The phrase under which ``transfers`` counts the copy.

        Raises
        ------
        BindingError
            If shape or type do not fit, the picture is released, or the array has a mask.
        DeviceError
            If the picture's context is not current on this thread.
        """
        self.upload(self._current_context(), _plain(array), reason)

    @accepts_old(old_read, "(out, reason=...) in the current context")
    def read(self, out: np.ndarray | None = None, *, reason: str = "texture readback") -> np.ndarray[Any, Any]:
        """Copy the content to the host. Waits for the work that was submitted before. The copy is counted.

        Parameters
        ----------
        out : numpy.ndarray, optional
            A writable C-contiguous array (height, width, channels), in the type of the format's channels. Without it,
            a new one.
        reason : str
            The phrase under which ``transfers`` counts the copy.

        Returns
        -------
        numpy.ndarray
            ``out``, or the new array; row 0 is the top of the picture.

        Raises
        ------
        BindingError
            If shape or type of ``out`` do not fit, or the picture is released.
        DeviceError
            If the picture's context is not current on this thread.
        """
        context = self._current_context()
        if out is None:
            out = np.empty(self._array_shape, self._channel_type())
        self.download(context, out, reason)
        return out

    def upload(self, context: C, array: np.ndarray, reason: str, offset: int = 0) -> None:
        texels = self._texels(array)
        self._copy_in(context, texels, reason)

    def download(self, context: C, out: np.ndarray, reason: str, offset: int = 0) -> None:
        array, wanted = filled_array(out, self.label), (self._array_shape, np.dtype(self._channel_type()))
        if (array.shape, array.dtype) != wanted:
            raise BindingError(f"{self.label} fills an array {_described(*wanted)}, not {array.shape} of {array.dtype}")
        self._copy_out(context, array, reason)

    @abstractmethod
    def _channel_type(self) -> npt.DTypeLike:
        """The type of a channel in an array. Raises BindingError if the format is one that is not copied."""

    @abstractmethod
    def _copy_in(self, context: C, texels: np.ndarray, reason: str) -> None:
        """Count, and replace the content by (height, width, channels) of the channels' type, C-contiguous."""

    @abstractmethod
    def _copy_out(self, context: C, texels: np.ndarray, reason: str) -> None:
        """Count, and fill (height, width, channels) of the channels' type, C-contiguous."""

    @property
    def _array_shape(self) -> tuple[int, int, int]:
        return self.size[1], self.size[0], TEXTURE_CHANNELS[self.format]

    def _texels(self, array: np.ndarray) -> np.ndarray:
        """An array as the picture's own texels: its channels and type, C-contiguous."""
        check_unmasked(array)
        wanted, dtype = self._array_shape, np.dtype(self._channel_type())
        texels = array[:, :, None] if array.ndim == 2 else array
        if texels.ndim == 3 and texels.shape[2] == 3 and wanted[2] == 4:
            opaque = np.full((*texels.shape[:2], 1), 255 if texels.dtype == np.uint8 else 1, texels.dtype)
            texels = np.concatenate([texels, opaque], axis=2)
        fits = texels.dtype == dtype or {texels.dtype.name, dtype.name} == {"float16", "float32"}
        if texels.shape != wanted or not fits:
            found = f"{array.shape} of {array.dtype}"
            raise BindingError(f"{self.label} takes an array {_described(wanted, dtype)}, not {found}")
        return np.ascontiguousarray(texels, dtype)


def _plain(array: npt.ArrayLike) -> np.ndarray[Any, Any]:
    """The array, also of a list of numbers. A mask is refused, as a GPU does not see it."""
    if isinstance(array, np.ndarray):
        check_unmasked(array)
    return np.asarray(array)


def checked_nbytes(shape: Sequence[int], dtype: npt.DTypeLike, label: str = "") -> int:
    """The bytes of an array. Raises BindingError if it has none."""
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    if nbytes <= 0:
        what = f"'{label}'" if label else "a buffer"
        raise BindingError(f"{what} of {nbytes} bytes is impossible: it has at least 1")
    return nbytes


def _described(shape: tuple[int, ...], dtype: npt.DTypeLike) -> str:
    return f"(height, width, channels) of {shape} and {np.dtype(dtype)}"
