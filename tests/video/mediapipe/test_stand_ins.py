"""Tasks of hands and persons with networks that put out constants: regions, landmarks, masks and tracks by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from framebind import mp
from support.video.task_bundles import bundle, constant_network, found_at_anchors

vision = mp.tasks.vision
SIZE = 400, 200
PICTURE = mp.Image(mp.ImageFormat.SRGB, np.zeros((SIZE[1], SIZE[0], 3), np.uint8))
MIDDLE = 24 * 12 * 2 + 12 * 2
"""The anchor in the middle of a palm detector's first grid: its cell begins at half of the picture."""


def points(things: Any) -> np.ndarray:
    return np.array([[point.x, point.y, point.z] for point in things])


def hand_task(palms: dict[int, Any], presence: float, side: float, **options: Any) -> mp.tasks.vision.HandLandmarker:
    """A task whose hands are the line from left to right through the middle of their regions."""
    landmarks = np.column_stack([np.linspace(0, 32, 21), np.full(21, 16), np.full(21, 1.6)]).astype(np.float32)
    outputs = [landmarks.reshape(1, 63), np.float32([[presence]]), np.float32([[side]]), landmarks.reshape(1, 63)]
    files = {
        "hand_detector.tflite": constant_network((1, 192, 192, 3), found_at_anchors(2016, 18, palms)),
        "hand_landmarks_detector.tflite": constant_network((1, 32, 32, 3), outputs),
    }
    base = mp.tasks.BaseOptions(model_asset_buffer=bundle(files), delegate=mp.tasks.BaseOptions.Delegate.CPU)
    return vision.HandLandmarker.create_from_options(vision.HandLandmarkerOptions(base, **options))


def palm(x: float, y: float) -> tuple[float, list[float]]:
    """A palm of 24 pixels of 192, at a distance from its anchor; wrist and middle finger on a level line."""
    return 3.0, [x, y, 24, 24, x, y, 0, 0, x + 10, y, 0, 0, 0, 0, 0, 0, 0, 0]


def test_a_hand_is_where_its_region_is() -> None:
    task = hand_task({MIDDLE: palm(-4, -4)}, 0.9, 0.25)
    result = task.detect(PICTURE)
    assert [(each.category_name, each.index, each.score) for each in result.handedness[0]] == [
        ("Left", 1, pytest.approx(0.75))
    ]
    landmarks = points(result.hand_landmarks[0]) * [*SIZE, SIZE[0]]
    length = 2.6 * 24 / 192 * 400  # the letterbox is a square of 400 pixels
    assert np.hypot(*(landmarks[-1] - landmarks[0])[:2]) == pytest.approx(length, rel=1e-5)
    assert landmarks[0, 2] == pytest.approx(1.6 / 32 / 0.4 * length, rel=1e-4)
    world = points(result.hand_world_landmarks[0])
    assert np.hypot(*(world[-1] - world[0])[:2]) == pytest.approx(32, rel=1e-5)  # turned, not scaled
    assert np.allclose(world[:, 2], 1.6)


def test_hands_are_counted_and_lost() -> None:
    both = {MIDDLE: palm(-60, -4), MIDDLE + 1: palm(50, -4)}
    assert len(hand_task(both, 0.9, 0.9).detect(PICTURE).hand_landmarks) == 1  # num_hands is 1
    assert len(hand_task(both, 0.9, 0.9, num_hands=2).detect(PICTURE).hand_landmarks) == 2
    assert hand_task(both, 0.4, 0.9, num_hands=2).detect(PICTURE).hand_landmarks == []
    assert hand_task({}, 0.9, 0.9).detect(PICTURE).hand_landmarks == []


def test_a_followed_hand_needs_no_detector() -> None:
    """The region of the next frame comes from the landmarks: a level hand's is larger than its palm's."""
    task = hand_task({MIDDLE: palm(-4, -4)}, 0.9, 0.9, running_mode=vision.RunningMode.VIDEO)
    first, second = (points(task.detect_for_video(PICTURE, time).hand_landmarks[0]) * [*SIZE, 1] for time in (0, 40))
    lengths = [np.hypot(*(each[-1] - each[0])[:2]) for each in (first, second)]
    assert lengths[1] == pytest.approx(2 * 18 / 20 * lengths[0], rel=1e-4)  # landmarks 0 to 18 bound it, doubled


