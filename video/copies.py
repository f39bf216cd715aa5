"""Copies between host and GPU that a video's pipeline makes on purpose: their reasons in ``fb.transfers``."""

from __future__ import annotations

import framebind as fb

UPLOAD, RECORDING, SCREENSHOT = fb.transfers.CAMERA_FRAME, fb.transfers.VIDEO_FRAME, fb.transfers.PICTURE_FILE
VIRTUAL_CAMERA = "virtual camera"
"""Pictures that are read for the programs that watch a virtual camera."""
DETECTIONS = "detections"
"""Outputs that are read to become text and lines."""
FROM_ARRAY = " from its array"
"""The end of the reason for copies of decoded planes to an input; the tensor's name precedes it."""
MASKS = "masks"
"""Masks that are read to be saved."""
WEB_PICTURE = "web picture"
"""Pictures for the page of ``watch``."""
SHOWN_COPIES = (UPLOAD, RECORDING, SCREENSHOT, VIRTUAL_CAMERA, DETECTIONS)
"""Reasons of the copies that a demo may make after the first frame: the source's upload, reading back pictures that are
recorded, saved or shown to other programs, and the outputs (boxes, points, scores of classes, maps of joints) that
become text and lines.
"""
SAVED_COPIES = (*SHOWN_COPIES, MASKS)
"""Reasons of the copies that ``process`` may make after the first frame."""
WATCHED_COPIES = (*SAVED_COPIES, WEB_PICTURE)
"""Reasons of the copies that ``watch`` may make after a stream's first frame."""


def copied_bytes() -> dict[str, int]:
    """Bytes copied since the last reset of ``fb.transfers``, by purpose."""
    return {
        "source": copied_for(UPLOAD), "recording": copied_for(RECORDING) + copied_for(SCREENSHOT),
        "camera": copied_for(VIRTUAL_CAMERA), "results": copied_for(DETECTIONS),
        "else": fb.transfers.bytes_except(*SHOWN_COPIES),
    }  # fmt: skip


def copied_for(reason: str) -> int:
    """Bytes copied for this reason since the last reset of ``fb.transfers``."""
    return sum(count.bytes for (_, why), count in fb.transfers.by_reason.items() if why == reason)


def copied_planes() -> int:
    """Bytes of decoded planes that were copied to models' inputs since the last reset of ``fb.transfers``."""
    return sum(count.bytes for (_, why), count in fb.transfers.by_reason.items() if why.endswith(FROM_ARRAY))
