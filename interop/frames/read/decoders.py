"""The choice of the decoder for a video file or a stream: NVDEC, PyAV on the CPU, or OpenCV."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar, get_args

from ...cuda.context import CudaContext
from ...errors import SourceError
from ..decode.pyav import has_av
from ..decode.streams import StreamOptions, masked_address
from .av_reader import AvReader
from .readers import FrameReader, open_video
from .streams import StreamReader, open_stream

log = logging.getLogger("framebind")

Decoder = Literal["nvdec", "cpu", "opencv"]
_Reader = TypeVar("_Reader")


def open_file(path: Path, decoder: Decoder | None, *, start: float = 0.0, end: float | None = None) -> FrameReader:
    """The reader of a video file. Raises SourceError if it, or the decoder that is named, cannot be used.

    By default NVDEC decodes if a CudaContext is current on this thread. If NVDEC does not support the video, the CPU
    decodes, and a warning says so. Without PyAV, OpenCV decodes.
    """
    name = f"video '{path}'"
    _check(decoder, name)
    if decoder == "opencv":
        return open_video(path)
    if decoder is None and not has_av():
        log.warning("%s is read by OpenCV, without the times of its frames: pip install '.[video]' brings PyAV", name)
        return open_video(path)
    return _opened(partial(AvReader, path, start=start, end=end), decoder, name)


def open_by_av(address: str, decoder: Decoder | None, options: StreamOptions) -> AvReader | StreamReader:
    """The reader of a stream's address by PyAV. The choice of the decoder, and errors, are those of ``open_file``."""
    name = f"stream '{masked_address(address)}'"
    _check(decoder, name)
    if decoder == "opencv":
        raise SourceError(f"{name} is not read by OpenCV where PyAV is installed: take 'nvdec' or 'cpu'")
    return _opened(partial(open_stream, address, options), decoder, name)


def _check(decoder: str | None, name: str) -> None:
    if decoder is not None and decoder not in get_args(Decoder):
        raise SourceError(f"there is no decoder '{decoder}' for {name}: it is one of {', '.join(get_args(Decoder))}")


def _opened(make: Callable[..., _Reader], decoder: Decoder | None, name: str) -> _Reader:
    """The reader that ``make`` makes, with a ``context`` for NVDEC, or without one."""
    if decoder == "nvdec":
        if not CudaContext.is_current():
            raise SourceError(
                f"NVDEC cannot decode {name}: no CudaContext is current on this thread; open it inside "
                "'with fb.CudaContext():'"
            )
        return make(context=CudaContext.current(), is_named=True)
    if decoder is None and CudaContext.is_current():
        try:
            return make(context=CudaContext.current())
        except SourceError as error:
            reader = make()  # what is broken for both decoders raises here
            log.warning(f"the CPU decodes: {error}")
            return reader
    return make()
