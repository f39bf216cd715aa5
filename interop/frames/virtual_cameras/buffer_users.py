"""The programs that hold a PipeWire camera's buffers: which buffer is free, and when one is taken back."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from typing import Any

from . import libpipewire as pw
from . import pods

log = logging.getLogger("framebind.camera")

_MOST_USERS = 1 << 16
"""A larger count of those that hold a buffer is one below 0: of one that gave back what was taken from it."""


class BufferUsers:
    """The counts of programs that hold each buffer. All programs have the same buffers: one that keeps them all would
    stop the others, so that buffers are taken back from it.

    Buffers are POINTER(Buffer). All calls are made with the camera's lock held.
    """

    def __init__(self, camera: str, most_dropped: int) -> None:
        """``camera`` is its name. ``most_dropped`` frames are lost in a row before buffers are taken back."""
        self._camera, self._most_dropped = camera, most_dropped
        self._counts = dict[int, pw.Users | None]()
        """The count of those that hold a buffer, by the address of the buffer; that of the oldest frame first."""
        self._dropped_in_a_row, self._takes_back = 0, False

    def add(self, buffer: Any) -> None:
        """Note a new buffer."""
        self._counts[ctypes.addressof(buffer.contents)] = pw.users_of(buffer.contents.buffer.contents, pods.META_BUSY)

    def remove(self, buffer: Any) -> None:
        """Forget a buffer that goes away."""
        self._counts.pop(ctypes.addressof(buffer.contents), None)

    def clear(self) -> None:
        """Forget all buffers."""
        self._counts.clear()

    def forget(self) -> None:
        """Set all counts to 0. Nobody watched: who still holds a buffer is gone, and does not return it."""
        for users in self._counts.values():
            if users is not None:
                users.count = 0
        self._takes_back = False

    def show(self, buffer: Any) -> None:
        """Note that a buffer has the newest frame."""
        address = ctypes.addressof(buffer.contents)
        self._counts[address] = self._counts.pop(address, None)  # the last now

    def free_buffer(self, dequeue: Callable[[], Any]) -> Any:
        """A buffer that no program holds, or one that was kept for too long, or None. ``dequeue`` is libpipewire's."""
        if self._takes_back:
            self._take_back()
        buffer = self._dequeued(dequeue)
        if not buffer:
            self._note_dropped()
            return None
        self._dropped_in_a_row = 0
        return buffer

    def _dequeued(self, dequeue: Callable[[], Any]) -> Any:
        for _ in range(max(len(self._counts), 1)):  # libpipewire looks at one, and puts it last if a program holds it
            if buffer := dequeue():
                return buffer
        return None

    def _take_back(self) -> None:
        """Free the buffer of the oldest frame, though a program may hold it. Counts below 0 are set right.

        A buffer that is free is not preferred: it would be the same one for each frame, and be written again before all
        programs have seen it.
        """
        counted = [users for users in self._counts.values() if users is not None]
        for users in counted:
            if users.count > _MOST_USERS:
                users.count = 0
        if counted:
            counted[0].count = 0

    def _note_dropped(self) -> None:
        """Count a frame that has no buffer, and decide whether buffers are taken back."""
        self._dropped_in_a_row += 1
        if self._dropped_in_a_row == self._most_dropped:
            self._takes_back = True
            log.warning(
                "a program that shows the camera '%s' keeps all its buffers: they are taken back, and what it shows "
                "may be parts of several frames",
                self._camera,
            )
