"""Report of a run: the figures that a demo prints at its end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...video.network import MODES, Mode
from ..common.console import counted


@dataclass
class Report:
    """Totals of a run without its first frame, which compiles and loads weights.

    ``uploaded`` to ``copied`` are bytes between host and GPU: the source's upload, recordings and screenshots, a
    virtual camera, detections, and anything else. ``dropped`` counts frames that the source dropped.
    """

    frames: int = 0
    seconds: float = 0.0
    uploaded: int = 0
    recorded: int = 0
    shown: int = 0
    detected: int = 0
    copied: int = 0
    dropped: int = 0
    others: dict[Mode, Report] = field(default_factory=dict["Mode", "Report"])
    """Totals of the other modes (see Network) that were used; the fields above are then those of "gpu"."""

    def add(self, frames: int, seconds: float, copied: dict[str, int]) -> None:
        """Add frames, their time, and their bytes by the names of ``copied_bytes``."""
        self.frames, self.seconds = self.frames + frames, self.seconds + seconds
        self.uploaded, self.recorded = self.uploaded + copied["source"], self.recorded + copied["recording"]
        self.shown += copied["camera"]
        self.detected, self.copied = self.detected + copied["results"], self.copied + copied["else"]

    def __str__(self) -> str:
        if self.others:
            alone = f"{MODES['gpu']}: {replace(self, others={})}"
            return "\n".join([alone, *(f"{MODES[mode]}: {report}" for mode, report in self.others.items())])
        if not self.frames:
            return "one frame: too few to measure"
        mean, frames = self.seconds / self.frames, counted(self.frames, "frame")
        dropped = (
            f" Dropped, because the source was too fast: {counted(self.dropped, 'frame')}." if self.dropped else ""
        )
        totals = {"source": self.uploaded, "recording": self.recorded, "camera": self.shown}
        totals |= {"results": self.detected, "else": self.copied}
        return (
            f"{frames} after the first: {1 / mean:.1f} per second, {mean * 1000:.1f} ms each.{dropped}\n"
            + describe_copies({name: count // self.frames for name, count in totals.items()})
        )


def describe_copies(per_frame: dict[str, int]) -> str:
    """A sentence on the bytes that cross between CPU and GPU per frame, by the names of ``copied_bytes``."""
    words = {
        "source": "of the source",
        "recording": "of the recording",
        "camera": "of the virtual camera",
        "results": "of results",
    }
    parts = [f"{per_frame[name]:,} bytes {word}" for name, word in words.items() if per_frame[name]]
    rest = f"{per_frame['else']:,} bytes for the model" if per_frame["else"] else "nothing else" if parts else "nothing"
    return f"Copied per frame: {', '.join([*parts, rest])}."
