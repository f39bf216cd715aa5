"""Sound, subtitles and metadata of another video, copied packet by packet, in step with the new video's frames."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from ...errors import SourceError
from ..decode.addresses import masked_address
from ..decode.containers import open_container, shown_streams
from ..decode.frame_times import RunningClock
from ..decode.seeking import seek_sound

_EARLY = 0.1
"""Seconds by which sound may begin before the first frame: encoders put their delay there."""
_SILENT = ("gif",)
"""Containers that have pictures only."""
_CHAPTER_TICKS = 1000
"""Ticks per second of the times of chapters."""


class CopiedStreams:
    """The streams and chapters of the video ``path`` from second ``start`` to ``end``, copied to a new container.

    Raises SourceError if the video cannot be read, or has a stream that the container cannot have.
    """

    def __init__(self, container: Any, path: Path, start: float, end: float | None) -> None:
        self._container, self._source = container, open_container(path, f"video '{masked_address(path)}'")
        self._streams: dict[int, Any] = {}
        self._clocks: dict[int, RunningClock] = {}
        video = next(iter(shown_streams(self._source)), None)
        began = video.start_time * video.time_base if video and video.start_time else Fraction(0)
        self._began = began + Fraction(start).limit_denominator(1_000_000)
        """The time in the source that is 0 in the new video."""
        self._end = float("inf") if end is None else end - start
        container.metadata.update(self._source.metadata)
        wanted = [] if container.format.name in _SILENT else self._add_streams(path)
        if wanted:
            self._add_chapters()
        if start:
            seek_sound(self._source, float(self._began))
        self._packets: Iterator[Any] = self._source.demux(wanted) if wanted else iter(())
        self._next = next(self._packets, None)

    def _add_streams(self, path: Path) -> list[Any]:
        """Add a stream of the same kind, name and language for each that is copied. Returns those of the source."""
        wanted = [*self._source.streams.audio, *self._source.streams.subtitles]
        wanted = [stream for stream in wanted if stream.codec_context is not None]
        for stream in wanted:
            try:
                made = self._container.add_stream_from_template(stream)
            except ValueError as error:
                kind = "sound" if stream.type == "audio" else "subtitles"
                raise SourceError(
                    f"the {kind} of '{masked_address(path)}' ({stream.codec_context.name}) cannot be copied into "
                    f"{self._container.format.name}; a file that ends in .mkv takes all"
                ) from error
            made.metadata.update(stream.metadata)
            made.disposition = stream.disposition
            self._streams[stream.index] = made
            self._clocks[stream.index] = RunningClock(0)
        return wanted

    def _add_chapters(self) -> None:
        """Copy the chapters of which a part is in the new video."""
        chapters: list[Any] = []
        for chapter in self._source.chapters():
            begins, ends = (float(chapter[side] * chapter["time_base"] - self._began) for side in ("start", "end"))
            if ends > 0 and begins < self._end:
                chapter["start"] = round(_CHAPTER_TICKS * max(begins, 0.0))
                chapter["end"] = round(_CHAPTER_TICKS * min(ends, self._end))
                chapter["time_base"] = Fraction(1, _CHAPTER_TICKS)
                chapters.append(chapter)
        self._container.set_chapters(chapters)

    def write_until(self, time: float) -> None:
        """Write the packets that begin up to ``time``, in seconds of the new video."""
        while self._next is not None:
            packet = self._next
            if packet.dts is not None:
                shift = int(self._began / packet.time_base)
                step = packet.duration if packet.stream.type == "audio" else 1
                moved = self._clocks[packet.stream.index].moved(packet.dts, step or 1)
                seconds = float((packet.dts + moved - shift) * packet.time_base)
                if seconds > min(time, self._end):
                    return
                if seconds < -_EARLY:
                    self._next = next(self._packets, None)
                    continue
                packet.pts = None if packet.pts is None else packet.pts + moved - shift
                packet.dts += moved - shift
                packet.stream = self._streams[packet.stream.index]
                self._container.mux(packet)
            self._next = next(self._packets, None)

    def close(self) -> None:
        self._source.close()
