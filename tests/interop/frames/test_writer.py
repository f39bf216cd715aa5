"""The thread that encodes a video: pictures in flight are counted, not timed; the file is one of the test's own."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import framebind as fb
from framebind.interop.frames.write.readback import ReadbackRing
from framebind.interop.frames.write.sink import WAITING, ArraySink, VideoSink

SIZE = (8, 4)


class File:
    """A video file that keeps the first number of each frame, once it may."""

    def __init__(self, allowed: int = 0, fails_at: int | None = None) -> None:
        self.allowed, self._fails_at = threading.Semaphore(allowed), fails_at
        self.frames: list[tuple[int, float | None]] = []
        self.finished_on: threading.Thread | None = None

    def write(self, rgba: np.ndarray, time: float | None = None) -> None:
        self.allowed.acquire()
        if len(self.frames) == self._fails_at:
            raise fb.SourceError("no space")
        self.frames.append((int(rgba[0, 0, 0]), time))

    def finish(self) -> None:
        self.finished_on = threading.current_thread()


def open_sink(file: File, context: fb.GlContext) -> VideoSink:
    return VideoSink(Path("a.mp4"), file, context, SIZE, 25.0, live=False)


def put(sink: VideoSink, texture: fb.GlTexture, number: int) -> None:
    texture.write(np.full((SIZE[1], SIZE[0], 4), number, np.uint8))
    sink.put(texture, number / 25)


def test_pictures_wait_in_the_ring_while_the_encoder_is_busy(context: fb.GlContext) -> None:
    file, texture = File(), fb.GlTexture(*SIZE)
    sink, slots = open_sink(file, context), ReadbackRing(context, *SIZE).slots
    for number in range(slots):
        put(sink, texture, number)  # returns although nothing is written
    assert file.frames == [] and slots == 4
    for number in range(slots, 3 * slots):
        file.allowed.release()
        put(sink, texture, number)  # takes the buffer of a picture that was written
        assert len(file.frames) >= number + 1 - slots, "no more pictures in flight than buffers"
    file.allowed.release(slots)
    sink.end()
    sink.end()
    closing = threading.Thread(target=sink.close)  # any thread may wait, once it has ended
    closing.start()
    closing.join()
    assert file.frames == [(number, number / 25) for number in range(3 * slots)]
    assert file.finished_on not in (None, threading.current_thread())


def test_bytes_in_flight_are_bounded(context: fb.GlContext) -> None:
    context.check()
    ring = ReadbackRing(context, 8192, 4352)
    assert ring.slots == 2, "two frames of 8K are more than the bytes allowed"
    ring.release()


def test_an_error_of_the_encoder_is_raised_by_put_and_close(context: fb.GlContext) -> None:
    file, texture = File(allowed=100, fails_at=2), fb.GlTexture(*SIZE)
    sink = open_sink(file, context)
    with pytest.raises(fb.SourceError, match="no space"):
        for number in range(12):
            put(sink, texture, number)
    with pytest.raises(fb.SourceError, match="no space"):
        sink.close()
    sink.close()
    assert [number for number, _ in file.frames] == [0, 1] and file.finished_on is not None


def test_arrays_wait_for_the_encoder_without_a_gpu() -> None:
    file = File(allowed=1)
    sink = ArraySink(Path("a.mp4"), file, SIZE)
    for number in range(WAITING + 1):  # the last one waits until the first is written
        sink.put(np.full((SIZE[1], SIZE[0], 4), number, np.uint8), number / 25)
    assert file.frames == [(0, 0.0)]
    file.allowed.release(WAITING)
    sink.close()
    assert file.frames == [(number, number / 25) for number in range(WAITING + 1)]
    assert file.finished_on is not None and file.finished_on is not threading.current_thread()


def test_pictures_of_another_kind_are_an_error(context: fb.GlContext, tmp_path: Path) -> None:
    array, texture = np.zeros((4, 8, 4), np.uint8), fb.GlTexture(*SIZE)
    with fb.open_sink(tmp_path / "a.mp4", None, SIZE) as sink:
        for wrong in (texture, array[:2], array.astype(np.float32)):
            with pytest.raises(fb.SourceError, match=r"takes arrays of uint8 of \(4, 8, 4\), not "):
                sink.put(wrong)
    with (
        fb.open_sink(tmp_path / "a.mp4", context, SIZE) as sink,
        pytest.raises(fb.SourceError, match="takes its textures"),
    ):
        sink.put(array)
    assert not list(tmp_path.iterdir())
