"""A camera of the kernel module v4l2loopback: a device /dev/videoN that this program writes and others read.

Structures and numbers: linux/videodev2.h. The event that says whether a program reads is v4l2loopback's own.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ...errors import SourceError
from .camera import FrameLayout, HostCamera

_READ, _WRITE = 2, 1


def _ioctl(direction: int, number: int, size: int) -> int:
    return direction << 30 | size << 16 | ord("V") << 8 | number


QUERYCAP, S_FMT, S_PARM = _ioctl(_READ, 0, 104), _ioctl(_READ | _WRITE, 5, 208), _ioctl(_READ | _WRITE, 22, 204)
DQEVENT, SUBSCRIBE_EVENT = _ioctl(_READ, 89, 136), _ioctl(_WRITE, 90, 32)
CLIENT_USAGE = 0x08000000 + 0x08E00000 + 1
"""V4L2_EVENT_PRI_CLIENT_USAGE: its first number is not 0 while a program reads."""
_SEND_INITIAL = 1
_VIDEO_OUTPUT, _HAS_DEVICE_CAPS = 2, 0x80000000
_PROGRESSIVE, _EXTENDED, _LIMITED = 1, 0xFEEDCAFE, 2
_COLOURS = {"bt601": (1, 1, 1), "bt709": (3, 2, 1)}
"""Numbers of colour space, encoding and transfer function."""
_YUYV = int.from_bytes(b"YUYV", "little")


class System(Protocol):
    """The calls to the kernel."""

    def open(self, path: str, flags: int) -> int: ...
    def ioctl(self, file: int, request: int, argument: bytearray) -> int: ...
    def write(self, file: int, data: memoryview) -> int: ...
    def poll(self, file: int, seconds: float) -> bool: ...
    def close(self, file: int) -> None: ...


class Kernel:
    """The kernel. Implements System."""

    def open(self, path: str, flags: int) -> int:
        return os.open(path, flags)

    def ioctl(self, file: int, request: int, argument: bytearray) -> int:
        import fcntl  # only here: Windows has none

        return fcntl.ioctl(file, request, argument, True)

    def write(self, file: int, data: memoryview) -> int:
        return os.write(file, data)

    def poll(self, file: int, seconds: float) -> bool:
        """Wait for an event, at most so long. Returns whether there is one."""
        waiting = select.poll()
        waiting.register(file, select.POLLPRI)
        return bool(waiting.poll(seconds * 1000))

    def close(self, file: int) -> None:
        os.close(file)


class V4l2Camera(HostCamera):
    """A device of v4l2loopback that shows pictures of ``size`` (width, height), in YUY2. Implements VirtualCamera.

    If the module is older than 0.13, it does not say whether a program reads, and one counts as reading always.

    Raises SourceError if the device cannot be written.
    """

    def __init__(self, device: str, size: tuple[int, int], fps: float, system: System | None = None) -> None:
        self._device, self._system, self.layout = device, system or Kernel(), FrameLayout("yuy2", size)
        self._memory = np.zeros(self.layout.shape, np.uint8)
        self._memory[...] = (16, 128, 16, 128)  # black
        self._is_closed = False
        try:
            self._file = self._system.open(device, os.O_RDWR | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            raise self._error(error) from error
        try:
            self._check_output()
            self._set_format(fps)
            self._reports = self._subscribe()
            self._system.write(self._file, self._memory.data.cast("B"))  # the device is a camera from now on
        except BaseException as error:
            self.close()
            raise self._error(error) if isinstance(error, OSError) else error from error
        self._is_watched = not self._reports

    @property
    def is_watched(self) -> bool:
        """Whether a program reads the device now."""
        event = bytearray(136)
        while self._reports:
            try:
                self._system.ioctl(self._file, DQEVENT, event)
            except OSError:  # no more events
                break
            kind, count = struct.unpack_from("=I4xI", event)
            if kind == CLIENT_USAGE:
                self._is_watched = count > 0
        return self._is_watched

    def wait(self, seconds: float) -> bool:
        """Wait until a program reads the device, at most so long. Returns whether one does."""
        if not self.is_watched:
            self._system.poll(self._file, seconds)
        return self.is_watched

    @contextlib.contextmanager
    def frame(self, captured: float) -> Iterator[npt.NDArray[np.uint8] | None]:
        """Give the memory of the next frame, and write it at the end. The module gives it its time."""
        yield self._memory
        try:
            self._system.write(self._file, self._memory.data.cast("B"))
        except BlockingIOError:  # the frame is lost, as no buffer is free
            pass
        except OSError as error:
            raise self._error(error) from error

    def close(self) -> None:
        """Close the device. May be called more than once."""
        if not self._is_closed:
            self._is_closed = True
            self._system.close(self._file)

    def _check_output(self) -> None:
        answer = bytearray(104)
        self._system.ioctl(self._file, QUERYCAP, answer)
        everything, own = struct.unpack_from("=II", answer, 84)
        if not (own if everything & _HAS_DEVICE_CAPS else everything) & _VIDEO_OUTPUT:
            raise SourceError(f"'{self._device}' is a camera that cannot be written: v4l2loopback makes one that can")

    def _set_format(self, fps: float) -> None:
        layout, (width, height) = self.layout, self.layout.padded
        space, encoding, transfer = _COLOURS[layout.colours.matrix]
        wanted = (width, height, _YUYV, _PROGRESSIVE, layout.stride, layout.nbytes, space, _EXTENDED)
        argument = bytearray(208)
        struct.pack_into("=I4x12I", argument, 0, _VIDEO_OUTPUT, *wanted, 0, encoding, _LIMITED, transfer)
        self._system.ioctl(self._file, S_FMT, argument)
        if struct.unpack_from("=3I", argument, 8) != wanted[:3]:
            raise SourceError(
                f"'{self._device}' takes no YUYV of {width}x{height}: another program uses it, or holds its format"
            )
        rate = bytearray(204)
        struct.pack_into("=5I", rate, 0, _VIDEO_OUTPUT, 0, 0, 1000, round(1000 * fps))
        with contextlib.suppress(OSError):  # a rate is a hint for programs
            self._system.ioctl(self._file, S_PARM, rate)

    def _subscribe(self) -> bool:
        """Ask for events that say whether a program reads. Returns False if the module has none."""
        argument = bytearray(32)
        struct.pack_into("=3I", argument, 0, CLIENT_USAGE, 0, _SEND_INITIAL)
        try:
            self._system.ioctl(self._file, SUBSCRIBE_EVENT, argument)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTTY):
                raise
            return False
        return True

    def _error(self, error: OSError) -> SourceError:
        advice = "is the module loaded ('modprobe v4l2loopback exclusive_caps=1'), and may this user write it?"
        return SourceError(f"the camera '{self._device}' cannot be written ({error.strerror}): {advice}")

    def __repr__(self) -> str:
        return f"<V4l2Camera: '{self._device}', {self.layout.size[0]}x{self.layout.size[1]}>"


def loopback_devices(folder: Path = Path("/sys/devices/virtual/video4linux")) -> dict[str, str]:
    """The devices of v4l2loopback and their names, by their paths. Real cameras are in other folders of sysfs."""
    found: dict[str, str] = {}
    for entry in sorted(folder.glob("video*"), key=lambda path: (len(path.name), path.name)):
        with contextlib.suppress(OSError):
            found[f"/dev/{entry.name}"] = (entry / "name").read_text(encoding="utf-8", errors="replace").strip()[:80]
    return found
