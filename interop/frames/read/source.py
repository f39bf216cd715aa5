"""Sources of frames: a worker thread decodes into mapped GPU memory, and the thread with the GL context uploads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Protocol

from ...errors import FramebindError, SourceError
from ...gl.context import GlContext
from ...gl.texture import GlTexture
from ...gl.timer import GlTimer
from ...uncopied import Uncopied
from ...yuv import YuvPicture
from ..decode.tags import VideoTags
from ..decode.thread_times import WorkTime
from .av_reader import AvReader
from .decoded_reader import DecodedReader
from .handover import NOTHING_YET, SLOTS, Handover, Read, View, Waits, decode
from .pictures import PictureFeed, converted, converted_pictures
from .readers import FrameReader, VideoReader
from .streams import StreamReader
from .textures import TextureFeed
from .upload import UploadRing


class ClosableWindow(Protocol):
    """A window with a GL context, which a person may close."""

    @property
    def context(self) -> GlContext: ...
    @property
    def should_close(self) -> bool: ...


class Source(Uncopied):
    """An open source of frames, made by ``open_source``.

    Use it as a context manager, or call ``stop()``.

    Attributes
    ----------
    name : str
        The source in words, for people.
    size : (int, int)
        Width and height of its frames in pixels.
    fps : float or None
        Frames per second; None for pictures, and for a camera that does not say.
    length : int or None
        Number of frames, if it is known.
    live : bool
        Whether frames that are not taken in time are dropped.
    captured : float
        Time at which the last frame that ``textures`` gave was taken, by ``time.perf_counter``.
    time : float or None
        Seconds of that frame on the clock of its video, from the video's first frame; None for other sources.
    decoder : str
        The decoder of a video file or a stream: "nvdec", "cpu" or "opencv"; "" for other sources.
    rotation : int
        The ``rotation`` with which pictures are bound to be upright: 0, 90, 180 or 270. Textures are turned.
    tags : VideoTags
        The shape of its pixels, and the light that its colours stand for, for ``open_sink`` and ``MarkedVideo``.
    every : int
        Set it to N before ``textures`` begins, and it gives each N-th frame only, from the first one on. Those between
        are decoded and not uploaded.
    mirror : bool
        Set it to True, and frames come mirrored from then on.
    status : str
        "" or what a person should know, for instance that the camera gives no frames.
    ended : bool
        Whether ``poll`` or ``poll_picture`` has given the last frame.
    ready : threading.Event or None
        Set it to an event before the first frame: the source sets that whenever a frame came, and at its end. Several
        sources may share one.

    Examples
    --------
    >>> with fb.GlContext.headless() as context, fb.open_source("synthetic", size=(64, 48)) as source:
    ...     frames = source.textures(context)
    ...     pixels = next(frames).read()
    >>> pixels.shape, pixels.dtype
    ((48, 64, 4), dtype('uint8'))
    """

    captured = 0.0
    time: float | None = None
    every = 1
    mirror = False
    status = ""
    ended = False
    ready: threading.Event | None = None
    waits = Waits()
    """The waits for a camera or a stream, taken over when its frames are first asked for."""

    def __init__(self, reader: FrameReader, loop: bool = False) -> None:
        self._reader, self._loop = reader, loop
        self._handover: Handover[Any] = Handover(drop=reader.live)
        self._worker: threading.Thread | None = None
        self._is_read = False
        self._textures: TextureFeed | None = None
        self._feed: PictureFeed | None = None
        self.name, self.size, self.fps, self.live = reader.name, reader.size, reader.fps, reader.live
        self.length = None if loop else reader.length
        is_video = isinstance(reader, DecodedReader)
        self.decoder = reader.decoder if is_video else "opencv" if isinstance(reader, VideoReader) else ""
        self.rotation = -reader.turn % 360 if is_video else 0
        self.tags = reader.tags if is_video else VideoTags()
        if isinstance(reader, StreamReader):
            self.waits = reader.waits

    @property
    def dropped(self) -> int:
        """The number of frames of a live source that were not taken in time."""
        return self._handover.dropped

    @property
    def decoding(self) -> WorkTime:
        """The time of the worker thread, which decodes."""
        return self._handover.work

    @property
    def damaged(self) -> int:
        """The number of packets of a video or a stream that could not be decoded."""
        return self._reader.damaged

    @property
    def reconnects(self) -> int:
        """The number of times that a camera or a stream that was lost came back."""
        return self._handover.reconnects

    def textures(self, target: GlContext | ClosableWindow, timer: GlTimer | None = None) -> Iterator[GlTexture]:
        """Give the frames, once, until the source ends or is stopped, or until the window ``target`` is closed.

        Call it on the thread that owns the context.

        Parameters
        ----------
        target : GlContext or Window
            The context of the textures; of a window, its own context.
        timer : GlTimer, optional
            Gets a stage "upload" per frame.

        Yields
        ------
        GlTexture
            The frame as an RGBA8 texture of ``size``, row 0 on top. The textures are a ring of three: one is
            overwritten two frames later, so use it, or copy from it, before.

        Raises
        ------
        SourceError
            If a frame cannot be read, or if the frames were read before.
        """
        context, window = (target, None) if isinstance(target, GlContext) else (target.context, target)
        textures = self._start(context)
        try:
            for texture in self._frames(textures, timer):
                if texture is not None:
                    yield texture
                if window is not None and window.should_close:
                    return
        finally:
            self.stop()

    def pictures(self) -> Iterator[YuvPicture]:
        """Give the frames of a video file as its decoder made them, once: planes of luma and chroma, to be bound.

        NVDEC's are in the memory of the GPU, where the model reads them; the CPU's are copied to the GPU by each
        ``invoke``, 1.5 bytes per pixel of 4:2:0, counted. They are not turned: bind them with
        ``rotation=source.rotation``. The calling thread decodes. Picture files, whose pixels are BGR, are converted.

        Yields
        ------
        YuvPicture
            The frame. NVDEC takes its memory again when the next but one is asked for, and the models that were
            submitted until then to the stream of the CudaContext have read it; and when the source is stopped.

        Raises
        ------
        SourceError
            If a frame cannot be decoded, if the source is live, or if the frames were read before; without PyAV.

        Examples
        --------
        >>> with fb.open_source("clip.mp4", decoder="cpu") as source:
        ...     for picture in source.pictures():
        ...         print(f"{source.time:.2f} s, {picture}")
        ...         break
        0.00 s, <YuvPicture: yuv420p, bt601, limited range>
        """
        reader = self._reader
        if reader.live:
            raise SourceError(f"{self.name} is live, and its frames do not wait: poll_picture gives the newest")
        self._begin()
        try:
            while True:
                for picture in reader.pictures() if isinstance(reader, AvReader) else converted_pictures(reader):
                    self.captured, self.time = time.perf_counter(), reader.time
                    yield picture
                if not self._loop or not reader.reopen():
                    return  # the last pictures are valid until the source is stopped
        except BaseException:
            self.stop()
            raise

    def _begin(self) -> None:
        """Note that the frames are read from now on. Raises SourceError if they were read before."""
        if self._is_read:
            raise SourceError(f"{self.name} was read already: open it again to read it from the start")
        self._is_read = True

    def poll(self, context: GlContext) -> GlTexture | None:
        """Give the newest frame if one came since the last call, without waiting: for several sources at once.

        Call it on the thread that owns the context.

        Parameters
        ----------
        context : GlContext
            The context of the textures.

        Returns
        -------
        GlTexture or None
            The frame, as ``textures`` gives it; None if there is no new one. See ``ended`` and ``status``.

        Raises
        ------
        SourceError
            If a frame cannot be read, or a camera or stream that was lost is given up.

        Examples
        --------
        >>> import threading
        >>> with fb.GlContext.headless() as context, fb.open_source("picture.png") as source:
        ...     source.ready = threading.Event()
        ...     while not source.ended:
        ...         source.ready.clear()
        ...         if (texture := source.poll(context)) is not None:
        ...             print(texture.size)
        ...         elif not source.ended:
        ...             _ = source.ready.wait()
        (64, 48)
        """
        textures = self._textures or self._start(context)
        slot = self._polled(has_given=textures.texture is not None)
        return None if slot is None else self._upload(textures, slot)

    def poll_picture(self) -> YuvPicture | None:
        """Give the newest frame as luma and chroma, if one came since the last call, without waiting.

        As ``poll``, but of frames as ``pictures`` gives them, for models that read them where they are: NVDEC's in the
        memory of the GPU, those of the CPU's decoders by a copy in each ``invoke``. Frames of cameras and pictures,
        which are BGR or as the camera gives them, are converted by swscale. A thread of its own decodes.

        Returns
        -------
        YuvPicture or None
            The frame; None if there is no new one. NVDEC takes its memory again when the next but one was given, and
            the models that were submitted until then have read it; and when the source is stopped, which is before
            the CudaContext is closed.

        Raises
        ------
        SourceError
            If a frame cannot be read, or a camera or stream that was lost is given up; without PyAV.

        Examples
        --------
        >>> with fb.open_source("clip.mp4") as source:
        ...     while not source.ended:
        ...         if (picture := source.poll_picture()) is not None and source.time == 0:
        ...             print(picture)
        <YuvPicture: yuv420p, bt601, limited range>
        """
        feed = self._feed or self._start_feed()
        slot = self._polled(has_given=feed.has_given)
        if slot is None:
            return None
        self._note(slot)
        return feed.take(slot)

    def _polled(self, *, has_given: bool) -> int | None:
        """The slot of a new frame, or None; sets ``ended`` and ``status``."""
        slot = self._handover.take(0.0)
        if slot is None:
            self.ended = True
        elif slot != NOTHING_YET:
            return slot
        elif self.live and (silent := time.perf_counter() - self._last) > self.waits.silence:
            self._hold(silent, has_given=has_given)
        return None

    def _start(self, context: GlContext) -> TextureFeed:
        """Start the worker thread, which decodes into a ring of memory of the context."""
        reader = self._reader
        if isinstance(reader, DecodedReader):
            reader.leave_gpu()
            self.decoder = reader.decoder
        self._begin()
        try:
            ring = UploadRing(context, *self.size, SLOTS, reader.layout)
        except FramebindError:
            self._is_read = False  # no frame was: another context may have room
            raise
        context.closing.append(self.stop)
        self._context = context
        self._textures = TextureFeed(ring, self._handover)
        self._start_worker(reader.read)
        return self._textures

    def _start_feed(self) -> PictureFeed:
        """Start the worker thread, which hands over frames as they were decoded."""
        reader = self._reader
        is_video = isinstance(reader, DecodedReader)
        read = reader.read_picture if is_video else converted(reader)
        self._begin()
        self._feed = PictureFeed(self._handover, reader.context if is_video else None)
        self._start_worker(read)
        return self._feed

    def _start_worker(self, read: Read[View]) -> None:
        skip = self._reader.skip if isinstance(self._reader, AvReader) else None
        self._worker = threading.Thread(
            target=decode, args=(self._reader, self._handover, self._loop, self.waits.retry),
            kwargs={"read": read, "every": self.every, "skip": skip}, name=f"framebind {self.name}", daemon=True,
        )  # fmt: skip
        self._handover.ready = self.ready
        self._worker.start()
        self._last = time.perf_counter()

    def _frames(self, textures: TextureFeed, timer: GlTimer | None) -> Iterator[GlTexture | None]:
        """Upload what the worker decodes. Yields the last frame again, or None, if no new one came."""
        while (slot := self._handover.take(self._patience(textures.texture))) is not None:
            if slot == NOTHING_YET:
                self._hold(time.perf_counter() - self._last, has_given=textures.texture is not None)
            else:
                if timer is not None:
                    timer.mark("upload")
                self._upload(textures, slot)
            yield textures.texture

    def _upload(self, textures: TextureFeed, slot: int) -> GlTexture:
        """Upload the frame in a slot, and set its times."""
        self._note(slot)
        return textures.upload(slot, self.mirror)

    def _note(self, slot: int) -> None:
        """Set ``captured`` and ``time`` to those of the frame in a slot."""
        self._last, self.status = time.perf_counter(), ""
        self.captured, self.time = self._handover.captured[slot], self._handover.times[slot]

    def _patience(self, texture: GlTexture | None) -> float | None:
        """Seconds to wait for the next frame; None, without end, unless the source is live."""
        if not self.live:
            return None
        return self.waits.held if self.status and texture is not None else self.waits.silence

    def _hold(self, silent: float, *, has_given: bool) -> None:
        """Set ``status`` after ``silent`` seconds without a frame, or raise SourceError if that was too long."""
        if silent > (self.waits.lost if has_given else self.waits.first_frame):
            raise SourceError(
                f"{self.name} gave no frame for {silent:.0f} seconds: is it unplugged, or used elsewhere?"
            )
        ask = "" if isinstance(self._reader, StreamReader) else ": is it unplugged? Waiting for it"
        self.status = self._reader.status or f"{self.name} gives no frames{ask} ({silent:.0f} s)"

    def stop(self) -> None:
        """End the iteration and the worker thread, and close the camera or file. May be called more than once."""
        self.end_soon()
        if self._worker is None:
            self._reader.close()
            return
        self._worker.join(self.waits.end)
        if self._worker.is_alive():
            raise SourceError(f"{self.name} does not answer: its driver hangs in a read that cannot be interrupted")
        if self._textures is not None:
            if self.stop in self._context.closing:
                self._context.closing.remove(self.stop)
            self._textures.release()
        if self._feed is not None:
            self._feed.release()

    def end_soon(self) -> None:
        """Ask the worker thread to end, without waiting: several sources that stop together end at the same time."""
        self._handover.stop()

    def __repr__(self) -> str:
        rate = f", {self.fps:g} fps" if self.fps else ""
        frames = f", {self.length} frames" if self.length is not None else ""
        return f"<Source: {self.name}, {self.size[0]}x{self.size[1]}{rate}{frames}>"

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
