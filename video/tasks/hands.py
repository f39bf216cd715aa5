"""Draws the skeletons of hands: 21 landmarks of each, and its side (MediaPipe's HandLandmarker)."""

from __future__ import annotations

from typing import Any

import framebind as fb

from ..assets import HAND_PICTURE
from ..mediapipe.core.options import BaseOptions, VisionTaskRunningMode
from ..mediapipe.frames import bundle_fit, follow, in_pixels, point_fields, world_points
from ..mediapipe.marks import mark_hand
from ..mediapipe.vision.hand_landmarker import DETECTOR, LANDMARKS, Hand, HandLandmarkerOptions, HandPipeline, side_of
from ..task import Finder, Fit, Model, Run, VideoTask
from ..vision.captions import draw_notice, draw_tag

TAG = (0.35, 1.0, 0.35)
"""Colour of the names of hands."""


def finder(model: Model, size: tuple[int, int], most: int = 2) -> Finder:
    """Find at most so many hands, and follow them. Raises ModelError for a model that is no bundle of hands."""

    def pipeline(base: BaseOptions) -> HandPipeline:
        return HandPipeline(HandLandmarkerOptions(base, VisionTaskRunningMode.VIDEO, most))

    find, hands = follow(model, ("hands", most), pipeline), list[Hand]()

    def find_rows(run: Run) -> list[dict[str, Any]]:
        nonlocal hands
        hands = find(run)
        return [{"class": "hand", "score": round(hand.presence, 4), **hand_fields(hand, size)} for hand in hands]

    def mark(marks: fb.video.Marks) -> None:
        for hand in hands:
            mark_named_hand(marks, hand, str(side_of(hand).category_name), size)
        if not hands:
            draw_notice(marks, "no hand found", size)

    return Finder(find_rows, mark)


def hand_fields(hand: Hand, size: tuple[int, int]) -> dict[str, Any]:
    """The fields of a hand's row: places, and the side that MediaPipe names, as in a mirror picture."""
    side = side_of(hand).category_name
    return {"side": side, **point_fields(hand.landmarks, size), "world_points": world_points(hand.world)}


def mark_named_hand(marks: fb.video.Marks, hand: Hand, name: str, size: tuple[int, int]) -> None:
    """Draw a hand, and a name above it."""
    points = in_pixels(hand.landmarks, size)
    mark_hand(marks, points, size)
    left, top = points.min(axis=0).tolist()
    draw_tag(marks, name, left, top - 12, TAG, size)


def fits(model: Model) -> Fit | None:
    """Whether the model is a bundle with a detector and the landmarks of hands."""
    return bundle_fit(model, LANDMARKS, DETECTOR)


TASK = VideoTask("hand_landmarker", finder, options=("most",), photograph=HAND_PICTURE, fits=fits)
