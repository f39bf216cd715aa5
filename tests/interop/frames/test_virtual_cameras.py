"""Virtual cameras: what other programs get of a picture, and what is done while nobody looks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import av
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.interop.frames.virtual_cameras.camera import FrameLayout, PixelFormat
from framebind.interop.frames.virtual_cameras.packing import Packer
from support.environment import without_descriptors
from support.pipewire import Daemon, Viewer, open_files, until

SIZE = (64, 48)
NAME = "framebind.A camera"
FORMATS: tuple[PixelFormat, ...] = ("nv12", "yuy2")
on_gl = pytest.mark.parametrize("context", ["gl"], indirect=True)
"""One API is enough: what reaches programs is the same on GL ES, whose packing is tested above."""


@contextmanager
def opened(size: tuple[int, int] = SIZE, name: str = "A camera") -> Iterator[fb.video.VideoWriter]:
    with fb.video.VideoWriter(f"pipewire:{name}", size, 30.0) as camera:
        yield camera


def numbered(texture: fb.GlTexture, number: int) -> fb.GlTexture:
    """A grey picture that says its number by its brightness."""
    texture.write(np.full((*texture.size[::-1], 4), number, np.uint8))
    return texture


def meet(camera: fb.video.VideoWriter, viewer: Viewer, texture: fb.GlTexture, name: str = NAME) -> None:
    """Link a viewer, which misses pictures until it runs. Returns when it has got all that it can, and forgets it."""

    def put() -> bool:
        camera.put(numbered(texture, 0))
        time.sleep(0.01)
        return bool(viewer.seen)

    viewer.watch(name)
    assert camera.wait_until_watched(30)
    until(put, "frame")
    camera.put(numbered(texture, 255))
    until(lambda: viewer.seen[-1].frame.flat[0] == luma_of(255), "last frame")
    viewer.seen.clear()


def show(camera: fb.video.VideoWriter, texture: fb.GlTexture, count: int) -> None:
    """Put so many pictures at 100 per second."""
    for number in range(count):
        camera.put(numbered(texture, number))
        time.sleep(0.01)


def luma_of(number: int) -> int:
    return round(16 + 219 * number / 255)


def by_swscale(rgba: npt.NDArray[np.uint8], format: PixelFormat, matrix: int) -> npt.NDArray[np.uint8]:
    """A picture's frame by FFmpeg, whose chroma is the mean of its pixels, too."""
    height, width = rgba.shape[:2]
    name = {"nv12": "nv12", "yuy2": "yuyv422"}[format]
    frame = av.VideoFrame.from_ndarray(rgba, format="rgba").reformat(
        width, height, name, dst_colorspace=matrix, dst_color_range=1, interpolation="AREA"
    )
    return frame.to_ndarray().astype(np.uint8).reshape(FrameLayout(format, (width, height)).shape)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("size", "matrix"), [((320, 240), 5), ((64, 720), 1)])
def test_a_photograph_is_packed_as_by_swscale(
    context: fb.GlContext,
    photograph: Callable[..., npt.NDArray[np.uint8]],
    format: PixelFormat,
    size: tuple[int, int],
    matrix: int,
) -> None:
    rgba = np.dstack([photograph("coffee", *size), np.full(size[::-1], 255, np.uint8)])
    packed = Packer(FrameLayout(format, size)).pack(fb.GlTexture.from_array(rgba)).read()
    error = np.abs(packed.astype(int) - by_swscale(rgba, format, matrix))
    assert error.max() <= 1


def test_a_size_that_no_format_has_repeats_its_edge(context: fb.GlContext) -> None:
    layout = FrameLayout("nv12", (5, 3))
    assert layout.padded == (8, 4) and layout.nbytes == 48 and layout.stride == 8
    pixels = np.zeros((3, 5, 4), np.uint8)
    pixels[-1], pixels[:, -1] = 255, 255
    luma = Packer(layout).pack(fb.GlTexture.from_array(pixels)).read().reshape(6, 8)[:4]
    assert (luma[:2, :4] == 16).all() and (luma[2:] == 235).all() and (luma[:, 4:] == 235).all()


