"""PoseLandmarker on pictures in the GPU's memory, beside itself on their pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind import mp
from framebind.video.apis import BY_NAME
from support.video.task_bundles import varied_persons

vision = mp.tasks.vision
Mode = vision.RunningMode
PIXELS = np.random.default_rng(0).integers(0, 256, (48, 64, 4), np.uint8)
IMAGE = mp.Image(image_format=mp.ImageFormat.SRGB, data=PIXELS[..., :3])


def landmarker(mode: Any = Mode.VIDEO, **given: Any) -> Any:
    base = mp.tasks.BaseOptions(model_asset_buffer=varied_persons(), delegate=mp.tasks.BaseOptions.Delegate.CPU)
    return vision.PoseLandmarker.create_from_options(vision.PoseLandmarkerOptions(base, mode, **given))


def assert_alike(result: Any, expected: Any) -> None:
    for ours, theirs in (
        (result.pose_landmarks, expected.pose_landmarks),
        (result.pose_world_landmarks, expected.pose_world_landmarks),
    ):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(values_of(one), values_of(other), rtol=1e-4, atol=1e-4)


def values_of(landmarks: Any) -> list[tuple[float, ...]]:
    return [(point.x, point.y, point.z, point.visibility, point.presence) for point in landmarks]


@pytest.mark.parametrize(("api", "count"), [("gl", 1), ("gl", 2), ("cl", 1)])
def test_persons_are_followed_as_in_their_pixels(api: str, count: int) -> None:
    moved = list[Any]()
    with BY_NAME[api].open_context(), landmarker(num_poses=count) as cpu, landmarker(num_poses=count) as gpu:
        picture = BY_NAME[api].new_texture(PIXELS)
        for time in (20, 50, 90):  # each region follows from the one before; one person is smoothed
            expected = cpu.detect_for_video(IMAGE, time)
            fb.transfers.reset()
            result = gpu.detect_for_video(picture, time)
            copied = fb.transfers.by_reason["download", "detections"]
            assert (copied.calls, copied.bytes) == (1, 1064 * count)
            assert len(result.pose_landmarks) == count
            assert_alike(result, expected)
            moved.append(np.array(values_of(expected.pose_landmarks[0])))
        assert np.abs(moved[2] - moved[1]).max() > 0.01
        picture.release()


def test_single_pictures_have_no_past() -> None:
    with BY_NAME["gl"].open_context(), landmarker(Mode.IMAGE, num_poses=2) as cpu, landmarker(Mode.IMAGE) as gpu:
        picture = BY_NAME["gl"].new_texture(PIXELS)
        expected = cpu.detect(IMAGE)
        expected.pose_landmarks.pop()
        expected.pose_world_landmarks.pop()
        for _ in range(2):
            assert_alike(gpu.detect(picture), expected)
        picture.release()
