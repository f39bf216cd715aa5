"""A texture that one process draws and others read: every frame, in order, bit for bit, whoever ends."""

from __future__ import annotations

import gc
import json
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.interop.processes import exported as exporting
from framebind.interop.processes import messages
from framebind.interop.processes.messages import Description
from support.egl_recorder import open_descriptors
from support.environment import absent

SIZE = 40, 24
WAIT = 120.0
FRAMES = {"quick": 100, "default": 300, "all": 10_000}
"""Frames from one process to another, by tier."""
READER = """
import sys
import numpy as np
import framebind as fb
address, stop_at, hang = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "hang"
with fb.GlContext.headless():
    fb.transfers.reset()
    with fb.import_texture(address, timeout=30) as imported:
        print("road", imported.road, flush=True)
        last = -1
        try:
            for texture in imported:
                assert imported.number == last + 1, (imported.number, last)
                last = imported.number
                with fb.transfer_guard("allow"):
                    texels = texture.read(reason="test")
                expected = np.random.default_rng(last).integers(0, 256, texels.shape, np.uint8)
                assert (texels == expected).all(), last
                if last == stop_at:
                    if hang:
                        print("hangs", flush=True)
                        sys.stdin.read()
                    break
            print("last", last, "ended", imported.ended, flush=True)
        except fb.SourceError as error:
            print("last", last, "error", error, flush=True)
    print("copied", fb.transfers.bytes_except("test"), flush=True)
"""
"""Reads frames until one number, and compares each with what it should be; "hang" then waits for its end."""


class Reader:
    """A process that imports the texture of an address."""

    def __init__(self, address: str, stop_at: int = -1, how: str = "go") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", READER, address, str(stop_at), how],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def rest(self) -> str:
        out, err = self.process.communicate(timeout=WAIT)
        assert self.process.returncode == 0, err
        return out

    def end(self) -> None:
        """End it, and print its errors, which pytest shows if the test fails."""
        self.process.kill()
        if self.process.stderr is not None and not self.process.stderr.closed:
            print(self.process.communicate()[1])


@pytest.fixture
def readers() -> Iterator[list[Reader]]:
    made = list[Reader]()
    yield made
    for reader in made:
        reader.end()


def content(number: int, channels: int = 4) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(number).integers(0, 256, (SIZE[1], SIZE[0], channels), np.uint8)


def export(texture: fb.GlTexture | None = None, slots: int = 3) -> fb.ExportedTexture:
    """An export that copies nothing; a machine that has none skips the test."""
    try:
        return fb.export_texture(texture or fb.GlTexture(*SIZE), slots=slots)
    except fb.DeviceError as error:
        absent("processes", str(error))


def await_importers(exported: fb.ExportedTexture, count: int) -> None:
    deadline = time.monotonic() + WAIT
    while exported.importers != count:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def publish(exported: fb.ExportedTexture, numbers: range) -> None:
    for number in numbers:
        exported.texture.write(content(number))
        assert exported.publish(timeout=WAIT)


def test_a_process_gets_every_frame_bit_for_bit_and_nothing_crosses_to_the_cpu(
    readers: list[Reader], request: pytest.FixtureRequest
) -> None:
    frames = FRAMES[request.config.getoption("tier")]
    with fb.GlContext.headless(), export() as exported:
        readers.append(Reader(exported.address))
        await_importers(exported, 1)
        before = fb.transfers.bytes_except("texture upload")
        publish(exported, range(frames))
        assert fb.transfers.bytes_except("texture upload") == before
        exported.close()
        assert readers[0].rest().splitlines()[1:] == [f"last {frames - 1} ended True", "copied 0"]


