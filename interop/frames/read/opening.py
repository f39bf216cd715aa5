"""Opening of sources: the reader for a camera's index, a path, an address or a word."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar, get_args
from urllib.parse import urlsplit

from ...contexts import cuda_contexts
from ...errors import SourceError
from ..decode.addresses import StreamOptions, checked_scheme, masked_address, plain_address
from .camera import CameraOptions, CameraReader
from .picture_files import PICTURES, PictureReader, load_picture, open_folder
from .source import Source
from .streams import StreamReader, open_stream
from .synthetic import MotionReader, painted_picture
from .video_files import AvReader
from .yuv_to_rgb import Matrix

log = logging.getLogger("framebind")

Decoder = Literal["nvdec", "cpu"]
_Reader = TypeVar("_Reader")


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
        ``http://`` of a video, of a live stream or of HLS); a GStreamer pipeline (``"... ! appsink"``, if OpenCV is
        built with GStreamer); ``"synthetic"``, endless motion over a painted picture; or ``"synthetic:PATH"``, the same
        over a photograph.
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
        Seconds of a video's first frame, and of the first one that is left out.
    decoder : {"nvdec", "cpu"}, optional
        The decoder of a video file or of an address. "nvdec" is that of NVIDIA's GPUs: ``frames()`` gives planes in the
        memory of the current CudaContext. By default, if a CudaContext is current on this thread, it is NVDEC, or the
        CPU if NVDEC does not take the video: a warning in the log says why. The CPU decodes for ``frames(context)`` and
        ``frames("cpu")``. ``Source.decoder`` tells.
    stream : StreamOptions, optional
        The addresses that may be opened, and the attempts to connect again after a stream is lost.

    Returns
    -------
    Source
        Its ``frames`` gives the pictures.

    Raises
    ------
    SourceError
        If it cannot be opened; the message says what to try.

    Examples
    --------
    >>> with fb.GlContext.headless() as context, fb.open_source("picture.png") as source:
    ...     for frame in source.frames(context):
    ...         print(frame.size, frame.texture.format)
    (64, 48) rgba8
    """
    text = str(source)
    if "://" in text:
        text = plain_address(text)
    if text.startswith("file://"):
        from urllib.request import url2pathname  # only here: it imports http and ssl

        text = url2pathname(urlsplit(text).path)
    path = Path(text)
    is_file = not isinstance(source, int) and _is_path(text) and _is_file(text)
    if (start or end is not None) and not is_file:
        name = masked_address(text)
        raise SourceError(f"'{name}' has no start and end: only video files have")
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
    return Source(_open_file(path, decoder, start, end), loop)


def _is_path(text: str) -> bool:
    """Whether a source is a file or a folder: no camera, no pipeline, no address, nothing synthetic."""
    return not (text.isdecimal() or text.partition(":")[0] == "synthetic" or " ! " in text or "://" in text)


def _is_file(text: str) -> bool:
    """Whether a path is a file, and not a folder. Raises SourceError if it is neither."""
    path = Path(text)
    try:
        if text and path.exists():
            return path.is_file()
    except OSError as error:  # a name that is too long, a folder that may not be read
        raise SourceError(f"'{masked_address(text)}' cannot be opened: {error.strerror}") from error
    raise SourceError(
        f"there is no file or folder '{masked_address(text)}': a source is a camera's index, a video, a picture, a "
        "folder of pictures, an address with '://', 'synthetic' or 'synthetic:PICTURE'"
    )


def _open_file(path: Path, decoder: Decoder | None, start: float, end: float | None) -> AvReader:
    """The reader of a video file. Raises SourceError if it, or the decoder that is named, cannot be used.

    By default NVDEC decodes if a CudaContext is current on this thread. If NVDEC does not support the video, the CPU
    decodes, and a warning says so.
    """
    return _opened(partial(AvReader, path, start=start, end=end), decoder, f"video '{path}'")


def _open_address(address: str, decoder: Decoder | None, options: StreamOptions) -> AvReader | StreamReader:
    """The video or the live stream at an address. The choice of the decoder, and errors, are those of a file."""
    name = f"stream '{masked_address(address)}'"
    checked_scheme(address, name, options)
    return _opened(partial(open_stream, address, options), decoder, name)


def _opened(make: Callable[..., _Reader], decoder: Decoder | None, name: str) -> _Reader:
    """The reader that ``make`` makes, with a ``context`` for NVDEC, or without one."""
    if decoder is not None and decoder not in get_args(Decoder):
        raise SourceError(f"there is no decoder '{decoder}' for {name}: it is one of {', '.join(get_args(Decoder))}")
    context = cuda_contexts.last()
    if decoder == "nvdec":
        if context is None:
            raise SourceError(
                f"NVDEC cannot decode {name}: no CudaContext is current on this thread; open it inside "
                "'with fb.cuda.CudaContext():'"
            )
        return make(context=context, is_named=True)
    if decoder is None and context is not None:
        try:
            return make(context=context)
        except SourceError as error:
            reader = make()  # what is broken for both decoders raises here
            log.warning(f"the CPU decodes: {error}")
            return reader
    return make()
