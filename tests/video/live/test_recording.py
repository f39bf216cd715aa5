"""Recordings of what is found: their seconds before and after, their space, and what happens if they cannot be."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import av
import numpy as np
import pytest

import framebind as fb
from framebind.video.live.recording import AFTER, BEFORE, LONGEST, Picture, Recorder, Tape

SIZE = (64, 48)


def show(tape: Tape, found: range, tenths: range, size: tuple[int, int] = SIZE) -> None:
    """Ten pictures per second; their brightness is their number, and something is in those of ``found``."""
    for number in tenths:
        pixels = np.full((size[1], size[0], 4), number % 256, np.uint8)
        tape.add(Picture(0, pixels, 1000 + number / 10, number in found))


def recordings(folder: Path) -> list[tuple[list[float], list[int]]]:
    """The times of the pictures of each file, and their numbers."""
    made = list[tuple[list[float], list[int]]]()
    for path in sorted(folder.glob("*.mp4")):
        with av.open(str(path)) as container:
            frames = list(container.decode(video=0))
        grey = [round(float(frame.to_ndarray(format="gray")[8:40, 8:56].mean())) for frame in frames]
        made.append(([float(frame.pts * frame.time_base) for frame in frames], grey))
    return made


def test_a_recording_begins_before_what_is_found_and_ends_after_it(tmp_path: Path) -> None:
    tape = Tape(tmp_path, "rtsp://10.0.0.2:554/door")
    show(tape, range(100, 111), range(200))
    assert not tape.is_recording
    ((times, numbers),) = recordings(tmp_path)
    first, last = 100 - 10 * BEFORE, 110 + 10 * AFTER
    assert times == pytest.approx([number / 10 for number in range(round(last - first) + 1)], abs=1e-4)
    assert np.abs(np.array(numbers) - np.arange(first, last + 1)).max() <= 3, "those pictures"
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("rtsp-10.0.0.2-554-door-")


def test_things_that_follow_each_other_are_in_one_recording_and_later_ones_in_another(tmp_path: Path) -> None:
    tape = Tape(tmp_path, "door")
    show(tape, range(40, 41), range(60))
    show(tape, range(60, 61), range(60, 120))
    show(tape, range(140, 141), range(120, 160))
    assert tape.is_recording
    tape.end_if_over(1000 + 14 + AFTER)
    assert tape.is_recording
    tape.end_if_over(1000 + 14 + AFTER + 1.1)  # no picture came
    assert not tape.is_recording
    lengths = [len(times) for times, _ in recordings(tmp_path)]
    assert sorted(lengths) == sorted([31 + 50, 20 + 30])


def test_a_long_recording_goes_on_in_another_file_without_a_gap(tmp_path: Path) -> None:
    tape, seconds = Tape(tmp_path, "door"), range(0, round(10 * LONGEST) + 20, 10)
    show(tape, range(seconds.stop), seconds)  # a picture per second: ten would take ten times as long to encode
    tape.finish()
    assert sum(len(times) for times, _ in recordings(tmp_path)) == len(seconds)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_picture_of_another_size_begins_another_file(tmp_path: Path) -> None:
    tape = Tape(tmp_path, "door")
    show(tape, range(10, 30), range(10))
    show(tape, range(10, 30), range(10, 20), size=(32, 20))
    show(tape, range(10, 30), range(20, 30))
    tape.finish()
    assert sorted(len(times) for times, _ in recordings(tmp_path)) == [10, 10]


def test_a_recording_that_cannot_be_written_is_said_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    folder.write_text("no folder")
    tape = Tape(folder, "door")
    now = time.perf_counter()
    picture = np.zeros((48, 64, 4), np.uint8)
    tape.add(Picture(0, picture, now, True))
    assert not tape.is_recording and "not recorded: " in tape.status and str(folder) in caplog.text
    folder.unlink()
    tape.add(Picture(0, picture, now + 0.1, True))
    assert not tape.is_recording, "not with each picture"
    tape.add(Picture(0, picture, now + 60, True))
    assert tape.is_recording and not tape.status
    tape.finish()
    with pytest.raises(fb.SourceError, match="takes no recordings"):
        Recorder(next(folder.iterdir()), ["door"], 1.0)


def test_the_oldest_recordings_make_room_and_nothing_else_is_removed(tmp_path: Path) -> None:
    for number, name in enumerate(("door-20200101T000000.000Z.mp4", "door-20200101T000100.000Z-2.mp4", "mine.mp4")):
        path = tmp_path / name
        path.write_bytes(bytes(600_000))
        os.utime(path, (1e9 + number, 1e9 + number))
    stale = tmp_path / "door.0123abcd.unfinished.mp4"
    stale.write_bytes(bytes(600_000))
    os.utime(stale, (1e9, 1e9))
    with contextlib.closing(Recorder(tmp_path, ["door"], 0.001)) as recorder:
        assert recorder.wants(0, True)
        recorder.put(0, np.zeros((48, 64, 4), np.uint8))
        assert not recorder.wants(0, False), "at most so many per second"
    assert not stale.exists() and (tmp_path / "mine.mp4").exists()
    ours = sorted(path.name for path in tmp_path.glob("door-*.mp4"))
    assert len(ours) == 2 and ours[0].endswith("000100.000Z-2.mp4"), "the oldest is gone, the new one is there"
    with contextlib.closing(Recorder(tmp_path, ["door"], 0.0)):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine.mp4"]
