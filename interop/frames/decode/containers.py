"""Opening of video files and streams by PyAV: allowed protocols, limits of time and size, and the streams to show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import SourceError
from .pyav import load_av
from .streams import PROTOCOLS, StreamOptions, checked_scheme, masked_address, plain_address

MAX_PIXELS = 16384 * 8704
"""Pixels per frame that are decoded: twice 8K. A damaged or hostile header may claim any size."""
OPEN_SECONDS, READ_SECONDS, LIVE_OPEN_SECONDS = 10.0, 10.0, 5.0
"""Seconds to wait for a connection, for the next packet of a file, and for a connection to a live stream."""
_TAKES_ANY_TEXT, _TEXT_ERRORS = 19, {"metadata_errors": "replace"}
"""The version of PyAV that takes titles that are no UTF-8, and the argument by which older ones do."""
PACKETS_ONLY = {"codec_whitelist": "none", "probesize": "32"}
"""FFmpeg's options that let it open a file without decoding some of its frames, which takes most of an opening."""


def open_container(
    source: str | Path,
    name: str,
    accelerator: Any = None,
    *,
    stream: StreamOptions | None = None,
    limits: tuple[float, float] = (OPEN_SECONDS, READ_SECONDS),
    analyzed: int | None = None,
    packets_only: bool = False,
) -> Any:
    """The container behind a path or an address, which may open what PROTOCOLS allows only.

    ``accelerator`` is PyAV's HWAccel for its video. ``limits``: seconds to wait for a connection, and for a packet.
    ``analyzed``: microseconds of a live stream that may be read before its first frame. ``packets_only``: nothing is to
    be decoded. Raises SourceError.
    """
    av, text, scheme = load_av(), str(source), ""
    if "://" in text:
        text, scheme = plain_address(source), checked_scheme(source, name, stream or StreamOptions())
    options = {"protocol_whitelist": PROTOCOLS[scheme], "max_pixels": str(MAX_PIXELS)}
    if packets_only:
        options.update(PACKETS_ONLY)
    if scheme.startswith("rtsp"):
        options["rtsp_transport"] = "tcp"  # UDP loses packets of large frames
    if analyzed is not None:
        options["analyzeduration"] = str(analyzed)
    # An absolute path, so that FFmpeg takes no colon in a file's name for a protocol.
    place = text if scheme else str(Path(text).resolve())
    more = _TEXT_ERRORS if int(av.__version__.partition(".")[0]) < _TAKES_ANY_TEXT else {}
    try:
        try:
            return av.open(place, options=options, timeout=limits, hwaccel=accelerator, **more)
        except RuntimeError:  # PyAV: it takes none of the decoders that FFmpeg prefers. See accelerated.py
            return av.open(place, options=options, timeout=limits, **more)
    except (av.error.FFmpegError, OSError) as error:
        why = error.strerror or masked_address(str(error))
        if isinstance(error, av.error.ExitError):
            why = f"no answer within {limits[0]:g} seconds"
        if isinstance(error, av.error.ProtocolNotFoundError):
            raise SourceError(
                f"{name} cannot be opened: this build of PyAV has no {scheme}. Take a build whose FFmpeg has it, or "
                "let a program that has it pass the stream on, for instance as rtsp"
            ) from None  # that error has the address
        ask = "Is the address right, and can it be reached from here?" if scheme else "Is the file complete?"
        raise SourceError(f"{name} cannot be opened: {why}. {ask}") from None


def shown_streams(container: Any) -> list[Any]:
    """The video streams that are no cover pictures."""
    cover = load_av().stream.Disposition.attached_pic
    return [each for each in container.streams.video if not each.disposition & cover]


def video_stream(container: Any, name: str) -> Any:
    """The first video stream that is not a cover picture."""
    streams = shown_streams(container)
    if not streams:
        raise SourceError(f"{name} has no video, only streams of other kinds ({len(container.streams)})")
    stream = streams[0]
    if stream.codec_context is None:
        raise SourceError(f"{name} has video of a codec that PyAV cannot decode")
    if stream.width * stream.height > MAX_PIXELS:
        raise SourceError(f"{name} claims frames of {stream.width}x{stream.height}: at most {MAX_PIXELS} pixels")
    return stream