@on_gl
@pytest.mark.parametrize("format", FORMATS)
def test_a_viewer_gets_every_picture_at_once_in_its_format(
    context: fb.GlContext, pipewire: Daemon, format: PixelFormat
) -> None:
    texture = fb.GlTexture(*SIZE)
    with opened() as camera, Viewer(pipewire, format, SIZE) as viewer:
        meet(camera, viewer, texture)
        fb.transfers.reset()
        for number in range(100, 130):
            camera.put(numbered(texture, number))
            until(lambda least=number - 99: len(viewer.seen) >= least, "frame, before the next one is put")
        times = [seen.pts for seen in viewer.seen]
        first = viewer.seen[0].sequence
        assert [seen.sequence - first for seen in viewer.seen] == list(range(30)) and times == sorted(set(times))
        assert [int(seen.frame.flat[0]) for seen in viewer.seen] == [luma_of(n) for n in range(100, 130)]
        nbytes = FrameLayout(format, SIZE).nbytes
        copied = fb.transfers.by_reason["download", fb.transfers.VIDEO_FRAME]
        assert (copied.calls, copied.bytes) == (30, 30 * nbytes)


@on_gl
def test_nothing_is_read_while_nobody_watches(context: fb.GlContext, pipewire: Daemon) -> None:
    texture = numbered(fb.GlTexture(*SIZE), 7)
    with opened() as camera:
        until(lambda: pipewire.ports(NAME, "-o"), "camera")
        assert not camera.is_watched and not camera.wait_until_watched(0.01)
        with fb.transfer_guard("disallow"):
            camera.put(texture)
    assert not pipewire.ports(NAME, "-o")


@on_gl
def test_viewers_come_and_go(context: fb.GlContext, pipewire: Daemon, tier: str) -> None:
    texture, files = fb.GlTexture(*SIZE), list[int]()
    with opened() as camera:
        for number in range(100 if tier == "all" else 5):
            with Viewer(pipewire, FORMATS[number % 2], SIZE) as viewer:
                meet(camera, viewer, texture)
                show(camera, texture, 3)
                until(lambda seen=viewer.seen: len(seen) == 3, "3 frames")
            until(lambda: not camera.is_watched, "end of watching")
            if number < 2:  # one viewer of each format
                files.append(open_files())
        until(lambda: open_files() <= max(files), "end of what viewers opened")


@on_gl
@pytest.mark.timeout(900)
def test_a_webcam_s_rate_is_kept(context: fb.GlContext, pipewire: Daemon, tier: str) -> None:
    """720p30 in both formats for 20 s, in the longest tier for ten minutes: no frame is lost, doubled, or held back
    until the next one."""
    size, count = (1280, 720), 30 * (600 if tier == "all" else 20)
    texture = fb.GlTexture(*size)
    with (
        opened(size, "NV12") as first, Viewer(pipewire, "nv12", size, keeps=False, name="first") as of_first,
        opened(size, "YUY2") as second, Viewer(pipewire, "yuy2", size, keeps=False, name="second") as of_second,
    ):  # fmt: skip
        meet(first, of_first, texture, "framebind.NV12")
        meet(second, of_second, texture, "framebind.YUY2")
        due = time.perf_counter()
        for number in range(count):
            for camera, viewer in ((first, of_first), (second, of_second)):
                until(lambda least=number, seen=viewer.seen: len(seen) >= least, "frame, before the next one is put")
                camera.put(texture)
            due += 1 / 30
            time.sleep(max(due - time.perf_counter(), 0.0))
            if number % 30 == 0:
                numbered(texture, number % 256)
        until(lambda: len(of_first.seen) == len(of_second.seen) == count, f"{count} frames")
    for viewer in (of_first, of_second):
        assert all(one.sequence + 1 == other.sequence for one, other in pairwise(viewer.seen))
        assert all(one.pts < other.pts for one, other in pairwise(viewer.seen))


