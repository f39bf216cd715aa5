"""The decoder of a video file: NVDEC, PyAV on the CPU, or OpenCV; chosen by what is there, or by the user."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal, get_args

from ...cuda.context import CudaContext
from ...errors import SourceError
from ..video.pyav import has_av
from .av_reader import AvReader
from .readers import FrameReader, open_video

log = logging.getLogger("framebind")

Decoder = Literal["nvdec", "cpu", "opencv"]


def open_file(path: Path, decoder: Decoder | None, *, start: float = 0.0, end: float | None = None) -> FrameReader:
    """The reader of a video file. Raises SourceError if it, or the decoder that is named, cannot be used.

    By default NVDEC decodes if a CudaContext is current on this thread. What it does not decode the CPU does, and a
    warning says so. Without PyAV OpenCV decodes.
    """
    if decoder is not None and decoder not in get_args(Decoder):
        raise SourceError(
            f"there is no decoder '{decoder}' for video '{path}': it is one of {', '.join(get_args(Decoder))}"
        )
    if decoder == "opencv" or (decoder is None and not has_av()):
        return open_video(path)
    if decoder == "nvdec":
        if not CudaContext.is_current():
            raise SourceError(
                f"NVDEC cannot decode video '{path}': no CudaContext is current on this thread; open it inside "
                "'with fb.CudaContext():'"
            )
        return AvReader(path, start=start, end=end, context=CudaContext.current(), is_named=True)
    if decoder is None and CudaContext.is_current():
        try:
            return AvReader(path, start=start, end=end, context=CudaContext.current())
        except SourceError as error:
            reader = AvReader(path, start=start, end=end)  # a file that is broken for both decoders raises here
            log.warning(f"the CPU decodes: {error}")
            return reader
    return AvReader(path, start=start, end=end)
