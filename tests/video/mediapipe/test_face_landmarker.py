"""FaceLandmarker with the real bundle: MediaPipe's own results, modes of running, and errors."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framebind import mp
from framebind.video.assets import PHOTOGRAPH
from framebind.video.vision.pictures import read_picture

REFERENCE = Path(__file__).with_name("astronaut.json")
"""Results of mediapipe 1.2.2; benchmarks/mediapipe_agreement.py writes them."""
NOTHING = np.zeros((48, 64, 3), np.uint8)

vision = mp.tasks.vision
Mode = vision.RunningMode


@pytest.fixture(scope="module")
def bundle(model_path: Callable[[str], Path]) -> str:
    return str(model_path("selfie_segmentation").with_name("face_landmarker.task"))


@pytest.fixture(scope="module")
def photograph() -> mp.Image:
    picture = read_picture(PHOTOGRAPH)
    assert picture is not None
    return mp.Image(image_format=mp.ImageFormat.SRGB, data=picture)


def landmarker(bundle: str, **options: Any) -> mp.tasks.vision.FaceLandmarker:
    base = mp.tasks.BaseOptions(model_asset_path=bundle, delegate=mp.tasks.BaseOptions.Delegate.CPU)
    return vision.FaceLandmarker.create_from_options(vision.FaceLandmarkerOptions(base, **options))


def points(face: Any) -> np.ndarray:
    return np.array([[point.x, point.y, point.z] for point in face])


def test_results_are_mediapipes(bundle: str, photograph: mp.Image) -> None:
    expected = json.loads(REFERENCE.read_text(encoding="utf-8"))
    with landmarker(bundle, output_face_blendshapes=True, output_facial_transformation_matrixes=True) as task:
        result = task.detect(photograph)
    assert len(result.face_landmarks) == 1 and len(result.face_landmarks[0]) == 478
    np.testing.assert_allclose(points(result.face_landmarks[0])[::5], expected["every fifth landmark"], atol=2e-4)
    shapes = result.face_blendshapes[0]
    np.testing.assert_allclose([shape.score for shape in shapes], expected["blendshapes"], atol=5e-3)
    assert [shape.index for shape in shapes] == [*range(52)] and shapes[25].category_name == "jawOpen"
    assert vision.Blendshapes.JAW_OPEN == 25
    np.testing.assert_allclose(result.facial_transformation_matrixes[0], expected["matrix"], atol=0.02)


def test_a_turned_picture_has_the_same_face(bundle: str, photograph: mp.Image) -> None:
    turned = mp.Image(mp.ImageFormat.SRGB, np.rot90(photograph.numpy_view()))  # counter-clockwise
    with landmarker(bundle) as task:
        upright = points(task.detect(photograph).face_landmarks[0])
        found = task.detect(turned, vision.ImageProcessingOptions(rotation_degrees=90))
    back = points(found.face_landmarks[0])
    assert np.abs(np.column_stack([1 - back[:, 1], back[:, 0]]) - upright[:, :2]).max() < 0.01


def test_a_video_follows_a_face_and_loses_it(bundle: str, photograph: mp.Image) -> None:
    empty = mp.Image(mp.ImageFormat.SRGB, NOTHING)
    with landmarker(bundle, running_mode=Mode.VIDEO) as task:
        counts = [
            len(task.detect_for_video(image, 40 * number).face_landmarks)
            for number, image in enumerate((photograph, photograph, empty, photograph))
        ]
        with pytest.raises(ValueError, match="must be monotonically increasing: 120 ms comes after 120"):
            task.detect_for_video(photograph, 120)
        assert task.detect_for_video(photograph, 160).face_landmarks  # the task stays usable
    assert counts == [1, 1, 0, 1]


def test_a_live_stream_calls_back_in_order(bundle: str, photograph: mp.Image) -> None:
    calls: list[tuple[int, int, bool]] = []
    entered, go_on = threading.Event(), threading.Event()

    def callback(result: Any, image: mp.Image, milliseconds: int) -> None:
        calls.append((len(result.face_landmarks), milliseconds, image is photograph))
        entered.set()
        go_on.wait(30)

    with landmarker(bundle, running_mode=Mode.LIVE_STREAM, result_callback=callback) as task:
        task.detect_async(photograph, 1)
        assert entered.wait(60)
        for milliseconds in (2, 3, 4):  # while the first one is in its callback
            task.detect_async(photograph, milliseconds)
        with pytest.raises(ValueError, match="monotonically increasing"):
            task.detect_async(photograph, 4)
        go_on.set()
    assert calls == [(1, 1, True), (1, 4, True)]  # newer frames took the place of 2 and 3


def test_a_callback_that_fails_is_logged(bundle: str, photograph: mp.Image, caplog: pytest.LogCaptureFixture) -> None:
    def callback(*_: object) -> None:
        raise OSError("the disk is full")

    with landmarker(bundle, running_mode=Mode.LIVE_STREAM, result_callback=callback) as task:
        task.detect_async(photograph, 7)
    assert "FaceLandmarker: the frame at 7 ms failed" in caplog.text and "the disk is full" in caplog.text


def test_the_wrong_mode_is_refused(bundle: str, photograph: mp.Image) -> None:
    task = landmarker(bundle)
    for call in (task.detect_for_video, task.detect_async):
        with pytest.raises(ValueError, match=r"Task is not initialized with the (video|live stream) mode"):
            call(photograph, 0)
    with pytest.raises(ValueError, match="doesn't support region-of-interest"):
        whole = mp.tasks.components.containers.RectF(0, 0, 1, 1)
        task.detect(photograph, vision.ImageProcessingOptions(region_of_interest=whole))
    with pytest.raises(ValueError, match="multiple of 90"):
        task.detect(photograph, vision.ImageProcessingOptions(rotation_degrees=45))
    with pytest.raises(ValueError, match="SRGB and SRGBA; this one is GRAY8"):
        task.detect(mp.Image(mp.ImageFormat.GRAY8, NOTHING[..., 0]))
    task.close()
    with pytest.raises(ValueError, match="this FaceLandmarker is closed"):
        task.detect(photograph)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"running_mode": Mode.LIVE_STREAM}, "result callback must be provided"),
        ({"result_callback": print}, "result callback should not be provided"),
        ({"min_tracking_confidence": 1.5}, "Invalid `min_tracking_confidence` option"),
        ({"num_faces": 0}, "Invalid `num_faces` option"),
    ],
)
def test_wrong_options_are_refused(bundle: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        landmarker(bundle, **options)


def test_a_single_model_detects_faces(bundle: str, photograph: mp.Image) -> None:
    from zipfile import ZipFile

    with ZipFile(bundle) as archive:
        content = archive.read("face_detector.tflite")
    with vision.FaceDetector.create_from_options(
        vision.FaceDetectorOptions(mp.tasks.BaseOptions(model_asset_buffer=content))
    ) as task:
        (face,) = task.detect(photograph).detections
    with landmarker(bundle) as landmarks:
        nose = landmarks.detect(photograph).face_landmarks[0][1]
    assert face.categories[0].score > 0.5 and face.keypoints is not None and len(face.keypoints) == 6
    box = face.bounding_box
    assert 0 < (nose.x * photograph.width - box.origin_x) / box.width < 1
    assert abs(face.keypoints[2].x - nose.x) < 0.02 and abs(face.keypoints[2].y - nose.y) < 0.02
