"""The interface of all readers, and the base of those of pictures.

A reader runs on a worker thread and writes frames into memory that it is given (a mapped upload buffer). A frame is
uint8, row 0 on top, in the reader's layout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from .yuv_to_rgb import Layout, layout_of

Pixels = npt.NDArray[np.uint8]
View = TypeVar("View")
"""The content of a slot of the ring: an array of upload memory, or a PlanesSlot."""
Read = Callable[[View], bool]
"""A function that reads the next frame, or skips it. Its result is that of ``FrameReader.read``."""


class FrameReader(Protocol):
    """A reader of frames. ``length`` is None if it is not known; frames of a ``live`` reader do not wait to be read."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> tuple[int, int]: ...
    @property
    def fps(self) -> float | None: ...
    @property
    def length(self) -> int | None: ...
    @property
    def live(self) -> bool: ...
    @property
    def layout(self) -> Layout:
        """Layout of a frame in memory."""
        ...

    @property
    def captured(self) -> float | None:
        """Time at which the last frame was taken, by time.perf_counter; None for files."""
        ...

    @property
    def time(self) -> float | None:
        """Seconds of the last frame on the clock of its file, from the first frame; None without such a clock."""
        ...

    @property
    def damaged(self) -> int:
        """Packets so far that could not be decoded."""
        ...

    @property
    def status(self) -> str:
        """The reason why no frames come; "" while they do."""
        ...

    @property
    def retry(self) -> float | None:
        """Seconds to wait before ``reopen``; None leaves that to the source."""
        ...

    def read(self, view: Pixels) -> bool:
        """Write the next frame into ``view``; False if there is none. Raises SourceError."""
        ...

    def reopen(self) -> bool:
        """Begin again at the first frame, or with a camera that was lost. Returns whether that worked."""
        ...

    def close(self) -> None: ...


class BgrReader:
    """Base of readers of BGR frames that wait to be read."""

    live, captured, time = False, None, None
    damaged, status, retry = 0, "", None
    size: tuple[int, int]

    @property
    def layout(self) -> Layout:
        return layout_of("bgr", *self.size)
