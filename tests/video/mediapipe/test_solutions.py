"""``mp.solutions`` with networks that put out constants: results, tracks, masks, and what they need."""

from __future__ import annotations

import copy
import gc
import pickle
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.json_format import MessageToDict

from framebind import mp
from framebind.video.mediapipe.calculators.masks import smooth_mask
from framebind.video.mediapipe.solutions import messages
from support.video.task_bundles import constant_network, found_at_anchors, one_face, one_hand, one_person

PICTURE = np.zeros((200, 400, 3), np.uint8)
solutions = mp.solutions


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with stand-ins for the files that solutions look for."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "face_landmarker.task").write_bytes(one_face())
    (folder / "hand_landmarker.task").write_bytes(one_hand())
    (folder / "pose_landmarker_full.task").write_bytes(one_person())
    mask = np.full((1, 8, 8, 1), 0.25, np.float32)
    (folder / "selfie_segmentation.tflite").write_bytes(constant_network((1, 8, 8, 3), [mask]))
    seen = {48 * 24 + 24: (3.0, [0, 0, 48, 48, *[0] * 12]), 5: (0.1, [0, 0, 9, 9, *[0] * 12])}  # 0.1 is less than 0.6
    far = found_at_anchors(2304, 16, seen)
    (folder / "face_detection_full_range_sparse.tflite").write_bytes(constant_network((1, 192, 192, 3), far))
    return folder


