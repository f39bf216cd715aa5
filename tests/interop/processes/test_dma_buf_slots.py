"""Textures shared by DMA-BUFs, by a recorder that stands for EGL: layouts, descriptors and fences.

scripts/virtual_gpu.sh runs test_two_processes.py on a driver that exports them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

import framebind as fb
from framebind.interop.processes import messages
from framebind.interop.processes.dma_buf_slots import DmaBufSlots
from framebind.interop.processes.host_slots import CopiedSlots
from framebind.interop.processes.messages import Description
from support.egl_recorder import DISPLAY, EGL_NONE, EXTENSIONS, FENCES, SYNC, EglRecorder, open_descriptors

WANTED = Description("", 8, 4, "rgba8", 2, 4096, 4096, "")
TWO_PLANES: list[tuple[bool, int, int]] = [(True, 0, 32), (False, 4096, 8)]
WAIT = 30.0


def allocate(context: fb.GlContext, recorder: EglRecorder) -> DmaBufSlots:
    return DmaBufSlots.allocate(context, WANTED, cast("Any", recorder))


def test_slots_are_described_and_each_importer_gets_descriptors_of_its_own() -> None:
    with fb.GlContext.headless() as context:
        before = open_descriptors()
        slots = allocate(context, EglRecorder(planes=TWO_PLANES, modifiers=[7, 7]))
        described = slots.description
        assert (described.road, described.fourcc, described.modifier) == ("DMA-BUF", "AB24", 7)
        assert described.planes == ((0, 0, 32), (0, 4096, 8))
        given = slots.descriptors()
        assert len(given) == 2
        assert open_descriptors() == before + 4
        for descriptor in given:
            os.close(descriptor)
        slots.release()
        slots.release()
        assert open_descriptors() == before


@pytest.mark.parametrize("what", ["create", "query", "export"])
def test_a_slot_that_fails_takes_those_before_it_along(what: str) -> None:
    with fb.GlContext.headless() as context:
        before = open_descriptors(), context.objects.live.total()
        with pytest.raises(fb.DeviceError):
            allocate(context, EglRecorder(what, refuses_after=1))
        context.objects.drain()
        assert (open_descriptors(), context.objects.live.total()) == before


def test_slots_of_several_layouts_are_refused() -> None:
    class Growing(EglRecorder):
        def eglDestroyImage(self, display: int, image: int) -> None:  # noqa: N802
            self.planes = [(True, 0, 64)]

    with fb.GlContext.headless() as context:
        before = open_descriptors()
        with pytest.raises(fb.DeviceError, match="different layouts"):
            allocate(context, Growing())
        assert open_descriptors() == before


class Importer:
    """Stands for GlTexture.from_dmabuf: records, and makes plain textures."""

    def __init__(self, format: str = "rgba8", most: int = 16) -> None:
        self.calls = list[tuple[Any, ...]]()
        self._format, self._most = format, most

    def __call__(
        self, width: int, height: int, fourcc: str, planes: Sequence[tuple[int, int, int]], *, modifier: int | None
    ) -> fb.GlTexture:
        self.calls.append((width, height, fourcc, planes, modifier))
        if len(self.calls) > self._most:
            raise fb.DeviceError("importing a DMA-BUF failed with EGL_BAD_ALLOC")
        return fb.GlTexture(width, height, self._format)


THEIRS = replace(WANTED, road="DMA-BUF", fourcc="AB24", modifier=7, planes=((0, 0, 32), (1, 64, 8), (0, 4096, 8)))


def memory(count: int) -> list[int]:
    return [os.memfd_create("DMA-BUF") for _ in range(count)]


def test_the_slots_of_another_process_are_imported_plane_by_plane() -> None:
    with fb.GlContext.headless() as context:
        before, importer, (a, b, c, d) = open_descriptors(), Importer(), memory(4)
        slots = DmaBufSlots.adopt(context, THEIRS, [a, b, c, d], importer)
        assert importer.calls == [
            (8, 4, "AB24", [(a, 0, 32), (b, 64, 8), (a, 4096, 8)], 7),
            (8, 4, "AB24", [(c, 0, 32), (d, 64, 8), (c, 4096, 8)], 7),
        ]
        assert open_descriptors() == before
        mine = fb.GlTexture.from_array(np.arange(128, dtype=np.uint8).reshape(4, 8, 4))
        slots.put(1, mine)
        read = fb.GlTexture(8, 4)
        slots.get(1, read)
        assert (read.read() == mine.read()).all()
        unknown = Importer()
        DmaBufSlots.adopt(context, replace(THEIRS, modifier=-1), memory(4), unknown)
        assert unknown.calls[0][-1] is None


@pytest.mark.parametrize(
    ("description", "importer", "count", "message"),
    [
        (THEIRS, Importer(), 3, "3 file descriptors"),
        (replace(THEIRS, planes=()), Importer(), 4, "4 file descriptors"),
        (replace(THEIRS, planes=((0, 0, 32), (2, 0, 8))), Importer(), 4, "4 file descriptors"),
        (THEIRS, Importer("r8"), 4, "r8, not rgba8"),
        (THEIRS, Importer(most=1), 4, "EGL_BAD_ALLOC"),
    ],
    ids=["count", "no planes", "gap", "format", "driver"],
)
def test_what_does_not_fit_is_refused_and_nothing_is_left(
    description: Description, importer: Importer, count: int, message: str
) -> None:
    with fb.GlContext.headless() as context:
        before = open_descriptors(), context.objects.live.total()
        with pytest.raises(fb.FramebindError, match=message):
            DmaBufSlots.adopt(context, description, memory(count), importer)
        context.objects.drain()
        assert (open_descriptors(), context.objects.live.total()) == before


def test_a_fence_is_flushed_before_its_descriptor_is_taken() -> None:
    with fb.GlContext.headless() as context:
        recorder = EglRecorder(extensions=f"{EXTENSIONS} {FENCES}")
        slots = allocate(context, recorder)
        recorder.calls.clear()
        gl, flush = context.gl, context.gl.glFlush
        gl.glFlush = lambda: (recorder.calls.append(("flush",)), flush())
        (fence,) = slots.finish(0)
        os.close(fence)
        assert recorder.calls == [
            ("fence", DISPLAY, 0x3144, [EGL_NONE]),
            ("flush",),
            ("duplicate", DISPLAY, SYNC),
            ("end", DISPLAY, SYNC),
        ]
        slots.release()


@pytest.mark.parametrize(("refuses", "calls"), [("fence", ["fence"]), ("duplicate", ["fence", "duplicate", "end"])])
def test_a_fence_that_fails_is_said_and_leaves_nothing(refuses: str, calls: list[str]) -> None:
    with fb.GlContext.headless() as context:
        recorder = EglRecorder(refuses, extensions=f"{EXTENSIONS} {FENCES}")
        slots = allocate(context, recorder)
        recorder.calls.clear()
        before = open_descriptors()
        with pytest.raises(fb.DeviceError, match=r"a fence .*EGL_BAD_MATCH"):
            slots.finish(0)
        assert [call[0] for call in recorder.calls] == calls
        assert open_descriptors() == before
        slots.release()


def test_without_fences_the_cpu_waits() -> None:
    with fb.GlContext.headless() as context:
        slots, waits = allocate(context, EglRecorder()), list[str]()
        gl, finish = context.gl, context.gl.glFinish
        gl.glFinish = lambda: (waits.append("finish"), finish())
        assert slots.finish(0) == []
        assert waits == ["finish"]
        slots.release()


class Fenced(CopiedSlots):
    """Slots whose texels come after the frame was announced; ``fence`` is readable when they are there."""

    fence = -1

    def put(self, slot: int, texture: fb.GlTexture) -> None:
        return

    def finish(self, number: int) -> list[int]:
        return [os.dup(self.fence), os.dup(self.fence)]  # only one arrives

    def write(self, texture: fb.GlTexture) -> None:
        super().put(0, texture)


def test_a_reader_waits_for_the_fence_and_closes_it() -> None:
    def read(address: str) -> np.ndarray:
        with fb.GlContext.headless(), fb.import_texture(address, timeout=WAIT) as imported:
            texture = imported.next(WAIT)
            assert texture is not None
            return texture.read()

    before = open_descriptors()
    with fb.GlContext.headless() as context, ThreadPoolExecutor(1) as pool:
        texture = fb.GlTexture.from_array(np.full((4, 8, 4), 9, np.uint8))
        slots = Fenced.allocate(context, WANTED)
        slots.fence, signal = os.pipe()
        with fb.ExportedTexture(texture, slots, {}) as exported:
            reader = pool.submit(read, exported.address)
            while not exported.publish():
                time.sleep(0.001)
            time.sleep(0.05)  # a reader that does not wait reads now
            slots.write(texture)
            os.write(signal, b"x")
            assert (reader.result(WAIT) == 9).all()
        os.close(slots.fence)
        os.close(signal)
    assert open_descriptors() == before


def test_a_gpu_that_never_passes_its_fence_is_not_waited_for_forever() -> None:
    before = open_descriptors()
    fence, signal = os.pipe()
    assert not messages.await_fences([fence], seconds=0)
    os.close(signal)
    assert open_descriptors() == before
