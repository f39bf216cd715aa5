"""Semaphores that count up, between processes: Vulkan's and GL's calls by recorders, and readers that wait for them.

No driver of CI has them: on NVIDIA's, test_two_processes.py uses them.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.interop.gl.external_memory import GlTimeline
from framebind.interop.gl.vulkan import VulkanDevice
from framebind.interop.processes import messages
from framebind.interop.processes.host_slots import CopiedSlots
from framebind.interop.processes.messages import Description
from support.egl_recorder import open_descriptors

WAIT = 30.0
TIMELINE, VK_TIMEOUT, NOT_PRESENT, DEVICE_LOST = b"VK_KHR_timeline_semaphore", 2, -7, -4
_CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)


class Library(ctypes.CDLL):
    """The process itself, with functions of Vulkan that are recorded. ``statuses`` has results that are no success."""

    def __init__(self, lacks: bytes = b"", **statuses: int) -> None:
        super().__init__(None)
        self.calls, self.statuses = list[tuple[Any, ...]](), statuses
        self._kept: list[Any] = []

        def create_device(_physical: Any, info: Any, *_: Any) -> int:
            given = info._obj
            names = (ctypes.c_char_p * given.extensions).from_address(given.extension_names)
            self.calls.append(("device", names[:], given.next is not None))
            return NOT_PRESENT if lacks in names[:] else 0

        def create_semaphore(_device: Any, info: Any, _: Any, semaphore: Any) -> int:
            semaphore._obj.value = 77
            return 0

        def find(_device: Any, name: bytes) -> int:
            self._kept.append(_CALL(lambda _device, info, last: self._called(name.decode(), info, last)))
            return ctypes.cast(self._kept[-1], ctypes.c_void_p).value or 0

        self.vkCreateDevice: Any = create_device
        self.vkCreateSemaphore: Any = create_semaphore
        self.vkGetDeviceProcAddr: Any = find
        self.vkDestroySemaphore: Any = lambda _device, semaphore, _: self.calls.append(("destroy", semaphore.value))

    def _called(self, name: str, info: int, last: int) -> int:
        """Record a call with what its structure has."""
        if name == "vkWaitSemaphoresKHR":
            kind, count = ctypes.c_uint32.from_address(info).value, ctypes.c_uint32.from_address(info + 20).value
            semaphore, value = (
                ctypes.c_uint64.from_address(ctypes.c_uint64.from_address(info + offset).value).value
                for offset in (24, 32)
            )
            self.calls.append((name, kind, count, semaphore, value, last))
        elif name == "vkImportSemaphoreFdKHR":
            semaphore = ctypes.c_uint64.from_address(info + 16).value
            descriptor = ctypes.c_int.from_address(info + 32).value
            self.calls.append((name, ctypes.c_uint32.from_address(info).value, semaphore, descriptor))
            if not self.statuses.get(name):
                os.close(descriptor)  # Vulkan's own now
        else:
            ctypes.c_int.from_address(last).value = os.memfd_create("semaphore")
        return self.statuses.get(name, 0)


def test_a_semaphore_is_waited_for_with_its_value_and_time() -> None:
    library = Library()
    timeline = VulkanDevice(library, 1).timeline()
    assert timeline.wait(5, 0.25)
    assert library.calls[1:] == [("vkWaitSemaphoresKHR", 1000207004, 1, 77, 5, 250_000_000)]
    library.statuses["vkWaitSemaphoresKHR"] = VK_TIMEOUT
    assert not timeline.wait(5, 0.25)
    library.statuses["vkWaitSemaphoresKHR"] = DEVICE_LOST
    with pytest.raises(fb.DeviceError, match="VkResult -4"):
        timeline.wait(5, 0.25)
    del timeline
    assert library.calls[-1] == ("destroy", 77)


def test_the_semaphore_of_another_process_is_imported_and_its_descriptor_is_not_ours() -> None:
    before, library = open_descriptors(), Library()
    descriptor = os.memfd_create("semaphore")
    timeline = VulkanDevice(library, 1).timeline(descriptor)
    assert library.calls[1:] == [("vkImportSemaphoreFdKHR", 1000079000, 77, descriptor)]
    os.close(timeline.export())
    assert open_descriptors() == before


@pytest.mark.parametrize("library", [Library(TIMELINE), Library(vkImportSemaphoreFdKHR=-3)], ids=["lacks", "refuses"])
def test_a_driver_without_them_is_named_and_nothing_is_left(library: Library) -> None:
    before = open_descriptors()
    device = VulkanDevice(library, 1)
    with pytest.raises(fb.DeviceError, match=r"no VK_KHR_timeline_semaphore|vkImportSemaphoreFdKHR .*-3"):
        device.timeline(os.memfd_create("semaphore"))
    assert open_descriptors() == before


def test_a_device_has_what_its_driver_has() -> None:
    memory, semaphore = b"VK_KHR_external_memory_fd", b"VK_KHR_external_semaphore_fd"
    for lacks, tried in (
        (b"", [([memory, semaphore, TIMELINE], True)]),
        (TIMELINE, [([memory, semaphore, TIMELINE], True), ([memory, semaphore], False)]),
        (semaphore, [([memory, semaphore, TIMELINE], True), ([memory, semaphore], False), ([memory], False)]),
    ):
        library = Library(lacks)
        VulkanDevice(library, 1)
        assert library.calls == [("device", *each) for each in tried]


def test_gl_sets_the_value_then_signals_and_sends() -> None:
    with fb.GlContext.headless() as context:
        calls, gl = list[tuple[Any, ...]](), context.gl

        def number_of(pointer: Any) -> int:
            return pointer._obj.value

        def create(_count: int, name: Any) -> None:
            name._obj.value = 9

        flush = gl.glFlush
        gl.glCreateSemaphoresNV = create
        gl.glSemaphoreParameterivNV = lambda name, *rest: calls.append((name.value, rest[0], number_of(rest[1])))
        gl.glSemaphoreParameterui64vEXT = lambda name, what, value: calls.append((name, what, number_of(value)))
        gl.glImportSemaphoreFdEXT = lambda *given: calls.append(given)
        gl.glSignalSemaphoreEXT = lambda name, count, names, *rest: calls.append((name, names[:count], *rest))
        gl.glFlush = lambda: (calls.append(("flush",)), flush())
        gl.glDeleteSemaphoresEXT = lambda count, name: calls.append((count, number_of(name)))
        timeline = GlTimeline(context, 50)
        timeline.signal(12, [3])
        assert calls == [
            (9, 0x95B3, 0x95B5),
            (9, 0x9586, 50),
            (9, 0x9595, 12),
            (9, [3], 0, None, None),
            ("flush",),
        ]
        del timeline
        context.objects.drain()
        assert calls[-1] == (1, 9)


class Late(CopiedSlots):
    """Slots whose texels come after their frame was announced: ``arrived`` is set when they are there."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.arrived, self.asked = threading.Event(), list[int]()

    def put(self, slot: int, texture: fb.GlTexture) -> None:
        return

    def await_frame(self, number: int, seconds: float) -> bool:
        self.asked.append(number)
        return self.arrived.wait(seconds)

    def write(self, texture: fb.GlTexture) -> None:
        super().put(0, texture)


