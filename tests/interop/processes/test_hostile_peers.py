"""Peers that lie, flood or die between two words, and processes without room: one error, and nothing is left behind."""

from __future__ import annotations

import fcntl
import gc
import json
import logging
import mmap
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import pytest

import framebind as fb
from framebind.interop import forks
from framebind.interop.gl import external_memory as gl_memory
from framebind.interop.gl.vulkan import Timeline
from framebind.interop.processes import exported as exporting
from framebind.interop.processes import host_slots, messages
from framebind.interop.processes.host_slots import CopiedSlots, PinnedSlots
from framebind.interop.processes.messages import Description, FrameMessage, Peer
from support.egl_recorder import open_descriptors
from support.environment import without_descriptors

WAIT = 30.0
GOOD = Description("copies through the CPU", 8, 4, "rgba8", 2, mmap.PAGESIZE, mmap.PAGESIZE, "")


@contextmanager
def pair() -> Iterator[tuple[Peer, Peer]]:
    """Both ends of a connection, in this process: the exporter's and the importer's."""
    listening, address = messages.listen()
    with listening:
        importer = messages.connect(address)
        exporter = Peer(listening.accept()[0])
        yield exporter, importer
        exporter.close()
        importer.close()


def state(context: fb.GlContext) -> tuple[int, int]:
    """The numbers of open descriptors and of GL objects."""
    gc.collect(1)
    context.objects.drain()
    return open_descriptors(), context.objects.live.total()


def refuse(*_: Any, **__: Any) -> Any:
    raise fb.DeviceError("out of memory")


# What this process lacks ----------------------------------------------------------------------------------------------


def test_descriptors_from_1024_on_are_waited_for() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 2048), before[1]))
    reading, writing = os.pipe()
    high = fcntl.fcntl(reading, fcntl.F_DUPFD, 1100)
    assert not messages.wait_for_descriptors([high], 0.0)
    os.write(writing, b"x")
    assert messages.wait_for_descriptors([high], float("inf"))
    messages.close_all([high, reading, writing])
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_an_exporter_without_descriptors_goes_on_and_takes_the_reader_later(caplog: pytest.LogCaptureFixture) -> None:
    with fb.GlContext.headless(), exporting.export_by((), fb.GlTexture(8, 4), 2, copies_allowed=True) as exported:
        importer = messages.connect(exported.address)
        with without_descriptors(), caplog.at_level(logging.WARNING, "framebind.processes"):
            assert not exported.publish()
        assert "has to wait: Too many open files" in caplog.text
        assert exported.publish()
        importer.close()
        before = open_descriptors()
        exported._slots.descriptors = refuse
        importer = messages.connect(exported.address)
        assert not exported.publish()
        assert f"process {os.getpid()} cannot read" in caplog.text
        importer.close()
        assert open_descriptors() == before - 2  # those of the first reader


def test_an_importer_without_descriptors_is_told_and_nothing_is_left() -> None:
    with pair() as (exporter, importer):
        before = open_descriptors()
        with open("/dev/null", "rb") as memory:
            exporter.describe(GOOD, [memory.fileno()])
        with without_descriptors(), pytest.raises(fb.DeviceError, match="'ulimit -n'"):
            importer.receive_description()
        assert open_descriptors() == before


def test_a_fence_that_found_no_room_costs_its_frame_and_no_slot() -> None:
    """The frame would be read before it is written."""
    with fb.GlContext.headless() as context, pair() as (exporter, importer):
        imported = fb.ImportedTexture(context, importer, CopiedSlots.allocate(context, GOOD))
        fence, written = os.pipe()
        exporter.send(FrameMessage(7, 1), [fence])
        with without_descriptors(), pytest.raises(fb.DeviceError, match=r"'ulimit -n'.*frame 7"):
            imported.next(WAIT)
        assert imported.next(0.0) is None and imported.number == -1
        assert exporter.receive() == FrameMessage(7, 1)
        messages.close_all([fence, written])
        imported.close()


def test_memory_that_gl_refuses_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    with fb.GlContext.headless() as context:
        before = state(context)
        with monkeypatch.context() as patch:
            patch.setattr(context.objects, "generate", refuse)
            with pytest.raises(fb.DeviceError):
                gl_memory.import_buffer(context, 16, os.memfd_create("memory"), 16, "")
        context.gl.glCreateSemaphoresNV = refuse
        with pytest.raises(fb.DeviceError):
            gl_memory.GlTimeline(context, os.memfd_create("semaphore"))
        sizes = list[int]()
        context.gl.glBufferData = lambda _, size, *__: sizes.append(size) if not sizes else refuse()
        with pytest.raises(fb.DeviceError, match=r"out of memory|pinning the memory"):
            PinnedSlots(context, GOOD, host_slots._new_memory(GOOD))
        assert len(sizes) == 1
        assert state(context) == before


def test_an_export_that_no_process_could_reach_leaves_nothing() -> None:
    with fb.GlContext.headless() as context:
        texture = fb.GlTexture(8, 4)
        before = state(context)
        with without_descriptors(2), pytest.raises(fb.DeviceError, match="no other process can reach"):
            exporting.export_by((), texture, 2, copies_allowed=True)  # two of memory, none for the socket
        assert state(context) == before


