"""Old names of VideoWriter, and of windows as sinks: they work for one more release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ...deprecated import warn_deprecated
from ...errors import SourceError
from ...gl.context import GlContext
from ...gl.texture import GlTexture
from ...transfers import VIDEO_FRAME
from ...uncopied import Uncopied
from ...yuv import YuvPicture
from ..decode.tags import VideoTags
from ..decode.thread_times import WorkTime
from ..paint.marks import Marks
from ..read.frame_reader import Pixels
from .av_file import Sound, VideoSettings
from .planes_queue import Paint
from .video_writer import VideoWriter

if TYPE_CHECKING:
    from ...gl.draw.window import Window  # its library starts a process when it is imported: only windows need it


class Sink(Protocol):
    """A place for pictures that ``open_sink`` made: deprecated, as that is."""

    @property
    def encoding(self) -> WorkTime | None:
        """Time of the thread that encodes; None if there is none."""
        ...

    @property
    def waited(self) -> float:
        """Seconds that ``put`` waited for that thread."""
        ...

    def put(self, texture: GlTexture | Pixels, time: float | None = None) -> bool:
        """Take the texture's picture as it is now. Returns False once the window was closed."""
        ...

    def end(self) -> None:
        """Take no more pictures."""
        ...

    def close(self) -> None:
        """Write the pictures that are still on their way, and put the file in its place."""
        ...

    def __enter__(self) -> Sink: ...
    def __exit__(self, *exception: object) -> None: ...


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
    """Open a place for pictures: deprecated. ``VideoWriter`` writes files, ``Window.show`` shows pictures.

    Parameters
    ----------
    target : Window, str, Path or None
        A window, the path of a video or of a .png file, or None: pictures stay on the GPU.
    context : GlContext or None
        The context of the textures. None: the pictures of a video are arrays on the CPU, and no GPU is needed.
    size, fps, live, codec, quality, tags, reason
        See ``VideoWriter``.
    sound_of : str or Path, optional
        A video whose sound, subtitles and metadata are copied, unchanged.
    sound_part : (float, float or None)
        Seconds of that video at which the new one begins and ends, if it is a part of it.

    Returns
    -------
    Sink
        A VideoWriter whose ``put`` takes the time as its second argument, or a window's ``show``.

    Raises
    ------
    SourceError
        If the file cannot be opened.
    """
    warn_deprecated("open_sink", "VideoWriter for files, Window.show for windows")
    if target is None or not isinstance(target, str | Path):
        return _Shown(target)
    sound = None if sound_of is None else Sound(Path(sound_of), *sound_part)
    settings = VideoSettings(fps, codec, quality, sound, tags or VideoTags(), live)
    return _FileSink(target, size, settings, has_context=context is not None, reason=reason)


class _FileSink(VideoWriter):
    def __init__(
        self,
        path: str | Path,
        size: tuple[int, int],
        settings: VideoSettings,
        *,
        has_context: bool,
        reason: str,
    ) -> None:
        self._rotation, self._start, self._has_context = 0, 0.0, has_context
        self._begin(path, size, settings, reason)

    def put(self, texture: Any, time: float | None = None) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        if isinstance(texture, GlTexture) != self._has_context:
            wanted = "textures" if self._has_context else "arrays of uint8"
            raise SourceError(f"'{self._path}' takes {wanted}, not a {type(texture).__name__}")
        super().put(texture, None, time)
        return True

    def __enter__(self) -> _FileSink:
        return self


class _Shown(Uncopied):
    """Shows every picture until the window is closed, or q or Escape is pressed; without a window nothing is shown."""

    encoding: WorkTime | None = None
    waited: float = 0.0

    def __init__(self, window: Window | None) -> None:
        self._window = window

    def __repr__(self) -> str:
        return f"<Sink: {'pictures stay on the GPU' if self._window is None else repr(self._window)}>"

    def put(self, texture: GlTexture | Pixels, time: float | None = None) -> bool:
        if self._window is None:
            return True
        if not isinstance(texture, GlTexture):
            raise SourceError(f"{self._window} shows textures, not a {type(texture).__name__}")
        self._window.show(texture)
        return not self._window.should_close and not {"q", "escape"}.intersection(self._window.keys())

    def end(self) -> None:
        return

    def close(self) -> None:
        return

    def __enter__(self) -> _Shown:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class MarkedVideo(VideoWriter):
    """A video of decoded frames with marks on them: deprecated. ``VideoWriter`` takes them, too.

    Parameters
    ----------
    path : str or Path
        The video: .mp4, .mov, .mkv, .webm, .gif or .avi.
    fps, codec, quality, tags
        See ``VideoWriter``.
    rotation : {0, 90, 180, 270}
        The turn that makes frames upright: ``Source.rotation``.
    sound_of, sound_part
        See ``open_sink``.

    Raises
    ------
    SourceError
        If the path's suffix is none of these.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        fps: float,
        rotation: int = 0,
        codec: str | None = None,
        quality: int | None = None,
        sound_of: str | Path | None = None,
        sound_part: tuple[float, float | None] = (0.0, None),
        tags: VideoTags | None = None,
    ) -> None:
        warn_deprecated("MarkedVideo", "VideoWriter")
        self._rotation, self._start = rotation, 0.0
        sound = None if sound_of is None else Sound(Path(sound_of), *sound_part)
        self._begin(path, None, VideoSettings(fps, codec, quality, sound, tags or VideoTags()), VIDEO_FRAME)

    def put(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, picture: YuvPicture, marks: Marks, time: float | None = None, *, paint: Paint | None = None
    ) -> None:
        """Take a frame in the CPU's memory, and the marks that were added since the last one."""
        super().put(picture, marks, time, paint=paint)
