"""Arrays and planes for virtual cameras: the bytes are those that the GPU packs of the same picture."""

from __future__ import annotations

import contextlib
import io
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.interop.frames.virtual_cameras.camera import FrameLayout, HostCamera, PixelFormat
from framebind.interop.frames.virtual_cameras.packing import Packer
from framebind.interop.frames.write.camera_frames import CameraFrames
from framebind.interop.frames.write.picture_queues import ArrayQueue
from framebind.interop.frames.write.planes_queue import PlanesQueue

Array = npt.NDArray[np.uint8]
FORMATS: tuple[PixelFormat, ...] = ("nv12", "yuy2")


class Shown(HostCamera):
    """A camera that keeps what it shows. Implements VirtualCamera."""

    def __init__(self, format: PixelFormat, size: tuple[int, int]) -> None:
        self.layout, self.is_watched, self.frames = FrameLayout(format, size), True, list[Array]()

    def wait(self, seconds: float) -> bool:
        return self.is_watched

    @contextlib.contextmanager
    def frame(self, captured: float) -> Iterator[Array]:
        memory = np.zeros(self.layout.shape, np.uint8)
        yield memory
        self.frames.append(memory)

    def close(self) -> None:
        self.is_watched = False


def smooth(size: tuple[int, int]) -> Array:
    """A picture without edges, so that the means of chroma of both ways agree."""
    y, x = np.mgrid[: size[1], : size[0]]
    picture = np.stack([x * 150 // size[0] + 40, y * 150 // size[1] + 40, 220 - x * 100 // size[0]], -1)
    return np.dstack([picture, np.full(size[::-1], 255)]).astype(np.uint8)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("size", [(96, 64), (98, 63), (640, 720)], ids=str)
def test_arrays_have_the_bytes_that_the_gpu_packs(format: PixelFormat, size: tuple[int, int]) -> None:
    camera, picture = Shown(format, size), smooth(size)
    queue = ArrayQueue(Path("camera"), CameraFrames(camera).write, camera.close, size)
    queue.put(picture, 0, None, None, None)
    queue.close()
    with fb.GlContext.headless():
        packed = Packer(camera.layout).pack(fb.GlTexture.from_array(picture)).read()
    assert np.abs(camera.frames[0].astype(int) - packed.astype(int)).max() <= 3


@pytest.mark.parametrize("format", FORMATS)
def test_planes_of_the_camera_s_own_colours_keep_their_numbers(format: PixelFormat) -> None:
    camera = Shown(format, (96, 64))
    luma = np.random.default_rng(0).integers(16, 236, (64, 96), np.uint8)
    chroma = np.full((32, 48, 2), (90, 170), np.uint8)
    picture = fb.YuvPicture([luma, chroma], format="nv12", matrix="bt601")
    queue = PlanesQueue(Path("camera"), CameraFrames(camera), picture)
    queue.put(picture, 0, None, None, None)
    queue.close()
    shown = camera.frames[0].reshape(-1)
    if format == "nv12":
        assert (shown[: 64 * 96].reshape(64, 96) == luma).all() and (
            shown[64 * 96 :].reshape(32, 48, 2) == chroma
        ).all()
    else:
        assert (shown[::2].reshape(64, 96) == luma).all()
        assert set(shown[1::2]) == {90, 170}


def test_a_page_shows_arrays_and_nothing_is_done_while_nobody_looks() -> None:
    pytest.importorskip("aiohttp")
    picture, marks = smooth((96, 64)), fb.video.Marks()
    with fb.video.VideoWriter("http://:0") as camera:
        marks.box(1, 1, 20, 20, (1.0, 0.0, 0.0))
        camera.put(picture, marks)  # nobody looks: the mark is forgotten
        found = list[bytes]()

        def look() -> None:
            with urllib.request.urlopen(camera.address + "camera.jpg", timeout=30) as response:
                found.append(response.read())

        threading.Thread(target=look, daemon=True).start()
        assert camera.wait_until_watched(30)
        deadline = time.monotonic() + 30
        while not found and time.monotonic() < deadline:
            camera.put(picture)
            time.sleep(0.02)
    with av.open(io.BytesIO(found[0])) as video:
        seen = next(video.decode(video=0)).to_ndarray(format="rgb24")
    assert np.abs(seen.astype(int) - picture[:, :, :3]).mean() < 4


def test_a_picture_of_another_size_is_refused() -> None:
    pytest.importorskip("aiohttp")
    with fb.video.VideoWriter("http://:0", (96, 64)) as camera:
        picture = fb.YuvPicture([np.zeros((32, 48), np.uint8), np.zeros((16, 24, 2), np.uint8)], matrix="bt601")
        with pytest.raises(fb.SourceError, match="takes frames of 96x64, not 48x32"):
            camera.put(picture)
