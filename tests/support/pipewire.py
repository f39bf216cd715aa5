"""A PipeWire daemon of a test's own, without D-Bus and session manager, and viewers that a test links by hand."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pytest

from framebind.interop.frames.virtual_cameras import libpipewire as pw
from framebind.interop.frames.virtual_cameras import pods
from framebind.interop.frames.virtual_cameras.camera import FrameLayout, PixelFormat, matrix_of, padded

WAIT_SECONDS = 30.0
INPUT = 0


def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait until ``condition`` is true, and give its value; an AssertionError if it does not come."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.005)
    return value


class Daemon:
    """PipeWire's daemon, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._process = folder, cast("subprocess.Popen[bytes] | None", None)

    def start(self) -> None:
        self._process = subprocess.Popen(["pipewire"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until((self.folder / "pipewire-0").exists, "socket of PipeWire")

    def kill(self) -> None:
        """End it at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None
            (self.folder / "pipewire-0").unlink(missing_ok=True)

    def ports(self, node: str, way: str) -> list[str]:
        """The ports of a node: ``way`` is "-o" for outputs, "-i" for inputs."""
        listed = subprocess.run(["pw-link", way], capture_output=True, text=True, check=True).stdout
        return [line for line in listed.splitlines() if line.rpartition(":")[0] == node]

    def link(self, camera: str, viewer: str) -> None:
        """Link a camera to a viewer."""
        (output,) = until(lambda: self.ports(camera, "-o"), f"camera {camera}")
        (entry,) = until(lambda: self.ports(viewer, "-i"), f"viewer {viewer}")
        subprocess.run(["pw-link", output, entry], check=True, capture_output=True)


@pytest.fixture
def pipewire(tool: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """A daemon that runs, and that this process's cameras find."""
    tool("pipewire")  # and pw-link, which is in the same package
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    for variable in ("PIPEWIRE_RUNTIME_DIR", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(folder))
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    daemon = Daemon(folder)
    daemon.start()
    yield daemon
    daemon.kill()


class Seen(NamedTuple):
    """A frame that a viewer got: its time and number, both from its header, the time of its arrival, and its bytes."""

    pts: int
    sequence: int
    arrived: float
    frame: npt.NDArray[np.uint8]


Process = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Viewer:
    """A program that takes a camera's frames in one format. ``stalls``: it keeps every buffer that it gets."""

    def __init__(
        self,
        daemon: Daemon,
        format: PixelFormat,
        size: tuple[int, int],
        *,
        keeps: bool = True,
        fps: int = 30,
        name: str = "viewer",
        offer: bytes | None = None,
    ) -> None:
        """``fps`` is the camera's. ``keeps``: False keeps of each frame only its first pixels. ``offer`` replaces that
        of the format.
        """
        self.seen, self.stalls, self.kept, self._keeps = list[Seen](), False, 0, keeps
        self._layout, self._name, self._daemon = FrameLayout(format, size), name, daemon
        self._library, self._process = pw.load_pipewire(), Process(self._take)
        self._events = pw.StreamEvents(
            param_changed=pw.ParamChanged(self._agreed), process=ctypes.cast(self._process, ctypes.c_void_p)
        )
        self._loop = self._library.pw_thread_loop_new(b"viewer", None)
        self._library.pw_thread_loop_start(self._loop)
        with self._locked():
            values = {"media.class": "Stream/Input/Video", "node.name": name}
            properties = pw.properties(self._library, values)
            loop = self._library.pw_thread_loop_get_loop(self._loop)
            self._stream = self._library.pw_stream_new_simple(loop, b"viewer", properties, self._events, None)
            offer = pw.pods(offer or pods.offered_format(padded(size), (fps, 1), matrix_of(size), [format]))
            assert not self._library.pw_stream_connect(
                self._stream, INPUT, pw.ANY_NODE, pw.MAP_BUFFERS, offer, 1
            )  # fmt: skip

    def watch(self, camera: str) -> None:
        """Link this to a camera."""
        self._daemon.link(camera, self._name)

    def close(self) -> None:
        with self._locked():
            self._library.pw_stream_destroy(self._stream)
        self._library.pw_thread_loop_stop(self._loop)
        self._library.pw_thread_loop_destroy(self._loop)

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._library.pw_thread_loop_lock(self._loop)
        yield
        self._library.pw_thread_loop_unlock(self._loop)

    def _agreed(self, _: int, param: int, pod: int | None) -> None:
        if param == pods.PARAM_FORMAT and pod:
            asked = pw.pods(pods.buffers(self._layout.nbytes, self._layout.stride), pods.header())
            self._library.pw_stream_update_params(self._stream, asked, 2)

    def _take(self, _: int) -> None:
        while buffer := self._library.pw_stream_dequeue_buffer(self._stream):
            spa = buffer.contents.buffer.contents
            data, header = spa.datas[0], pw.header_of(spa, pods.META_HEADER)
            chunk = data.chunk.contents
            if header is not None and chunk.size:
                assert chunk.stride == self._layout.stride
                assert chunk.size == self._layout.nbytes
                size = chunk.size if self._keeps else 4
                frame = np.frombuffer(ctypes.string_at(data.data + chunk.offset, size), np.uint8)
                shape = self._layout.shape if self._keeps else (1, 1, 4)
                self.seen.append(Seen(header.pts, header.seq, time.perf_counter(), frame.reshape(shape)))
            if self.stalls:
                self.kept += 1
            else:
                self._library.pw_stream_queue_buffer(self._stream, buffer)


def open_files() -> int:
    """The number of files that this process has open."""
    return len(os.listdir("/proc/self/fd"))
