"""Messages between the process that exports a texture and those that import it, over a Unix socket of Linux.

The socket's name is abstract: it is no file, and nothing is left of it when the process ends. Each end checks that the
other one belongs to the same user. A message is one packet of at most ``MESSAGE_BYTES``, with file descriptors.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import select
import socket
import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..errors import BindingError, DeviceError, SourceError

VERSION = 1
MESSAGE_BYTES = 4096
MAX_SLOTS, MAX_PLANES = 16, 4
FENCE_SECONDS = 10.0
"""The time in which a GPU has copied a frame, or is lost."""
NO_DESCRIPTORS = "this process can open no more file descriptors ('ulimit -n' is their number)"
_LONGEST_WAIT = 2e6
"""Seconds that one call can wait: 23 days."""
_PREFIX = "framebind-texture-"
_CREDENTIALS = struct.Struct("3i")
_FRAME = struct.Struct("<4sQI")
_FRAME_WORD, _DONE_WORD, _END = b"fram", b"done", b"end."


@dataclass(frozen=True)
class Description:
    """The memory of an exported texture: what the exporter says first, with the memory's file descriptors.

    ``road`` is the name of a class of slots. A slot holds the ``width`` x ``height`` texels of ``format``, in
    ``slot_nbytes`` bytes; ``allocated`` is the size of a whole allocation. ``gpu`` is its GPU's UUID in hexadecimal,
    and ``order`` the way in which its GPU tells of frames, if it does.

    DMA-BUFs have the layout of DmaBuf: in place of its descriptor a plane has that one's place among the slot's
    descriptors. A ``modifier`` of -1 is unknown.
    """

    road: str
    width: int
    height: int
    format: str
    slots: int
    slot_nbytes: int
    allocated: int
    gpu: str
    order: str = ""
    fourcc: str = ""
    modifier: int = -1
    planes: tuple[tuple[int, int, int], ...] = ()
    version: int = VERSION


@dataclass(frozen=True)
class FrameMessage:
    """A frame lies in a slot (from the exporter), or was read from it (from an importer). Numbers count from 0.

    ``fences`` has the file descriptor of the fence that an importer waits for before it reads, which it then closes; or
    none. ``lost_fence``: one was sent, and this process could take no descriptor more.
    """

    number: int
    slot: int
    fences: tuple[int, ...] = ()
    lost_fence: bool = False


class PeerGoneError(Exception):
    """The process at the other end ended, or closed the connection without a word."""


class Peer:
    """One connection: a socket, and the process at its other end."""

    def __init__(self, connection: socket.socket, *, is_importer: bool = False) -> None:
        self.connection, self._is_importer = connection, is_importer
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        self.pid, user, _ = _CREDENTIALS.unpack(credentials)
        if user != os.geteuid():
            connection.close()
            raise DeviceError(f"process {self.pid} belongs to another user: textures are shared with one's own only")
        self._process = _open_process(self.pid)

    def send(self, message: FrameMessage, fences: Sequence[int] = ()) -> None:
        """Tell of a frame, with a fence, which stays the caller's. Raises PeerGoneError.

        Never waits: at most as many messages are on their way as slots.
        """
        word = _DONE_WORD if self._is_importer else _FRAME_WORD
        self._send(_FRAME.pack(word, message.number, message.slot), fences)

    def describe(self, description: Description, descriptors: list[int]) -> None:
        """Send the description and the descriptors, which stay the caller's. Raises PeerGoneError."""
        self._send(json.dumps(asdict(description)).encode(), descriptors)

    def end(self) -> None:
        """Say that no frame follows, as well as may be."""
        try:
            self._send(_END)
        except PeerGoneError:
            pass

    def _send(self, packet: bytes, descriptors: Sequence[int] = ()) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))] if descriptors else []
        try:  # not by socket.send_fds, which ignores the flags
            self.connection.sendmsg([packet], rights, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError as error:
            raise PeerGoneError from error

    def receive(self) -> FrameMessage | None:
        """The next message; None if the other end said that no more follow.

        Raises BlockingIOError if there is none yet, and PeerGoneError.
        """
        packet, fences, is_cut = self._receive()
        word = _FRAME_WORD if self._is_importer else _DONE_WORD
        if len(packet) == _FRAME.size and packet[:4] == word:
            _, number, slot = _FRAME.unpack(packet)
            return FrameMessage(number, slot, tuple(fences), lost_fence=is_cut and not fences)
        close_all(fences)
        if packet == _END:
            return None
        raise PeerGoneError

    def _receive(self) -> tuple[bytes, list[int], bool]:
        try:
            return self._packet()
        except BlockingIOError:
            if not self.has_ended():
                raise
        except OSError as error:
            raise PeerGoneError from error
        try:  # its last words may have come between the two looks
            return self._packet()
        except OSError as error:
            raise PeerGoneError from error

    def _packet(self) -> tuple[bytes, list[int], bool]:
        fences = int(self._is_importer)
        try:
            return self._receive_with(fences)
        except ConnectionResetError:  # told once, before what the other end had sent, if it closed without reading all
            return self._receive_with(fences)

    def _receive_with(self, most: int) -> tuple[bytes, list[int], bool]:
        """A packet, at most so many file descriptors, and whether there were more. Linux closes those."""
        descriptors = array("i")
        room = socket.CMSG_LEN(most * descriptors.itemsize) if most else 0
        flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        packet, ancillary, told, _ = self.connection.recvmsg(MESSAGE_BYTES, room, flags)
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        return packet, descriptors.tolist(), bool(told & socket.MSG_CTRUNC)

    def receive_description(self) -> tuple[Description, list[int]]:
        """The exporter's first message, and its file descriptors, which are the caller's then.

        It has come already. Raises BindingError if it is none that this version of framebind understands, DeviceError
        if this process has no room for the descriptors, and PeerGoneError.
        """
        try:
            packet, descriptors, is_cut = self._receive_with(MAX_SLOTS * MAX_PLANES)
        except OSError as error:
            raise PeerGoneError from error
        if not packet:
            raise PeerGoneError
        if is_cut:
            close_all(descriptors)
            raise DeviceError(f"{NO_DESCRIPTORS}: the texture of process {self.pid} has several")
        try:
            return _description(packet), descriptors
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            close_all(descriptors)
            raise BindingError(
                f"process {self.pid} exports a texture in a way that this version of framebind does not know: {error}"
            ) from error

    def close(self) -> None:
        """Close the connection. May be called more than once."""
        self.connection.close()
        if self._process is not None:
            os.close(self._process)
            self._process = None

    def handles(self) -> list[int]:
        """The descriptors that become readable if a message came or the process is gone."""
        return [self.connection.fileno(), *([] if self._process is None else [self._process])]

    def has_ended(self) -> bool:
        """Whether the process ended: a child that it forked may still hold the connection."""
        return self._process is not None and wait_for_descriptors([self._process], 0.0)


def listen() -> tuple[socket.socket, str]:
    """A socket that others can connect to, and its address."""
    check_platform()
    address = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(16)}"
    try:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listening.bind("\0" + address)
        listening.listen()
    except OSError as error:
        raise DeviceError(f"no other process can reach a texture of this one: {error.strerror}") from error
    listening.setblocking(False)
    return listening, address


