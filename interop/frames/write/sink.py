"""Sinks of finished pictures: a window, a video file, a PNG file, or nothing."""

from __future__ import annotations

import time as clock
import weakref
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ...errors import SourceError
from ...gl.context import GlContext
from ...gl.texture import GlTexture
from ...uncopied import Uncopied
from ..decode.pyav import has_av
from ..decode.streams import masked_address
from ..decode.tags import VideoTags
from ..decode.thread_times import WorkTime
from ..read.opencv import load_cv2
from ..read.readers import Pixels
from .av_file import BY_SUFFIX, AvFile
from .readback import VIDEO_FRAME, ReadbackRing
from .replacement import Replacement
from .video_file import VIDEO_CODECS, VideoFile
from .writer import Writer, WrittenFile

if TYPE_CHECKING:
    from ...gl.draw.window import Window  # its library starts a process when it is imported: only windows need it

WAITING = 4
"""Arrays that may wait for the encoder."""
PICTURE_FILE = "picture file"
"""The reason under which ``transfers`` counts the copy that a PNG file is written from."""


class Sink(Protocol):
    """A place for pictures: a window, a video, a picture file or nothing. ``open_sink`` makes one.

    Use it as a context manager, or call ``close()``.

    Attributes
    ----------
    encoding : WorkTime or None
        Time of the thread that encodes; None if there is none.
    waited : float
        Seconds that ``put`` waited for that thread.

    Examples
    --------
    >>> with fb.GlContext.headless() as context, fb.open_sink("result.avi", context, (64, 48), fps=25) as sink:
    ...     for brightness in range(3):
    ...         shown = sink.put(fb.GlTexture.from_array(np.full((48, 64, 3), 80 * brightness, np.uint8)))
    """

    encoding: WorkTime | None = None
    waited: float = 0.0

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def put(self, texture: GlTexture | Pixels, time: float | None = None) -> bool:
        """Take the texture's picture as it is now.

        Parameters
        ----------
        texture : GlTexture or numpy.ndarray
            The picture. Of a sink without a context it is an array of uint8, (height, width, 4), which must not be
            changed any more: it is encoded later.
        time : float, optional
            Seconds from the video's first frame at which the picture is to be shown (``Source.time``), greater than
            that of the picture before. By default pictures follow each other at ``fps``. Videos of PyAV keep it.

        Returns
        -------
        bool
            False once nobody looks any more, because the window was closed.

        Raises
        ------
        SourceError
            If it is another kind of picture or has another size than the file, or cannot be written.
        """
        ...

    def end(self) -> None:
        """Take no more pictures, and let the file be completed on its own thread. May be called more than once.

        ``close()`` waits for that. It may be called on another thread then, while this one draws something else.
        """
        return

    def close(self) -> None:
        """Write the pictures that are still on their way, and put the file in its place. May be called more than once.

        Until now a file that was there before is as it was; it stays so if no picture was put.

        Raises
        ------
        SourceError
            If the file is not complete, for instance because the disk is full. The one before is then untouched.
        """
        ...


