"""Arrays and planes on their way to a virtual camera: converted by swscale, and only while somebody watches."""

from __future__ import annotations

import time as clock
from typing import Any

import numpy as np

from ....kernels.colours import YuvMatrix, YuvRange
from ..decode.pyav import load_av
from ..decode.tags import wanted_colours
from ..read.frame_reader import Pixels
from ..virtual_cameras.camera import VirtualCamera

_FORMATS = {"nv12": "nv12", "yuy2": "yuyv422"}
"""FFmpeg's names of the layouts."""


class CameraFrames:
    """A virtual camera in the place of a file: it shows each frame that the queues of arrays and planes hand over."""

    def __init__(self, camera: VirtualCamera) -> None:
        self._camera, self.finish = camera, camera.close
        camera.offer_no_textures()
        self._converter = load_av().video.reformatter.VideoReformatter()

    def take_colours(self, matrix: YuvMatrix, range: YuvRange) -> None:
        """Keep the colours of the camera: frames are converted to them."""

    def write(self, rgba: Pixels, time: float | None = None) -> None:
        """Show a frame, RGBA of shape (height, width, 4)."""
        self.write_planes(load_av().VideoFrame.from_ndarray(np.ascontiguousarray(rgba), format="rgba"))

    def write_planes(self, frame: Any, time: float | None = None) -> None:
        """Show a frame (av.VideoFrame), whose edges are repeated up to the size that viewers see."""
        if not self._camera.is_watched:
            return
        with self._camera.frame(clock.perf_counter()) as memory:
            if memory is None:
                return
            layout = self._camera.layout
            colours = wanted_colours(layout.colours.matrix, "limited")
            width, height = layout.padded
            if (frame.width, frame.height) != (width, height):
                rgba = self._converter.reformat(frame, format="rgba").to_ndarray()
                edges = (0, height - frame.height), (0, width - frame.width), (0, 0)
                frame = load_av().VideoFrame.from_ndarray(np.pad(rgba, edges, "edge"), format="rgba")
            converted = self._converter.reformat(frame, format=_FORMATS[layout.format], **colours)
            memory.reshape(-1)[:] = converted.to_ndarray().reshape(-1)