def test_a_reader_that_is_killed_in_the_middle_takes_no_slot_with_it_and_no_frame_of_others(
    readers: list[Reader], caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    frames = FRAMES[request.config.getoption("tier")]
    middle = frames // 2
    with caplog.at_level(logging.INFO), fb.GlContext.headless(), export(slots=2) as exported:
        readers += [Reader(exported.address), Reader(exported.address, middle, "hang")]
        await_importers(exported, 2)
        publish(exported, range(middle + 2))
        readers[1].line()
        assert readers[1].line() == "hangs"
        exported.texture.write(content(middle + 2))
        assert not exported.publish()  # two frames wait for the reader that hangs
        os.kill(readers[1].process.pid, signal.SIGKILL)
        publish(exported, range(middle + 2, frames))
        assert exported.importers == 1
        exported.close()
        assert f"last {frames - 1} ended True" in readers[0].rest()
    assert f"process {readers[1].process.pid} reads" in caplog.text


def test_the_reader_of_a_process_that_is_killed_is_told_and_may_read_its_successor(
    request: pytest.FixtureRequest,
) -> None:
    middle = FRAMES[request.config.getoption("tier")] // 2
    writer = (
        "import sys, time, numpy as np, framebind as fb\n"
        "with fb.GlContext.headless():\n"
        "    exported = fb.export_texture(fb.GlTexture(8, 8, 'r8'))\n"
        "    print(exported.address, flush=True)\n"
        "    number = 0\n"
        "    while True:\n"
        "        exported.texture.write(np.full((8, 8), number % 251, np.uint8))\n"
        "        number += exported.publish(timeout=0.01)\n"
    )
    with fb.GlContext.headless():
        require_road()
        for _ in range(2):
            process = subprocess.Popen([sys.executable, "-c", writer], stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            imported = fb.import_texture(process.stdout.readline().strip(), timeout=WAIT)
            for number in range(middle):
                texture = imported.next(WAIT)
                assert texture is not None
                assert imported.number == number
                assert (texture.read() == number % 251).all()
            process.kill()
            with pytest.raises(fb.SourceError, match=rf"process {process.pid}, which exported .* ended after frame"):
                for _ in imported:
                    pass
            assert (imported.texture.read() == imported.number % 251).all()
            imported.close()
            process.communicate()


def test_a_process_that_forked_a_child_counts_as_ended() -> None:
    """The child holds the connection, and lives on."""
    writer = (
        "import os, sys, time, framebind as fb\n"
        "with fb.GlContext.headless():\n"
        "    exported = fb.export_texture(fb.GlTexture(8, 8, 'r8'))\n"
        "    print(exported.address, flush=True)\n"
        "    while not exported.publish():\n"
        "        time.sleep(0.001)\n"
        "    child = os.fork()\n"
        "    if child:\n"
        "        print(child, flush=True)\n"
        "    time.sleep(60)\n"
    )
    with fb.GlContext.headless():
        require_road()
        process = subprocess.Popen([sys.executable, "-c", writer], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        with fb.import_texture(process.stdout.readline().strip(), timeout=WAIT) as imported:
            assert imported.next(WAIT) is not None
            child = int(process.stdout.readline())
            process.kill()
            with pytest.raises(fb.SourceError, match="ended after frame 0"):
                imported.next(WAIT)
            os.kill(child, signal.SIGKILL)
        process.communicate()


def test_while_nobody_reads_nothing_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    with fb.GlContext.headless(), export() as exported:
        monkeypatch.setattr(type(exported._slots), "put", None)
        assert not exported.publish(timeout=WAIT)


def test_copies_are_made_with_permission_only_and_are_counted(
    caplog: pytest.LogCaptureFixture, readers: list[Reader]
) -> None:
    nbytes = SIZE[0] * SIZE[1] * 4
    with fb.GlContext.headless():
        texture = fb.GlTexture(*SIZE)
        with pytest.raises(fb.DeviceError, match="copies_allowed=True"):
            exporting.export_by((), texture, 3, copies_allowed=False)
        with exporting.export_by((), texture, 3, copies_allowed=True) as exported:
            assert exported.road == "copies through the CPU" in caplog.text
            readers.append(Reader(exported.address))
            await_importers(exported, 1)
            fb.transfers.reset()
            publish(exported, range(3))
            exported.close()
            assert fb.transfers.by_reason["download", "shared texture"].bytes == 3 * nbytes
        assert f"copied {3 * nbytes}" in readers[0].rest()


@pytest.mark.parametrize("format", ["rgba8", "rgba16f", "rgba32f", "r8", "r32f"])
def test_each_format_has_its_texels_in_the_other_context(format: str) -> None:
    """The importer is a thread with a context of its own: rows of odd sizes, and no gaps."""
    with fb.GlContext.headless():
        texture = fb.GlTexture(7, 5, format)
        texels = np.random.default_rng(1).integers(0, 255, texture.read().shape).astype(texture.read().dtype)
        texture.write(texels)
        with export(texture, slots=1) as exported, ThreadPoolExecutor(1) as pool:
            read = pool.submit(_read_one, exported.address)
            while not exported.publish():
                time.sleep(0.001)
            assert (read.result(WAIT) == texels).all()


def _read_one(address: str) -> npt.NDArray[np.generic]:
    with fb.GlContext.headless(), fb.import_texture(address, timeout=WAIT) as imported:
        texture = imported.next(WAIT)
        assert texture is not None
        return texture.read()


def test_exports_and_imports_leave_no_descriptor_and_no_gl_object_behind() -> None:
    def once() -> None:
        with fb.export_texture(fb.GlTexture(8, 8)) as exported, ThreadPoolExecutor(1) as pool:
            read = pool.submit(_read_one, exported.address)
            while not exported.publish():
                time.sleep(0.001)
            read.result(WAIT)

    with fb.GlContext.headless() as context:
        require_road()
        once()
        gc.collect()
        context.objects.drain()
        before = open_descriptors(), context.objects.live.total()
        for _ in range(10):
            once()
        gc.collect()
        context.objects.drain()
        assert (open_descriptors(), context.objects.live.total()) == before


def test_frames_that_were_sent_before_the_end_are_read_though_answers_to_them_are_not() -> None:
    """A socket that is closed with packets in it resets the other end, which has packets to read."""
    listening, address = messages.listen()
    with listening:
        importer = messages.connect(address)
        listening.setblocking(True)
        exporter = messages.Peer(listening.accept()[0])
        importer.send(messages.FrameMessage(0, 0))
        exporter.send(messages.FrameMessage(7, 1))
        exporter.end()
        exporter.close()
        assert importer.receive() == messages.FrameMessage(7, 1)
        assert importer.receive() is None
        importer.close()


def test_addresses_that_nobody_exports_are_refused() -> None:
    with fb.GlContext.headless():
        for address in ("", "framebind-texture-1-0", "/tmp/socket", "framebind-texture-" + "x" * 200):
            with pytest.raises(fb.SourceError, match="export"):
                fb.import_texture(address)


def test_another_user_s_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with fb.GlContext.headless(), export() as exported:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        with pytest.raises(fb.DeviceError, match="another user"):
            fb.import_texture(exported.address)
        assert not exported.publish()


GOOD = Description("pinned host memory", 8, 8, "rgba8", 2, 4096, 4096, "")


@pytest.mark.parametrize(
    ("packet", "message"),
    [
        (b"nonsense", "does not know"),
        (b"{}", "does not know"),
        (json.dumps(asdict(replace(GOOD, version=2))).encode(), "version 2"),
        (json.dumps(asdict(replace(GOOD, slots=17))).encode(), "17 slots"),
        (json.dumps({**asdict(GOOD), "width": "8"}).encode(), "width"),
        (json.dumps({**asdict(GOOD), "width": -8}).encode(), "width"),
        (json.dumps(asdict(replace(GOOD, road="magic"))).encode(), "magic"),
        (json.dumps(asdict(replace(GOOD, format="rgb565"))).encode(), "rgb565"),
        (json.dumps(asdict(replace(GOOD, width=1 << 20))).encode(), "do not hold"),
        (json.dumps(asdict(GOOD)).encode(), "no sealed file"),
        (json.dumps(asdict(replace(GOOD, road="the GPU's memory"))).encode(), "descriptors|GPU"),
    ],
)
def test_what_an_exporter_says_is_checked(packet: bytes, message: str) -> None:
    listening, address = messages.listen()
    before = open_descriptors()

    def speak() -> None:
        listening.setblocking(True)
        connection, _ = listening.accept()
        with connection, open("/dev/zero", "rb") as memory:
            socket.send_fds(connection, [packet], [memory.fileno()])

    with fb.GlContext.headless(), ThreadPoolExecutor(1) as pool, listening:
        speaks = pool.submit(speak)
        with pytest.raises(fb.FramebindError, match=message):
            fb.import_texture(address, timeout=WAIT)
        speaks.result(WAIT)
        gc.collect()
        assert open_descriptors() <= before


def test_wrong_uses_say_what_to_do() -> None:
    with fb.GlContext.headless():
        with pytest.raises(fb.BindingError, match="1 to 16 slots"):
            fb.export_texture(fb.GlTexture(8, 8), slots=0)
        exported = export()
        exported.close()
        exported.close()
        with pytest.raises(fb.BindingError, match="closed"):
            exported.publish()
        with pytest.raises(fb.DeviceError, match="not copied or pickled"):
            pickle.dumps(exported)


def require_road() -> None:
    """Skip a test if no two processes can share memory here. A context is current."""
    export().close()
