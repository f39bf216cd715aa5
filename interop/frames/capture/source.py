"""Frames as GL textures: a worker thread decodes into mapped GPU memory, the thread with the GL context uploads."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol

from ...errors import SourceError
from ...gl.context import GlContext
from ...gl.objects import GlTexture
from ...gl.timer import GlTimer
from .camera import CameraOptions, CameraReader
from .handover import JOIN_TIMEOUT, NOTHING_YET, SLOTS, Handover, decode
from .pixel_layouts import Matrix
from .readers import (
    PICTURES,
    FrameReader,
    MotionReader,
    PictureReader,
    load_picture,
    open_address,
    open_folder,
    open_video,
    painted_picture,
)
from .upload import UploadRing

FIRST_FRAME_SECONDS = 10.0
"""How long a camera may take for its first frame."""
SILENCE_SECONDS, HELD_SECONDS, LOST_SECONDS = 1.0, 0.1, 60.0
"""After how long without a frame the last one is shown again, how often, and when a camera is given up."""


class ClosableWindow(Protocol):
    """A window as the source sees it: it has a GL context, and its user may close it."""

    @property
    def context(self) -> GlContext: ...
    @property
    def should_close(self) -> bool: ...


def open_source(
    source: int | str | Path,
    *,
    size: tuple[int, int] | None = None,
    fps: float | None = None,
    fourcc: str | None = None,
    matrix: Matrix = "bt601",
    loop: bool = False,
) -> Source:
    """Open a camera, a video, a picture, a folder of pictures, a stream, or synthetic motion.

    ``source`` is a camera's index (``0`` or ``"0"``), the path of a video or picture file, the path of a folder (its
    pictures in the order of their names, all scaled to the size of the first), an address (``rtsp://``, ``http://``),
    a GStreamer pipeline (``"... ! appsink"``, where OpenCV has GStreamer), ``"synthetic"`` (motion over a painted
    picture, endless) or ``"synthetic:PATH"`` (the same over a photograph). ``size`` is (width, height) in pixels: what
    to ask a camera for, and the size of synthetic frames (640x480 where not given); a file has its own.

    For cameras only: frames a second, and ``fourcc``, the format: "MJPG" (asked for where nothing is), "YUYV" or
    "NV12"; these two are uploaded as they come and converted on the GPU, by the ``matrix`` "bt601" (what webcams use)
    or "bt709" (grabbers of HD video), limited range. A camera that is lost is opened again when it is back; meanwhile
    its last frame is held. With ``loop``, files begin again where they end.

    Raises SourceError where it cannot be opened; the message says what to try.
    """
    text = str(source)
    if isinstance(source, int) or text.isdecimal():
        return Source(CameraReader(int(text), CameraOptions(size, fps, fourcc, matrix)))
    if text == "synthetic" or text.startswith("synthetic:"):
        photograph = text.partition(":")[2]
        picture = load_picture(Path(photograph)) if photograph else painted_picture()
        return Source(MotionReader(picture, size or (640, 480), text))
    if "://" in text or " ! " in text:
        return Source(open_address(text) or CameraReader(text), loop)
    path = Path(text)
    if not path.exists():
        raise SourceError(
            f"there is no file or folder '{path}': a source is a camera's index, a video, a picture, a folder of "
            "pictures, an address with '://', 'synthetic' or 'synthetic:PICTURE'"
        )
    if path.is_dir():
        return Source(open_folder(path), loop)
    if path.suffix.lower() in PICTURES:
        return Source(PictureReader([path], f"picture '{path}'"), loop)
    return Source(open_video(path), loop)


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

    def __init__(self, reader: FrameReader, loop: bool = False) -> None:
        self._reader, self._handover, self._worker = reader, Handover(drop=reader.live), None
        self.name, self.size, self.fps, self.live = reader.name, reader.size, reader.fps, reader.live
        self.length, self._loop = None if loop else reader.length, loop

    @property
    def dropped(self) -> int:
        """How many frames of a live source were not taken in time."""
        return self._handover.dropped

    def textures(self, target: GlContext | ClosableWindow, timer: GlTimer | None = None) -> Iterator[GlTexture]:
        """The frames, each as an RGBA8 texture of ``size`` with row 0 on top, until the source ends or is stopped, or,
        where ``target`` is a window, until that is closed.

        The textures are a fixed ring of objects of ``target``'s context: one is overwritten two frames later, so take
        what you need of it, or use it, before. ``timer`` gets a stage "upload" a frame. Call on the thread that owns
        the context. Raises SourceError where a frame cannot be read.
        """
        context = target if isinstance(target, GlContext) else target.context
        if self._worker is not None:
            raise SourceError(f"{self.name} was read already: open it again to read it from the start")
        ring = UploadRing(context, *self.size, SLOTS, self._reader.layout)
        self._worker = threading.Thread(
            target=decode, args=(self._reader, self._handover, self._loop), name=f"framebind {self.name}", daemon=True
        )
        uploaded, texture = deque[int](), None
        try:
            for slot in range(SLOTS):
                self._handover.give(slot, ring.view(slot))
            context.closing.append(self.stop)
            self._worker.start()
            last = time.perf_counter()
            while (slot := self._handover.take(self._patience(texture))) is not None:
                if slot == NOTHING_YET:
                    self._hold(time.perf_counter() - last, texture)
                else:
                    last, self.captured, self.status = time.perf_counter(), self._handover.captured[slot], ""
                    if timer is not None:
                        timer.mark("upload")
                    texture = ring.to_texture(slot, self.mirror)
                    uploaded.append(slot)
                    # The frame before this one was read by the GPU long ago: no wait, and its slot goes back.
                    if len(uploaded) > 1:
                        ready = uploaded.popleft()
                        ring.wait(ready)
                        self._handover.give(ready, ring.view(ready))
                if texture is not None:
                    yield texture
                if not isinstance(target, GlContext) and target.should_close:
                    return
        finally:
            self.stop()
            if self.stop in context.closing:
                context.closing.remove(self.stop)
            ring.release()

    def _patience(self, texture: GlTexture | None) -> float | None:
        """Seconds to wait for the next frame of something live."""
        if not self.live:
            return None
        return HELD_SECONDS if self.status and texture is not None else SILENCE_SECONDS

    def _hold(self, silent: float, texture: GlTexture | None) -> None:
        """Nothing came for that many seconds: say so, or give up."""
        if silent > (FIRST_FRAME_SECONDS if texture is None else LOST_SECONDS):
            raise SourceError(
                f"{self.name} gave no frame for {silent:.0f} seconds: is it unplugged, or used elsewhere?"
            )
        self.status = f"{self.name} gives no frames: is it unplugged? Waiting for it ({silent:.0f} s)"

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
