"""Textures as DMA-BUFs in PipeWire's buffers, with a real daemon. A recorder stands for EGL: files for DMA-BUFs.

scripts/virtual_gpu.sh runs test_a_viewer_gets_textures_of_a_driver_that_exports_them on one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

import framebind as fb
from framebind.interop.frames.virtual_cameras import libpipewire as pw
from framebind.interop.frames.virtual_cameras import pods
from framebind.interop.frames.virtual_cameras.pipewire_camera import PipewireCamera
from framebind.interop.processes.dma_buf_slots import DmaBufSlots
from framebind.interop.processes.messages import Description
from support.egl_recorder import EglRecorder, open_descriptors
from support.environment import absent
from support.pipewire import Daemon, Viewer, until

SIZE, MODIFIER, NAME = (64, 48), 0x0300000000606014, "framebind.Textures"
PLANES: list[tuple[bool, int, int]] = [(True, 64, 256), (False, 16384, 16)]
on_gl = pytest.mark.parametrize("context", ["gl"], indirect=True)


class Plane(NamedTuple):
    """A block of a buffer: kind, file, and place of its bytes."""

    kind: int
    file: int
    offset: int
    stride: int
    size: int


class TextureViewer(Viewer):
    """A program that takes RGBA in DMA-BUFs of one modifier. It keeps the descriptor of the first frame."""

    def __init__(self, daemon: Daemon, modifier: int, blocks: int) -> None:
        self.planes, self._blocks, self.descriptor = list[list[Plane]](), blocks, -1
        super().__init__(daemon, "nv12", SIZE, offer=pods.offered_dma_buf(SIZE, (30, 1), modifier))

    def _agreed(self, _: int, param: int, pod: int | None) -> None:
        if param == pods.PARAM_FORMAT and pod:
            asked = pw.pods(pods.buffers(256 * 48, 256, pods.DMA_BUF, self._blocks), pods.header())
            self._library.pw_stream_update_params(self._stream, asked, 2)

    def _take(self, _: int) -> None:
        while buffer := self._library.pw_stream_dequeue_buffer(self._stream):
            spa = buffer.contents.buffer.contents
            if self.descriptor < 0:
                self.descriptor = os.dup(spa.datas[0].fd)
            self.planes.append([self._plane(spa.datas[n]) for n in range(spa.n_datas)])
            self._library.pw_stream_queue_buffer(self._stream, buffer)

    def close(self) -> None:
        super().close()
        if self.descriptor >= 0:
            os.close(self.descriptor)

    def _plane(self, data: Any) -> Plane:
        chunk = data.chunk.contents
        return Plane(data.type, os.fstat(data.fd).st_ino, chunk.offset, chunk.stride, chunk.size)


@contextmanager
def opened(context: fb.GlContext) -> Iterator[tuple[PipewireCamera, DmaBufSlots]]:
    """A camera that offers textures."""
    wanted = Description("", *SIZE, "rgba8", 4, 0, 0, "")
    recorder = EglRecorder(planes=PLANES, modifiers=[MODIFIER] * 2)
    slots = DmaBufSlots.allocate(context, wanted, cast("Any", recorder))
    camera = PipewireCamera("Textures", SIZE, 30.0, slots)
    try:
        yield camera, slots
    finally:
        camera.close()


def show_until(camera: PipewireCamera, viewer: TextureViewer, texture: fb.GlTexture, count: int) -> None:
    def put() -> bool:
        camera.show(texture, time.perf_counter())
        time.sleep(0.01)
        return len(viewer.planes) >= count

    until(put, "frame")


@on_gl
def test_a_viewer_gets_the_descriptors_of_textures_that_the_gpu_has_written(
    context: fb.GlContext, pipewire: Daemon
) -> None:
    texture = fb.GlTexture.from_array(np.random.default_rng(1).integers(0, 256, (48, 64, 4), np.uint8))
    with opened(context) as (camera, slots), TextureViewer(pipewire, MODIFIER, 2) as viewer:
        viewer.watch(NAME)
        assert camera.wait(30) and camera.takes_textures
        fb.transfers.reset()
        show_until(camera, viewer, texture, 8)
        assert not fb.transfers.bytes_except("none")
        exported = slots.descriptors()
        files = {os.fstat(descriptor).st_ino for descriptor in exported}
        for descriptor in exported:
            os.close(descriptor)
        for first, second in viewer.planes:
            assert first == (pw.DATA_DMA_BUF, first.file, 64, 256, 256 * 48)
            assert second == (pw.DATA_DMA_BUF, first.file, 16384, 16, 16 * 48)
            assert first.file in files
        used = {first.file for first, _ in viewer.planes}
        written = [(shared.read() == texture.read()).all() for shared in slots._textures]
        assert sum(written) >= len(used) > 1


@on_gl
def test_viewers_of_either_kind_come_and_go_and_leave_nothing(context: fb.GlContext, pipewire: Daemon) -> None:
    texture, counts = fb.GlTexture.from_array(np.full((48, 64, 4), 255, np.uint8)), list[int]()
    with opened(context) as (camera, _):
        for _ in range(4):
            with TextureViewer(pipewire, MODIFIER, 2) as viewer:
                viewer.watch(NAME)
                assert camera.wait(30) and camera.takes_textures
                show_until(camera, viewer, texture, 3)
            until(lambda: not camera.is_watched, "end")
            with Viewer(pipewire, "nv12", SIZE) as plain:
                plain.watch(NAME)
                assert camera.wait(30) and not camera.takes_textures
                until(lambda plain=plain: _fill(camera, 235) and plain.seen, "frame")
                until(lambda plain=plain: (plain.seen[-1].frame == 235).all(), "whole frame")
            until(lambda: not camera.is_watched, "end")
            counts.append(open_descriptors())
            until(lambda: open_descriptors() <= counts[0], "end of the buffers")


@on_gl
def test_pictures_that_are_no_textures_take_the_offer_back(context: fb.GlContext, pipewire: Daemon) -> None:
    with opened(context) as (camera, slots):
        camera.offer_no_textures()
        assert not slots.descriptors()
        with Viewer(pipewire, "nv12", SIZE) as viewer:
            viewer.watch(NAME)
            assert camera.wait(30) and not camera.takes_textures
            until(lambda: _fill(camera, 100) and viewer.seen and (viewer.seen[-1].frame == 100).all(), "frame")


def _fill(camera: PipewireCamera, number: int) -> bool:
    with camera.frame(time.perf_counter()) as memory:
        if memory is not None:
            memory[:] = number
    time.sleep(0.01)
    return True


@on_gl
def test_a_viewer_gets_textures_of_a_driver_that_exports_them(context: fb.GlContext, pipewire: Daemon) -> None:
    try:
        DmaBufSlots.allocate(context, Description("", *SIZE, "rgba8", 1, 0, 0, "")).release()
    except fb.DeviceError as error:
        absent("processes", str(error))
    texture = fb.GlTexture.from_array(np.random.default_rng(2).integers(0, 256, (48, 64, 4), np.uint8))
    with fb.video.VideoWriter("pipewire:Textures", SIZE, 30.0) as camera:
        with TextureViewer(pipewire, (1 << 56) - 1, 1) as viewer:
            viewer.watch(NAME)
            assert camera.wait_until_watched(30)
            fb.transfers.reset()

            def put() -> bool:
                camera.put(texture)
                return len(viewer.planes) > 2

            until(put, "frame")
            assert all(plane.kind == pw.DATA_DMA_BUF for (plane,) in viewer.planes)
            assert not fb.transfers.bytes_except("none")
            plane = viewer.planes[0][0]
            seen = fb.GlTexture.from_dmabuf(*SIZE, "AB24", [(viewer.descriptor, plane.offset, plane.stride)])
            assert (seen.read() == texture.read()).all()
