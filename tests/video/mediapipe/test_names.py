"""The names of ``framebind.mp``: documented, importable as MediaPipe's are, and the oracle's if it is installed."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from framebind import mp

vision = mp.tasks.vision


IMPORTS = """
tasks.python: BaseOptions, components, core, vision
tasks.python.core.base_options: BaseOptions
tasks.python.components: containers, processors
tasks.python.components.containers: NormalizedLandmark, bounding_box, category, detections, keypoint, landmark, rect
tasks.python.components.containers.landmark: Landmark, NormalizedLandmark
tasks.python.components.containers.detections: Detection, DetectionResult
tasks.python.components.containers.embedding_result: Embedding, EmbeddingResult
tasks.python.components.processors.classifier_options: ClassifierOptions
tasks.python.vision: RunningMode, drawing_styles, drawing_utils, hand_landmarker
tasks.python.vision.core.image: Image, ImageFormat
tasks.python.vision.core.image_processing_options: ImageProcessingOptions
tasks.python.vision.core.vision_task_running_mode: VisionTaskRunningMode
tasks.python.vision.face_landmarker: Blendshapes, FaceLandmarker, FaceLandmarkerResult, FaceLandmarksConnections
tasks.python.vision.hand_landmarker: HandLandmark, HandLandmarkerOptions, HandLandmarksConnections
tasks.python.vision.pose_landmarker: PoseLandmark, PoseLandmarkerResult, PoseLandmarksConnections
tasks.python.vision.drawing_utils: DrawingSpec, draw_landmarks
"""


OLD_IMPORTS = """
framework.formats: classification_pb2, detection_pb2, landmark_pb2, location_data_pb2
framework.formats.landmark_pb2: LandmarkList, NormalizedLandmark, NormalizedLandmarkList
python.solutions: drawing_utils, face_mesh, hands_connections
python.solutions.drawing_utils: DrawingSpec, _normalized_to_pixel_coordinates
python.solutions.hands: HAND_CONNECTIONS, HandLandmark, Hands
python.solutions.face_mesh_connections: FACEMESH_LIPS, FACEMESH_TESSELATION
python.solutions.hands_connections: HAND_CONNECTIONS, HAND_PALM_CONNECTIONS
python.solutions.pose_connections: POSE_CONNECTIONS
"""


def _import_all(package: str, lines: str) -> dict[str, Any]:
    """The objects that each line names, imported from its module as a program does."""
    names: dict[str, Any] = {}
    for line in lines.split("\n")[1:-1]:
        module, _, wanted = line.partition(": ")
        exec(f"from {package}.{module} import {wanted}", names)
    return names


def test_modules_are_imported_by_mediapipes_paths() -> None:
    found = _import_all("framebind.mp", IMPORTS + OLD_IMPORTS[1:])
    assert found["HandLandmarksConnections"] is vision.HandLandmarksConnections  # not a second copy of its module
    assert found["landmark"].NormalizedLandmark is mp.tasks.components.containers.NormalizedLandmark
    assert found["face_mesh"] is mp.solutions.face_mesh
    assert mp.solutions.face_mesh_connections.FACEMESH_LIPS is found["FACEMESH_LIPS"]
    if find_spec("mediapipe") is not None:
        _import_all("mediapipe", IMPORTS)


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(AttributeError, match=r"no mp\.solutions\.objectron: docs/from-mediapipe\.md"):
        _ = mp.solutions.objectron
    with pytest.raises(AttributeError, match=r"no mp\.tasks\.text, only mp\.tasks\.vision"):
        _ = mp.tasks.text
    with pytest.raises(ValueError, match="did the camera or the file give a frame"):
        mp.Image(mp.ImageFormat.SRGB, None)  # pyright: ignore[reportArgumentType]


def test_a_place_becomes_a_pixel() -> None:
    to_pixel = mp.solutions.drawing_utils._normalized_to_pixel_coordinates
    assert to_pixel(0.5, 1.0, 640, 480) == (320, 479) and to_pixel(1.1, 0.5, 640, 480) is None


@pytest.mark.parametrize("name", vision.__all__)
def test_a_name_is_documented(name: str) -> None:
    value = getattr(vision, name)
    assert value.__doc__
    for method in ("detect", "detect_for_video", "detect_async", "close") if isinstance(value, type) else ():
        assert not hasattr(value, method) or getattr(value, method).__doc__


@pytest.mark.parametrize("name", [name for name in vision.__all__ if ">>>" in (getattr(vision, name).__doc__ or "")])
def test_an_example_runs(name: str) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    for example in doctest.DocTestFinder(recurse=False).find(getattr(vision, name), name, globs={}):
        runner.run(example, out=said.append)
    assert runner.tries and not runner.failures, "".join(said)


@pytest.mark.skipif(
    find_spec("mediapipe") is None, reason="mediapipe is not installed: it is the oracle, no dependency"
)
@pytest.mark.parametrize("name", [name for name in vision.__all__ if not name.startswith("drawing_")])
def test_a_class_has_the_oracles_fields(name: str) -> None:
    oracle: Any = import_module("mediapipe").tasks.vision
    if name in ("Blendshapes", "HandLandmark", "PoseLandmark"):
        module = {"Blendshapes": "face", "HandLandmark": "hand", "PoseLandmark": "pose"}[name]
        theirs = getattr(import_module(f"mediapipe.tasks.python.vision.{module}_landmarker"), name)
        assert {each.name: each.value for each in getattr(vision, name)} == {each.name: each.value for each in theirs}
        return
    ours, theirs = getattr(vision, name), getattr(oracle, name, None)
    if theirs is None:  # the oracle's package has only the module
        theirs = getattr(import_module("mediapipe.tasks.python.vision.image_segmenter"), name)
    if dataclasses.is_dataclass(theirs):
        fields = [
            [(f.name, f.default) for f in dataclasses.fields(each) if f.name[0] != "_"] for each in (ours, theirs)
        ]
        assert [each[0] for each in fields[0]] == [each[0] for each in fields[1]]
        defaults = [[str(each[1]).split(".")[-1] for each in side] for side in fields]
        assert defaults[0] == defaults[1]
    elif name.endswith("Connections"):
        lists = [each for each in vars(theirs) if each.isupper()]
        for each in lists:
            pairs = [[(line.start, line.end) for line in getattr(kind, each)] for kind in (ours, theirs)]
            assert pairs[0] == pairs[1], each
    elif hasattr(theirs, "create_from_options"):
        for method in [each for each in vars(theirs) if not each.startswith("_") and callable(getattr(theirs, each))]:
            arguments = [[*inspect.signature(getattr(kind, method)).parameters] for kind in (ours, theirs)]
            assert arguments[0] == arguments[1]


def test_drawings_are_the_oracles() -> None:
    """Lines and circles of a face in three styles, a hand and a box; without the oracle, that something is drawn."""
    drawn = [_drawn(mp)]
    if find_spec("mediapipe") is not None:
        drawn.append(_drawn(import_module("mediapipe")))
    for picture in drawn:
        assert (picture == drawn[0]).all()
    assert 0.02 < (drawn[0].any(axis=2)).mean() < 0.9


def _drawn(library: Any) -> np.ndarray:
    module, parts = library.tasks.vision, library.tasks.components.containers
    random = np.random.default_rng(3)
    face = [parts.NormalizedLandmark(*random.uniform(-0.02, 1.02, 3).tolist()) for _ in range(478)]
    face[7].visibility = 0.1
    picture = np.zeros((300, 400, 3), np.uint8)
    styles, lines = module.drawing_styles, module.FaceLandmarksConnections
    draw = module.drawing_utils.draw_landmarks
    for number in (0, 1):
        style = styles.get_default_face_mesh_contours_style(number)
        draw(picture, face, lines.FACE_LANDMARKS_CONTOURS, None, style)
    draw(picture, face, lines.FACE_LANDMARKS_LEFT_IRIS, None, styles.get_default_face_mesh_iris_connections_style())
    draw(
        picture,
        face[:21],
        module.HandLandmarksConnections.HAND_CONNECTIONS,
        styles.get_default_hand_landmarks_style(),
        styles.get_default_hand_connections_style(),
    )
    draw(picture, face[:33], module.PoseLandmarksConnections.POSE_LANDMARKS, styles.get_default_pose_landmarks_style())
    module.drawing_utils.draw_axis(picture, np.eye(3), np.array([0.1, 0.0, -0.5]), axis_length=0.2)
    return picture


def test_a_drawing_says_what_is_wrong() -> None:
    point = mp.tasks.components.containers.NormalizedLandmark(0.5, 0.5, 0)
    with pytest.raises(ValueError, match="three channel bgr data; its shape is"):
        vision.drawing_utils.draw_landmarks(np.zeros((4, 4)), [point])
    with pytest.raises(ValueError, match="from landmark #0 to landmark #5"):
        vision.drawing_utils.draw_landmarks(np.zeros((4, 4, 3), np.uint8), [point], [(0, 5)])
    vision.drawing_utils.draw_landmarks(np.zeros((4, 4)), [])  # nothing to draw
