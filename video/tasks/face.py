"""Draws the mesh of faces: 478 landmarks and 52 blendshapes of each (MediaPipe's FaceLandmarker)."""

from __future__ import annotations

from typing import Any

import framebind as fb

from ..mediapipe.frames import bundle_fit, follow, in_pixels, on_frames, options_of, point_fields
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

MOST = 4
"""Most faces."""


def finder(model: Model, size: tuple[int, int]) -> Finder:
    """Find faces, and follow them. Raises ModelError for a model that is no bundle of faces."""
    has_shapes = BLENDSHAPES in model.bundle
    options = FaceLandmarkerOptions(options_of(model), num_faces=MOST, output_face_blendshapes=has_shapes)
    pipeline = FacePipeline(options, on_frames(model))
    find, faces = follow(pipeline, size), list[Face]()

    def find_rows(run: Run) -> list[dict[str, Any]]:
        nonlocal faces
        faces = find(run)
        return [_row(face) for face in faces]

    def _row(face: Face) -> dict[str, Any]:
        row = {"class": "face", "score": round(face.presence, 4), **point_fields(face.landmarks, size)}
        shapes = pipeline.blendshapes(face.landmarks, size).astype(float).round(4).tolist() if has_shapes else None
        return {**row, "blendshapes": shapes}

    def mark(marks: fb.video.Marks) -> None:
        for face in faces:
            mark_face(marks, in_pixels(face.landmarks, size), size)
        if not faces:
            draw_notice(marks, "no face found", size)

    return Finder(find_rows, mark)


def fits(model: Model) -> Fit | None:
    """Whether the model is a bundle with a detector and the landmarks of faces, and none of whole persons."""
    return bundle_fit(model, LANDMARKS, DETECTOR, without="pose_detector.tflite")


TASK = VideoTask("face_landmarker", finder, fits=fits)
