"""MediaPipe itself beside ``framebind.mp``, if it is installed; benchmarks/mediapipe_agreement.py compares clips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from framebind import mp
from framebind.video.assets import PHOTOGRAPH
from framebind.video.vision.pictures import read_picture

oracle: Any = pytest.importorskip("mediapipe", reason="mediapipe is not installed: it is the oracle, no dependency")


@pytest.mark.skipif(hasattr(oracle, "solutions"), reason="results are compared with mediapipe 1.2")
def test_a_moving_face_is_the_oracles(model_path: Callable[[str], Any]) -> None:
    bundle = str(model_path("selfie_segmentation").with_name("face_landmarker.task"))
    picture = read_picture(PHOTOGRAPH)
    assert picture is not None
    found: list[list[np.ndarray]] = []
    for library in (mp, oracle):
        vision, base = library.tasks.vision, library.tasks.BaseOptions
        options = vision.FaceLandmarkerOptions(
            base(model_asset_path=bundle, delegate=base.Delegate.CPU), vision.RunningMode.VIDEO
        )
        with vision.FaceLandmarker.create_from_options(options) as task:
            faces: list[np.ndarray] = []
            for number in range(5):
                moved = np.ascontiguousarray(np.roll(picture, 4 * number, axis=1))
                image = library.Image(image_format=library.ImageFormat.SRGB, data=moved)
                (face,) = task.detect_for_video(image, 33 * number).face_landmarks
                faces.append(np.array([[point.x, point.y] for point in face]))
        found.append(faces)
    assert np.abs(np.array(found[0]) - np.array(found[1])).max() < 1e-3