def pose_task(presence: float, **options: Any) -> mp.tasks.vision.PoseLandmarker:
    """A task of one person: all landmarks in the middle of the region, but the last ones, which place the next one."""
    rows = np.tile(np.float32([16, 16, 3.2, 2, -2]), (39, 1))
    rows[34, 1] = 0.0
    world = np.tile(np.float32([1, 0, 5]), (39, 1))
    segments = np.full((1, 32, 32, 1), 8, np.float32)
    segments[0, :, 16:] = -8
    outputs = [rows.reshape(1, 195), np.float32([[presence]]), segments, np.full((1, 8, 8, 39), -9, np.float32)]
    person = {28 * 14 * 2 + 14 * 2: (3.0, [0, 0, 20, 20, -4, -4, -4, -32, 0, 0, 0, 0])}
    files = {
        "pose_detector.tflite": constant_network((1, 224, 224, 3), found_at_anchors(2254, 12, person)),
        "pose_landmarks_detector.tflite": constant_network((1, 32, 32, 3), [*outputs, world.reshape(1, 117)]),
    }
    base = mp.tasks.BaseOptions(model_asset_buffer=bundle(files), delegate=mp.tasks.BaseOptions.Delegate.CPU)
    return vision.PoseLandmarker.create_from_options(vision.PoseLandmarkerOptions(base, **options))


def test_a_person_has_landmarks_and_a_mask() -> None:
    result = pose_task(0.9, output_segmentation_masks=True).detect(PICTURE)
    (landmarks,), (world,) = result.pose_landmarks, result.pose_world_landmarks
    assert len(landmarks) == len(world) == 33
    assert (landmarks[0].x, landmarks[0].y) == (pytest.approx(0.5), pytest.approx(0.5))
    side = 1.25 * 2 * 28 / 224  # of the region, in widths of the picture
    assert landmarks[0].z == pytest.approx(3.2 / 32 * side)
    for point in (landmarks[0], world[0]):
        assert (point.visibility, point.presence) == (pytest.approx(0.880797), pytest.approx(0.119203))
    assert (world[0].x, world[0].y, world[0].z) == (pytest.approx(1), pytest.approx(0, abs=1e-6), 5)
    assert result.segmentation_masks is not None
    mask = result.segmentation_masks[0].numpy_view()[..., 0]
    assert mask.shape == (200, 400) and mask.dtype == np.float32
    left = 200 - side * 200  # the region's left border; its left half is the person
    assert mask[100, int(left) + 5] > 0.99 and mask[100, 195] > 0.99
    assert mask[100, 210] < 0.01 and mask[100, int(left) - 8] == 0


def test_masks_come_if_asked_for() -> None:
    assert pose_task(0.9).detect(PICTURE).segmentation_masks is None
    nobody = pose_task(0.3, output_segmentation_masks=True).detect(PICTURE)
    assert nobody.pose_landmarks == [] and nobody.segmentation_masks == []


def test_a_followed_person_is_smoothed() -> None:
    """The region grows to 1.25 of its size from frame to frame, and z with it; its filter lets less through."""
    task = pose_task(0.9, running_mode=vision.RunningMode.VIDEO)
    first, second = (task.detect_for_video(PICTURE, time).pose_landmarks[0][0] for time in (10, 50))
    assert first.z is not None and second.z is not None
    assert first.z < second.z < 1.25 * first.z
    assert second.visibility == pytest.approx(first.visibility)
    two = pose_task(0.9, running_mode=vision.RunningMode.VIDEO, num_poses=2, min_tracking_confidence=0.9)
    results = [two.detect_for_video(PICTURE, time).pose_landmarks for time in (10, 50)]
    assert [len(each) for each in results] == [1, 2]  # the grown region and the found one overlap too little
    zs = [poses[0][0].z for poses in results]
    assert zs[1] == pytest.approx(1.25 * zs[0], rel=1e-5)  # several persons are not smoothed
