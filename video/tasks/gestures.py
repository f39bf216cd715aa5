"""Names the gestures of hands, and draws their skeletons (MediaPipe's GestureRecognizer)."""

from __future__ import annotations

from typing import Any

import framebind as fb

from ..assets import HAND_PICTURE
from ..mediapipe.core.containers import Category
from ..mediapipe.core.options import BaseOptions, VisionTaskRunningMode
from ..mediapipe.frames import bundle_fit, follow
from ..mediapipe.vision.gesture_recognizer import EMBEDDER, NOTHING, GesturePipeline, GestureRecognizerOptions
from ..mediapipe.vision.hand_landmarker import LANDMARKS, Hand, side_of
from ..task import Finder, Fit, Model, Run, VideoTask
from ..vision.captions import draw_notice
from .hands import hand_fields, mark_named_hand


def finder(model: Model, size: tuple[int, int], most: int = 2) -> Finder:
    """Find at most so many hands, and their gestures. Raises ModelError for a model that is no bundle of gestures."""

    def pipeline(base: BaseOptions) -> GesturePipeline:
        return GesturePipeline(GestureRecognizerOptions(base, VisionTaskRunningMode.VIDEO, most))

    find, found = follow(model, ("gestures", most), pipeline), list[tuple[Hand, Category]]()

    def find_rows(run: Run) -> list[dict[str, Any]]:
        nonlocal found
        found = find(run)
        return [
            {
                "class": gesture.category_name or NOTHING,
                "score": round(gesture.score or 0.0, 4),
                **hand_fields(hand, size),
            }
            for hand, gesture in found
        ]

    def mark(marks: fb.video.Marks) -> None:
        for hand, gesture in found:
            name = gesture.category_name or NOTHING
            shown = side_of(hand).category_name if name == NOTHING else name.replace("_", " ")
            mark_named_hand(marks, hand, str(shown), size)
        if not found:
            draw_notice(marks, "no hand found", size)

    return Finder(find_rows, mark)


def fits(model: Model) -> Fit | None:
    """Whether the model is a bundle with the landmarks of hands and an embedder of gestures."""
    return bundle_fit(model, EMBEDDER, LANDMARKS)


TASK = VideoTask("gesture_recognizer", finder, options=("most",), photograph=HAND_PICTURE, fits=fits)
