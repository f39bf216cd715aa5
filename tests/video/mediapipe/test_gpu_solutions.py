"""``mp.solutions`` on pictures in the GPU's memory, beside themselves on their pixels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind import mp
from framebind.video.apis import GL
from support.video.task_bundles import one_face, one_hand, varied_persons

solutions = mp.solutions
RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(0, 256, (48, 64, 4), np.uint8)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with stand-ins for the files that solutions look for."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "face_landmarker.task").write_bytes(one_face())
    (folder / "hand_landmarker.task").write_bytes(one_hand())
    (folder / "pose_landmarker_full.task").write_bytes(varied_persons())
    return folder


@pytest.fixture(autouse=True)
def gl(models: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FRAMEBIND_MODELS", str(models))
    with GL.open_context():
        yield


def points_of(message: Any) -> np.ndarray[Any, Any]:
    return np.array([(point.x, point.y, point.z, point.visibility) for point in message.landmark])


@pytest.mark.parametrize(
    "given", [{}, {"smooth_landmarks": False, "smooth_segmentation": False}, {"static_image_mode": True}]
)
def test_a_person_is_followed_as_in_its_pixels(given: dict[str, bool]) -> None:
    texture, mask, seen = GL.new_texture(PIXELS), fb.GlTexture(64, 48, "r32f"), list[np.ndarray[Any, Any]]()
    make = solutions.pose.Pose
    with make(enable_segmentation=True, **given) as cpu, make(enable_segmentation=True, **given) as gpu:
        gpu.bind_masks([mask])
        for frame in range(4):
            if frame == 3:
                cpu.reset()
                gpu.reset()
            expected = cpu.process(PIXELS[..., :3])
            with fb.transfer_guard("disallow", exempt=("detections",)) if frame == 2 else fb.transfer_guard("allow"):
                result = gpu.process(texture)
            for ours, theirs in zip(result[:2], expected[:2], strict=True):
                np.testing.assert_allclose(points_of(ours), points_of(theirs), rtol=1e-4, atol=1e-4)
            assert result.segmentation_mask is mask and expected.segmentation_mask is not None
            apart = np.abs(mask.read()[..., 0] - expected.segmentation_mask)
            assert np.percentile(apart, 99.5) <= 1e-5 and apart.max() < 0.05
            seen.append(np.append(points_of(expected.pose_landmarks).ravel(), expected.segmentation_mask))
    moved = [np.abs(each - seen[0]).max() for each in seen[1:]]
    assert moved[2] == 0 and ((max(moved) == 0) if given.get("static_image_mode") else (min(moved[:2]) > 0.01))


def test_hands_and_faces_are_followed_as_in_their_pixels() -> None:
    texture = GL.new_texture(PIXELS)
    hands, faces = solutions.hands.Hands, solutions.face_mesh.FaceMesh
    with hands() as cpu, hands() as gpu, faces() as face, faces() as gpu_face:
        for _ in range(3):
            expected, result = cpu.process(PIXELS[..., :3]), gpu.process(texture)
            for ours, theirs in zip(result[:2], expected[:2], strict=True):
                assert ours is not None and theirs is not None and len(ours) == len(theirs)
                for one, other in zip(ours, theirs, strict=True):
                    np.testing.assert_allclose(points_of(one), points_of(other), rtol=1e-4, atol=1e-4)
            assert result.multi_handedness == expected.multi_handedness
            (ours,), (theirs,) = (
                each.multi_face_landmarks or [] for each in (gpu_face.process(texture), face.process(PIXELS[..., :3]))
            )
            assert len(ours.landmark) == 468
            np.testing.assert_allclose(points_of(ours), points_of(theirs), atol=1e-4)
