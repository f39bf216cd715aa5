"""The base of pictures (textures, images) of every API, and copies between them and arrays of NumPy."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...kernels.views import TEXTURE_CHANNELS
from ..arrays import check_unmasked, filled_array, unmasked_array
from ..deprecated import accepts_old, old_empty, old_read, old_write
from ..errors import BindingError
from .base import BaseMemory, C

if TYPE_CHECKING:
    from typing_extensions import Self

_FORMATS = {
    ("uint8", 1): "r8", ("float16", 1): "r32f", ("float32", 1): "r32f",
    ("uint8", 4): "rgba8", ("float16", 4): "rgba16f", ("float32", 4): "rgba32f",
}  # fmt: skip
"""The format of a picture by the type and the number of its channels."""


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
        array = unmasked_array(array)
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
        self.upload(self._current_context(), unmasked_array(array), reason)

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


def _described(shape: tuple[int, ...], dtype: npt.DTypeLike) -> str:
    return f"(height, width, channels) of {shape} and {np.dtype(dtype)}"
