"""Sources of frames: a worker thread decodes into mapped GPU memory, and the thread with the GL context uploads."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol

from ...errors import SourceError
from ...gl.context import GlContext
from ...gl.texture import GlTexture
from ...gl.timer import GlTimer
from ...yuv import YuvPicture
from ..video.pyav import has_av
from ..video.work_time import WorkTime
from .av_reader import AvReader
from .camera import CameraOptions, CameraReader
from .decoders import Decoder, open_file
from .handover import JOIN_TIMEOUT, NOTHING_YET, SLOTS, Handover, Waits, decode
from .pixel_layouts import Matrix
from .readers import (
    PICTURES,
    FrameReader,
    MotionReader,
    PictureReader,
    VideoReader,
    load_picture,
    open_address,
    open_folder,
    painted_picture,
)
from .upload import UploadRing


class ClosableWindow(Protocol):
    """A window with a GL context, which a person may close."""

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
    start: float = 0.0,
    end: float | None = None,
    decoder: Decoder | None = None,
) -> Source:
    """Open a camera, a video, a picture, a folder of pictures, a stream, or synthetic motion.

    A camera that is lost is opened again as soon as it is back; meanwhile its last frame is given again.

    Parameters
    ----------
    source : int, str or Path
        A camera's index (``0`` or ``"0"``); the path of a video or picture; the path of a folder, whose pictures come
        in the order of their names, scaled to the size of the first; an address (``rtsp://``, ``http://``); a
        GStreamer pipeline (``"... ! appsink"``, if OpenCV is built with GStreamer); ``"synthetic"``, endless motion
        over a painted picture; or ``"synthetic:PATH"``, the same over a photograph.
    size : (int, int), optional
        Width and height in pixels: the size to ask a camera for, or the size of synthetic frames (640 x 480 by
        default). Files have their own size.
    fps : float, optional
        Frames per second to ask a camera for.
    fourcc : {"MJPG", "YUYV", "NV12"}, optional
        Format to ask a camera for, by default "MJPG". YUYV and NV12 frames are uploaded as they are and converted to
        RGB on the GPU.
    matrix : {"bt601", "bt709"}
        Colour matrix of YUYV and NV12 frames, of limited range: "bt601" for webcams, "bt709" for grabbers of HD video.
    loop : bool
        Begin files again when they end.
    start, end : float, optional
        Seconds of a video's first frame, and of the first one that is left out. They need PyAV (the extra ``video``).
    decoder : {"nvdec", "cpu", "opencv"}, optional
        The decoder of a video file. "nvdec" is that of NVIDIA's GPUs, by PyAV: ``pictures`` gives its frames in the
        memory of the current CudaContext. "cpu" is PyAV's, "opencv" OpenCV's. By default it is NVDEC if a CudaContext
        is current on this thread and no GlContext is, and it decodes the video, and else the CPU: a warning in the log
        says why. ``Source.decoder`` tells.

    Returns
    -------
    Source
        Its ``textures`` gives the frames.

    Raises
    ------
    SourceError
        If it cannot be opened; the message says what to try.

    Examples
    --------
    >>> with fb.GlContext.headless() as context, fb.open_source("picture.png") as source:
    ...     for texture in source.textures(context):
    ...         print(texture.size, texture.format)
    (64, 48) rgba8
    """
    text = str(source)
    if (start or end is not None) and not (Path(text).is_file() and has_av()):
        raise SourceError(f"'{text}' has no start and end: only video files that PyAV reads have (the extra 'video')")
    if decoder is not None and not Path(text).is_file():
        raise SourceError(f"'{text}' has no choice of decoders: only video files have")
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
    return Source(open_file(path, decoder, start=start, end=end), loop)


class Source:
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
        The decoder of a video file: "nvdec", "cpu" or "opencv"; "" for other sources.
    rotation : int
        The ``rotation`` with which ``pictures`` are bound to be upright: 0, 90, 180 or 270. Textures are turned.
    mirror : bool
        Set it to True, and frames come mirrored from then on.
    status : str
        "" or what a person should know, for instance that the camera gives no frames.

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
    mirror = False
    status = ""
    waits = Waits()
    """The waits for a camera, taken over when ``textures`` begins."""

    def __init__(self, reader: FrameReader, loop: bool = False) -> None:
        self._reader, self._handover, self._loop = reader, Handover(drop=reader.live), loop
        self._worker: threading.Thread | None = None
        self._is_read = False
        self.name, self.size, self.fps, self.live = reader.name, reader.size, reader.fps, reader.live
        self.length = None if loop else reader.length
        is_video = isinstance(reader, AvReader)
        self.decoder = reader.decoder if is_video else "opencv" if isinstance(reader, VideoReader) else ""
        self.rotation = -reader.turn % 360 if is_video else 0

    @property
    def dropped(self) -> int:
        """The number of frames of a live source that were not taken in time."""
        return self._handover.dropped

    @property
    def decoding(self) -> WorkTime:
        """Time of the thread that decodes for ``textures``."""
        return self._handover.work

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
        if self.decoder == "nvdec":
            raise SourceError(
                f"{self.name} is decoded by NVDEC, which gives pictures() to models on CUDA and no textures: open it "
                "with decoder='cpu'"
            )
        self._begin()
        ring = UploadRing(context, *self.size, SLOTS, self._reader.layout)
        self._worker = threading.Thread(
            target=decode, args=(self._reader, self._handover, self._loop, self.waits.retry),
            name=f"framebind {self.name}", daemon=True,
        )  # fmt: skip
        context.closing.append(self.stop)
        try:
            for texture in self._frames(ring, timer):
                if texture is not None:
                    yield texture
                if window is not None and window.should_close:
                    return
        finally:
            self.stop()
            if self.stop in context.closing:
                context.closing.remove(self.stop)
            ring.release()

    def pictures(self) -> Iterator[YuvPicture]:
        """Give the frames of a video file as its decoder made them, once: planes of luma and chroma, to be bound.

        NVDEC's are in the memory of the GPU, where the model reads them; the CPU's are copied to the GPU by each
        ``invoke``, 1.5 bytes per pixel of 4:2:0, counted. They are not turned: bind them with
        ``rotation=source.rotation``. The calling thread decodes.

        Yields
        ------
        YuvPicture
            The frame. Its memory is the decoder's again when the next one is asked for and the models that were
            submitted until then, to the stream of the CudaContext, have read it.

        Raises
        ------
        SourceError
            If a frame cannot be decoded, if the source is no video that PyAV reads, if its frames are RGB, or if the
            frames were read before.

        Examples
        --------
        >>> with fb.open_source("clip.mp4", decoder="cpu") as source:
        ...     for picture in source.pictures():
        ...         print(f"{source.time:.2f} s, {picture}")
        ...         break
        0.00 s, <YuvPicture: yuv420p, bt601, limited range>
        """
        reader = self._reader
        if not isinstance(reader, AvReader):
            raise SourceError(f"{self.name} gives no pictures of luma and chroma: video files do that PyAV reads")
        self._begin()
        try:
            while True:
                with contextlib.closing(reader.pictures()) as pictures:
                    for picture in pictures:
                        self.captured, self.time = time.perf_counter(), reader.time
                        yield picture
                if not self._loop or not reader.reopen():
                    return
        finally:
            self.stop()

    def _begin(self) -> None:
        """Note that the frames are read from now on. Raises SourceError if they were read before."""
        if self._is_read:
            raise SourceError(f"{self.name} was read already: open it again to read it from the start")
        self._is_read = True

    def _frames(self, ring: UploadRing, timer: GlTimer | None) -> Iterator[GlTexture | None]:
        """Start the worker and upload what it decodes. Yields the last frame again, or None, if no new one came."""
        uploads, worker = _Uploads(ring, self._handover), self._worker
        assert worker is not None
        worker.start()
        last = time.perf_counter()
        while (slot := self._handover.take(self._patience(uploads.texture))) is not None:
            if slot == NOTHING_YET:
                self._hold(time.perf_counter() - last, uploads.texture)
            else:
                last, self.status = time.perf_counter(), ""
                self.captured, self.time = self._handover.captured[slot], self._handover.times[slot]
                if timer is not None:
                    timer.mark("upload")
                uploads.upload(slot, self.mirror)
            yield uploads.texture

    def _patience(self, texture: GlTexture | None) -> float | None:
        """Seconds to wait for the next frame; None, without end, unless the source is live."""
        if not self.live:
            return None
        return self.waits.held if self.status and texture is not None else self.waits.silence

    def _hold(self, silent: float, texture: GlTexture | None) -> None:
        """Set ``status`` after ``silent`` seconds without a frame, or raise SourceError if that was too long."""
        if silent > (self.waits.first_frame if texture is None else self.waits.lost):
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


class _Uploads:
    """Uploads slots of the ring, and hands a slot back to the worker once the GPU has read it."""

    def __init__(self, ring: UploadRing, handover: Handover) -> None:
        self._ring, self._handover, self._uploaded = ring, handover, deque[int]()
        self.texture: GlTexture | None = None
        """The last frame."""
        for slot in range(SLOTS):
            handover.give(slot, ring.view(slot))

    def upload(self, slot: int, mirror: bool) -> None:
        """Make ``texture`` the frame in the slot."""
        self.texture = self._ring.to_texture(slot, mirror)
        self._uploaded.append(slot)
        if len(self._uploaded) > 1:
            # The GPU read the frame before this one long ago: this does not wait.
            ready = self._uploaded.popleft()
            self._ring.wait(ready)
            self._handover.give(ready, self._ring.view(ready))
