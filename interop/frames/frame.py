"""One picture of video: a texture, or planes of luma and chroma on the CPU or a GPU, with its time and its rotation."""

from __future__ import annotations

from ...kernels.colours import YuvColours
from ..errors import BindingError
from ..gl.texture import GlTexture
from ..yuv import YuvPicture


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

    def __repr__(self) -> str:
        pixels = self.pixels
        shown = pixels.format if isinstance(pixels, GlTexture) else f"{pixels.format}, {pixels.matrix}, {pixels.range}"
        turned = f", turned by {self.rotation}" if self.rotation else ""
        return f"<Frame: {self.size[0]}x{self.size[1]}, {shown}{'' if self.colours is None else ' range'}{turned}>"