def connect(address: str) -> Peer:
    """The connection to the process that exports under ``address``.

    Raises SourceError if there is no such process, or DeviceError if it is another user's.
    """
    check_platform()
    if not address.startswith(_PREFIX) or len(address) > 100:
        raise SourceError(f"{address!r} is no address of an exported texture: pass export_texture(...).address")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.setblocking(False)
    try:
        connection.connect("\0" + address)
        return Peer(connection, is_importer=True)
    except BlockingIOError as error:
        connection.close()
        raise SourceError(f"too many processes wait for '{address}': its exporter calls publish() no more") from error
    except OSError as error:
        connection.close()
        raise SourceError(f"no process exports a texture as '{address}' (any longer): export it anew") from error


def wait_for_any(peers: Sequence[Peer], seconds: float | None) -> bool:
    """Wait until one of the peers has something to say, or is gone. Returns False if the time is over."""
    return wait_for_descriptors([handle for peer in peers for handle in peer.handles()], seconds)


def wait_for_descriptors(descriptors: Sequence[int], seconds: float | None) -> bool:
    """Wait until one of the file descriptors is readable. Returns False if the time is over."""
    waiting = select.poll()  # select.select takes no descriptor from 1024 on
    for descriptor in descriptors:
        waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(None if seconds is None else math.ceil(min(max(seconds, 0.0), _LONGEST_WAIT) * 1e3)))


def await_fences(fences: Sequence[int], seconds: float = FENCE_SECONDS) -> bool:
    """Wait until the GPU has passed fences, and close them. Returns False if it has not in time."""
    try:
        return all(wait_for_descriptors([fence], seconds) for fence in fences)
    finally:
        close_all(fences)


def duplicates(descriptors: Sequence[int]) -> list[int]:
    """New file descriptors of the same files. Raises DeviceError, and leaves none, if there is no room for all."""
    made = list[int]()
    try:
        for descriptor in descriptors:
            made.append(os.dup(descriptor))
    except OSError as error:
        close_all(made)
        raise DeviceError(NO_DESCRIPTORS) from error
    return made


def close_all(descriptors: Sequence[int]) -> None:
    """Close file descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)


def check_platform() -> None:
    """Raise DeviceError if this system has no such sockets."""
    if sys.platform != "linux":
        raise DeviceError("textures are shared between processes on Linux only")


def _open_process(pid: int) -> int | None:
    """A descriptor that tells when the process ends; None if the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _description(packet: bytes) -> Description:
    given: Any = json.loads(packet)
    description = Description(**given)
    for name, value in given.items():
        is_right = _CHECKS.get(name, _is_number)
        if not is_right(value):
            raise ValueError(f"its {name} is {value!r}")
    if description.version != VERSION:
        raise ValueError(f"version {description.version} in place of {VERSION}")
    if not 1 <= description.slots <= MAX_SLOTS:
        raise ValueError(f"{description.slots} slots")
    return replace(description, planes=tuple((plane[0], plane[1], plane[2]) for plane in description.planes))


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 48


def _are_planes(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= MAX_PLANES
        and all(isinstance(plane, list) and len(plane) == 3 and all(map(_is_number, plane)) for plane in value)
    )


_CHECKS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("road", "format", "gpu", "order", "fourcc"), lambda value: isinstance(value, str)),
    "modifier": lambda value: type(value) is int and -1 <= value < 1 << 64,
    "planes": _are_planes,
}
"""The checks of a description's fields that are no numbers."""
