"""Frames as GL textures: a worker thread decodes into mapped GPU memory, the thread with the GL context uploads."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from .errors import SourceError
from .frames import (
    PICTURES,
    Frame,
    FrameReader,
    MotionReader,
    PictureReader,
    load_picture,
    open_camera,
    open_folder,
    open_video,
    painted_picture,
)
from .gl_context import GlContext
from .gl_objects import GlTexture
from .gl_timer import GlTimer
from .upload import UploadRing

SLOTS = 3
"""One that is decoded into, one that is ready, one that the GPU reads."""
LIVE_TIMEOUT = 10.0
"""Seconds after which a camera that gives no frame is taken for dead."""
JOIN_TIMEOUT = 5.0


def open_source(source: int | str | Path, *, size: tuple[int, int] | None = None) -> Source:
    """Open a camera, a video, a picture, a folder of pictures, or synthetic motion.

    ``source`` is a camera's index (``0`` or ``"0"``), the path of a video or picture file, the path of a folder (its
    pictures in the order of their names, all scaled to the size of the first), ``"synthetic"`` (motion over a painted
    picture, endless) or ``"synthetic:PATH"`` (the same over a photograph). ``size`` is (width, height) in pixels: what
    to ask a camera for, and the size of synthetic frames (640x480 where not given); a file has its own.

    Raises SourceError where it cannot be opened; the message says what to try.
    """
    text = str(source)
    if isinstance(source, int) or text.isdecimal():
        return Source(open_camera(int(text), size))
    if text == "synthetic" or text.startswith("synthetic:"):
        photograph = text.partition(":")[2]
        picture = load_picture(Path(photograph)) if photograph else painted_picture()
        return Source(MotionReader(picture, size or (640, 480), text))
    path = Path(text)
    if not path.exists():
        raise SourceError(
            f"there is no file or folder '{path}': a source is a camera's index, a video, a picture, a folder of "
            "pictures, 'synthetic' or 'synthetic:PICTURE'"
        )
    if path.is_dir():
        return Source(open_folder(path))
    if path.suffix.lower() in PICTURES:
        return Source(PictureReader([path], f"picture '{path}'"))
    return Source(open_video(path))


class Source:
    """An open source of frames. Use it as a context manager, or call ``stop()``; ``textures`` gives the frames, once.

    ``size`` is (width, height) in pixels; ``fps`` is None for pictures and where a camera does not say; ``length`` is
    the number of frames, or None where it is not known; ``live`` says that frames not taken in time are dropped.
    ``dropped`` counts those. ``captured`` is when the last frame that ``textures`` gave was taken, by
    ``time.perf_counter``. With ``mirror`` set to True, frames come mirrored from then on. ``status`` is "", or says
    what a person should know.
    """

    captured = 0.0
    mirror = False
    status = ""

    def __init__(self, reader: FrameReader) -> None:
        self._reader, self._handover, self._worker = reader, Handover(drop=reader.live), None
        self.name, self.size, self.fps, self.length = reader.name, reader.size, reader.fps, reader.length
        self.live = reader.live

    @property
    def dropped(self) -> int:
        return self._handover.dropped

    def textures(self, context: GlContext, timer: GlTimer | None = None) -> Iterator[GlTexture]:
        """The frames, each as an RGBA8 texture of ``size`` with row 0 on top, until the source ends or is stopped.

        The textures are a fixed ring of objects: one is overwritten two frames later, so take what you need of it, or
        use it, before. ``timer`` gets a stage "upload" a frame. Call on the thread that owns ``context``. Raises
        SourceError where a frame cannot be read.
        """
        if self._worker is not None:
            raise SourceError(f"{self.name} was read already: open it again to read it from the start")
        ring = UploadRing(context, *self.size, slots=SLOTS)
        self._worker = threading.Thread(
            target=_decode, args=(self._reader, self._handover), name=f"framebind {self.name}", daemon=True
        )
        uploaded: deque[int] = deque()
        try:
            for slot in range(SLOTS):
                self._handover.give(slot, ring.view(slot))
            context.closing.append(self.stop)
            self._worker.start()
            while (slot := self._handover.take(LIVE_TIMEOUT if self.live else None, self.name)) is not None:
                uploaded.append(slot)
                self.captured = self._handover.captured[slot]
                if timer is not None:
                    timer.mark("upload")
                texture = ring.to_texture(slot, self.mirror)
                # The frame before this one was read by the GPU long ago: no wait, and the worker gets its slot back.
                if len(uploaded) > 1:
                    ready = uploaded.popleft()
                    ring.wait(ready)
                    self._handover.give(ready, ring.view(ready))
                yield texture
        finally:
            self.stop()
            if self.stop in context.closing:
                context.closing.remove(self.stop)
            ring.release()

    def stop(self) -> None:
        """End the iteration and the worker thread, and close the camera or file. May be called more than once."""
        self._handover.stop()
        if self._worker is None or self._worker.ident is None:
            self._reader.close()
        elif self._worker.is_alive():
            self._worker.join(JOIN_TIMEOUT)
            if self._worker.is_alive():
                raise SourceError(f"{self.name} does not answer: its driver hangs in a read that cannot be interrupted")

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Handover:
    """Which slots of the ring are free for the worker and which are filled, passed between the two threads.

    With ``drop``, the owner gets the newest frame, and the worker takes back the oldest filled slot where none is free.
    """

    def __init__(self, drop: bool) -> None:
        self._changed = threading.Condition()
        self._free: deque[int] = deque()
        self._filled: deque[int] = deque()
        self._views: dict[int, Frame] = {}
        self.captured = [0.0] * SLOTS
        self._drop, self._stopped, self._ended = drop, False, False
        self._error: Exception | None = None
        self.dropped = 0

    def give(self, slot: int, view: Frame) -> None:
        """Owner: the slot may be written, at ``view``."""
        with self._changed:
            self._views[slot] = view
            self._free.append(slot)
            self._changed.notify_all()

    def take(self, timeout: float | None, name: str) -> int | None:
        """Owner: the next filled slot, None at the end. Raises what ended the worker, or SourceError on a timeout."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._filled or self._ended or self._stopped, timeout):
                raise SourceError(f"{name} gave no frame for {timeout:.0f} seconds: is it unplugged?")
            if self._stopped:
                return None
            if self._filled:
                while self._drop and len(self._filled) > 1:
                    self._free.append(self._filled.popleft())
                    self.dropped += 1
                self._changed.notify_all()
                return self._filled.popleft()
            if self._error is not None:
                raise self._error
            return None

    def fill(self) -> tuple[int, Frame] | None:
        """Worker: a slot to write and its memory, or None once stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._free or (self._drop and self._filled) or self._stopped)
            if self._stopped:
                return None
            if self._free:
                slot = self._free.popleft()
            else:
                slot = self._filled.popleft()
                self.dropped += 1
            return slot, self._views[slot]

    def filled(self, slot: int, captured: float) -> None:
        """Worker: the slot holds the next frame, which was taken at that time."""
        with self._changed:
            self.captured[slot] = captured
            self._filled.append(slot)
            self._changed.notify_all()

    def end(self, error: Exception | None) -> None:
        """Worker: there are no more frames."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def stop(self) -> None:
        """Either: let both sides go."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


def _decode(reader: FrameReader, handover: Handover) -> None:
    """The worker thread: decode until the source ends, fails, or is stopped."""
    try:
        while (place := handover.fill()) is not None:
            slot, view = place
            if not reader.read(view):
                break
            handover.filled(slot, time.perf_counter())
        handover.end(None)
    except Exception as error:
        handover.end(error)
    finally:
        reader.close()
