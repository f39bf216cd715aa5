"""One picture of video: a texture, or planes of luma and chroma on the CPU or a GPU, with its time and its rotation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...kernels.colours import YuvColours
from ..errors import BindingError
from ..gl.texture import GlTexture
from ..memory.buffers import BaseBuffer
from ..memory.pictures import BasePicture
from ..yuv import MATRIX_NUMBERS, RANGE_NUMBERS, YuvPicture


class Frame:
    """One picture of video, as ``Source.frames`` gives it: a texture, or planes of luma and chroma.

    Bind it like a texture: ``bind_buffer_to_tensor(frame, input, mean=..., std=..., crop=...)``. Its rotation is
    included, so that ``crop`` is in pixels of the upright picture.

    Parameters
    ----------
    pixels : GlTexture or YuvPicture
        The picture as it is stored.
    rotation : {0, 90, 180, 270}
        Degrees clockwise from the upright picture to the stored one. Textures of a Source are upright: 0.
    time : float, optional
        Seconds on the clock of its video, from the video's first frame; None for sources without such a clock.
    captured : float
        Time at which it was taken, by ``time.perf_counter``; of a file, at which it was decoded.

    Attributes
    ----------
    size : (int, int)
        Width and height of the upright picture in pixels.

    Examples
    --------
    >>> with fb.open_source("clip.mp4") as source:
    ...     for frame in source.frames("cpu"):
    ...         print(f"{frame.time:.2f} s: {frame}")
    ...         break
    0.00 s: <Frame: 64x48, yuv420p, bt601, limited range>
    """

    __slots__ = ("captured", "pixels", "rotation", "size", "time")

    def __init__(
        self, pixels: GlTexture | YuvPicture, *, rotation: int = 0, time: float | None = None, captured: float = 0.0
    ) -> None:
        self.pixels, self.rotation, self.time, self.captured = pixels, rotation, time, captured
        width, height = pixels.size
        self.size = (height, width) if rotation % 180 else (width, height)

    @property
    def texture(self) -> GlTexture:
        """The texture: RGBA8, row 0 on top, upright.

        Raises
        ------
        BindingError
            If the frame is in planes.
        """
        if not isinstance(self.pixels, GlTexture):
            raise BindingError(f"{self} has no texture: source.frames(context) gives textures")
        return self.pixels

    @property
    def planes(self) -> YuvPicture:
        """The planes of luma and chroma, as the decoder stored them.

        Raises
        ------
        BindingError
            If the frame is a texture.
        """
        if not isinstance(self.pixels, YuvPicture):
            raise BindingError(f"{self} has no planes: source.frames() and source.frames('cpu') give planes")
        return self.pixels

    @property
    def colours(self) -> YuvColours | None:
        """The colours that the planes' numbers stand for; None for a texture, which has red, green and blue."""
        return self.pixels.colours if isinstance(self.pixels, YuvPicture) else None

    def read_rgba(self, widest: int | None = None, *, reason: str = "frame") -> npt.NDArray[np.uint8]:
        """Read the upright picture to the CPU, in full range. swscale converts its colours and makes it smaller.

        A GPU's planes and textures are read in the current context, and counted as downloads.

        Parameters
        ----------
        widest : int, optional
            Most pixels of its width: a wider picture is made smaller, in its own proportions.
        reason : str
            Reason in ``transfers``.

        Returns
        -------
        numpy.ndarray
            Pixels of uint8, (height, width, 4): red, green, blue, and 255 if the frame is in planes.

        Raises
        ------
        BindingError
            If the pixels are neither a texture of rgba8 nor planes of PyAV, of NumPy or of framebind's own objects.

        Examples
        --------
        >>> planes = [np.full((4, 8), 235, np.uint8), np.full((2, 4, 2), 128, np.uint8)]
        >>> fb.Frame(fb.YuvPicture(planes), rotation=90).read_rgba(widest=2).shape
        (4, 2, 4)
        """
        width, height = self.pixels.size
        factor = 1.0 if widest is None else min(widest / self.size[0], 1.0)
        small = max(round(width * factor), 1), max(round(height * factor), 1)
        if isinstance(self.pixels, YuvPicture):
            number = MATRIX_NUMBERS[self.pixels.matrix].swscale
            decoded = self._as_decoded(self.pixels, reason)
            pixels = decoded.reformat(*small, "rgba", src_colorspace=number, dst_color_range=2).to_ndarray()
        else:
            pixels = self._texels(self.pixels, reason)
            if small != (width, height):
                import av  # only here: importing framebind does not load FFmpeg

                pixels = av.VideoFrame.from_ndarray(pixels, format="rgba").reformat(*small).to_ndarray()
        return np.ascontiguousarray(np.rot90(pixels, self.rotation // 90))

    def _texels(self, texture: GlTexture, reason: str) -> npt.NDArray[Any]:
        if texture.format != "rgba8":
            raise BindingError(f"{self} cannot be read as RGBA: its texture is not of rgba8")
        return texture.read(reason=reason)

    def _as_decoded(self, picture: YuvPicture, reason: str) -> Any:
        """A copy of the planes as PyAV's frame (av.VideoFrame), which says its colours."""
        import av  # only here: importing framebind does not load FFmpeg

        sixteen = "le" if picture.layout.dtype == "uint16" else ""
        decoded: Any = av.VideoFrame(*picture.size, picture.format + sixteen)
        for own, plane in zip(decoded.planes, picture.planes, strict=True):
            rows = np.frombuffer(own, np.uint8).reshape(own.height, own.line_size)
            given = self._rows(plane, own.height, reason)
            length = min(own.line_size, given.shape[1])
            rows[:, :length] = given[: own.height, :length]
        decoded.colorspace = MATRIX_NUMBERS[picture.matrix].colorspaces[0]
        decoded.color_range = RANGE_NUMBERS[picture.range]
        return decoded

    def _rows(self, plane: Any, height: int, reason: str) -> npt.NDArray[np.uint8]:
        """A plane as rows of bytes; those of PyAV with what lies between them."""
        if hasattr(plane, "line_size"):
            return np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
        if isinstance(plane, BaseBuffer | BasePicture):
            values: npt.NDArray[Any] = plane.read(reason=reason)
        elif isinstance(plane, np.ndarray):
            values = plane
        else:
            name = f"{type(plane).__module__}.{type(plane).__name__}"
            raise BindingError(f"{self} cannot be read, as its planes are {name}: give NumPy's arrays or framebind's")
        count = len(values) if values.ndim > 1 else height
        return np.ascontiguousarray(values).reshape(count, -1).view(np.uint8)

    def __repr__(self) -> str:
        pixels = self.pixels
        shown = pixels.format if isinstance(pixels, GlTexture) else f"{pixels.format}, {pixels.matrix}, {pixels.range}"
        turned = f", turned by {self.rotation}" if self.rotation else ""
        return f"<Frame: {self.size[0]}x{self.size[1]}, {shown}{'' if self.colours is None else ' range'}{turned}>"