@on_gl
def test_a_viewer_that_stalls_holds_up_nobody(context: fb.GlContext, pipewire: Daemon) -> None:
    texture = fb.GlTexture(*SIZE)
    with opened() as camera, Viewer(pipewire, "nv12", SIZE) as viewer:
        meet(camera, viewer, texture)
        viewer.stalls = True
        show(camera, texture, 30)
        assert 0 < viewer.kept <= 16 and len(viewer.seen) == viewer.kept


@on_gl
def test_a_viewer_that_keeps_one_buffer_gets_all_pictures(context: fb.GlContext, pipewire: Daemon) -> None:
    texture = fb.GlTexture(*SIZE)
    with opened() as camera, Viewer(pipewire, "nv12", SIZE) as viewer:
        meet(camera, viewer, texture)
        viewer.stalls = True
        camera.put(numbered(texture, 99))
        until(lambda: viewer.kept == 1, "frame that is kept")
        viewer.stalls = False
        for number in range(100, 130):
            camera.put(numbered(texture, number))
            until(lambda least=number - 98: len(viewer.seen) >= least, "frame, before the next one is put")


@on_gl
def test_one_that_keeps_all_buffers_is_said_and_stops_the_others_for_a_moment_only(
    context: fb.GlContext, pipewire: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    texture = fb.GlTexture(*SIZE)
    with opened() as camera:
        with Viewer(pipewire, "nv12", SIZE, name="stalls") as stalled, Viewer(pipewire, "nv12", SIZE) as viewer:
            meet(camera, viewer, texture)
            stalled.stalls = True
            stalled.watch(NAME)
            until(lambda: show(camera, texture, 1) or stalled.kept, "frame for both")
            until(lambda: show(camera, texture, 10) or "keeps all its buffers" in caplog.text, "sentence")
            for stalls in (True, False):  # also after it went on
                stalled.stalls = stalls
                viewer.seen.clear()
                show(camera, texture, 30)
                until(lambda: len(viewer.seen) == 30, "30 frames")
                assert [int(seen.frame.flat[0]) for seen in viewer.seen] == [luma_of(n) for n in range(30)]
            assert caplog.text.count("keeps all its buffers") == 1
        until(lambda: not camera.is_watched, "end of watching")
        with Viewer(pipewire, "nv12", SIZE) as viewer:
            meet(camera, viewer, texture)
            show(camera, texture, 3)
            until(lambda: len(viewer.seen) == 3, "3 frames")


@on_gl
def test_the_camera_comes_back_with_the_daemon(
    context: fb.GlContext, pipewire: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    texture = fb.GlTexture(*SIZE)
    with opened() as camera:
        until(lambda: pipewire.ports(NAME, "-o"), "camera")
        viewer = Viewer(pipewire, "nv12", SIZE)
        viewer.watch(NAME)
        assert camera.wait_until_watched(30)
        with caplog.at_level(logging.WARNING, "framebind.camera"):
            pipewire.kill()
            until(lambda: not camera.is_watched, "end of watching")
            camera.put(texture)
            viewer.close()
            time.sleep(0.7)  # a try in vain
            pipewire.start()
            with Viewer(pipewire, "yuy2", SIZE) as viewer:
                meet(camera, viewer, texture)
        assert len(caplog.records) == 1 and "it comes back when PipeWire does" in caplog.text


def test_a_process_that_can_open_no_more_files_is_told(pipewire: Daemon) -> None:
    with pytest.raises(fb.SourceError, match="too many files"), without_descriptors():
        fb.video.VideoWriter("pipewire:A camera", SIZE)


def test_without_a_daemon_the_camera_says_how_to_start_one(pipewire: Daemon) -> None:
    pipewire.kill()
    with pytest.raises(fb.SourceError, match="no daemon answers"):
        fb.video.VideoWriter("pipewire:A camera", SIZE)


@on_gl
def test_a_camera_takes_pictures_of_its_size(context: fb.GlContext, pipewire: Daemon) -> None:
    with opened() as camera, pytest.raises(fb.SourceError, match="takes rgba8 pictures of 64x48, not 8x8"):
        camera.put(fb.GlTexture(8, 8))
