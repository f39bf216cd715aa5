"""Sources of frames: a worker thread decodes, and the thread that owns the context takes textures or planes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, overload

from ...deprecated import warn_deprecated
from ...errors import FramebindError, SourceError
from ...gl.context import GlContext
from ...gl.texture import GlTexture
from ...gl.timer import GlTimer
from ...uncopied import Uncopied
from ...yuv import YuvPicture
from ..decode.tags import VideoTags
from ..decode.thread_times import WorkTime
from ..frame import Frame
from .dropping_queue import NOTHING_YET, FrameQueue
from .frame_reader import FrameReader
from .planes import PlanesFeed, converted, converted_frames
from .streams import StreamReader
from .textures import TextureFeed
from .video_files import AvReader, DecodedReader
from .worker import Feed, Waits, Worker


class ClosableWindow(Protocol):
    """A window with a GL context, which a person may close."""

    @property
    def context(self) -> GlContext: ...
    @property
    def should_close(self) -> bool: ...


Place = GlContext | ClosableWindow | Literal["cpu"] | None
"""The place of frames: a context or a window for textures, "cpu" for planes there, None for planes anywhere."""


class Source(Uncopied):
    """An open source of frames, made by ``open_source``.

    Use it as a context manager, or call ``close()``.

    Attributes
    ----------
    every : int
        Set it to N before the first frame, and ``frames`` gives each N-th frame only, from the first one on. Those
        between are decoded and not uploaded. Not for planes that the calling thread decodes.
    mirror : bool
        Set it to True, and textures come mirrored from then on.
    status : str
        "" or what a person should know, for instance that the camera gives no frames.
    ended : bool
        Whether the last frame was given.
    ready : threading.Event or None
        Set it to an event before the first frame: the source sets that whenever a frame came, and at its end. Several
        sources may share one.

    Examples
    --------
    >>> with fb.GlContext.headless() as context, fb.open_source("synthetic", size=(64, 48)) as source:
    ...     for frame in source.frames(context):
    ...         pixels = frame.texture.read()
    ...         break
    >>> pixels.shape, pixels.dtype
    ((48, 64, 4), dtype('uint8'))
    """

    every = 1
    mirror = False
    status = ""
    ended = False
    ready: threading.Event | None = None
    waits = Waits()
    """The waits for a camera or a stream, taken over when its frames are first asked for."""

    def __init__(self, reader: FrameReader, loop: bool = False) -> None:
        self._reader, self._loop = reader, loop
        self._worker: Worker | None = None
        self._is_read = self._is_closed = False
        self._feed: Feed | None = None
        self._last: Frame | None = None
        self._last_at = 0.0
        """Time at which the last frame was taken from the worker, or at which this began."""
        self._polled: Iterator[Frame | None] | None = None
        if isinstance(reader, StreamReader):
            self.waits = reader.waits

    # Facts ------------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The source in words, for people."""
        return self._reader.name

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of its upright frames in pixels."""
        return self._reader.size

    @property
    def fps(self) -> float | None:
        """Frames per second; None for pictures, and for a camera that does not say."""
        return self._reader.fps

    @property
    def length(self) -> int | None:
        """The number of frames, if it is known."""
        return None if self._loop else self._reader.length

    @property
    def live(self) -> bool:
        """Whether frames that are not taken in time are dropped."""
        return self._reader.live

    @property
    def decoder(self) -> str:
        """The decoder of a video file or a stream: "nvdec" or "cpu"; "" for other sources."""
        return self._reader.decoder if isinstance(self._reader, DecodedReader) else ""

    @property
    def rotation(self) -> int:
        """Degrees clockwise from an upright frame to its planes: 0, 90, 180 or 270. Textures are upright."""
        return self._reader.rotation if isinstance(self._reader, DecodedReader) else 0

    @property
    def tags(self) -> VideoTags:
        """The shape of its pixels, and the light that its colours stand for: ``VideoWriter`` says them again."""
        return self._reader.tags if isinstance(self._reader, DecodedReader) else VideoTags()

    @property
    def file(self) -> Path | None:
        """The video file; None for other sources."""
        return self._reader.path if isinstance(self._reader, AvReader) else None

    @property
    def part(self) -> tuple[float, float | None]:
        """The seconds of a video file from which and up to which it is read: ``start`` and ``end``."""
        return self._reader.part if isinstance(self._reader, AvReader) else (0.0, None)

    # Figures ----------------------------------------------------------------------------------------------------------

    @property
    def time(self) -> float | None:
        """Seconds of the last frame: ``Frame.time``. None before the first one."""
        return None if self._last is None else self._last.time

    @property
    def captured(self) -> float:
        """Time at which the last frame was taken: ``Frame.captured``. 0 before the first one."""
        return 0.0 if self._last is None else self._last.captured

    @property
    def dropped(self) -> int:
        """The number of frames of a live source that were not taken in time."""
        return 0 if self._worker is None else self._worker.queue.dropped

    @property
    def decoding(self) -> WorkTime:
        """The time of the worker thread, which decodes."""
        return WorkTime() if self._worker is None else self._worker.queue.work

    @property
    def damaged(self) -> int:
        """The number of packets of a video or a stream that could not be decoded."""
        return self._reader.damaged

    @property
    def reconnects(self) -> int:
        """The number of times that a camera or a stream that was lost came back."""
        return 0 if self._worker is None else self._worker.queue.reconnects

    # Frames -----------------------------------------------------------------------------------------------------------

    @overload
    def frames(
        self, on: Place = None, *, wait: Literal[True] = True, timer: GlTimer | None = None
    ) -> Iterator[Frame]: ...
    @overload
    def frames(
        self, on: Place = None, *, wait: Literal[False], timer: GlTimer | None = None
    ) -> Iterator[Frame | None]: ...
    def frames(self, on: Place = None, *, wait: bool = True, timer: GlTimer | None = None) -> Iterator[Frame | None]:
        """Give the frames, once, until the source ends or is closed, or until the window ``on`` is closed.

        Parameters
        ----------
        on : GlContext, Window, "cpu" or None
            A context or a window: frames are textures of it (``Frame.texture``, RGBA8, upright, row 0 on top); call
            this on the thread that owns the context. The textures are a ring of three: a frame, with its times, is
            overwritten two frames later. "cpu": frames are planes of luma and chroma in the CPU's memory
            (``Frame.planes``), which each ``invoke`` copies to the GPU, counted. None: planes where the decoder has
            them. NVDEC's are in the GPU's memory, where the model reads them. NVDEC takes that memory again when the
            next but one frame is asked for and the models that were submitted until then have read it, and when the
            source is closed, which is before the CudaContext is closed. Planes of cameras and pictures are made by
            swscale.
        wait : bool
            False: give None if there is no new frame, without waiting; the source sets ``ready`` when there is. True:
            wait for a frame; of a live source that is silent, the last frame is given again, and ``status`` says why.
            Planes of a file are then decoded by the calling thread, in all other cases another thread decodes.
        timer : GlTimer, optional
            Gets a stage "upload" per texture.

        Yields
        ------
        Frame
            The next frame, of a live source the newest one; None if there is no new one.

        Raises
        ------
        SourceError
            If a frame cannot be read, if a camera or a stream that was lost is given up, or if the frames were read
            before.

        Examples
        --------
        >>> import threading
        >>> with fb.GlContext.headless() as context, fb.open_source("picture.png") as source:
        ...     source.ready = threading.Event()
        ...     for frame in source.frames(context, wait=False):  # several sources may be asked in turn
        ...         if frame is None:
        ...             _ = source.ready.wait(1.0)
        ...             source.ready.clear()
        ...         else:
        ...             print(frame.size, frame.texture.format)
        (64, 48) rgba8
        """
        if (on is None or on == "cpu") and wait and not self.live:
            return self._decoded_here(on)
        return self._handed_over(on, wait=wait, timer=timer)

    def _decoded_here(self, on: Place) -> Iterator[Frame]:
        """Planes, decoded by the calling thread. The last ones are valid until the source is closed."""
        reader = self._reader
        self._begin(on)
        try:
            while True:
                for frame in reader.frames() if isinstance(reader, AvReader) else converted_frames(reader):
                    self._last = frame
                    yield frame
                if not self._loop or not reader.reopen():
                    self.ended = True
                    return
        except BaseException:
            self.close()
            raise

    def _handed_over(self, on: Place, *, wait: bool, timer: GlTimer | None) -> Iterator[Frame | None]:
        """Frames that the worker decodes."""
        feed, queue = self._start(on, timer)
        window = None if on is None or on == "cpu" or isinstance(on, GlContext) else on
        try:
            while (slot := queue.take(self._patience() if wait else 0.0)) is not None:
                if slot == NOTHING_YET:
                    self._hold()
                    frame = self._last if wait else None
                else:
                    captured, second = queue.captured[slot], queue.times[slot]
                    frame = self._last = feed.take(slot, mirror=self.mirror)  # the worker may fill the slot again
                    frame.captured, frame.time = captured, second
                    self._last_at, self.status = time.perf_counter(), ""
                if frame is not None or not wait:
                    yield frame
                if window is not None and window.should_close:
                    return
            self.ended = True
        finally:
            if wait:
                self.close()

    def _begin(self, on: Place) -> None:
        """Note that the frames are read from now on. Raises SourceError if they were read before."""
        reader = self._reader
        if on is not None and isinstance(reader, DecodedReader):
            reader.leave_gpu()
        if self._is_read:
            raise SourceError(f"{self.name} was read already: open it again to read it from the start")
        self._is_read = True

    def _start(self, on: Place, timer: GlTimer | None) -> tuple[Feed, FrameQueue[Any]]:
        """Start the worker thread: it decodes into upload memory of a context, or hands over planes."""
        reader = self._reader
        self._begin(on)
        worker = Worker(reader, loop=self._loop)
        queue = worker.queue
        if self._is_closed:
            queue.stop()
        try:
            if on is None or on == "cpu":
                is_video = isinstance(reader, DecodedReader)
                read = reader.read_picture if is_video else converted(reader)
                feed = PlanesFeed(queue, reader.context if is_video else None, self.rotation)
            else:
                context, read = on if isinstance(on, GlContext) else on.context, reader.read
                feed = TextureFeed(queue, context, reader.layout, self.size, stop=self.close, timer=timer)
        except FramebindError:
            self._is_read = False  # no frame was: another context may have room
            raise
        self._feed, self._worker = feed, worker
        worker.start(read, every=self.every, retry=self.waits.retry, ready=self.ready)
        self._last_at = time.perf_counter()
        return feed, queue

    def _patience(self) -> float | None:
        """Seconds to wait for the next frame; None, without end, unless the source is live."""
        if not self.live:
            return None
        return self.waits.held if self.status and self._last is not None else self.waits.silence

    def _hold(self) -> None:
        """Set ``status`` if no frame comes for long, or raise SourceError if that is too long."""
        silent = time.perf_counter() - self._last_at
        if not self.live or silent < self.waits.silence:
            return
        if silent > (self.waits.first_frame if self._last is None else self.waits.lost):
            raise SourceError(
                f"{self.name} gave no frame for {silent:.0f} seconds: is it unplugged, or used elsewhere?"
            )
        ask = "" if isinstance(self._reader, StreamReader) else ": is it unplugged? Waiting for it"
        self.status = self._reader.status or f"{self.name} gives no frames{ask} ({silent:.0f} s)"

    # Old names --------------------------------------------------------------------------------------------------------

    def textures(self, target: GlContext | ClosableWindow, timer: GlTimer | None = None) -> Iterator[GlTexture]:
        """Give the textures of ``frames(target)``: deprecated."""
        warn_deprecated("Source.textures(context)", "frames(context), and Frame.texture")
        return (frame.texture for frame in self.frames(target, timer=timer))

    def pictures(self) -> Iterator[YuvPicture]:
        """Give the planes of ``frames()``: deprecated."""
        warn_deprecated("Source.pictures()", "frames(), and Frame.planes")
        return (frame.planes for frame in self.frames())

    def poll(self, context: GlContext) -> GlTexture | None:
        """Give the next texture of ``frames(context, wait=False)``: deprecated."""
        warn_deprecated("Source.poll(context)", "frames(context, wait=False), and Frame.texture")
        frame = self._poll(context)
        return None if frame is None else frame.texture

    def poll_picture(self) -> YuvPicture | None:
        """Give the next planes of ``frames(wait=False)``: deprecated."""
        warn_deprecated("Source.poll_picture()", "frames(wait=False), and Frame.planes")
        frame = self._poll(None)
        return None if frame is None else frame.planes

    def _poll(self, on: GlContext | None) -> Frame | None:
        self._polled = self._polled or self.frames(on, wait=False)
        return next(self._polled, None)

    def stop(self) -> None:
        """Do what ``close()`` does: deprecated."""
        warn_deprecated("Source.stop()", "close()")
        self.close()

    # The end ----------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the iteration and the worker thread, and close the camera or file. May be called more than once."""
        self._is_closed = True
        if self._worker is None or self._feed is None:
            self._reader.close()
            return
        self.end_soon()
        self._worker.join(self.waits.end)
        self._feed.release()

    def end_soon(self) -> None:
        """Ask the worker thread to end, without waiting: several sources that stop together end at the same time."""
        self._is_closed = True
        if self._worker is not None:
            self._worker.queue.stop()

    def __repr__(self) -> str:
        rate = f", {self.fps:g} fps" if self.fps else ""
        frames = f", {self.length} frames" if self.length is not None else ""
        return f"<Source: {self.name}, {self.size[0]}x{self.size[1]}{rate}{frames}>"

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
