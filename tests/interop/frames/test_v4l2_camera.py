"""The camera of v4l2loopback, whose module needs root: its calls are recorded by a kernel of the test's own."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest

import framebind as fb
from framebind.interop.frames.virtual_cameras import v4l2_camera as v4l2
from framebind.interop.frames.virtual_cameras.v4l2_camera import V4l2Camera, loopback_devices

SIZE = (64, 48)
NUMBERS = {
    "VIDIOC_QUERYCAP": 0x80685600, "VIDIOC_S_FMT": 0xC0D05605, "VIDIOC_S_PARM": 0xC0CC5616,
    "VIDIOC_DQEVENT": 0x80885659, "VIDIOC_SUBSCRIBE_EVENT": 0x4020565A,
}  # fmt: skip
"""The numbers that strace and the headers of Linux have on machines of 64 bits."""


class Recorder:
    """A kernel with one device of v4l2loopback. ``events`` are those that wait; ``refuses`` has errors by request."""

    def __init__(self, capabilities: int = 3, refuses: dict[int, int] | None = None, keeps: str = "YUYV") -> None:
        self.calls, self.written, self.events = list[str](), list[bytes](), list[int]()
        self._capabilities, self._refuses, self._keeps = capabilities, refuses or {}, keeps
        self.asked: dict[str, bytes] = {}

    def open(self, path: str, flags: int) -> int:
        self.calls.append(f"open {path}")
        if not path.startswith("/dev/video"):
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return 7

    def ioctl(self, file: int, request: int, argument: bytearray) -> int:
        name = next(name for name, number in NUMBERS.items() if number == request)
        assert file == 7 and len(argument) == request >> 16 & 0x3FFF
        if request in self._refuses:
            raise OSError(self._refuses[request], os.strerror(self._refuses[request]))
        if name == "VIDIOC_DQEVENT":
            if not self.events:
                raise OSError(errno.ENOENT, "no event")
            struct.pack_into("=I4xI", argument, 0, 0x10E00001, self.events.pop(0))
            return 0
        self.calls.append(name)
        self.asked[name] = bytes(argument)
        if name == "VIDIOC_QUERYCAP":
            struct.pack_into("=II", argument, 84, 0x80000000 | 3, self._capabilities)
        elif name == "VIDIOC_S_FMT":
            argument[16:20] = self._keeps.encode()
        return 0

    def write(self, file: int, data: memoryview) -> int:
        self.calls.append("write")
        self.written.append(bytes(data))
        return len(data)

    def poll(self, file: int, seconds: float) -> bool:
        self.calls.append("poll")
        return bool(self.events)

    def close(self, file: int) -> None:
        self.calls.append("close")


def test_the_requests_have_the_numbers_of_linux() -> None:
    ours = (v4l2.QUERYCAP, v4l2.S_FMT, v4l2.S_PARM, v4l2.DQEVENT, v4l2.SUBSCRIBE_EVENT)
    assert ours == tuple(NUMBERS.values())


def test_a_device_gets_its_format_and_a_first_frame() -> None:
    kernel = Recorder()
    camera = V4l2Camera("/dev/video10", SIZE, 29.97, kernel)
    assert kernel.calls == [
        "open /dev/video10", "VIDIOC_QUERYCAP", "VIDIOC_S_FMT", "VIDIOC_S_PARM", "VIDIOC_SUBSCRIBE_EVENT", "write",
    ]  # fmt: skip
    kind, *picture = struct.unpack_from("=I4x2I4s5I", kernel.asked["VIDIOC_S_FMT"])
    assert (kind, picture) == (2, [64, 48, b"YUYV", 1, 128, 64 * 48 * 2, 1, 0xFEEDCAFE])
    assert struct.unpack_from("=5I", kernel.asked["VIDIOC_S_PARM"]) == (2, 0, 0, 1000, 29970)
    assert struct.unpack_from("=3I", kernel.asked["VIDIOC_SUBSCRIBE_EVENT"]) == (0x10E00001, 0, 1)
    assert kernel.written == [bytes((16, 128, 16, 128)) * (32 * 48)]
    camera.close()
    camera.close()
    assert kernel.calls.count("close") == 1


def test_nobody_reads_until_the_module_says_so() -> None:
    kernel = Recorder()
    camera = V4l2Camera("/dev/video10", SIZE, 30.0, kernel)
    assert not camera.is_watched and not camera.wait(0.1) and kernel.calls[-1] == "poll"
    kernel.events += [0, 1]
    assert camera.wait(0.1) and camera.is_watched
    with camera.frame(0.0) as memory:
        assert memory is not None
        memory[...] = 5
    assert kernel.written[-1] == bytes([5]) * (64 * 48 * 2)
    kernel.events += [0]
    assert not camera.is_watched


def test_an_older_module_counts_as_watched() -> None:
    camera = V4l2Camera("/dev/video10", SIZE, 30.0, Recorder(refuses={v4l2.SUBSCRIBE_EVENT: errno.EINVAL}))
    assert camera.is_watched and camera.wait(0.1)


@pytest.mark.parametrize(
    ("device", "kernel", "said"),
    [
        ("/dev/nothing", Recorder(), "modprobe v4l2loopback"),
        ("/dev/video0", Recorder(capabilities=1), "is a camera that cannot be written"),
        ("/dev/video10", Recorder(keeps="NV12"), "takes no YUYV of 64x48"),
        ("/dev/video10", Recorder(refuses={v4l2.S_FMT: errno.EBUSY}), "busy"),
    ],
)
def test_what_cannot_be_written_is_named(device: str, kernel: Recorder, said: str) -> None:
    with pytest.raises(fb.SourceError, match=said):
        V4l2Camera(device, SIZE, 30.0, kernel)
    assert kernel.calls[-1] == ("close" if len(kernel.calls) > 1 else f"open {device}")


def test_devices_of_the_module_are_listed(tmp_path: Path) -> None:
    for number, name in ((10, "OBS Virtual Camera"), (9, "second")):
        (tmp_path / f"video{number}").mkdir()
        (tmp_path / f"video{number}" / "name").write_text(f"{name}\n")
    assert loopback_devices(tmp_path) == {"/dev/video9": "second", "/dev/video10": "OBS Virtual Camera"}
    assert loopback_devices(tmp_path / "none") == {}


def test_a_camera_without_a_device_says_how_to_make_one() -> None:
    if loopback_devices():
        pytest.skip("this machine has a device of v4l2loopback")
    with pytest.raises(fb.SourceError, match="modprobe v4l2loopback"):
        fb.video.VideoWriter("v4l2", SIZE)
