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


@pytest.mark.parametrize(("api", "count", "form"), [("gl", 1, "r32f"), ("gl", 2, "r8"), ("cl", 1, "")])
def test_persons_are_followed_as_in_their_pixels(api: str, count: int, form: str) -> None:
    moved, given = list[Any](), {"num_poses": count, "output_segmentation_masks": True}
    with (
        fb.GlContext.headless() if api == "gl" else BY_NAME[api].open_context(),
        landmarker(**given) as cpu,
        landmarker(**given) as gpu,
    ):
        picture = BY_NAME[api].new_texture(PIXELS)
        masks = [mask_on(BY_NAME[api], form) for _ in range(count)]
        gpu.bind_masks(masks)
        for time in (20, 50, 90):  # each region follows from the one before; one person is smoothed
            expected = cpu.detect_for_video(IMAGE, time)
            fb.transfers.reset()
            result = gpu.detect_for_video(picture, time)
            copied = fb.transfers.by_reason["download", "detections"]
            assert (copied.calls, copied.bytes) == (1, 1064 * count)
            assert len(result.pose_landmarks) == count and result.segmentation_masks == masks
            assert_alike(result, expected)
            for ours, theirs in zip(masks, expected.segmentation_masks, strict=True):
                assert_masks_alike(ours, theirs.numpy_view()[..., 0])
            moved.append(np.array(values_of(expected.pose_landmarks[0])))
        assert np.abs(moved[2] - moved[1]).max() > 0.01
        picture.release()


def mask_on(api: Any, form: str) -> Any:
    return fb.GlTexture(64, 48, form) if form else api.new_buffer(np.ones(64 * 48, np.float32))


def assert_masks_alike(mask: Any, expected: Any) -> None:
    found, step = mask.read().reshape(48, 64), 0.0
    if found.dtype == np.uint8:
        found, step = found / np.float32(255), 1 / 255
    apart = np.abs(found - expected) - 0.6 * step  # BYTE in test_gpu_networks.py says why
    assert 0.05 < (expected > 0).mean() < 0.9
    # A coordinate whose step float32 rounds to the other side moves by a 32nd of a pixel.
    assert np.percentile(apart, 99.5) <= 1e-6 and apart.max() < 0.05


def test_single_pictures_have_no_past() -> None:
    with BY_NAME["gl"].open_context(), landmarker(Mode.IMAGE, num_poses=2) as cpu, landmarker(Mode.IMAGE) as gpu:
        picture = BY_NAME["gl"].new_texture(PIXELS)
        expected = cpu.detect(IMAGE)
        expected.pose_landmarks.pop()
        expected.pose_world_landmarks.pop()
        for _ in range(2):
            assert_alike(gpu.detect(picture), expected)
        picture.release()


def test_masks_need_a_place() -> None:
    with fb.GlContext.headless():
        picture = BY_NAME["gl"].new_texture(PIXELS)
        with landmarker() as task, pytest.raises(ValueError, match="such as output_segmentation_masks"):
            task.bind_masks([mask_on(BY_NAME["gl"], "r8")])
        with landmarker(output_segmentation_masks=True) as task:
            with pytest.raises(ValueError, match="give 1 of 64x48 pixels to bind_masks"):
                task.detect_for_video(picture, 1)
            with pytest.raises(ValueError, match="2 objects for masks, and a picture has 1"):
                task.bind_masks([1, 2])
            task.bind_masks([fb.GlTexture(48, 48, "r8")])
            with pytest.raises(fb.FramebindError, match="64x48 texels, and this one has 48x48"):
                task.detect_for_video(picture, 2)
            mask = mask_on(BY_NAME["gl"], "")
            task.bind_masks([mask])
            (found,) = task.detect_for_video(picture, 3).segmentation_masks
            assert found is mask and mask.read().max() > 0.5
        picture.release()
