"""What a run did: the figures that a demo prints at its end."""

from __future__ import annotations

from dataclasses import dataclass

import framebind as fb

UPLOAD, RECORDING, SCREENSHOT, DETECTIONS = "camera frame", "video frame", "picture file", "detections"
ALLOWED_COPIES = (UPLOAD, RECORDING, SCREENSHOT, DETECTIONS)
"""The copies that the steady state may make: the source's upload, reading back what is recorded or saved, and the few
numbers (boxes, points, scores of classes) that a demo turns into text and lines.
"""


@dataclass
class Report:
    """What a run did in its steady state (the first frame, which compiles and loads weights, is left out)."""

    frames: int = 0
    seconds: float = 0.0
    uploaded: int = 0
    recorded: int = 0
    detected: int = 0
    copied: int = 0
    dropped: int = 0

    def count_bytes(self) -> None:
        """Take the figures of ``fb.transfers``."""
        self.uploaded, self.recorded, self.detected, self.copied = copied_bytes().values()

    def __str__(self) -> str:
        if not self.frames:
            return "one frame: too few to measure"
        mean, dropped = self.seconds / self.frames, f", {self.dropped} dropped" if self.dropped else ""
        upload, recorded, detected, copied = (
            n // self.frames for n in (self.uploaded, self.recorded, self.detected, self.copied)
        )
        detections = f"{detected} detections, " if detected else ""
        total = upload + recorded + detected + copied
        return (
            f"{self.frames} frames after the first{dropped}: {1 / mean:.1f} fps, {mean * 1000:.1f} ms a frame\n"
            f"bytes between host and GPU a frame: {total} in all, of which {upload} the source's upload, "
            f"{recorded} the recording, {detections}{copied} anything else"
        )


def copied_bytes() -> dict[str, int]:
    """Bytes that were copied since the last reset, by what for."""
    return {
        "upload": copied_for(UPLOAD), "recording": copied_for(RECORDING) + copied_for(SCREENSHOT),
        "detections": copied_for(DETECTIONS), "anything else": fb.transfers.bytes_except(*ALLOWED_COPIES),
    }  # fmt: skip


def copied_for(reason: str) -> int:
    """Bytes that were copied for that reason since the last reset."""
    return sum(hop.bytes for (_, why), hop in fb.transfers.by_reason.items() if why == reason)
