"""Cameras: what is asked of them, raw frames converted on the GPU, unplugged and back. The capture object is a double,
because no camera is there; all else is real.
"""

from __future__ import annotations

import functools
import http.server
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.interop.frames.read.camera import cameras_in, why_closed
from framebind.interop.frames.read.worker import Waits
from support.video.textures import textures
from support.webcam import SIZE, Picture, Webcam

WEIGHTS = {"bt601": (0.299, 0.587, 0.114), "bt709": (0.2126, 0.7152, 0.0722)}


def random_frame(shape: tuple[int, ...]) -> Picture:
    return np.random.default_rng(1).integers(0, 256, shape, np.uint8)


def to_rgb(y: Any, u: Any, v: Any, matrix: str) -> npt.NDArray[np.float64]:
    """Limited range YUV of 8 bits to RGB from 0 to 255, in float64."""
    red, green, blue = WEIGHTS[matrix]
    luma, pb, pr = (y - 16.0) / 219, (u - 128.0) / 224, (v - 128.0) / 224
    r, b = luma + 2 * (1 - red) * pr, luma + 2 * (1 - blue) * pb
    return np.clip(np.stack([r, (luma - red * r - blue * b) / green, b], axis=-1), 0, 1) * 255


def yuyv_to_rgb(frame: Picture, matrix: str) -> npt.NDArray[np.float64]:
    u, v = (np.repeat(frame[:, start::2, 1], 2, axis=1) for start in (0, 1))
    return to_rgb(frame[..., 0], u, v, matrix)