def test_a_forked_process_destroys_no_semaphore_of_its_parent() -> None:
    class Device:
        destroyed = 0

        def destroy(self, handle: int) -> None:
            self.destroyed += 1

    device: Any = Device()
    timeline = Timeline(device, 1)
    forks.note_use()
    if not (child := os.fork()):
        del timeline
        os._exit(device.destroyed)
    assert os.waitpid(child, 0)[1] == 0
    del timeline
    assert device.destroyed == 1


# What the other end says ----------------------------------------------------------------------------------------------


def import_from(packet: bytes, memory: int) -> Callable[[], object]:
    """A function that imports a texture whose exporter sends a packet with a descriptor."""

    def speak(listening: socket.socket) -> None:
        listening.setblocking(True)
        with listening, listening.accept()[0] as connection:
            socket.send_fds(connection, [packet], [memory])

    def run() -> None:
        listening, address = messages.listen()
        with ThreadPoolExecutor(1) as pool:
            speaks = pool.submit(speak, listening)
            fb.import_texture(address, timeout=WAIT)
            speaks.result(WAIT)

    return run


@pytest.mark.parametrize(
    ("packet", "nbytes", "message"),
    [
        (b"[" * 4000, 0, "does not know"),
        (replace(GOOD, slot_nbytes=1 << 46), 1 << 47, "no memory for 2 frames"),
        (replace(GOOD, slot_nbytes=mmap.PAGESIZE + 4), 1 << 20, "no sealed file"),
        (replace(GOOD, width=1 << 20, height=1, slot_nbytes=1 << 22), 1 << 23, "1048576"),
        (
            replace(GOOD, width=1 << 20, height=1, slot_nbytes=1 << 22, road=PinnedSlots.road),
            1 << 23,
            "1048576|has no GL_AMD_pinned_memory",
        ),
    ],
    ids=["nested", "huge", "no pages", "wide", "wide and pinned"],
)
def test_what_an_exporter_makes_up_is_one_error(packet: bytes | Description, nbytes: int, message: str) -> None:
    memory = os.memfd_create("memory", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, nbytes)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    text = packet if isinstance(packet, bytes) else json.dumps(asdict(packet)).encode()
    with fb.GlContext.headless() as context:
        before = state(context)
        with pytest.raises(fb.FramebindError, match=message):
            import_from(text, memory)()
        assert state(context) == before
    os.close(memory)


def test_a_reader_that_gives_back_what_it_has_not_is_dropped() -> None:
    """One that does so without end would hold up its exporter."""
    with fb.GlContext.headless(), exporting.export_by((), fb.GlTexture(8, 4), 2, copies_allowed=True) as exported:
        importer = messages.connect(exported.address)
        assert exported.publish()
        for _ in range(20):
            importer.send(FrameMessage(0, 0))
        assert exported.importers == 0
        importer.close()


def test_an_exporter_whom_too_many_wait_for_is_said_at_once() -> None:
    listening, address = messages.listen()
    waiting = list[Peer]()
    with listening, pytest.raises(fb.SourceError, match="too many processes wait for"):
        while len(waiting) < 5000:
            waiting.append(messages.connect(address))
    for peer in waiting:
        peer.close()


# Ends -----------------------------------------------------------------------------------------------------------------


def test_the_last_words_of_a_process_are_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come after a first look at the connection, and its end before the second look at the process."""
    with pair() as (exporter, importer):

        def ends() -> bool:
            exporter.send(FrameMessage(3, 0))
            exporter.end()
            return True

        monkeypatch.setattr(importer, "has_ended", ends)
        assert importer.receive() == FrameMessage(3, 0)
        assert importer.receive() is None


def test_a_frame_that_is_written_as_its_process_ends_is_read() -> None:
    class Slow(CopiedSlots):
        looks = 0

        def await_frame(self, number: int, seconds: float) -> bool:
            self.looks += 1
            return self.looks == 2

    with fb.GlContext.headless() as context, pair() as (exporter, importer):
        imported = fb.ImportedTexture(context, importer, Slow.allocate(context, GOOD))
        importer.has_ended = lambda: True
        exporter.send(FrameMessage(0, 0))
        assert imported.next(WAIT) is imported.texture
        imported.close()


def test_an_import_that_is_let_go_of_leaves_nothing() -> None:
    with fb.GlContext.headless() as context:
        before = state(context)
        with pair() as (exporter, importer):
            imported = fb.ImportedTexture(context, importer, CopiedSlots.allocate(context, GOOD))
            exporter.send(FrameMessage(0, 0))
            assert imported.next(WAIT) is not None
            del imported
        assert state(context) == before


def test_an_exporter_that_ends_before_it_speaks_is_said_though_its_child_lives() -> None:
    """The child holds the connection, on which nothing will come."""
    writer = (
        "import os, socket, time\n"
        "listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "listening.bind(f'\\0framebind-texture-{os.getpid()}')\n"
        "listening.listen()\n"
        "print(flush=True)\n"
        "connection, _ = listening.accept()\n"
        "if child := os.fork():\n"
        "    print(child, flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", writer], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()

    def read() -> None:
        with fb.GlContext.headless():
            fb.import_texture(f"framebind-texture-{process.pid}", timeout=WAIT)

    with ThreadPoolExecutor(1) as pool:
        reads = pool.submit(read)
        child = int(process.stdout.readline())
        process.kill()
        with pytest.raises(fb.SourceError, match="ended before it gave its texture"):
            reads.result(WAIT)
    os.kill(child, signal.SIGKILL)
    process.wait()
    process.stdout.close()
