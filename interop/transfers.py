"""The counter of copies between host and GPU, and the guard that forbids them.

Every copy that the library makes between memory the CPU addresses and memory the GPU addresses goes through
``transfers.count``, whatever the API. Work on the device (conversions, blits) is no transfer.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, NamedTuple

from .errors import TransferError, counted

log = logging.getLogger("framebind.transfers")

Direction = Literal["upload", "download"]
GuardMode = Literal["allow", "log", "disallow"]

CAMERA_FRAME = "camera frame"
"""The reason of a source's uploads: each frame that becomes a texture."""
VIDEO_FRAME = "video frame"
"""The reason of textures that are read back for a video file, unless another is given."""
PICTURE_FILE = "picture file"
"""The reason of textures that are read back for a picture file."""


@dataclass
class CopyCount:
    """The copies made in one direction for one reason: their number, and their bytes in all."""

    calls: int = 0
    bytes: int = 0


class _Guard(NamedTuple):
    """A guard's mode, and the reasons that are exempt from it."""

    mode: GuardMode
    exempt: frozenset[str]


_guard: ContextVar[_Guard | None] = ContextVar("framebind transfer guard", default=None)
"""The innermost ``transfer_guard`` of this thread or asyncio task; None outside all of them."""


class Transfers:
    """Every copy between host and GPU that framebind makes in this process, by direction and reason.

    ``framebind.transfers`` is the only instance.

    Attributes
    ----------
    CAMERA_FRAME, VIDEO_FRAME, PICTURE_FILE : str
        The reasons of the copies of frames: a source's uploads to textures, and textures that are read for a video or a
        picture file.
    by_reason : dict
        Keys are pairs of a direction ("upload" or "download") and a reason, a phrase such as "buffer upload" or "camera
        frame". A value, a CopyCount, has ``calls`` and ``bytes``.

    Examples
    --------
    >>> with fb.GlContext.headless():
    ...     fb.transfers.reset()
    ...     buffer = fb.GlBuffer(16)  # made on the GPU: no copy
    ...     buffer.write(np.zeros(4, np.float32))
    ...     print(fb.transfers)
    upload   buffer upload: 1 call, 16 bytes
    """

    CAMERA_FRAME, VIDEO_FRAME, PICTURE_FILE = CAMERA_FRAME, VIDEO_FRAME, PICTURE_FILE

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.by_reason: dict[tuple[Direction, str], CopyCount] = {}

    def count(self, direction: Direction, nbytes: int, reason: str) -> None:
        """Record one copy before it is made.

        Parameters
        ----------
        direction : {"upload", "download"}
            "upload" is from the host to the GPU.
        nbytes : int
            Bytes that are copied.
        reason : str
            The phrase under which the copy is counted.

        Raises
        ------
        TransferError
            If ``transfer_guard("disallow")`` is in force on this thread. Nothing is counted then.
        """
        guard = _guard.get()
        if guard is not None:
            _apply(guard, direction, nbytes, reason)
        with self._lock:
            count = self.by_reason.setdefault((direction, reason), CopyCount())
            count.calls += 1
            count.bytes += nbytes

    @property
    def bytes(self) -> int:
        """All bytes copied since the last reset."""
        return self.bytes_except()

    @property
    def calls(self) -> int:
        """The number of copies since the last reset."""
        with self._lock:
            return sum(count.calls for count in self.by_reason.values())

    def bytes_except(self, *reasons: str) -> int:
        """All bytes copied since the last reset, less those copied for ``reasons``."""
        with self._lock:
            return sum(count.bytes for (_, reason), count in self.by_reason.items() if reason not in reasons)

    def reset(self) -> None:
        """Set all counts back to zero."""
        with self._lock:
            self.by_reason.clear()

    def __repr__(self) -> str:
        return f"<Transfers: {counted(self.calls, 'copy', 'copies')}, {counted(self.bytes, 'byte')}>"

    def __str__(self) -> str:
        with self._lock:
            rows = [
                f"{way:8} {reason}: {counted(count.calls, 'call')}, {counted(count.bytes, 'byte')}"
                for (way, reason), count in self.by_reason.items()
            ]
        return "\n".join(rows) or "no transfers between host and GPU"


transfers = Transfers()


def _apply(guard: _Guard, direction: Direction, nbytes: int, reason: str) -> None:
    """Log or refuse a copy as the guard says."""
    if guard.mode == "allow" or reason in guard.exempt:
        return
    text = f"{direction} of {nbytes} bytes between host and GPU: {reason}"
    if guard.mode == "disallow":
        raise TransferError(text)
    log.warning(text)


@contextlib.contextmanager
def transfer_guard(mode: GuardMode, *, exempt: tuple[str, ...] = ()) -> Iterator[None]:
    """Allow, log or forbid copies between host and GPU within a ``with`` block.

    ``fb.transfers`` counts every copy between host and GPU that framebind makes; under ``with
    fb.transfer_guard("disallow"):`` one is an error, on the thread that entered the block. It is raised before the
    copy. An asyncio task counts as a thread of its own. Copies that other libraries make, and those that a driver makes
    on its own, are neither counted nor forbidden. The innermost of nested blocks decides.

    Parameters
    ----------
    mode : {"allow", "log", "disallow"}
        "log" gives a warning to the logger ``framebind.transfers``.
    exempt : tuple of str
        Reasons that stay allowed, for instance "camera frame", the upload of a source's frames.

    Raises
    ------
    TransferError
        From the call within the block that would copy. It names direction, bytes and reason.
    ValueError
        If ``mode`` is none of the three.

    Examples
    --------
    >>> with fb.GlContext.headless():
    ...     buffer = fb.GlBuffer(16)
    ...     with fb.transfer_guard("disallow"):
    ...         buffer.write(np.zeros(4, np.float32))
    Traceback (most recent call last):
    framebind.interop.errors.TransferError: upload of 16 bytes between host and GPU: buffer upload. ...
    """
    if mode not in ("allow", "log", "disallow"):
        raise ValueError(f"transfer_guard takes 'allow', 'log' or 'disallow', not {mode!r}")
    token = _guard.set(_Guard(mode, frozenset(exempt)))
    try:
        yield
    finally:
        _guard.reset(token)
