"""The writer of video files and virtual cameras: from textures, arrays, or decoded planes with marks on them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from ...errors import SourceError
from ...gl.texture import GlTexture
from ...transfers import VIDEO_FRAME
from ...uncopied import Uncopied
from ...yuv import YuvPicture
from ..decode.addresses import masked_address
from ..decode.tags import VideoTags
from ..decode.thread_times import WorkTime
from ..frame import Frame
from ..paint.marks import Marks
from ..read.frame_reader import Pixels
from ..read.source import Source
from ..virtual_cameras.camera import CAMERA_KINDS, VirtualCamera
from .av_file import AvFile, Sound, VideoSettings
from .camera_frames import CameraFrames
from .camera_queue import TextureCameraQueue
from .codecs import BY_SUFFIX, CODECS, WITH_ALPHA
from .picture_queues import ArrayQueue, LastPicture, TextureQueue
from .planes_queue import Paint, PlanesQueue

_PICTURE = ".png"
_USUAL_RATE, _LIVE_RATE = 25.0, 30.0


def _is_camera(target: str | Path) -> bool:
    """Whether a target is the address of a virtual camera, not the path of a file."""
    return str(target).partition(":")[0] in CAMERA_KINDS


class Queue(Protocol):
    """Pictures of one kind on their way to the file."""

    @property
    def painting(self) -> WorkTime | None: ...
    @property
    def encoding(self) -> WorkTime | None: ...
    @property
    def waited(self) -> float: ...
    def put(
        self, picture: Any, rotation: int, marks: Marks | None, time: float | None, paint: Paint | None
    ) -> None: ...
    def end(self) -> None: ...
    def close(self) -> None: ...
    def collected(self) -> None:
        """Complete the file if nobody closed it."""
        ...


class VideoWriter(Uncopied):
    """A video file or a virtual camera that is written: from frames of a Source, textures, planes, or arrays.

    It is encoded on a thread of its own, beside its place under a name with ".unfinished" in it. ``close()`` renames it
    when all frames can be read again: an existing file is replaced by a complete one or not at all, and a video without
    a frame is none. Use it as a context manager, or call ``close()``.

    A virtual camera is there from its first picture on, or from now on if ``size`` is given, until ``close()``. It
    shows textures at once, and planes and arrays a few frames later. While no program watches it, ``put`` reads
    nothing, and ``is_watched`` says so.

    Parameters
    ----------
    path : str or Path
        The video: .mp4, .mov, .mkv, .webm, .gif or .avi (which keeps no times, only ``fps``); or a .png file, which
        gets the last texture. Missing folders are made. Or "pipewire:NAME": a camera of PipeWire that other programs
        show under that name; "v4l2:/dev/videoN", a device of the kernel module v4l2loopback; "http://:8080", a page
        that shows it in browsers; or "rtsp://...", "srt://..." or "whip://...", a server that takes it.
    size : (int, int), optional
        Width and height of upright pictures; by default those of ``like``, or of the first picture.
    fps : float, optional
        Frames per second; by default those of ``like``, divided by ``like.every``, else 25, or 30 if ``live``.
    codec : {"h264", "hevc", "av1", "vp9", "prores", "gif", "mjpeg", "h264_nvenc", "hevc_nvenc", "av1_nvenc"}, optional
        The video's format; by default that of the suffix: H.264, which plays in browsers, VP9 in .webm, .gif, and
        Motion JPEG in .avi. Names with "nvenc" encode on a GPU of NVIDIA that has an encoder, and nowhere else.
    quality : int, optional
        The encoder's constant rate factor: smaller is better and larger; 20 by default for H.264.
    like : Source, optional
        The video that this one is made of: its size, rate, rotation and tags. If it is a file, its sound, subtitles and
        metadata are copied, unchanged, from the part that is read, at whose start this video begins.
    sound : bool
        False leaves out the sound, subtitles and metadata of ``like``.
    tags : VideoTags, optional
        The shape of the pixels and the light of the colours that the video says, in place of those of ``like``.
    live : bool
        Textures come in their own time: each is shown in the video for as long as it was the last one. Those that are
        put with their time are written at it, the others are repeated or left out as ``fps`` requires.
    alpha : bool
        Keep the alpha of textures and arrays, which is straight: colours are not multiplied by it. A .mov is
        ProRes 4444 then, a .webm or .mkv VP9 of two pictures; other videos keep none.
    reason : str
        The phrase under which ``transfers`` counts the textures that are read.

    Attributes
    ----------
    suffixes, codecs : tuple of str
        The suffixes of videos, and the names of codecs.
    with_alpha : dict of str
        The codecs that keep alpha, by the suffixes of their videos.

    Raises
    ------
    SourceError
        If the suffix or the codec is none of these or keeps no alpha, if the file cannot be written, or if the camera's
        PipeWire, device, place or server cannot be had.

    Examples
    --------
    >>> marks = fb.video.Marks()
    >>> with fb.open_source("clip.mp4") as source, fb.video.VideoWriter("marked.mp4", like=source) as video:
    ...     for frame in source.frames("cpu"):
    ...         marks.text(f"{frame.time:.2f} s", 4, 4)
    ...         video.put(frame, marks)
    """

    suffixes: ClassVar = tuple(BY_SUFFIX)
    codecs: ClassVar = tuple(CODECS)
    with_alpha: ClassVar = WITH_ALPHA

    def __init__(
        self,
        path: str | Path,
        size: tuple[int, int] | None = None,
        fps: float | None = None,
        codec: str | None = None,
        quality: int | None = None,
        *,
        like: Source | None = None,
        sound: bool = True,
        tags: VideoTags | None = None,
        live: bool = False,
        alpha: bool = False,
        reason: str = VIDEO_FRAME,
    ) -> None:
        copied = None if like is None or like.file is None or not sound else Sound(like.file, *like.part)
        if like is not None:
            size, tags = size or like.size, tags or like.tags
            fps = fps or (like.fps / like.every if like.fps else None)
        fps = fps or (_LIVE_RATE if live else _USUAL_RATE)
        self._rotation, self._start = (0, 0.0) if like is None else (like.rotation, like.part[0])
        settings = VideoSettings(fps, codec, quality, copied, tags or VideoTags(), live, alpha)
        self._begin(path, size, settings, reason)

    def _begin(self, path: str | Path, size: tuple[int, int] | None, settings: VideoSettings, reason: str) -> None:
        self._path, self._size, self._settings = Path(path), size, settings
        self._camera_address = str(path) if _is_camera(path) else ""
        self._live_rate, self._reason = settings.fps if settings.live else None, reason
        self._file: AvFile | None = None
        self._camera: VirtualCamera | None = None
        self._queue: Queue | None = None
        self._is_closed = self._is_ended = False
        self._finalizer: weakref.finalize[[], VideoWriter] | None = None
        suffix = self._path.suffix.lower()
        if self._camera_address:
            if size is not None:
                self._open_camera(size)
        elif suffix == _PICTURE:
            self._use(LastPicture(self._path, alpha=settings.alpha))
        elif suffix not in BY_SUFFIX:
            known = ", ".join(BY_SUFFIX)
            raise SourceError(f"'{masked_address(path)}' ends in no known format: use .png or one of {known}")
        elif size is not None:
            self._file = AvFile(self._path, size, settings)
            self._finish_with(self._file.finish)

    def _open_camera(self, size: tuple[int, int]) -> VirtualCamera:
        from ..virtual_cameras.opening import open_camera  # a file needs no code of cameras

        self._size, self._camera = size, open_camera(self._camera_address, size, self._settings.fps)
        self._finish_with(self._camera.close)
        return self._camera

    def _finish_with(self, finish: Callable[[], None]) -> None:
        """Call a function if nobody closes this, also at the end of the process."""
        if self._finalizer is not None:
            self._finalizer.detach()
        self._finalizer = weakref.finalize(self, finish)

    def _use(self, queue: Queue) -> Queue:
        self._queue = queue
        self._finish_with(queue.collected)
        return queue

    @property
    def painting(self) -> WorkTime | None:
        """Time of the thread that copies and paints planes; None before the first frame, and if it has none."""
        return self._queue.painting if self._queue is not None else None

    @property
    def encoding(self) -> WorkTime | None:
        """Time of the thread that encodes; None before the first frame."""
        return self._queue.encoding if self._queue is not None else None

    @property
    def waited(self) -> float:
        """Seconds that ``put`` waited for these threads."""
        return self._queue.waited if self._queue is not None else 0.0

    @property
    def address(self) -> str:
        """The address at which browsers find the pictures; "" if this is no page for browsers, or not open yet."""
        return getattr(self._camera, "address", "")

    @property
    def is_watched(self) -> bool:
        """Whether pictures reach anybody: of a virtual camera, whether a program takes them; of a file, True."""
        return self._camera is None or self._camera.is_watched

    def wait_until_watched(self, seconds: float) -> bool:
        """Wait until a program takes pictures of a virtual camera, at most so many seconds. Returns ``is_watched``."""
        return self._camera is None or self._camera.wait(seconds)

    def put(
        self,
        picture: Frame | GlTexture | YuvPicture | Pixels,
        marks: Marks | None = None,
        time: float | None = None,
        *,
        paint: Paint | None = None,
    ) -> None:
        """Take a picture, and paint the marks on it that were added since the last one.

        All pictures are of the kind of the first one. Of textures a few are read back while the next are drawn, and
        marks are drawn over the texture itself. Planes and arrays are not changed: marks are painted on a copy, and
        outside of them the encoder gets the planes' own numbers. Planes and arrays must not be changed any more: they
        are encoded later.

        Parameters
        ----------
        picture : Frame, GlTexture, YuvPicture or numpy.ndarray
            A texture (rgba8), as it is now; planes in the CPU's memory (``source.frames("cpu")``); or an array of
            uint8, (height, width, 4). Planes that are no Frame have the rotation of ``like``.
        marks : Marks, optional
            What to paint, in pixels of the upright picture.
        time : float, optional
            Seconds from the video's first frame at which it is to be shown, greater than that of the one before. By
            default that of the Frame, counted from the start of the part of ``like`` that is read; else 1 / fps after
            the one before.
        paint : callable, optional
            Paints planes below the marks: called with the frame's ``Planes``, later, on the thread that paints.

        Raises
        ------
        SourceError
            If it is another kind of picture or has another size than the file, or cannot be written, and after ``end``
            and ``close``.
        """
        if self._is_ended:
            raise SourceError(f"'{self._place}' is closed: another VideoWriter takes further pictures")
        rotation = self._rotation
        if isinstance(picture, Frame):
            if time is None and picture.time is not None:
                time = picture.time - self._start
            picture, rotation = picture.pixels, picture.rotation
        queue = self._queue or self._use(self._opened(picture, rotation))
        if not self.is_watched and not isinstance(picture, GlTexture):
            if marks is not None:
                marks.take()
            return
        queue.put(picture, rotation, marks, time, paint)

    def _opened(self, picture: Any, rotation: int) -> Queue:
        """The way to the file for pictures of the kind of the first one."""
        if not isinstance(picture, GlTexture | YuvPicture | np.ndarray):
            raise SourceError(
                f"'{self._path}' takes frames, textures, planes or arrays, not a {type(picture).__name__}"
            )
        if self._camera_address:
            return self._opened_camera(picture, rotation)
        if self._file is None:
            width, height = picture.shape[1::-1] if isinstance(picture, np.ndarray) else picture.size
            self._size = (height, width) if rotation % 180 else (width, height)
            self._file = AvFile(self._path, self._size, self._settings)
            self._finish_with(self._file.finish)
        assert self._size is not None
        if isinstance(picture, YuvPicture):
            if self._settings.alpha:
                raise SourceError(f"'{self._path}' takes textures or arrays with alpha: planes have none")
            width, height = picture.size
            if self._size != ((height, width) if rotation % 180 else (width, height)):
                raise SourceError(
                    f"'{self._path}' takes frames of {self._size[0]}x{self._size[1]}, not {width}x{height}"
                )
            return PlanesQueue(self._path, self._file, picture)
        write, finish = self._file.write, self._file.finish
        if isinstance(picture, GlTexture):
            return TextureQueue(
                self._path, write, finish, picture, self._size, live_rate=self._live_rate, reason=self._reason
            )
        return ArrayQueue(self._path, write, finish, self._size)

    def _opened_camera(self, picture: Any, rotation: int) -> Queue:
        width, height = picture.shape[1::-1] if isinstance(picture, np.ndarray) else picture.size
        upright = (height, width) if rotation % 180 else (width, height)
        camera = self._camera or self._open_camera(self._size or upright)
        assert self._size is not None
        shown = masked_address(self._camera_address)
        if isinstance(picture, GlTexture):
            return TextureCameraQueue(camera, shown, self._size, self._reason)
        frames = CameraFrames(camera)
        if isinstance(picture, np.ndarray):
            return ArrayQueue(Path(shown), frames.write, frames.finish, self._size)
        if upright != self._size:
            raise SourceError(f"'{shown}' takes frames of {self._size[0]}x{self._size[1]}, not {width}x{height}")
        return PlanesQueue(Path(shown), frames, picture)

    def end(self) -> None:
        """Take no more pictures, and let the file be completed on its own thread. May be called more than once.

        ``close()`` waits for that. It may be called on another thread then, while this one draws something else.
        """
        self._is_ended = True
        if self._queue is not None:
            self._queue.end()

    def close(self) -> None:
        """Write the pictures that are still on their way, and put the file in its place. May be called more than once.

        Until now a file that was there before is as it was; it stays so if no picture was put.

        Raises
        ------
        SourceError
            If the file is not complete, for instance because the disk is full. The one before is then untouched.
        """
        if self._is_closed:
            return
        self._is_closed = self._is_ended = True
        if self._queue is not None:
            self._queue.close()
        elif self._file is not None:
            self._file.finish()
        elif self._camera is not None:
            self._camera.close()

    def __repr__(self) -> str:
        size = "" if self._size is None else f"{self._size[0]}x{self._size[1]}, "
        return f"<VideoWriter: '{self._place}', {size}{self._settings.fps:g} fps>"

    @property
    def _place(self) -> str:
        """The file or the camera in messages."""
        return masked_address(self._camera_address or self._path)

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
