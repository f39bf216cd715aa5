"""Figures of a stream: frames per second, latency from packet to result, and what was lost. Their memory is bounded."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import asdict, dataclass

SECONDS = 5.0
"""Seconds that rates and latencies look back."""
_MOST = 1000
"""Results that are remembered for them."""


@dataclass(frozen=True)
class Snapshot:
    """A stream's figures at a moment; JSON takes them as they are. Times are in milliseconds, of the last seconds."""

    name: str
    state: str
    """"opening", "live", "waiting", "ended" or "failed"."""
    status: str
    """"" or what a person should know."""
    size: tuple[int, int] | None
    decoder: str
    """"nvdec", "cpu" or "opencv"; "" of what is no video."""
    results: int
    fps: float
    latency_median: float | None
    latency_p95: float | None
    dropped: int
    damaged: int
    reconnects: int
    since: float | None = None
    """Time at which the last frame came, in seconds since 1970, if the stream is not live now; else None."""
    is_recorded: bool = False
    """True while the stream is recorded."""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


class Latencies:
    """The latencies of the results of the last seconds."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, float]] = deque(maxlen=_MOST)
        self._began = time.perf_counter()
        self.count = 0
        """Results in all."""

    def add(self, done: float, latency: float) -> None:
        """Note a result that was done at ``done``, by time.perf_counter, ``latency`` seconds after its packet came."""
        if not self.count:
            self._began = done
        self._recent.append((done, latency))
        self.count += 1

    def rate(self) -> float:
        """Results per second."""
        recent, now = self._of_the_last_seconds(), time.perf_counter()
        return len(recent) / max(min(SECONDS, now - self._began), 1.0)

    def quantile(self, part: float) -> float | None:
        """The latency in milliseconds that this part of the results keeps below; None without results."""
        recent = sorted(self._of_the_last_seconds())
        return round(1e3 * recent[min(int(part * len(recent)), len(recent) - 1)], 1) if recent else None

    def _of_the_last_seconds(self) -> list[float]:
        least = time.perf_counter() - SECONDS
        return [latency for done, latency in tuple(self._recent) if done >= least]
