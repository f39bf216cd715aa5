"""Division of a video into parts that begin with key frames, so that each can be decoded without the others."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import SourceError
from .addresses import masked_address
from .containers import open_container, video_stream
from .decoder import VideoDecoder
from .pyav import load_av
from .seeking import seconds_of

MAX_FRAMES = 100_000_000
"""Frames of a video that is divided: 19 days of 60 frames per second, 800 MB of times."""


@dataclass(frozen=True)
class VideoPart:
    """A part of a video, as ``divide_video`` gives it.

    Attributes
    ----------
    start, end : float
        Seconds of the first frame, and of the first one behind the part; ``end`` is None at the end of the video.
    frame : int
        Number of its first frame, counted from the first one that was asked for.
    frames : int
        Number of its frames, as the file's packets let expect.

    Examples
    --------
    >>> fb.video.divide_video("clip.mp4", 60)
    [VideoPart(start=0.0, end=None, frame=0, frames=10)]
    """

    start: float
    end: float | None
    frame: int
    frames: int


def divide_video(
    source: str | Path, seconds: float, *, start: float = 0.0, end: float | None = None, every: int = 1
) -> list[VideoPart]:
    """Divide a video at key frames. Decoded one by one, the parts have the frames that the whole has, in its order.

    Packets are read, not decoded, but for the first frame of each part: it has to be the key frame itself, of the size
    and format of the video's first frame.

    Parameters
    ----------
    source : str or Path
        A video file.
    seconds : float
        Length of a part, at least, but for one that ends the video, which may have half.
    start, end : float, optional
        Seconds of the first frame, and of the first one that is left out.
    every : int
        Every how many frames one will be taken: a part begins with one that is.

    Returns
    -------
    list of VideoPart
        One for all, if the video is short, has no key frames in the right places, or no times.

    Raises
    ------
    SourceError
        If it cannot be read.

    Examples
    --------
    >>> for part in fb.video.divide_video("clip.mp4", 60):
    ...     with fb.open_source("clip.mp4", start=part.start, end=part.end) as source:
    ...         print(part.frame, part.frames, source.size)
    0 10 (64, 48)
    """
    times, keys = _read_times(source)
    first, last = bisect_left(times, start), len(times) if end is None else bisect_left(times, end)
    cuts = [first]
    for key in keys:
        number = bisect_left(times, key, first, last)
        if not first < number < last or (number - first) % every:
            continue
        long_enough = key - times[cuts[-1]] >= seconds and times[last - 1] - key >= seconds / 2
        if long_enough and _begins_at(source, key, times[first]):
            cuts.append(number)
    ends = [*cuts[1:], last]
    return [
        VideoPart(
            start if number == first else times[number], end if after == last else times[after],
            number - first, after - number,
        )
        for number, after in zip(cuts, ends, strict=True)
    ]  # fmt: skip


def _read_times(source: str | Path) -> tuple[array[float], list[float]]:
    """The seconds of all frames and of the key frames, sorted. The first are empty if the packets do not tell."""
    name = f"video '{masked_address(source)}'"
    container = open_container(source, name)
    try:
        stream = video_stream(container, name)
        began = float(stream.start_time * stream.time_base) if stream.start_time else 0.0
        times, keys = array("d"), list[float]()
        for packet in container.demux(stream):
            if not packet.size or packet.is_discard:
                continue
            if packet.pts is None or len(times) == MAX_FRAMES:
                return array("d"), []
            time = seconds_of(packet) - began
            times.append(time)
            if packet.is_keyframe:
                keys.append(time)
    except load_av().error.FFmpegError as error:
        raise SourceError(f"{name} cannot be read on: {error.strerror}") from error
    finally:
        container.close()
    unique = sorted(set(times))
    return (array("d", unique), sorted(keys)) if len(unique) == len(times) else (array("d"), [])


def _begins_at(source: str | Path, time: float, first: float) -> bool:
    """Whether decoding may begin at this key frame: the frame is there, and like the first one."""

    def beginning(of: float) -> tuple[Any, ...]:
        with VideoDecoder(source, start=of) as decoder:
            frame = next(decoder.frames())
            return decoder.time_of(frame), decoder.size, decoder.format, decoder.turn

    try:
        found, *like = beginning(time)
        return found == time and like == list(beginning(first)[1:])
    except SourceError:
        return False
