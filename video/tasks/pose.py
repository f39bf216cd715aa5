"""Draws the skeletons of persons: 33 landmarks of each (MediaPipe's PoseLandmarker)."""

from __future__ import annotations

from typing import Any

import framebind as fb

from ..mediapipe.frames import bundle_fit, follow, in_pixels, on_frames, options_of, point_fields, world_points
from ..mediapipe.marks import mark_pose
from ..mediapipe.vision.pose_landmarker import DETECTOR, LANDMARKS, Pose, PoseLandmarkerOptions, PosePipeline
from ..task import Finder, Fit, Model, Run, VideoTask
from ..vision.captions import draw_notice

MOST = 4
"""Most persons."""


def finder(model: Model, size: tuple[int, int]) -> Finder:
    """Find persons, and follow them. Raises ModelError for a model that is no bundle of poses."""
    pipeline = PosePipeline(PoseLandmarkerOptions(options_of(model), num_poses=MOST), on_frames(model))
    find, poses = follow(pipeline, size), list[Pose]()

    def find_rows(run: Run) -> list[dict[str, Any]]:
        nonlocal poses
        poses = find(run)
        return [_row(pose) for pose in poses]

    def _row(pose: Pose) -> dict[str, Any]:
        row = {"class": "person", "score": round(pose.presence, 4), **point_fields(pose.landmarks, size)}
        return {**row, "world_points": world_points(pose.world)}

    def mark(marks: fb.video.Marks) -> None:
        for pose in poses:
            mark_pose(marks, in_pixels(pose.landmarks, size), pose.landmarks[:, 3], size)
        if not poses:
            draw_notice(marks, "no person found", size)

    return Finder(find_rows, mark)


def fits(model: Model) -> Fit | None:
    """Whether the model is a bundle with a detector and the landmarks of persons."""
    return bundle_fit(model, LANDMARKS, DETECTOR)


TASK = VideoTask("pose_landmarker", finder, fits=fits)
