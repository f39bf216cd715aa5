"""Draws the mesh of faces: 478 landmarks and 52 blendshapes of each (MediaPipe's FaceLandmarker)."""

from __future__ import annotations

from typing import Any

import framebind as fb

from ..mediapipe.core.options import BaseOptions, VisionTaskRunningMode
from ..mediapipe.frames import bundle_fit, follow, in_pixels, point_fields
from ..mediapipe.marks import mark_face
from ..mediapipe.vision.face_landmarker import (
    BLENDSHAPES,
    DETECTOR,
    LANDMARKS,
    Face,
    FaceLandmarkerOptions,
    FacePipeline,
)
from ..task import Finder, Fit, Model, Run, VideoTask
from ..vision.captions import draw_notice


def finder(model: Model, size: tuple[int, int], most: int = 1) -> Finder:
    """Find at most so many faces, and follow them. Raises ModelError for a model that is no bundle of faces."""
    has_shapes, faces = BLENDSHAPES in model.bundle, list[Face]()

    def pipeline(base: BaseOptions) -> FacePipeline:
        video = VisionTaskRunningMode.VIDEO
        return FacePipeline(FaceLandmarkerOptions(base, video, most, output_face_blendshapes=has_shapes))

    find = follow(model, ("face", most), pipeline)

    def find_rows(run: Run) -> list[dict[str, Any]]:
        nonlocal faces
        faces = find(run)
        return [_row(face, size) for face in faces]

    def mark(marks: fb.video.Marks) -> None:
        for face in faces:
            mark_face(marks, in_pixels(face.landmarks, size), size)
        if not faces:
            draw_notice(marks, "no face found", size)

    return Finder(find_rows, mark)


def _row(face: Face, size: tuple[int, int]) -> dict[str, Any]:
    shapes = None if face.blendshapes is None else face.blendshapes.astype(float).round(4).tolist()
    fields = point_fields(face.landmarks, size)
    return {"class": "face", "score": round(face.presence, 4), **fields, "blendshapes": shapes}


def fits(model: Model) -> Fit | None:
    """Whether the model is a bundle with a detector and the landmarks of faces, and none of whole persons."""
    return bundle_fit(model, LANDMARKS, DETECTOR, without="pose_detector.tflite")


TASK = VideoTask("face_landmarker", finder, options=("most",), fits=fits)
