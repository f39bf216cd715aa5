"""RGBA pictures on their way to a file: textures, which are read back, arrays, and the one picture of a PNG file."""

from __future__ import annotations

import time as clock
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import SourceError
from ...gl.texture import GlTexture
from ...transfers import PICTURE_FILE
from ..decode.thread_times import WorkTime
from ..paint.marks import Marks
from ..paint.marks_on_textures import Overlay
from ..read.frame_reader import Pixels
from ..read.opencv import load_cv2
from .readback import ReadbackRing
from .replacement import Replacement
from .writer import Slots, Writer

WAITING = 4
"""Arrays that may wait for the encoder."""
Write = Callable[[Pixels, "float | None"], None]


class TextureQueue:
    """Reads textures back through a ring of buffers, and encodes them on a thread of its own. Implements Queue.

    A few pictures are between the GPU and the encoder (``ReadbackRing``); ``put`` waits if there is no room for more.
    """

    painting: WorkTime | None = None

    def __init__(
        self,
        path: Path,
        write: Write,
        finish: Callable[[], None],
        first: GlTexture,
        size: tuple[int, int],
        *,
        live_rate: float | None,
        reason: str,
    ) -> None:
        """``live_rate``: frames per second of a video in which each picture is shown until the next one came."""
        self._path, self._size, self._live_rate = path, size, live_rate
        self._is_ended = self._is_closed = False
        self._began, self._due_so_far, self.waited = 0.0, 0, 0.0
        self._waiting: deque[tuple[int, float | None]] = deque()
        """Number of frames and time of each picture that the GPU still copies."""
        self._check(first)
        self._ring = ReadbackRing(first.context, *size, reason)
        self._writer = Writer(write, finish, path.name)
        self._overlay: Overlay | None = None
        self.encoding, self.collected = self._writer.work, self._writer.collected

    def put(self, picture: Any, rotation: int, marks: Marks | None, time: float | None, paint: Any) -> None:
        """Take a texture as it is now. Marks are drawn over it, and stay there."""
        texture = self._check(picture)
        repeats = 1 if self._live_rate is None or time is not None else self._due(self._live_rate)
        if marks is not None:
            self._overlay = self._overlay or Overlay()
            self._overlay.draw(texture, marks)
        if repeats:
            self._make_room()
            self._ring.push(texture)
            self._waiting.append((repeats, time))
            while self._hand_over(wait=False):
                pass

    def _check(self, texture: Any) -> GlTexture:
        if not isinstance(texture, GlTexture):
            raise SourceError(
                f"'{self._path}' takes textures, as its first picture was, not a {type(texture).__name__}"
            )
        if texture.size != self._size or texture.format != "rgba8":
            given = f"{texture.size[0]}x{texture.size[1]} {texture.format}"
            raise SourceError(f"'{self._path}' takes rgba8 pictures of {self._size[0]}x{self._size[1]}, not {given}")
        return texture

    def _due(self, rate: float) -> int:
        """Number of frames that the video needs of the next picture. A pause of more than a second is cut out."""
        now = clock.perf_counter()
        self._began = self._began or now
        due = int((now - self._began) * rate) + 1 - self._due_so_far
        if due > rate:
            self._began, due, self._due_so_far = now, 1, 0
        self._due_so_far += due
        return due

    def _make_room(self) -> None:
        """Take back the buffers of pictures that are written. If none is free, wait for one."""
        while self._writer.has_written:
            self._ring.give_back(self._writer.written())
        if self._ring.has_room:
            return
        began = clock.perf_counter()
        if not self._ring.taken:
            self._hand_over(wait=True)
        self._ring.give_back(self._writer.written())
        self.waited += clock.perf_counter() - began

    def _hand_over(self, *, wait: bool) -> bool:
        """Hand the oldest picture that the GPU has copied to the writer. Returns whether there was one."""
        copied = self._ring.take(wait=wait)
        if copied is not None:
            self._writer.put(*copied, *self._waiting.popleft())
        return copied is not None

    def end(self) -> None:
        """Fetch the pictures that the GPU still copies. The rest needs no context."""
        if not self._is_ended:
            self._is_ended = True
            try:
                while self._hand_over(wait=True):
                    pass
            finally:
                self._writer.end()

    def close(self) -> None:
        """Wait until the file is complete."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self.end()
        finally:
            try:
                self._writer.close()
            finally:
                self._ring.release()


class ArrayQueue:
    """Encodes arrays on a thread of its own; ``put`` waits if WAITING of them wait. Implements Queue."""

    painting: WorkTime | None = None

    def __init__(self, path: Path, write: Write, finish: Callable[[], None], size: tuple[int, int]) -> None:
        self._path, self._shape = path, (size[1], size[0], 4)
        self._writer = Writer(write, finish, path.name)
        self._slots = Slots(WAITING, self._writer)
        self.encoding, self.end, self.close = self._writer.work, self._writer.end, self._writer.close
        self.collected = self._writer.collected

    @property
    def waited(self) -> float:
        """Seconds that ``put`` waited."""
        return self._slots.waited

    def put(self, picture: Any, rotation: int, marks: Marks | None, time: float | None, paint: Any) -> None:
        """Take an array, which must not be changed any more. Marks are painted on a copy."""
        if getattr(picture, "shape", None) != self._shape or picture.dtype != np.uint8:
            given = f"{getattr(picture, 'dtype', 'a picture')} of {getattr(picture, 'shape', picture)}"
            raise SourceError(f"'{self._path}' takes arrays of uint8 of {self._shape}, not {given}")
        if marks is not None:
            picture = picture.copy()
            marks.paint(picture)
        self._writer.put(self._slots.take(), picture, 1, time)


class LastPicture:
    """Writes the last texture to a PNG file when it is closed. Implements Queue."""

    painting = encoding = None
    waited = 0.0

    def __init__(self, path: Path, *, alpha: bool = False) -> None:
        self._path, self._alpha = path, alpha
        self._last: GlTexture | None = None
        Replacement(path, "picture").discard()  # raises now if the folder takes no files

    def put(self, picture: Any, rotation: int, marks: Marks | None, time: float | None, paint: Any) -> None:
        if not isinstance(picture, GlTexture):
            raise SourceError(f"'{self._path}' takes textures, not a {type(picture).__name__}")
        if marks is not None:
            Overlay().draw(picture, marks)
        self._last = picture

    def end(self) -> None:
        return

    def collected(self) -> None:
        """Leave no file if nobody closed it."""
        self._last = None

    def close(self) -> None:
        """Write the file."""
        texture, self._last = self._last, None
        if texture is None:
            return
        cv2 = load_cv2()
        picture = cv2.cvtColor(
            texture.read(reason=PICTURE_FILE), cv2.COLOR_RGBA2BGRA if self._alpha else cv2.COLOR_RGBA2BGR
        )
        content = cv2.imencode(".png", picture)[1].tobytes()
        replacement = Replacement(self._path, "picture")
        try:
            replacement.unfinished.write_bytes(content)
        except OSError as error:
            replacement.discard()
            raise replacement.error(error.strerror or str(error)) from error
        replacement.complete()
