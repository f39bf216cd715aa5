"""Pictures of the streams for the page: made, read back and compressed only while somebody looks."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..copies import WEB_PICTURE

_SHOW = "uniform sampler2D picture;\nvoid main() { color = texture(picture, uv); }\n"
WIDEST = 960
"""Most pixels of a picture's width: wider ones are made smaller on the GPU."""
QUALITY = 80
"""Quality of the JPEG files, of 100."""
_INTERVAL = 1 / 15
"""Seconds between two pictures of a stream."""
_LINGER = 3.0
"""Seconds for which single pictures are made after one was asked for: the page asks each second."""


class Pictures:
    """The last picture of a stream, and those who look at it. One thread puts pictures; any thread takes them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._encoding = threading.Lock()
        self._pixels: npt.NDArray[Any] | None = None
        self._number = self._viewers = 0
        self._jpeg: tuple[int, bytes] = 0, b""
        self._last_put = self._asked = float("-inf")

    def are_wanted(self) -> bool:
        """True if somebody looks, and the last picture is old enough."""
        now = time.perf_counter()
        return now - self._last_put >= _INTERVAL and (self._viewers > 0 or now - self._asked < _LINGER)

    def put(self, pixels: npt.NDArray[Any]) -> None:
        """Show a picture: RGBA, (height, width, 4)."""
        with self._changed:
            self._pixels, self._last_put = pixels, time.perf_counter()
            self._number += 1
            self._changed.notify_all()

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Within the block pictures are made all the time."""
        with self._changed:
            self._viewers += 1
        try:
            yield
        finally:
            with self._changed:
                self._viewers -= 1

    def next_jpeg(self, after: int, timeout: float) -> tuple[int, bytes] | None:
        """The first picture behind number ``after`` as a JPEG file, with its number; None on a timeout."""
        with self._changed:
            self._asked = time.perf_counter()
            if not self._changed.wait_for(lambda: self._number > after, timeout):
                return None
        with self._encoding:  # one thread compresses for all that look
            with self._changed:
                number, pixels = self._number, self._pixels
            if self._jpeg[0] != number and pixels is not None:
                self._jpeg = number, as_jpeg(pixels)
            return self._jpeg


def as_jpeg(pixels: npt.NDArray[Any]) -> bytes:
    """A picture (height, width, RGBA) as a JPEG file."""
    import cv2  # only here: commands start without it

    colours = cv2.cvtColor(pixels, cv2.COLOR_RGBA2BGR)
    return cv2.imencode(".jpg", colours, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1].tobytes()


def from_jpeg(content: bytes) -> npt.NDArray[np.uint8]:
    """The picture of ``as_jpeg``: (height, width, RGBA)."""
    import cv2  # only here: commands start without it

    found = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    assert found is not None, "as_jpeg made it"
    return np.asarray(cv2.cvtColor(found, cv2.COLOR_BGR2RGBA), np.uint8)


class Shrinker:
    """Reads pictures of one size back, made smaller on the GPU if they are wider than WIDEST."""

    def __init__(self, size: tuple[int, int]) -> None:
        factor = min(WIDEST / size[0], 1.0)
        width, height = (max(round(side * factor), 1) for side in size)
        self._small = fb.GlTexture(width, height, "rgba8", label="the web picture")
        self._show = fb.FragmentProgram(_SHOW)

    def read(self, picture: fb.GlTexture) -> npt.NDArray[Any]:
        """The pixels, (height, width, 4), counted as WEB_PICTURE."""
        self._show.draw(self._small, {"picture": picture})
        return self._small.read(reason=WEB_PICTURE)