@pytest.fixture(autouse=True)
def folder(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEBIND_MODELS", str(models))


def test_hands_are_lists_of_messages() -> None:
    with solutions.hands.Hands(static_image_mode=True) as hands:
        result = hands.process(PICTURE)
    assert result.multi_hand_landmarks is not None and result.multi_hand_world_landmarks is not None
    (landmarks,), (world,) = result.multi_hand_landmarks, result.multi_hand_world_landmarks
    assert len(landmarks.landmark) == len(world.landmark) == 21
    assert result.multi_handedness is not None
    side = result.multi_handedness[0].classification[0]
    assert (side.label, side.index, side.score) == ("Left", 0, pytest.approx(0.8))  # the tasks call it right
    tip = landmarks.landmark[solutions.hands.HandLandmark.INDEX_FINGER_TIP]
    assert not tip.HasField("visibility") and tip.visibility == 0.0 and tip.HasField("x")
    ends = landmarks.landmark[0], landmarks.landmark[20]
    assert abs(ends[0].x - ends[1].x) < 1e-6  # a level palm is upright in its region; a task turns it further
    canvas = PICTURE.copy()
    solutions.drawing_utils.draw_landmarks(canvas, landmarks, solutions.hands.HAND_CONNECTIONS)
    assert canvas.any()


def test_hands_are_followed_until_they_are_forgotten() -> None:
    hands = solutions.hands.Hands(max_num_hands=1)

    def length() -> float:
        (landmarks,) = hands.process(PICTURE).multi_hand_landmarks or []
        ends = [np.array([point.x * 400, point.y * 200]) for point in (landmarks.landmark[0], landmarks.landmark[20])]
        return float(np.hypot(*(ends[1] - ends[0])))

    first, second = length(), length()
    assert second == pytest.approx(2 * 18 / 20 * first, rel=1e-4)
    hands.reset()
    assert length() == pytest.approx(first)


def test_a_person_has_landmarks_and_a_smoothed_mask() -> None:
    with solutions.pose.Pose(enable_segmentation=True) as pose:
        first, second = pose.process(PICTURE), pose.process(PICTURE)
    assert first.pose_landmarks is not None and second.pose_landmarks is not None
    nose = [each.pose_landmarks.landmark[solutions.pose.PoseLandmark.NOSE] for each in (first, second)]
    assert nose[0].HasField("visibility") and not nose[0].HasField("presence")
    assert nose[0].visibility == pytest.approx(0.880797)
    assert nose[0].z < nose[1].z < 1.25 * nose[0].z  # the region grows, and the filter holds back
    assert first.segmentation_mask is not None and first.segmentation_mask.shape == (200, 400)
    assert first.segmentation_mask[100, 200] == pytest.approx(0.880797)
    assert solutions.pose.Pose(static_image_mode=True).process(PICTURE).segmentation_mask is None


def test_an_uncertain_mask_keeps_the_previous_one() -> None:
    mixed = smooth_mask(np.float32([[0.5, 1.0, 0.0]]), np.float32([[1.0, 0.0, 1.0]]))
    assert mixed[0].tolist() == pytest.approx([0.85, 1.0, 0.0], abs=5e-3)


@pytest.mark.parametrize(("refined", "count"), [(False, 468), (True, 478)])
def test_faces_have_landmarks(refined: bool, count: int) -> None:
    with solutions.face_mesh.FaceMesh(refine_landmarks=refined) as mesh:
        (face,) = mesh.process(PICTURE).multi_face_landmarks or []
    assert len(face.landmark) == count
    assert len(solutions.face_mesh.FACEMESH_TESSELATION) == 2556 and len(solutions.face_mesh.FACEMESH_IRISES) == 8


@pytest.mark.parametrize(("model", "offset"), [(0, 4 / 128), (1, 2 / 192)])
def test_detections_have_a_relative_place(model: int, offset: float) -> None:
    with solutions.face_detection.FaceDetection(0.5, model) as detection:
        (face,) = detection.process(PICTURE).detections or []
    box = face.location_data.relative_bounding_box
    assert (box.xmin + box.width / 2, box.ymin + box.height / 2) == pytest.approx((0.5 + offset, 0.5 + 2 * offset))
    assert face.score[0] > 0.95 and face.label_id == [0]
    point = solutions.face_detection.get_key_point(face, solutions.face_detection.FaceKeyPoint.NOSE_TIP)
    assert point == face.location_data.relative_keypoints[2]
    canvas = PICTURE.copy()
    solutions.drawing_utils.draw_detection(canvas, face)
    assert canvas.any()


def test_a_selfie_has_a_mask() -> None:
    with solutions.selfie_segmentation.SelfieSegmentation() as selfie:
        mask = selfie.process(PICTURE).segmentation_mask
    assert mask.shape == (200, 400) and np.allclose(mask, 0.25)


def test_what_is_wrong_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    selfie = solutions.selfie_segmentation.SelfieSegmentation()
    with pytest.raises(ValueError, match="Input image must contain three channel rgb data"):
        selfie.process(PICTURE[..., 0])
    for nothing in (None, PICTURE[:0]):
        with pytest.raises(ValueError, match="Input image is empty"):
            selfie.process(nothing)
    selfie.close()
    with pytest.raises(ValueError, match="this SelfieSegmentation is closed"):
        selfie.process(PICTURE)
    with pytest.raises(ValueError, match="model_complexity is 0, 1 or 2"):
        solutions.pose.Pose(model_complexity=3)
    with pytest.raises(FileNotFoundError, match=r"needs MediaPipe's file pose_landmarker_heavy\.task: put it"):
        solutions.pose.Pose(model_complexity=2)


def test_a_message_says_which_fields_it_has() -> None:
    given = messages.NormalizedLandmarkList()
    given.landmark.extend([messages.NormalizedLandmark(x=0.5, y=0.5, z=0.0, visibility=0.9)])
    assert given.landmark[0].HasField("visibility") and not given.landmark[0].HasField("presence")


def test_messages_are_protocol_buffers() -> None:
    with solutions.hands.Hands(static_image_mode=True) as hands:
        result = hands.process(PICTURE)
    (landmarks,), (side,) = result.multi_hand_landmarks or [], result.multi_handedness or []
    assert MessageToDict(side)["classification"] == [{"index": 0, "score": pytest.approx(0.8), "label": "Left"}]
    assert str(side).startswith('classification {\n  index: 0\n  score: 0.8\n  label: "Left"')
    kept = mp.framework.formats.landmark_pb2.NormalizedLandmarkList()
    kept.CopyFrom(landmarks)
    assert kept == copy.deepcopy(landmarks) == pickle.loads(pickle.dumps(landmarks))
    added = kept.landmark.add(x=0.25)
    assert len(kept.landmark) == 22 and [field.name for field, _ in added.ListFields()] == ["x"]


def test_messages_inside_others_survive_a_collection() -> None:
    """The class of one that nothing held was collected by protobuf 4.22 to 4.24, which crashed when one was made."""
    assert isinstance(messages.LocationData, type)
    gc.collect()
    found = messages.LocationData(relative_bounding_box={"xmin": 0.5}, relative_keypoints=[{"x": 0.25}] * 6)
    assert (found.relative_bounding_box.xmin, found.relative_keypoints[5].x) == (0.5, 0.25)


def test_rows_become_messages_with_equal_values() -> None:
    rows = np.float32([[0.1, -2.5, 3e-7, 0.75], [1e9, 0, -0.0, 0]])
    for read in (messages.landmark_list, messages.world_landmark_list):
        assert [[p.x, p.y, p.z, p.visibility] for p in read(rows).landmark] == rows.tolist()
        assert [p.HasField("visibility") for p in read(rows[:, :3]).landmark] == [False, False]
