"""The interface of virtual cameras, and the layout of the frames that programs take from them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from ....kernels.colours import YuvColours, YuvMatrix
from ...gl.texture import GlTexture
from ...uncopied import Uncopied

PixelFormat = Literal["nv12", "yuy2"]
PIPEWIRE, V4L2, HTTP = "pipewire", "v4l2", "http"
SERVERS = ("rtsp", "rtsps", "srt", "whip")
"""The schemes of addresses to which a camera is sent."""
CAMERA_KINDS = (PIPEWIRE, V4L2, HTTP, *SERVERS)
"""The first words of the addresses of virtual cameras."""
_HD_HEIGHT = 720


@dataclass(frozen=True)
class FrameLayout:
    """The layout of a camera's frames: NV12 (all luma, then pairs of chroma) or YUY2 (Y0 U Y1 V), without padding.

    ``size`` (width, height) is that of the pictures. Programs expect that rows begin at multiples of 4 bytes, and
    chroma halves both sides: a width is rounded up to a multiple of 4, a height to one of 2, by repeating the edge.
    """

    format: PixelFormat
    size: tuple[int, int]

    @property
    def padded(self) -> tuple[int, int]:
        """Width and height of the frame that programs see."""
        return padded(self.size)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, 4) of the frame's bytes as an RGBA8 picture, as the GPU draws it."""
        width, height = self.padded
        return (height * 3 // 2, width // 4, 4) if self.format == "nv12" else (height, width // 2, 4)

    @property
    def stride(self) -> int:
        """Bytes of a row."""
        return self.shape[1] * 4

    @property
    def nbytes(self) -> int:
        """Bytes of a frame."""
        return self.shape[0] * self.stride

    @property
    def colours(self) -> YuvColours:
        """The meaning of the numbers: limited BT.709 from 720 rows on, else BT.601, as in files."""
        return YuvColours(matrix_of(self.size), "limited")


def padded(size: tuple[int, int]) -> tuple[int, int]:
    """Width and height of the frames for pictures of ``size``."""
    return size[0] + -size[0] % 4, size[1] + -size[1] % 2


def matrix_of(size: tuple[int, int]) -> YuvMatrix:
    """The matrix of colours of frames of that size."""
    return "bt709" if size[1] >= _HD_HEIGHT else "bt601"


class VirtualCamera(Protocol):
    """A camera whose frames this program makes."""

    @property
    def is_watched(self) -> bool:
        """Whether a program takes its frames now."""
        ...

    @property
    def layout(self) -> FrameLayout:
        """The layout of the next frame. It does not change within a block of ``frame``."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait until a program takes its frames, at most so long. Returns whether one does."""
        ...

    def frame(self, captured: float) -> AbstractContextManager[npt.NDArray[np.uint8] | None]:
        """Give the memory of the next frame, of ``layout.shape``, and hand it over at the end of the block.

        ``captured`` is the time of the picture by time.perf_counter. None if nobody takes this frame.
        """
        ...

    def show(self, texture: GlTexture, captured: float) -> bool:
        """Hand over an RGBA8 texture as the next frame, by a copy on the GPU, if the programs that watch take textures.

        Returns whether they do; if not, ``frame`` is for them.
        """
        ...

    def offer_no_textures(self) -> None:
        """Offer memory of the host only, as pictures turn out to be no textures. Who took a texture is cut off."""
        ...

    def close(self) -> None:
        """Remove the camera. May be called more than once."""
        ...


class HostCamera(Uncopied):
    """Base of cameras whose frames lie in the host's memory only."""

    def show(self, texture: GlTexture, captured: float) -> bool:
        """Return False: no program takes textures."""
        return False

    def offer_no_textures(self) -> None:
        """Do nothing: none was offered."""
