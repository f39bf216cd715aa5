"""Frames to textures and back to files, as OpenCV reads them: real GL. test_reading.py has videos that are read."""

from __future__ import annotations

import gc
import resource
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.interop.frames.read.source import Source
from framebind.interop.frames.read.synthetic import MotionReader
from framebind.interop.frames.read.upload import UploadRing
from framebind.interop.frames.read.yuv_to_rgb import layout_of
from support.video.textures import textures

Picture = npt.NDArray[np.uint8]


def numbered(number: int, width: int = 33, height: int = 18) -> Picture:
    """A BGR frame that tells its number, its channels and its orientation."""
    frame = np.zeros((height, width, 3), np.uint8)
    frame[..., 0] = np.arange(width)[None, :] * 7
    frame[..., 1] = np.arange(height)[:, None] * 13
    frame[..., 2] = number
    return frame


class Frames:
    """A reader of given frames; a None stands for a frame that cannot be decoded.

    With ``go`` it is live: it waits for ``go`` after the first frame, and sets ``all_read`` when it has read the last.
    """

    fps, name = 25.0, "a test source"
    damaged, status, retry = 0, "", None

    def __init__(self, frames: list[Picture | None], go: threading.Event | None = None) -> None:
        self.frames, self.live, self.length, self.go = frames, go is not None, len(frames), go
        self.all_read = threading.Event()
        height, width = frames[0].shape[:2] if frames[0] is not None else (1, 1)
        self.size, self.closed, self.number = (width, height), False, 0
        self.layout, self.captured, self.time = layout_of("bgr", width, height), None, None

    def read(self, view: Picture) -> bool:
        if self.go and self.number:
            assert self.go.wait(10)
        if self.number == len(self.frames):
            if not self.live:
                return False
            self.all_read.set()
            self.number -= 1  # a camera has no end: its last frame again
        frame = self.frames[self.number]
        if frame is None:
            raise fb.SourceError("frame is damaged")
        view[...] = frame
        self.number += 1
        return True

    def reopen(self) -> bool:
        self.number = 0
        return True

    def close(self) -> None:
        self.closed = True


def bgr(texture: fb.GlTexture) -> Picture:
    rgba = texture.read()
    assert (rgba[..., 3] == 255).all()
    return rgba[..., 2::-1]


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("width", [1, 33, 64])
def test_bgr_bytes_become_an_rgba_texture(context: fb.GlContext, width: int, persistent: bool) -> None:
    ring = UploadRing(context, width, 18, persistent=None if persistent else False)
    assert ring.persistent is persistent
    for number in range(7):
        slot = number % 3
        ring.wait(slot)
        ring.view(slot)[...] = numbered(number, width)
        texture = ring.to_texture(slot)
        assert (texture.size, texture.format) == ((width, 18), "rgba8")
        np.testing.assert_array_equal(bgr(texture), numbered(number, width))
    assert fb.transfers.by_reason["upload", "camera frame"].bytes == 7 * width * 18 * 3
    ring.release()


def test_an_upload_makes_no_gl_object_and_no_other_copy(context: fb.GlContext) -> None:
    ring = UploadRing(context, 32, 16)
    for slot in range(3):
        ring.view(slot)
        ring.to_texture(slot)
    before = dict(context.objects.live)
    with fb.transfer_guard("disallow", exempt=("camera frame",)):
        for number in range(20):
            ring.wait(number % 3)
            ring.view(number % 3)
            ring.to_texture(number % 3)
    assert dict(context.objects.live) == before
    ring.release()
    with pytest.raises(fb.TransferError, match="camera frame"), fb.transfer_guard("disallow"):
        UploadRing(context, 8, 8).to_texture(0)


@pytest.mark.parametrize(("every", "given"), [(1, 7), (3, 3), (7, 1)])
def test_each_nth_frame_is_uploaded_and_no_other(context: fb.GlContext, every: int, given: int) -> None:
    source = Source(Frames([numbered(number) for number in range(7)]))
    source.every = every
    fb.transfers.reset()
    for number, texture in enumerate(textures(source, context)):
        np.testing.assert_array_equal(bgr(texture), numbered(number * every))
    assert fb.transfers.by_reason["upload", "camera frame"].calls == given


