"""The names of landmarks by number: ``HandLandmark.THUMB_TIP`` is 4."""

from __future__ import annotations

import enum

_FINGERS = ("INDEX_FINGER", "MIDDLE_FINGER", "RING_FINGER", "PINKY")

HandLandmark = enum.IntEnum(
    "HandLandmark",
    ["WRIST", "THUMB_CMC", "THUMB_MCP", "THUMB_IP", "THUMB_TIP"]
    + [f"{finger}_{joint}" for finger in _FINGERS for joint in ("MCP", "PIP", "DIP", "TIP")],
    start=0,
)
HandLandmark.__doc__ = "The 21 landmarks of a hand."

_PAIRS = (
    "SHOULDER", "ELBOW", "WRIST", "PINKY", "INDEX", "THUMB", "HIP", "KNEE", "ANKLE", "HEEL", "FOOT_INDEX",
)  # fmt: skip

PoseLandmark = enum.IntEnum(
    "PoseLandmark",
    ["NOSE"]
    + [f"{side}_EYE{corner}" for side in ("LEFT", "RIGHT") for corner in ("_INNER", "", "_OUTER")]
    + ["LEFT_EAR", "RIGHT_EAR", "MOUTH_LEFT", "MOUTH_RIGHT"]
    + [f"{side}_{part}" for part in _PAIRS for side in ("LEFT", "RIGHT")],
    start=0,
)
PoseLandmark.__doc__ = "The 33 landmarks of a person; left and right are the person's own."