def import_late(address: str) -> tuple[fb.ImportedTexture, Late]:
    """Import a texture, whose frames then wait for ``arrived``."""
    peer = messages.connect(address)
    assert messages.wait_for_any([peer], WAIT)
    slots = Late.adopt(fb.GlContext.current(), *peer.receive_description())
    assert isinstance(slots, Late)
    return fb.ImportedTexture(fb.GlContext.current(), peer, slots), slots


def test_a_reader_waits_for_the_semaphore_and_reads_then() -> None:
    ready = SimpleQueue[Late]()

    def read(address: str) -> np.ndarray:
        with fb.GlContext.headless():
            imported, slots = import_late(address)
            ready.put(slots)
            with imported:
                texture = imported.next(WAIT)
                assert texture is not None
                return texture.read()

    with fb.GlContext.headless() as context, ThreadPoolExecutor(1) as pool:
        texture = fb.GlTexture.from_array(np.full((4, 8, 4), 9, np.uint8))
        slots = Late.allocate(context, Description("", 8, 4, "rgba8", 2, 4096, 4096, ""))
        assert isinstance(slots, Late)
        with fb.ExportedTexture(texture, slots, {}) as exported:
            reader = pool.submit(read, exported.address)
            while not exported.publish():
                time.sleep(0.001)
            waits = ready.get(timeout=WAIT)
            time.sleep(0.25)  # a reader that does not wait reads now
            slots.write(texture)
            waits.arrived.set()
            assert (reader.result(WAIT) == 9).all()
            assert len(waits.asked) > 1
            assert set(waits.asked) == {0}


def test_a_reader_is_told_if_the_exporter_is_killed_before_its_gpu_wrote_the_frame() -> None:
    writer = (
        "import sys, time, framebind as fb\n"
        "from framebind.interop.processes.exported import export_by\n"
        "with fb.GlContext.headless():\n"
        "    exported = export_by((), fb.GlTexture(8, 4), 2, copies_allowed=True)\n"
        "    print(exported.address, flush=True)\n"
        "    while not exported.publish():\n"
        "        time.sleep(0.001)\n"
        "    print('told', flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", writer], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with fb.GlContext.headless():
        imported, slots = import_late(process.stdout.readline().strip())
        assert process.stdout.readline() == "told\n"
        process.kill()
        with pytest.raises(fb.SourceError, match=rf"process {process.pid}, .* ended after frame -1"):
            imported.next(WAIT)
        assert slots.asked[0] == 0
        imported.close()
    process.communicate()
