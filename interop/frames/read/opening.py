"""Opening of sources: the reader for a camera's index, a path, an address or a word."""

from __future__ import annotations

import logging
from pathlib import Path
from urllib.parse import urlsplit

from ...errors import SourceError
from ..decode.pyav import has_av
from ..decode.streams import StreamOptions, checked_scheme, masked_address, plain_address
from .camera import CameraOptions, CameraReader
from .decoders import Decoder, open_by_av, open_file
from .pixel_layouts import Matrix
from .readers import (
    PICTURES,
    FrameReader,
    MotionReader,
    PictureReader,
    load_picture,
    open_address,
    open_folder,
    painted_picture,
)
from .source import Source

log = logging.getLogger("framebind.streams")


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
    stream: StreamOptions | None = None,
) -> Source:
    """Open a camera, a video, a picture, a folder of pictures, a stream, or synthetic motion.

    A camera or a stream that is lost is opened again as soon as it is back; meanwhile its last frame is given again.

    Parameters
    ----------
    source : int, str or Path
        A camera's index (``0`` or ``"0"``); the path of a video or picture; the path of a folder, whose pictures come
        in the order of their names, scaled to the size of the first; an address (``rtsp://``, ``rtmp://``, ``srt://``,
        ``http://`` of a video, of a live stream or of HLS), which PyAV reads if it is installed, and else OpenCV; a
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
        The decoder of a video file or of an address. "nvdec" is that of NVIDIA's GPUs, by PyAV: ``pictures`` and
        ``poll_picture`` give its frames in the memory of the current CudaContext. "cpu" is PyAV's, "opencv" OpenCV's,
        for files. By default, if a CudaContext is current on this thread, it is NVDEC for pictures, or the CPU if
        NVDEC does not take the video: a warning in the log says why. The CPU decodes for ``textures``.
        ``Source.decoder`` tells.
    stream : StreamOptions, optional
        The addresses that may be opened, and the attempts to connect again after a stream is lost.

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
    text = plain_address(source) if isinstance(source, str | Path) else str(source)
    if text.startswith("file://"):
        from urllib.request import url2pathname  # only here: it imports http and ssl

        text = url2pathname(urlsplit(text).path)
    path = Path(text)
    is_file = not isinstance(source, int) and _is_path(text) and _is_file(text)
    if (start or end is not None) and not (is_file and has_av()):
        name = masked_address(text)
        raise SourceError(f"'{name}' has no start and end: only video files that PyAV reads have (the extra 'video')")
    if decoder is not None and not (is_file or "://" in text):
        name = masked_address(text)
        raise SourceError(f"'{name}' has no choice of decoders: only video files and addresses have")
    if isinstance(source, int) or text.isdecimal():
        return Source(CameraReader(int(text), CameraOptions(size, fps, fourcc, matrix)))
    if text == "synthetic" or text.startswith("synthetic:"):
        photograph = text.partition(":")[2]
        picture = load_picture(Path(photograph)) if photograph else painted_picture()
        return Source(MotionReader(picture, size or (640, 480), text))
    if " ! " in text:
        return Source(CameraReader(text))
    if "://" in text:
        return Source(_open_address(text, decoder, stream or StreamOptions()), loop)
    if path.is_dir():
        return Source(open_folder(path), loop)
    if path.suffix.lower() in PICTURES:
        return Source(PictureReader([path], f"picture '{path}'"), loop)
    return Source(open_file(path, decoder, start=start, end=end), loop)


def _is_path(text: str) -> bool:
    """Whether a source is a file or a folder: no camera, no pipeline, no address, nothing synthetic."""
    return not (text.isdecimal() or text.partition(":")[0] == "synthetic" or " ! " in text or "://" in text)


def _is_file(text: str) -> bool:
    """Whether a path is a file, and not a folder. Raises SourceError if it is neither."""
    path, name = Path(text), masked_address(text)
    try:
        if text and path.exists():
            return path.is_file()
    except OSError as error:  # a name that is too long, a folder that may not be read
        raise SourceError(f"'{name}' cannot be opened: {error.strerror}") from error
    raise SourceError(
        f"there is no file or folder '{name}': a source is a camera's index, a video, a picture, a folder of "
        "pictures, an address with '://', 'synthetic' or 'synthetic:PICTURE'"
    )


def _open_address(address: str, decoder: Decoder | None, options: StreamOptions) -> FrameReader:
    """The video or the live stream at an address: by PyAV if it is there, else by OpenCV, with a warning."""
    name = f"stream '{masked_address(address)}'"
    checked_scheme(address, name, options)
    if has_av():
        return open_by_av(address, decoder, options)
    log.warning("%s is read by OpenCV, without its times and its limits of waits: PyAV is not installed", name)
    return open_address(address) or CameraReader(address)