def test_a_file_drops_no_frame_and_ends(context: fb.GlContext) -> None:
    reader = Frames([numbered(number) for number in range(12)])
    source = Source(reader)
    seen, objects = [], set[int]()
    for texture in textures(source, context):
        seen.append(int(bgr(texture)[0, 0, 2]))
        objects.add(texture.id)
        time.sleep(0.01)
    assert seen == list(range(12))
    assert len(objects) == 3, "a fixed ring of textures"
    assert reader.closed and source.dropped == 0
    with pytest.raises(fb.SourceError, match="open it again"):
        next(textures(source, context))


def test_a_live_source_gives_the_newest_frame(context: fb.GlContext) -> None:
    go = threading.Event()
    reader = Frames([numbered(number) for number in range(50)], go)
    with Source(reader) as source:
        frames = textures(source, context)
        assert bgr(next(frames))[0, 0, 2] == 0
        go.set()
        assert reader.all_read.wait(10), "the worker goes on while the owner is busy"
        assert bgr(next(frames))[0, 0, 2] == 49
        assert source.dropped >= 40
    assert reader.closed and list(frames) == []


def test_a_damaged_frame_reaches_the_owner(context: fb.GlContext) -> None:
    reader = Frames([numbered(0), numbered(1), None])
    frames = textures(Source(reader), context)
    assert [int(bgr(next(frames))[0, 0, 2]) for _ in range(2)] == [0, 1]
    with pytest.raises(fb.SourceError, match="damaged"):
        next(frames)
    assert reader.closed


@pytest.mark.parametrize("size", [(160, 120), (160, 90), (120, 120), (90, 160)])
def test_a_head_at_the_top_of_a_photograph_stays_in_the_moving_frame(size: tuple[int, int]) -> None:
    photograph = np.full((512, 512, 3), 90, np.uint8)
    corners = ((14, 160), (14, 290), (190, 160), (190, 290))  # y and x of the head in the demos' photograph
    colors = np.array([(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0)], np.uint8)
    for (y, x), color in zip(corners, colors, strict=True):
        photograph[y : y + 16, x - 8 : x + 8] = color
    reader, frame = MotionReader(photograph, size, "motion"), np.empty((size[1], size[0], 3), np.uint8)
    for _ in range(reader.PERIOD):
        reader.read(frame)
        for color in colors:
            assert (np.abs(frame.astype(int) - color).max(axis=-1) < 60).any(), "each corner of the head is to be seen"


def test_leaving_the_loop_early_stops_the_worker(context: fb.GlContext) -> None:
    reader = MotionReader(numbered(3), (32, 16), "motion")
    with Source(reader) as source:
        for _ in textures(source, context):
            break
    assert not [t for t in threading.enumerate() if t.name == "framebind motion"]
    context.objects.drain()


@pytest.mark.parametrize("es", [False, True])
def test_a_context_that_goes_first_stops_the_worker(es: bool) -> None:
    """The worker would write to memory that went with the context."""
    reader = MotionReader(numbered(3), (640, 480), "motion")
    source = Source(reader)
    with fb.GlContext.headless(es=es) as context:
        frames = textures(source, context)
        next(frames)
    assert not [t for t in threading.enumerate() if t.name == "framebind motion"]
    assert list(frames) == []