def open_sink(
    target: str | Path | Window | None,
    context: GlContext | None,
    size: tuple[int, int],
    *,
    fps: float = 30.0,
    live: bool = False,
    codec: str | None = None,
    quality: int | None = None,
    sound_of: str | Path | None = None,
    sound_part: tuple[float, float | None] = (0.0, None),
    tags: VideoTags | None = None,
    reason: str = VIDEO_FRAME,
) -> Sink:
    """Open a sink for RGBA8 textures, or of a video for arrays.

    Parameters
    ----------
    target : Window, str, Path or None
        A window; the path of a video (.mp4, .mov, .mkv, .webm, .gif, .avi); the path of a .png file, which gets the
        last picture; or None: pictures stay on the GPU. Missing folders are made. A file is written beside its place,
        under a name with ".unfinished" in it, and renamed by ``close()``: an existing one is replaced by a complete one
        or not at all.
    context : GlContext or None
        The context of the textures. None: the pictures of a video are arrays on the CPU, and no GPU is needed.
    size : (int, int)
        Width and height of the pictures in texels.
    fps : float
        Frames per second of the video.
    live : bool
        Pictures come in their own time: each is shown in the video for as long as it was the last one. Those that are
        put with their time are written at it, the others are repeated or left out as ``fps`` requires. Otherwise each
        picture is one frame.
    codec : {"h264", "hevc", "av1", "vp9", "prores", "gif", "h264_nvenc", "hevc_nvenc", "av1_nvenc"}, optional
        The video's format; by default that of the suffix: H.264, which plays in browsers, VP9 in .webm, and .gif. It
        needs PyAV (the extra ``video``), as the next two do. Without PyAV, and for .avi, OpenCV encodes. Names with
        "nvenc" encode on a GPU of NVIDIA that has an encoder, and nowhere else.
    quality : int, optional
        The encoder's constant rate factor: smaller is better and larger; 20 by default for H.264.
    sound_of : str or Path, optional
        A video whose sound, subtitles and metadata are copied, unchanged.
    sound_part : (float, float or None)
        Seconds of that video at which the new one begins and ends, if it is a part of it.
    tags : VideoTags, optional
        The shape of the pixels and the light of the colours, which the video is to say: ``Source.tags``.
    reason : str
        The phrase under which ``transfers`` counts the copies of a video's frames.

    Raises
    ------
    SourceError
        If the file cannot be opened.

    Examples
    --------
    >>> with fb.GlContext.headless() as context, fb.open_sink("result.png", context, (64, 48)) as sink:
    ...     sink.put(fb.GlTexture.from_array(np.zeros((48, 64, 3), np.uint8)))
    True
    """
    if target is None:
        return Offscreen()
    if not isinstance(target, str | Path):
        return WindowSink(target)
    path = Path(target)
    suffix = path.suffix.lower()
    if suffix == ".png":
        return PictureSink(path)
    if suffix not in VIDEO_CODECS and suffix not in BY_SUFFIX:
        known = ", ".join(dict.fromkeys((*VIDEO_CODECS, *BY_SUFFIX)))
        raise SourceError(f"'{masked_address(path)}' ends in no known format: use .png or one of {known}")
    special = codec is not None or quality is not None or sound_of is not None
    if special and suffix not in BY_SUFFIX:
        raise SourceError(
            f"'{masked_address(path)}' has no sound, codec or quality of choice: use one of {', '.join(BY_SUFFIX)}"
        )
    if special or suffix not in VIDEO_CODECS or (suffix in BY_SUFFIX and has_av()):
        source = None if sound_of is None else Path(sound_of)
        file = AvFile(
            path, size, fps, codec=codec, quality=quality, sound_of=source, sound_part=sound_part, tags=tags, live=live
        )
    else:
        file = VideoFile(path, size, fps)
    return ArraySink(path, file, size) if context is None else VideoSink(path, file, context, size, fps, live, reason)


class Offscreen(Uncopied, Sink):
    """Leaves every picture on the GPU."""

    def __repr__(self) -> str:
        return "<Sink: pictures stay on the GPU>"

    def put(self, texture: GlTexture | Pixels, time: float | None = None) -> bool:
        return True

    def close(self) -> None:
        return


class WindowSink(Uncopied, Sink):
    """Shows every picture until the window is closed, or q or Escape is pressed. Its owner closes the window."""

    def __init__(self, window: Window) -> None:
        self._window = window

    def __repr__(self) -> str:
        return f"<Sink: {self._window!r}>"

    def put(self, texture: GlTexture | Pixels, time: float | None = None) -> bool:
        self._window.show(_texture(texture))
        return not self._window.should_close and not {"q", "escape"}.intersection(self._window.keys())

    def close(self) -> None:
        return