def nv12_to_rgb(frame: Picture, matrix: str) -> npt.NDArray[np.float64]:
    height = frame.shape[0] * 2 // 3
    chroma = frame[height:].reshape(height // 2, -1, 2).repeat(2, axis=0).repeat(2, axis=1)
    return to_rgb(frame[:height], chroma[..., 0], chroma[..., 1], matrix)


@pytest.mark.parametrize("matrix", ["bt601", "bt709"])
@pytest.mark.parametrize("fourcc", ["YUYV", "NV12"])
def test_raw_frames_go_up_as_they_are_and_are_converted_on_the_gpu(
    context: fb.GlContext, webcam: Webcam, fourcc: str, matrix: Any
) -> None:
    width, height = SIZE
    webcam.formats = (fourcc,)
    shape, convert = {"YUYV": ((height, width, 2), yuyv_to_rgb), "NV12": ((height * 3 // 2, width), nv12_to_rgb)}[
        fourcc
    ]
    frame = random_frame(shape)
    webcam.frame = lambda number: frame
    fb.transfers.reset()
    with fb.open_source(0, size=SIZE, fourcc=fourcc, matrix=matrix) as opened:
        frames = textures(opened, context)
        texels = next(frames).read()
        assert fb.transfers.by_reason["upload", "camera frame"].bytes == frame.nbytes
        opened.mirror = True
        mirrored = next(frames).read()
    expected = convert(frame, matrix)
    np.testing.assert_allclose(texels[..., :3], expected, atol=0.501)  # rounded to whole steps
    np.testing.assert_allclose(mirrored[..., :3], expected[:, ::-1], atol=0.501)
    assert np.all(texels[..., 3] == 255)
    assert (cv2.CAP_PROP_CONVERT_RGB, 0) in webcam.asked


@pytest.mark.parametrize(
    ("matrix", "yuv", "rgb"),
    [
        ("bt601", (81, 90, 240), (255, 0, 0)), ("bt601", (145, 54, 34), (0, 255, 0)),
        ("bt601", (235, 128, 128), (255, 255, 255)), ("bt601", (16, 128, 128), (0, 0, 0)),
        ("bt709", (63, 102, 240), (255, 0, 0)), ("bt709", (32, 240, 118), (0, 0, 255)),
    ],
)  # fmt: skip
def test_the_colours_of_the_standards(matrix: str, yuv: tuple[int, ...], rgb: tuple[int, ...]) -> None:
    """The codes of pure colours, rounded to 8 bits, are back within that rounding: the oracle above is right."""
    np.testing.assert_allclose(to_rgb(*(np.array(c) for c in yuv), matrix), rgb, atol=2)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_camera_is_asked_for_its_format_first(context: fb.GlContext, webcam: Webcam) -> None:
    with fb.open_source(0, size=SIZE, fps=25) as opened:
        assert opened.name == "camera 0 (48x32 MJPG, 25 fps)" and (opened.size, opened.fps) == (SIZE, 25.0)
        webcam.frame = lambda number: np.full((32, 48, 3), (10, 20, 30), np.uint8)
        assert next(textures(opened, context)).read()[0, 0].tolist() == [30, 20, 10, 255]
    assert [name for name, _ in webcam.asked] == [
        cv2.CAP_PROP_FOURCC, cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT, cv2.CAP_PROP_FPS,
        cv2.CAP_PROP_BUFFERSIZE,
    ]  # fmt: skip


def test_a_format_that_the_camera_does_not_give_is_an_error(webcam: Webcam) -> None:
    with pytest.raises(fb.SourceError, match="camera 0 gives MJPG, not NV12: leave out --fourcc"):
        fb.open_source(0, fourcc="NV12")
    with pytest.raises(fb.SourceError, match="frames in H264 cannot be read: take one of MJPG, YUYV"):
        fb.open_source(0, fourcc="H264")
    webcam.formats, webcam.size = ("YUYV",), (33, 32)
    with pytest.raises(fb.SourceError, match="YUYV frames cannot be 33x32"):
        fb.open_source(0, fourcc="YUYV")
    webcam.size = (0, 0)
    with pytest.raises(fb.SourceError, match="camera 0 opens, but has no picture"):
        fb.open_source(0)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_frames_of_another_size_than_announced_are_an_error(context: fb.GlContext, webcam: Webcam) -> None:
    webcam.frame = lambda number: np.zeros((16, 16, 3), np.uint8)
    with fb.open_source(0) as opened, pytest.raises(fb.SourceError, match="gives frames of 16x16 uint8, not 48x32"):
        next(textures(opened, context))


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_an_unplugged_camera_is_held_and_comes_back(context: fb.GlContext, webcam: Webcam) -> None:
    webcam.delay = 0.002
    with fb.open_source(0) as opened:
        opened.waits = Waits(silence=0.05, held=0.01, retry=0.02)
        frames = textures(opened, context)
        assert opened.status == "" and next(frames) is not None
        webcam.plugged = False
        held = next(texture for texture in frames if opened.status)
        assert "camera 0 (48x32 MJPG, 25 fps) gives no frames: is it unplugged? Waiting" in opened.status
        value, captured, dropped = held.read()[0, 0, 0], opened.captured, opened.dropped
        for texture in islice(frames, 5):
            assert texture is held and texture.read()[0, 0, 0] == value
        assert (opened.captured, opened.dropped) == (captured, dropped)
        webcam.plugged = True
        back = next(texture for texture in frames if not opened.status)
        assert back.read()[0, 0, 0] > value and opened.captured > captured
    assert webcam.opened == 2


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_camera_that_stays_away_or_comes_back_as_another_is_an_error(context: fb.GlContext, webcam: Webcam) -> None:
    waits = Waits(silence=0.05, lost=0.2, retry=0.01)
    with fb.open_source(0) as opened, pytest.raises(fb.SourceError, match="gave no frame for 0 seconds: is it unplug"):
        opened.waits = waits
        for _ in textures(opened, context):
            webcam.plugged = False
    webcam.plugged = True
    with fb.open_source(0) as opened, pytest.raises(fb.SourceError, match=r"came back with frames of 64x32 \(bgr\)"):
        opened.waits = waits
        for _ in textures(opened, context):
            webcam.plugged = False
            if opened.status:
                webcam.plugged, webcam.size = True, (64, 32)
    webcam.size = SIZE
    with fb.open_source(0) as opened, pytest.raises(fb.SourceError, match="gave no frame for 0 seconds"):
        opened.waits = replace(waits, first_frame=0.1)
        webcam.plugged = False
        next(textures(opened, context))


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_the_driver_says_when_a_frame_was_taken(context: fb.GlContext, webcam: Webcam) -> None:
    webcam.stamp = (time.perf_counter() - 0.5) * 1e3
    with fb.open_source(0) as opened:
        next(textures(opened, context))
        assert opened.captured == webcam.stamp / 1e3
    webcam.stamp = 12.0  # another clock
    before = time.perf_counter()
    with fb.open_source(0) as opened:
        next(textures(opened, context))
        assert before < opened.captured < time.perf_counter()


def test_a_missing_camera_lists_those_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(fb.SourceError, match=r"camera 7 cannot be opened: is it plugged in.*Cameras here: "):
        fb.open_source(7)
    assert "Cameras here: none that the system lists" in why_closed(7, "camera 7", cameras_in(tmp_path))
    for index, name in ((10, "Grabber"), (2, "HD Webcam")):
        (tmp_path / f"video{index}").mkdir()
        (tmp_path / f"video{index}" / "name").write_text(name + "\n")
    found = cameras_in(tmp_path)
    assert found == [fb.video.Camera(2, "HD Webcam"), fb.video.Camera(10, "Grabber")]
    assert "Cameras here: 2 'HD Webcam', 10 'Grabber'" in why_closed(7, "camera 7", found)
    assert "you may not open /dev/video10: join its group" in why_closed(10, "camera 10", found)


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """A video of ten frames of increasing brightness."""
    path = tmp_path / "clip.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 25, (64, 48))
    for number in range(10):
        writer.write(np.full((48, 64, 3), 20 * number, np.uint8))
    writer.release()
    return path


@pytest.fixture
def server(clip: Path) -> Iterator[str]:
    """An address of the folder of the clip."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(clip.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
        httpd.shutdown()
        thread.join()


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_video_at_an_address(context: fb.GlContext, server: str) -> None:
    with fb.open_source(f"{server}/clip.avi") as opened:
        assert not opened.live and opened.length == 10
        values = [int(texture.read()[0, 0, 0]) for texture in textures(opened, context)]
    np.testing.assert_allclose(values, np.arange(10) * 20, atol=3)  # JPEG
    with pytest.raises(fb.SourceError, match=r"404 Not Found\. Is the address right"):
        fb.open_source(f"{server}/missing.avi")


def test_streams_that_cannot_be_opened() -> None:
    with pytest.raises(
        fb.SourceError, match=r"stream 'rtsp://127.0.0.1:1/x' cannot be opened: Connection refused. Is the"
    ):
        fb.open_source("rtsp://127.0.0.1:1/x")
    if not cv2.videoio_registry.hasBackend(cv2.CAP_GSTREAMER):
        with pytest.raises(fb.SourceError, match="this OpenCV is built without GStreamer"):
            fb.open_source("videotestsrc ! appsink")


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_files_begin_again_where_they_end(context: fb.GlContext, clip: Path, tmp_path: Path) -> None:
    with fb.open_source(clip, loop=True) as opened:
        assert opened.length is None
        values = [int(texture.read()[0, 0, 0]) for texture in islice(textures(opened, context), 25)]
    np.testing.assert_allclose(values, np.arange(25) % 10 * 20, atol=3)
    (tmp_path / "a.png").write_bytes(cv2.imencode(".png", np.full((4, 4, 3), 7, np.uint8))[1].tobytes())
    with fb.open_source(tmp_path / "a.png", loop=True) as opened:
        assert [int(t.read()[0, 0, 0]) for t in islice(textures(opened, context), 5)] == [7] * 5


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_damaged_video_says_so_at_its_end(context: fb.GlContext, clip: Path) -> None:
    data = bytearray(clip.read_bytes())
    middle = [found.start() for found in re.finditer(b"00dc", data)][5]
    data[middle:] = bytes(len(data) - middle)
    clip.write_bytes(data)
    seen = 0
    with (
        fb.open_source(clip) as opened,
        pytest.raises(fb.SourceError, match=r"is damaged: \d (of 10 )?frames could be"),
    ):
        for _ in textures(opened, context):
            seen += 1
    assert 3 < seen < 8
