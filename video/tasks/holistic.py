"""Draws the landmarks of one person's body, face and hands (MediaPipe's HolisticLandmarker)."""

from __future__ import annotations

from typing import Any

import framebind as fb

from ..mediapipe.core.options import BaseOptions, VisionTaskRunningMode
from ..mediapipe.frames import bundle_fit, follow, in_pixels, point_fields, world_points
from ..mediapipe.marks import mark_face, mark_hand, mark_pose
from ..mediapipe.vision.face_landmarker import BLENDSHAPES
from ..mediapipe.vision.hand_landmarker import LANDMARKS as HAND_LANDMARKS
from ..mediapipe.vision.holistic_landmarker import NOBODY, RECROP, HolisticLandmarkerOptions, HolisticPipeline
from ..mediapipe.vision.pose_landmarker import LANDMARKS
from ..task import Finder, Fit, Model, Run, VideoTask
from ..vision.captions import draw_notice

SIDES = ("Left", "Right")


def finder(model: Model, size: tuple[int, int]) -> Finder:
    """Find a person, and follow it. Raises ModelError for a model that is no bundle of whole persons."""
    has_shapes = BLENDSHAPES in model.bundle

    def pipeline(base: BaseOptions) -> HolisticPipeline:
        video = VisionTaskRunningMode.VIDEO
        return HolisticPipeline(HolisticLandmarkerOptions(base, video, output_face_blendshapes=has_shapes))

    find, whole = follow(model, "holistic", pipeline), NOBODY

    def find_rows(run: Run) -> list[dict[str, Any]]:
        nonlocal whole
        whole, rows = find(run), list[dict[str, Any]]()
        if whole.pose is not None:
            pose = whole.pose
            row = {"class": "person", "score": round(pose.presence, 4), **point_fields(pose.landmarks, size)}
            rows.append({**row, "world_points": world_points(pose.world)})
        if whole.face is not None:
            row = {"class": "face", **point_fields(whole.face, size)}
            shapes = whole.blendshapes
            rows.append({**row, "blendshapes": None if shapes is None else shapes.astype(float).round(4).tolist()})
        for hand, side in zip(whole.hands, SIDES, strict=True):
            if hand is not None:
                row = {"class": "hand", "score": round(hand.presence, 4), "side": side}
                rows.append({**row, **point_fields(hand.landmarks, size), "world_points": world_points(hand.world)})
        return rows

    def mark(marks: fb.video.Marks) -> None:
        if whole.pose is None:
            draw_notice(marks, "no person found", size)
            return
        mark_pose(marks, in_pixels(whole.pose.landmarks, size), whole.pose.landmarks[:, 3], size)
        if whole.face is not None:
            mark_face(marks, in_pixels(whole.face, size), size)
        for hand in whole.hands:
            if hand is not None:
                mark_hand(marks, in_pixels(hand.landmarks, size), size)

    return Finder(find_rows, mark)


def fits(model: Model) -> Fit | None:
    """Whether the model is a bundle with the landmarks of persons and of hands, and the regions of hands."""
    return bundle_fit(model, RECROP, LANDMARKS, HAND_LANDMARKS)


TASK = VideoTask("holistic_landmarker", finder, fits=fits)
