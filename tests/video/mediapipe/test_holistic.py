"""HolisticLandmarker and ``mp.solutions.holistic`` with networks that put out constants, and the regions of parts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framebind import mp
from framebind.video.mediapipe.calculators.recrops import (
    FACE,
    HAND,
    face_rectangle_of_detection,
    face_rectangle_of_pose,
    hand_rectangle_of_pose,
    still_holds,
)
from support.video.task_bundles import one_person, one_whole

vision = mp.tasks.vision
SIZE = 400, 200
PICTURE = np.zeros((SIZE[1], SIZE[0], 3), np.uint8)
IMAGE = mp.Image(mp.ImageFormat.SRGB, PICTURE)


def task(**options: Any) -> mp.tasks.vision.HolisticLandmarker:
    base = mp.tasks.BaseOptions(model_asset_buffer=one_whole(), delegate=mp.tasks.BaseOptions.Delegate.CPU)
    return vision.HolisticLandmarker.create_from_options(vision.HolisticLandmarkerOptions(base, **options))


def places(landmarks: Any) -> np.ndarray:
    return np.array([[point.x * SIZE[0], point.y * SIZE[1]] for point in landmarks])


def test_a_person_has_a_face_and_hands() -> None:
    result = task(output_face_blendshapes=True, output_segmentation_mask=True).detect(IMAGE)
    pose = places(result.pose_landmarks)
    assert len(pose) == 33 and len(result.pose_world_landmarks) == 33
    assert len(result.face_landmarks) == 478 and len(result.face_blendshapes or []) == 52
    assert result.segmentation_mask is not None and result.segmentation_mask.numpy_view().shape == (200, 400, 1)
    # The face's region is around the key points of its detector, which lie in the face's region of the body.
    assert np.abs(places(result.face_landmarks) - pose[0]).max() < 40
    left = places(result.left_hand_landmarks)
    assert len(left) == len(result.right_hand_landmarks) == 21
    middle = (2 * pose[19] + pose[17]) / 3
    side = 2.7 * 2 * np.hypot(*(middle - pose[15]))
    assert np.hypot(*(left[-1] - left[0])) == pytest.approx(side / 2)  # the network's two points: a quarter of the side
    assert middle[0] < left.mean(axis=0)[0] < middle[0] + side / 4, "moved to the right, where the fingers are"
    world = result.left_hand_world_landmarks
    wrist = result.pose_world_landmarks[15]
    assert (world[0].x, world[0].y, world[0].z) == pytest.approx((wrist.x, wrist.y, wrist.z))


def test_pictures_follow_each_other_as_in_mediapipe() -> None:
    with task() as landmarker:
        first, second = (places(landmarker.detect(IMAGE).pose_landmarks) for _ in range(2))
    assert np.abs(first - second).max() > 1, "the region of the second picture is that of the first one's landmarks"
    nobody = task(min_pose_landmarks_confidence=0.95, output_segmentation_mask=True).detect(IMAGE)
    assert nobody.pose_landmarks == nobody.face_landmarks == nobody.left_hand_landmarks == []
    assert nobody.segmentation_mask is None and nobody.face_blendshapes is None


def test_solutions_have_holistic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "holistic_landmarker.task").write_bytes(one_whole())
    (tmp_path / "pose_landmarker_full.task").write_bytes(one_person())
    monkeypatch.setenv("FRAMEBIND_MODELS", str(tmp_path))
    holistic = mp.solutions.holistic
    with holistic.Holistic(refine_face_landmarks=True, enable_segmentation=True) as whole:
        result = whole.process(PICTURE)
    assert result.pose_landmarks is not None and result.face_landmarks is not None
    assert result.left_hand_landmarks is not None and result.right_hand_landmarks is not None
    counts = [len(part.landmark) for part in result[:5] if part is not None]
    assert counts == [33, 33, 21, 21, 478] and result.segmentation_mask is not None
    canvas = PICTURE.copy()
    mp.solutions.drawing_utils.draw_landmarks(canvas, result.left_hand_landmarks, holistic.HAND_CONNECTIONS)
    assert canvas.any()
    assert holistic.Holistic(min_tracking_confidence=0.95).process(PICTURE) == (None,) * 6


def test_regions_of_faces_and_hands() -> None:
    pose = np.zeros((33, 2), np.float32)
    pose[:11] = 0.5
    pose[2], pose[5] = (0.6, 0.5), (0.4, 0.5)
    assert face_rectangle_of_pose(pose, SIZE).tolist() == pytest.approx([0.5, 0.5, 0.6, 1.2, 0])
    place = np.float32([0, 0, 1, 1, 0.4, 0.5, 0.6, 0.5])  # the box does not count
    assert face_rectangle_of_detection(place, SIZE).tolist() == pytest.approx([0.5, 0.5, 0.4, 0.8, 0])
    up = hand_rectangle_of_pose(np.float32([0.5, 0.8]), np.float32([0.47, 0.6]), np.float32([0.515, 0.6]), SIZE)
    side = 2.7 * 2 * 40
    assert up.tolist() == pytest.approx([0.5, 0.6 - 0.1 * 80 / 200, side / 400, side / 200, 0], abs=1e-6)


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ([0, 0, 0, 0, 0], True), ([0.03, 0, 0, 0, 0], True), ([0.05, 0, 0, 0, 0], False), ([0, 0, 0.15, 0, 0], False),
        ([0, 0, 0, 0, math.radians(39)], True), ([0, 0, 0, 0, math.radians(41)], False),
        ([0, 0, 0, 0, math.radians(359)], True),
    ],
)  # fmt: skip
def test_a_region_holds_if_it_is_near(change: list[float], holds: bool) -> None:
    named = np.float32([0.5, 0.5, 0.2, 0.4, 0])
    points = np.float32([[0.45, 0.45], [0.55, 0.55]])
    assert still_holds(points, named + np.float32(change), named, SIZE, HAND) is holds


def test_a_region_holds_all_previous_landmarks() -> None:
    named = np.float32([0.5, 0.5, 0.2, 0.4, 0])
    inside, outside = np.float32([[0.57, 0.5]]), np.float32([[0.585, 0.5]])  # within 0.8 of the side, and not
    assert still_holds(inside, named, named, SIZE, FACE) and not still_holds(outside, named, named, SIZE, FACE)
