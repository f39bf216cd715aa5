"""The one counter that every copy between host and GPU goes through, and the guard that forbids such copies.

Counts are of bytes that the library moved between memory the CPU addresses and memory the GPU addresses, whatever API
moved them. Device-to-device work (conversions, blits) is not a transfer.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .errors import TransferError

log = logging.getLogger("framebind.transfers")

Direction = Literal["upload", "download"]
Guard = Literal["allow", "log", "disallow"]


@dataclass
class Hop:
    """What went one way for one reason: how often, and how many bytes in all."""

    calls: int = 0
    bytes: int = 0


class Transfers:
    """Calls and bytes of every copy between host and GPU, by direction and reason.

    ``framebind.transfers`` is the instance.

    ``reset()`` starts anew; ``bytes`` and ``calls`` are the totals; ``by_reason`` maps (direction, reason) to a Hop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guard: Guard = "allow"
        self._exempt: frozenset[str] = frozenset()
        self.by_reason: dict[tuple[Direction, str], Hop] = {}

    def count(self, direction: Direction, nbytes: int, reason: str) -> None:
        """Record one copy before it is made. Raises TransferError, and counts nothing, where the guard forbids it."""
        if self._guard != "allow" and reason not in self._exempt:
            text = f"{direction} of {nbytes} bytes between host and GPU: {reason}"
            if self._guard == "disallow":
                raise TransferError(
                    f"{text}. transfer_guard('disallow') is on: bind a GPU object to that tensor, or exempt this reason"
                )
            log.warning(text)
        with self._lock:
            hop = self.by_reason.setdefault((direction, reason), Hop())
            hop.calls += 1
            hop.bytes += nbytes

    @property
    def bytes(self) -> int:
        """All bytes copied since the last reset."""
        return sum(hop.bytes for hop in self.by_reason.values())

    @property
    def calls(self) -> int:
        """All copies made since the last reset."""
        return sum(hop.calls for hop in self.by_reason.values())

    def bytes_except(self, *reasons: str) -> int:
        """All bytes copied since the last reset for other reasons than these."""
        return sum(hop.bytes for (_, reason), hop in self.by_reason.items() if reason not in reasons)

    def reset(self) -> None:
        """Forget everything counted so far."""
        with self._lock:
            self.by_reason.clear()

    def __str__(self) -> str:
        hops = self.by_reason.items()
        rows = [f"{way:8} {reason}: {hop.calls} calls, {hop.bytes} bytes" for (way, reason), hop in hops]
        return "\n".join(rows) or "no transfers between host and GPU"


transfers = Transfers()


@contextlib.contextmanager
def transfer_guard(mode: Guard, *, exempt: tuple[str, ...] = ()) -> Iterator[None]:
    """Within the block, copies between host and GPU are allowed, logged, or raise TransferError naming the hop.

    ``exempt`` lists reasons that stay allowed, for instance the camera's own upload ("camera frame").
    """
    if mode not in ("allow", "log", "disallow"):
        raise ValueError(f"transfer_guard takes 'allow', 'log' or 'disallow', not {mode!r}")
    before = transfers._guard, transfers._exempt
    transfers._guard, transfers._exempt = mode, frozenset(exempt)
    try:
        yield
    finally:
        transfers._guard, transfers._exempt = before
