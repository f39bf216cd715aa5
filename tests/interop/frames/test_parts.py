"""Division of videos at key frames, and joining of videos without encoding them again."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

import framebind as fb
from framebind.interop.frames.decode.decoder import VideoDecoder
from support.video.clips import write_clip

EVERY_TENTH = {"g": "10"}


def times_of(path: Path, start: float = 0.0, end: float | None = None) -> list[tuple[float, int]]:
    """The time of each frame, and the sum of its luma."""
    with VideoDecoder(path, start=start, end=end) as decoder:
        return [
            (decoder.time_of(frame), int(decoder.planes(frame)[0].sum(dtype=np.int64))) for frame in decoder.frames()
        ]


CLIPS: dict[str, tuple[str, dict[str, str]]] = {
    "B frames.mp4": ("libx264", EVERY_TENTH),
    "open groups.mkv": ("libx264", {"g": "10", "x264-params": "open-gop=1:bframes=3"}),
    "refreshed.mp4": ("libx264", {"g": "10", "x264-params": "intra-refresh=1"}),
    "hevc.mp4": ("libx265", {"x265-params": "keyint=10:open-gop=1:log-level=none"}),
    "vp9.webm": ("libvpx-vp9", {"g": "10", "deadline": "realtime"}),
}


@pytest.mark.parametrize("name", CLIPS)
def test_parts_have_the_frames_of_the_whole(tmp_path: Path, name: str) -> None:
    codec, options = CLIPS[name]
    path = write_clip(tmp_path / name, codec, frames=60, options=options)
    whole, parts = times_of(path), fb.video.divide_video(path, 0.8)
    assert [each for part in parts for each in times_of(path, part.start, part.end)] == whole
    assert [part.frame for part in parts] == [0, *np.cumsum([part.frames for part in parts])[:-1]]
    assert (len(parts) > 1) != (name == "refreshed.mp4"), "no frame of a refreshed video stands alone"


def test_parts_begin_with_a_frame_that_is_taken(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "a.mp4", frames=100, options=EVERY_TENTH)
    parts = fb.video.divide_video(path, 0.5, start=0.2, end=3.6, every=3)
    assert len(parts) > 1 and all(part.frame % 3 == 0 for part in parts)
    assert (parts[0].start, parts[-1].end) == (0.2, 3.6) and sum(part.frames for part in parts) == 85
    assert len(fb.video.divide_video(path, 10)) == 1
    with pytest.raises(fb.SourceError, match="cannot be opened"):
        fb.video.divide_video(tmp_path / "none.mp4", 1)


def test_joined_parts_have_exact_times_and_the_sound_of_the_source(tmp_path: Path) -> None:
    source = write_clip(tmp_path / "source.mp4", frames=50, sound=True)
    # At a variable rate, so that decoding times are the encoder's guess.
    first = write_clip(tmp_path / "1.mp4", times=[0, 4, 7, 20, 31, 32, 45, 60], frames=8)
    second = write_clip(tmp_path / "2.mp4", times=[0, 1, 2, 9, 30, 41], frames=6)
    begins = Fraction(67, 100)
    fb.video.join_videos([(first, 0), (second, begins)], tmp_path / "joined.mp4", sound_of=source)
    apart = [*times_of(first), *((time + float(begins), luma) for time, luma in times_of(second))]
    joined = times_of(tmp_path / "joined.mp4")
    assert [luma for _, luma in joined] == [luma for _, luma in apart]
    assert [time for time, _ in joined] == pytest.approx([time for time, _ in apart], abs=1e-9)
    assert packets(tmp_path / "joined.mp4") == packets(source) != []


def packets(path: Path) -> list[bytes]:
    with av.open(str(path)) as container:
        return [bytes(packet) for packet in container.demux(audio=0) if packet.size]


def test_what_cannot_be_joined_leaves_nothing(tmp_path: Path) -> None:
    first, other = write_clip(tmp_path / "1.mp4"), write_clip(tmp_path / "2.mp4", size=(32, 32))
    for second, begins, message in ((other, 0.4, "not encoded as the first part"), (first, 0.1, "overlap")):
        with pytest.raises(fb.SourceError, match=message):
            fb.video.join_videos([(first, 0), (second, begins)], tmp_path / "joined.mp4")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.mp4", "2.mp4"]
