"""Report of a run: the figures that a demo prints at its end."""

from __future__ import annotations

from dataclasses import dataclass, replace

import framebind as fb

UPLOAD, RECORDING, SCREENSHOT, DETECTIONS = "camera frame", "video frame", "picture file", "detections"
ALLOWED_COPIES = (UPLOAD, RECORDING, SCREENSHOT, DETECTIONS)
"""Reasons of the copies that are allowed after the first frame: the source's upload, reading back pictures that are
recorded or saved, and the few values (boxes, points, scores of classes) that a demo turns into text and lines.
"""


@dataclass
class Report:
    """Totals of a run without its first frame, which compiles and loads weights.

    ``uploaded`` to ``copied`` are bytes between host and GPU: the source's upload, recordings and screenshots,
    detections, and anything else. ``dropped`` counts frames that the source dropped.
    """

    frames: int = 0
    seconds: float = 0.0
    uploaded: int = 0
    recorded: int = 0
    detected: int = 0
    copied: int = 0
    dropped: int = 0
    copying: Report | None = None
    """Totals of the copying mode if both modes were on; the other fields are then those of the bound mode."""

    def add(self, frames: int, seconds: float, copied: dict[str, int]) -> None:
        """Add frames, their time, and their bytes by the names of ``copied_bytes``."""
        self.frames, self.seconds = self.frames + frames, self.seconds + seconds
        self.uploaded, self.recorded = self.uploaded + copied["upload"], self.recorded + copied["recording"]
        self.detected, self.copied = self.detected + copied["detections"], self.copied + copied["anything else"]

    def __str__(self) -> str:
        if self.copying is not None:
            alone = replace(self, copying=None)
            return f"without copies: {alone}\ncopying mode: {self.copying}"
        if not self.frames:
            return "one frame: too few to measure"
        mean, dropped = self.seconds / self.frames, f", {self.dropped} dropped" if self.dropped else ""
        frames = "1 frame" if self.frames == 1 else f"{self.frames} frames"
        upload, recorded, detected, copied = (
            n // self.frames for n in (self.uploaded, self.recorded, self.detected, self.copied)
        )
        detections = f"{detected} detections, " if detected else ""
        total = upload + recorded + detected + copied
        return (
            f"{frames} after the first{dropped}: {1 / mean:.1f} fps, {mean * 1000:.1f} ms a frame\n"
            f"bytes between host and GPU a frame: {total} in all, of which {upload} the source's upload, "
            f"{recorded} the recording, {detections}{copied} anything else"
        )


def copied_bytes() -> dict[str, int]:
    """Bytes copied since the last reset of ``fb.transfers``, by purpose."""
    return {
        "upload": copied_for(UPLOAD), "recording": copied_for(RECORDING) + copied_for(SCREENSHOT),
        "detections": copied_for(DETECTIONS), "anything else": fb.transfers.bytes_except(*ALLOWED_COPIES),
    }  # fmt: skip


def copied_for(reason: str) -> int:
    """Bytes copied for this reason since the last reset of ``fb.transfers``."""
    return sum(hop.bytes for (_, why), hop in fb.transfers.by_reason.items() if why == reason)
