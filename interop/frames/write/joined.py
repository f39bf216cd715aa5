"""Parts of a video that were encoded apart, joined to one file without encoding them again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

from ...errors import SourceError
from ..decode.addresses import masked_address
from ..decode.containers import open_container
from ..decode.pyav import load_av
from .av_file import frames_in
from .copied_streams import CopiedStreams
from .replacement import Replacement


def join_videos(
    parts: Sequence[tuple[str | Path, Fraction | float]],
    path: str | Path,
    *,
    sound_of: str | Path | None = None,
    sound_part: tuple[float, float | None] = (0.0, None),
) -> None:
    """Join videos of one codec, size and encoder's settings, packet by packet.

    Parameters
    ----------
    parts : sequence of (str or Path, Fraction or float)
        Files, and the second of the new video at which each begins, in order.
    path : str or Path
        The new video. It is written beside its place, and renamed when all frames can be read again.
    sound_of : str or Path, optional
        A video whose sound, subtitles and metadata are copied, as ``VideoWriter`` does.
    sound_part : (float, float or None)
        Seconds of that video at which the sound begins and ends.

    Raises
    ------
    SourceError
        If a part cannot be read, if parts were not encoded alike, or if the video cannot be written.

    Examples
    --------
    >>> fb.video.join_videos([("clip.mp4", 0), ("clip.mp4", 0.4)], "twice.mp4")
    >>> with fb.open_source("twice.mp4") as source:
    ...     source.length
    20
    """
    av, replacement = load_av(), Replacement(Path(path), "video")
    try:
        with av.open(str(replacement.unfinished), "w") as container:
            frames = _join(container, parts, Path(sound_of) if sound_of else None, sound_part)
        missing = frames - frames_in(replacement.unfinished)
        if missing:
            raise SourceError(f"{missing} of its {frames} frames did not reach the disk")
    except (av.error.FFmpegError, SourceError, ValueError) as error:
        replacement.discard()
        raise replacement.error(str(error)) from error
    replacement.complete()


def _join(
    container: Any,
    parts: Sequence[tuple[str | Path, Fraction | float]],
    sound_of: Path | None,
    sound_part: tuple[float, float | None],
) -> int:
    """Copy the packets of each part, and the sound in step. Returns the number of frames."""
    with closing(open_container(parts[0][0], f"video '{masked_address(parts[0][0])}'")) as first:
        stream = container.add_stream_from_template(first.streams.video[0])
        wanted = _encoding(first.streams.video[0])
    sound = CopiedStreams(container, sound_of, *sound_part) if sound_of else None
    frames, last = 0, None
    try:
        for packet in _packets(parts, wanted):
            if last is not None and packet.dts <= last:
                packet.dts = last + 1  # at a variable rate the encoder invents the times of decoding of first frames
            if packet.dts > packet.pts:
                raise SourceError("the times of its parts overlap")
            last = packet.dts
            packet.stream = stream
            if sound is not None:
                sound.write_until(float(packet.pts * packet.time_base))
            container.mux(packet)
            frames += 1
        if sound is not None:
            sound.write_until(float("inf"))
    finally:
        if sound is not None:
            sound.close()
    return frames


def _packets(parts: Sequence[tuple[str | Path, Fraction | float]], wanted: tuple[Any, ...]) -> Iterator[Any]:
    """The packets of all parts, at their times in the new video."""
    for path, begins in parts:
        with closing(open_container(path, f"video '{masked_address(path)}'")) as source:
            stream = source.streams.video[0]
            if _encoding(stream) != wanted:
                raise SourceError(f"'{masked_address(path)}' is not encoded as the first part")
            for packet in source.demux(stream):
                if packet.size:
                    shift = round(Fraction(begins) / packet.time_base)
                    packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
                    yield packet


def _encoding(stream: Any) -> tuple[Any, ...]:
    """The parameters that packets of one stream share."""
    codec = stream.codec_context
    return codec.name, codec.width, codec.height, codec.pix_fmt, codec.extradata, stream.time_base