def test_a_recording_of_something_live_shows_each_picture_for_its_time(
    context: fb.GlContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    sink, texture = fb.video.VideoWriter(tmp_path / "a.avi", (32, 32), fps=10, live=True), fb.GlTexture(32, 32)
    # One comes too soon, one late, and before the one at 5.0 is a pause, which is cut out.
    for number, seconds in enumerate((0.0, 0.05, 0.101, 0.351, 5.0, 5.101)):
        now[0] = 100.0 + seconds
        texture.write(np.full((32, 32, 4), 40 * number, np.uint8))
        sink.put(texture)
    sink.close()
    capture = cv2.VideoCapture(str(tmp_path / "a.avi"))
    shown: list[int] = []
    while (found := capture.read())[0]:
        shown.append(round(float(found[1].mean()) / 40))
    assert shown == [0, 2, 3, 3, 4, 5]


def test_pictures_and_folders(context: fb.GlContext, tmp_path: Path) -> None:
    for name, number in (("b.png", 2), ("a.png", 1), ("c.png", 3)):
        cv2.imwrite(str(tmp_path / name), numbered(number, *((66, 36) if number == 3 else (33, 18))))
    (tmp_path / "notes.txt").write_text("not a picture")
    with fb.open_source(tmp_path) as source:
        assert (source.size, source.length) == ((33, 18), 3)
        assert [int(bgr(texture)[9, 9, 2]) for texture in textures(source, context)] == [1, 2, 3]
    with fb.open_source(tmp_path / "b.png") as source:
        (texture,) = textures(source, context)
        np.testing.assert_array_equal(bgr(texture), numbered(2))


def test_synthetic_motion(context: fb.GlContext, tmp_path: Path, photograph: Callable[..., Picture]) -> None:
    path = tmp_path / "photograph.png"
    cv2.imwrite(str(path), photograph("coffee")[..., ::-1])

    def take(spec: str) -> list[Picture]:
        with fb.open_source(spec, size=(96, 64)) as source:
            assert (source.size, source.length) == ((96, 64), None)
            return [bgr(texture) for texture, _ in zip(textures(source, context), range(6), strict=False)]

    for spec in ("synthetic", f"synthetic:{path}"):
        frames = take(spec)
        assert all(frame.std() > 20 for frame in frames), "a picture, not a plain colour"
        assert all((a != b).any() for a, b in pairwise(frames)), "it moves"
        np.testing.assert_array_equal(frames, take(spec))


def test_what_cannot_be_opened_says_what_to_try(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.mp4"
    damaged.write_bytes(b"\0" * 5000)
    picture = tmp_path / "damaged.png"
    picture.write_bytes(b"no picture")
    (tmp_path / "empty").mkdir()
    for spec, message in {
        99: "camera 99 cannot be opened: is it plugged in",
        "98": "camera 98 cannot be opened",
        str(tmp_path / "missing.mp4"): "there is no file or folder .*missing.mp4.*: a source is",
        str(damaged): "damaged.mp4' cannot be opened: Invalid data",
        str(picture): "damaged.png' is no picture that OpenCV can decode",
        str(tmp_path / "empty"): "holds no picture",
        f"synthetic:{tmp_path / 'missing.png'}": "missing.png' cannot be read",
    }.items():
        with pytest.raises(fb.SourceError, match=message):
            fb.open_source(spec)
    missing = tmp_path / "missing.mp4"
    for open_it in (lambda: fb.open_source(missing, end=1.0), lambda: fb.open_source(missing, decoder="cpu")):
        with pytest.raises(fb.SourceError, match=r"there is no file or folder .*missing.mp4"):
            open_it()


def test_video_sink_keeps_every_frame_in_order(context: fb.GlContext, tmp_path: Path) -> None:
    path = tmp_path / "made" / "here.avi"
    texture = fb.GlTexture(64, 48, "rgba8")
    sink, fences = fb.video.VideoWriter(path, (64, 48), fps=10), context.objects.live["sync"]
    for number in range(8):
        texture.write(np.full((48, 64, 4), (20 * number, 255 - 20 * number, 40, 255), np.uint8))
        before = context.objects.live.copy()
        sink.put(texture)
        added = context.objects.live - before
        assert number < 2 or set(added) <= {"sync"}, "two frames are on their way, then none is added"
        assert context.objects.live["sync"] <= fences + 2
    sink.close()
    sink.close()
    hop = fb.transfers.by_reason["download", "video frame"]
    assert (hop.calls, hop.bytes) == (8, 8 * 64 * 48 * 4)
    capture = cv2.VideoCapture(str(path))
    for number in range(8):
        found, frame = capture.read()
        assert found
        expected = (40, 255 - 20 * number, 20 * number)
        np.testing.assert_allclose(frame.reshape(-1, 3).mean(axis=0), expected, atol=3)  # JPEG
    assert not capture.read()[0]


def test_picture_sink_writes_the_last_picture(context: fb.GlContext, tmp_path: Path) -> None:
    picture = np.dstack([numbered(5)[..., ::-1], np.full((18, 33), 255, np.uint8)])
    texture = fb.GlTexture.from_array(picture)
    sink = fb.video.VideoWriter(tmp_path / "last.png", (33, 18))
    sink.put(texture)
    assert fb.transfers.by_reason.get(("download", "picture file")) is None
    sink.close()
    np.testing.assert_array_equal(cv2.imread(str(tmp_path / "last.png")), numbered(5))
    assert fb.transfers.by_reason["download", "picture file"].bytes == picture.nbytes


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """``full_disk(nbytes)``: from now on no file grows beyond so many bytes, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)  # Python ignores the signal that goes with it
    yield lambda nbytes: resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["a.png", "a.mp4", "a.mov", "a.mkv", "a.avi"])
def test_a_full_disk_is_said_and_leaves_the_file_that_was_there(
    context: fb.GlContext, tmp_path: Path, full_disk: Callable[[int], None], name: str
) -> None:
    path, size = tmp_path / name, (64, 48)
    path.write_bytes(b"of an earlier run")
    texture, random = fb.GlTexture(*size), np.random.default_rng(0)
    sink = fb.video.VideoWriter(path, size)
    full_disk(6000)
    for _ in range(12):
        texture.write(random.integers(0, 256, (48, 64, 4), np.uint8))
        sink.put(texture)
    reason = "(File too large|not all of its 12 frames reached the disk)"
    with pytest.raises(fb.SourceError, match=f"'.*{name}' cannot be written: {reason}"):
        sink.close()
    full_disk(resource.RLIM_INFINITY)
    sink.close()
    assert path.read_bytes() == b"of an earlier run"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["a.png", "a.avi"])
def test_a_file_is_replaced_when_the_new_one_is_complete(context: fb.GlContext, tmp_path: Path, name: str) -> None:
    kept, link, texture = tmp_path / "kept", tmp_path / name, fb.GlTexture(32, 32)
    kept.write_bytes(b"of an earlier run")
    kept.chmod(0o600)
    link.symlink_to(kept)
    fb.video.VideoWriter(link, (32, 32)).close()  # no picture
    sink = fb.video.VideoWriter(link, (32, 32))
    for _ in range(4):
        sink.put(texture)
    assert kept.read_bytes() == b"of an earlier run"
    sink.close()
    assert cv2.VideoCapture(str(link)).read()[0] and link.is_symlink() and kept.stat().st_mode & 0o777 == 0o600
    assert sorted(tmp_path.iterdir()) == sorted([kept, link])


def test_a_video_that_nobody_closed_is_complete_or_not_there(context: fb.GlContext, tmp_path: Path) -> None:
    for name, pictures in (("a.avi", 5), ("b.avi", 0)):
        sink = fb.video.VideoWriter(tmp_path / name, (32, 32))
        for _ in range(pictures):
            sink.put(fb.GlTexture(32, 32))
        del sink
    gc.collect()
    assert [path.name for path in tmp_path.iterdir()] == ["a.avi"]
    assert cv2.VideoCapture(str(tmp_path / "a.avi")).read()[0]


def test_a_sink_that_cannot_be_opened(context: fb.GlContext, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for target, message in {
        tmp_path / "clip.xyz": "no known format: use .png or one of .mp4",
        tmp_path / "file" / "clip.mp4": "video '.*clip.mp4' cannot be written: File exists",
        tmp_path / "file" / "last.png": "picture '.*last.png' cannot be written: File exists",
        tmp_path / "zero\0.png": "cannot be written: .*null",
    }.items():
        with pytest.raises(fb.SourceError, match=message):
            fb.video.VideoWriter(target, (8, 8))
    (tmp_path / "taken.mp4").mkdir()
    with pytest.raises(fb.SourceError, match="cannot be written: something else than a file is there"):
        fb.video.VideoWriter(tmp_path / "taken.mp4", (64, 48))
    sink = fb.video.VideoWriter(tmp_path / "clip.mp4", (64, 48))
    with pytest.raises(fb.SourceError, match="takes rgba8 pictures of 64x48, not 32x32"):
        sink.put(fb.GlTexture(32, 32, "rgba8"))
    sink.close()
