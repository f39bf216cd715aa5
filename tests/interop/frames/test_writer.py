"""The thread that encodes a video: pictures in flight are counted, not timed; the file is one of the test's own."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import framebind as fb
from framebind.interop.frames.write.picture_queues import WAITING, ArrayQueue, TextureQueue
from framebind.interop.frames.write.readback import ReadbackRing
from support.video.clips import turn_track, write_clip

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


def open_queue(file: File, first: fb.GlTexture) -> TextureQueue:
    return TextureQueue(Path("a.mp4"), file.write, file.finish, first, SIZE, live_rate=None, reason="video frame")


def put(queue: TextureQueue, texture: fb.GlTexture, number: int) -> None:
    texture.write(np.full((SIZE[1], SIZE[0], 4), number, np.uint8))
    queue.put(texture, 0, None, number / 25, None)


def test_pictures_wait_in_the_ring_while_the_encoder_is_busy(context: fb.GlContext) -> None:
    file, texture = File(), fb.GlTexture(*SIZE)
    sink, slots = open_queue(file, texture), ReadbackRing(context, *SIZE).slots
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
    sink = open_queue(file, texture)
    with pytest.raises(fb.SourceError, match="no space"):
        for number in range(12):
            put(sink, texture, number)
    with pytest.raises(fb.SourceError, match="no space"):
        sink.close()
    sink.close()
    assert [number for number, _ in file.frames] == [0, 1] and file.finished_on is not None


def test_arrays_wait_for_the_encoder_without_a_gpu() -> None:
    file = File(allowed=1)
    sink = ArrayQueue(Path("a.mp4"), file.write, file.finish, SIZE)
    for number in range(WAITING + 1):  # the last one waits until the first is written
        sink.put(np.full((SIZE[1], SIZE[0], 4), number, np.uint8), 0, None, number / 25, None)
    assert file.frames == [(0, 0.0)]
    file.allowed.release(WAITING)
    sink.close()
    assert file.frames == [(number, number / 25) for number in range(WAITING + 1)]
    assert file.finished_on is not None and file.finished_on is not threading.current_thread()


def test_pictures_of_another_kind_are_an_error(context: fb.GlContext, tmp_path: Path) -> None:
    array, texture = np.zeros((4, 8, 4), np.uint8), fb.GlTexture(*SIZE)
    planes = fb.YuvPicture([np.zeros((4, 8), np.uint8), np.zeros((2, 4, 2), np.uint8)])
    wrongs: list[tuple[Any, Any, str]] = [
        (array, texture, r"takes arrays of uint8 of \(4, 8, 4\), not "), (array, array[:2], "takes arrays of uint8"),
        (array, array.astype(np.float32), "takes arrays of uint8"), (texture, array, "takes textures, as its first"),
        (texture, fb.GlTexture(4, 4), "takes rgba8 pictures of 8x4, not 4x4"),
        (planes, texture, "takes planes, as its first frame was, not a GlTexture"),
    ]  # fmt: skip
    for number, (first, wrong, message) in enumerate(wrongs):
        with fb.video.VideoWriter(tmp_path / f"{number}.mp4", SIZE) as video:
            video.put(first)
            with pytest.raises(fb.SourceError, match=message):
                video.put(wrong)
        assert (tmp_path / f"{number}.mp4").is_file()
    wrong: Any = "a picture"
    with fb.video.VideoWriter(tmp_path / "none.mp4") as video:
        with pytest.raises(fb.SourceError, match="takes frames, textures, planes or arrays, not a str"):
            video.put(wrong)
        with pytest.raises(fb.SourceError, match=r"takes frames in the CPU's memory: source.frames\('cpu'\)"):
            video.put(fb.YuvPicture([object()] * 3, format="yuv420p", width=8, height=4))
    with (
        fb.video.VideoWriter(tmp_path / "none.mp4", (6, 4)) as video,
        pytest.raises(fb.SourceError, match="of 6x4, not 8x4"),
    ):
        video.put(planes)
    assert not (tmp_path / "none.mp4").exists(), "a video without frames is none"


@pytest.mark.parametrize("name", ["a.mp4", "a.png"])
@pytest.mark.parametrize("finish", ["end", "close"])
def test_a_picture_after_the_end_is_an_error_and_not_lost(
    context: fb.GlContext, finish: str, name: str, tmp_path: Path
) -> None:
    texture, video = fb.GlTexture(*SIZE), fb.video.VideoWriter(tmp_path / name, SIZE)
    video.put(texture)
    getattr(video, finish)()
    with pytest.raises(fb.SourceError, match=f"{name}' is closed: another VideoWriter takes further pictures"):
        video.put(texture)
    video.close()
    assert (tmp_path / name).is_file()


def test_marks_are_painted_on_pictures_of_all_kinds(context: fb.GlContext, tmp_path: Path) -> None:
    array = np.full((48, 64, 4), (40, 40, 40, 255), np.uint8)
    planes = fb.YuvPicture([np.full((48, 64), 50, np.uint8), np.full((24, 32, 2), 128, np.uint8)], matrix="bt601")
    pictures: list[Any] = [fb.GlTexture.from_array(array), array, planes, fb.Frame(planes)]
    for number, picture in enumerate(pictures):
        path, marks = tmp_path / f"{number}.mp4", fb.video.Marks()
        with fb.video.VideoWriter(path, quality=5) as video:
            for left in (0, 32):
                marks.fill(left, 16, 32, 16, (1.0, 0.5, 0.0))
                video.put(picture, marks)
        with av.open(str(path)) as container:
            (_, last) = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        assert np.abs(last[18:30, 36:60].astype(int) - (255, 128, 0)).max() <= 6
        assert np.abs(last[2:14, 36:60].astype(int) - 40).max() <= 6
    assert (array[..., 0] == 40).all(), "arrays stay as they are"


def test_a_video_is_like_its_source(tmp_path: Path) -> None:
    source = write_clip(tmp_path / "a.mp4", size=(66, 50), frames=12, times=range(12), sound=True)
    turn_track(source, 90)
    for options, streams in (({}, ["video", "audio"]), ({"sound": False}, ["video"])):
        with fb.open_source(source, start=0.055) as reader:
            assert (reader.file, reader.part) == (source, (0.055, None))
            with fb.video.VideoWriter(tmp_path / "b.mp4", like=reader, **options) as video:
                times = [frame.time for frame in reader.frames("cpu") if video.put(frame) is None]
        with av.open(str(tmp_path / "b.mp4")) as container:
            assert [stream.type for stream in container.streams] == streams
            frames = list(container.decode(video=0))
        assert (frames[0].width, frames[0].height) == (50, 66)
        assert [frame.time for frame in frames] == pytest.approx([(time or 0) - 0.055 for time in times], abs=2e-3)


def test_old_names_work_with_a_warning(context: fb.GlContext, tmp_path: Path) -> None:
    texture, planes = fb.GlTexture(8, 4), fb.YuvPicture([np.zeros((4, 8), np.uint8), np.zeros((2, 4, 2), np.uint8)])
    with (
        pytest.warns(DeprecationWarning, match="open_sink is deprecated.* use VideoWriter") as warned,
        fb.open_sink(tmp_path / "a.mp4", context, SIZE, fps=10) as sink,
    ):
        assert sink.put(texture, 0.0) and sink.put(texture, 0.5)
    assert warned[0].filename == __file__
    with (
        pytest.warns(DeprecationWarning, match="MarkedVideo is deprecated.* use VideoWriter"),
        fb.MarkedVideo(tmp_path / "b.mp4", fps=10) as video,
    ):
        video.put(planes, fb.video.Marks(), 0.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mp4", "b.mp4"]
    with pytest.warns(DeprecationWarning), fb.open_sink(None, context, SIZE) as sink, fb.transfer_guard("disallow"):
        assert sink.put(texture)