class VideoSink(Uncopied, Sink):
    """Encodes every picture on a thread of its own. With ``live`` it repeats or drops some.

    A few pictures are between the GPU and the encoder (``ReadbackRing``); ``put`` waits if there is no room for more.
    """

    def __init__(
        self,
        path: Path,
        file: WrittenFile[Pixels],
        context: GlContext,
        size: tuple[int, int],
        fps: float,
        live: bool,
        reason: str = VIDEO_FRAME,
    ) -> None:
        self._path, self._size, self._fps, self._live = path, size, fps, live
        self._ended = self._closed = False
        self._began, self._due_so_far = 0.0, 0
        self._waiting: deque[tuple[int, float | None]] = deque()
        """Number of frames and time of each picture that the GPU still copies."""
        self._ring = ReadbackRing(context, *size, reason)
        self._writer = Writer(file, path.name)
        self.encoding = self._writer.work
        weakref.finalize(self, self._writer.collected)  # if nobody closes it, also at the end of the process

    def __repr__(self) -> str:
        return f"<Sink: video '{self._path}', {self._size[0]}x{self._size[1]}, {self._fps:g} fps>"

    def put(self, texture: GlTexture | Pixels, time: float | None = None) -> bool:
        texture = _texture(texture)
        _check_size(texture, self._size, self._path)
        repeats = self._due() if self._live and time is None else 1
        if repeats:
            self._make_room()
            self._ring.push(texture)
            self._waiting.append((repeats, time))
            while self._hand_over(wait=False):
                pass
        return True

    def _due(self) -> int:
        """Number of frames that the video needs of the next picture. A pause of more than a second is cut out."""
        now = clock.perf_counter()
        self._began = self._began or now
        due = int((now - self._began) * self._fps) + 1 - self._due_so_far
        if due > self._fps:
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
        if not self._ended:
            self._ended = True
            try:
                while self._hand_over(wait=True):
                    pass
            finally:
                self._writer.end()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self.end()
        finally:
            try:
                self._writer.close()
            finally:
                self._ring.release()


class ArraySink(Uncopied, Sink):
    """Encodes arrays on a thread of its own; ``put`` waits if WAITING of them wait."""

    def __init__(self, path: Path, file: WrittenFile, size: tuple[int, int]) -> None:
        self._path, self._shape = path, (size[1], size[0], 4)
        self._writer, self._free = Writer(file, path.name), deque(range(WAITING))
        self.encoding = self._writer.work
        weakref.finalize(self, self._writer.collected)  # if nobody closes it, also at the end of the process

    def __repr__(self) -> str:
        return f"<Sink: video '{self._path}' of arrays>"

    def put(self, texture: GlTexture | Pixels, time: float | None = None) -> bool:
        if isinstance(texture, GlTexture) or texture.shape != self._shape or texture.dtype != "uint8":
            given = f"{getattr(texture, 'dtype', 'a texture')} of {getattr(texture, 'shape', texture)}"
            raise SourceError(f"'{self._path}' takes arrays of uint8 of {self._shape}, not {given}")
        while self._writer.has_written:
            self._free.append(self._writer.written())
        if not self._free:
            began = clock.perf_counter()
            self._free.append(self._writer.written())
            self.waited += clock.perf_counter() - began
        self._writer.put(self._free.popleft(), texture, 1, time)
        return True

    def end(self) -> None:
        self._writer.end()

    def close(self) -> None:
        self._writer.close()


class PictureSink(Uncopied, Sink):
    """Writes the last picture to a file when it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: GlTexture | None = None
        Replacement(path, "picture").discard()  # raises now if the folder takes no files

    def __repr__(self) -> str:
        return f"<Sink: picture '{self._path}'>"

    def put(self, texture: GlTexture | Pixels, time: float | None = None) -> bool:
        self._last = _texture(texture)
        return True

    def close(self) -> None:
        texture, self._last = self._last, None
        if texture is None:
            return
        cv2 = load_cv2()
        picture = cv2.cvtColor(texture.read(reason=PICTURE_FILE), cv2.COLOR_RGBA2BGR)
        content = cv2.imencode(".png", picture)[1].tobytes()
        replacement = Replacement(self._path, "picture")
        try:
            replacement.unfinished.write_bytes(content)
        except OSError as error:
            replacement.discard()
            raise replacement.error(error.strerror or str(error)) from error
        replacement.complete()


def _texture(picture: GlTexture | Pixels) -> GlTexture:
    if not isinstance(picture, GlTexture):
        raise SourceError(f"this sink has a context, and takes its textures, not a {type(picture).__name__}")
    return picture


def _check_size(texture: GlTexture, size: tuple[int, int], path: Path) -> None:
    if texture.size != size or texture.format != "rgba8":
        given = f"{texture.size[0]}x{texture.size[1]} {texture.format}"
        raise SourceError(f"'{path}' takes rgba8 pictures of {size[0]}x{size[1]}, not {given}")
