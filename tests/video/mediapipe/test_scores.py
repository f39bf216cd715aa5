"""Segmenter, classifier, embedder, object detector and gesture recognizer, with networks that put out constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import cv2
import numpy as np
import pytest

from framebind import mp
from framebind.video.mediapipe.calculators.gestures import gesture_landmarks
from framebind.video.mediapipe.calculators.segments import activated, category_mask, confidence_masks
from framebind.video.mediapipe.core.categories import CategoryFilter, ClassifierOptions
from framebind.video.mediapipe.vision.interactive_segmenter_legacy import marked
from framebind.video.model_metadata import read_metadata
from support.tiny_models import G, Op, T, build, schema
from support.video.task_bundles import bundle, constant_network, found_at_anchors

vision = mp.tasks.vision
CPU = mp.tasks.BaseOptions.Delegate.CPU
PICTURE = mp.Image(mp.ImageFormat.SRGB, np.zeros((40, 60, 3), np.uint8))
SCORES = np.float32([[0.1, 0.6, 0.25, 0.05]])


def base(content: bytes) -> mp.tasks.BaseOptions:
    return mp.tasks.BaseOptions(model_asset_buffer=content, delegate=CPU)


def classifier(**options: Any) -> mp.tasks.vision.ImageClassifier:
    content = constant_network((1, 8, 8, 3), [SCORES], dtype="uint8")
    return vision.ImageClassifier.create_from_options(vision.ImageClassifierOptions(base(content), **options))


def test_classes_come_best_first() -> None:
    (head,) = classifier().classify(PICTURE).classifications
    assert [each.index for each in head.categories] == [1, 2, 0, 3]
    assert [each.score for each in head.categories] == pytest.approx([0.6, 0.25, 0.1, 0.05])
    assert (head.head_index, head.head_name) == (0, None)
    region = vision.ImageProcessingOptions(mp.tasks.components.containers.RectF(0.1, 0.1, 0.5, 0.5), 90)
    (head,) = classifier(max_results=2, score_threshold=0.3).classify(PICTURE, region).classifications
    assert [each.index for each in head.categories] == [1]


def test_categories_are_filtered_by_name() -> None:
    names = ("cat", "dog", "None")
    scores = np.float32([0.2, 0.5, 0.3])
    allowed = CategoryFilter(ClassifierOptions(category_allowlist=["cat", "cow"]), names).best(scores)
    denied = CategoryFilter(ClassifierOptions(category_denylist=["dog"], max_results=1), names).best(scores)
    assert [each.category_name for each in allowed] == ["cat"] and [each.category_name for each in denied] == ["None"]
    with pytest.raises(ValueError, match="mutually exclusive"):
        CategoryFilter(ClassifierOptions(category_allowlist=["a"], category_denylist=["b"]), names)
    with pytest.raises(ValueError, match="requires labels to be present"):
        classifier(category_allowlist=["cat"])
    with pytest.raises(ValueError, match="Invalid `max_results` option"):
        classifier(max_results=0)


@pytest.mark.parametrize(
    ("options", "expected", "kind"),
    [
        ({}, SCORES[0], np.float64),
        ({"l2_normalize": True}, SCORES[0] / np.linalg.norm(SCORES), np.float64),
        ({"quantize": True}, [13, 77, 32, 6], np.uint8),
    ],
)
def test_embeddings_are_finished(options: dict[str, bool], expected: Any, kind: type) -> None:
    content = constant_network((1, 8, 8, 3), [SCORES])
    task = vision.ImageEmbedder.create_from_options(vision.ImageEmbedderOptions(base(content), **options))
    (embedding,) = task.embed(PICTURE).embeddings
    np.testing.assert_allclose(embedding.embedding, expected, rtol=1e-6)
    assert embedding.embedding.dtype == kind
    assert vision.ImageEmbedder.cosine_similarity(embedding, embedding) == pytest.approx(1)


def test_embeddings_must_be_comparable() -> None:
    make = mp.tasks.components.containers.Embedding
    similar = vision.ImageEmbedder.cosine_similarity
    low, high = make(np.uint8([255, 0])), make(np.uint8([1, 0]))  # -1 and 1
    assert similar(low, high) == pytest.approx(-1)
    for other, message in ((np.zeros(2), "quantized and float"), (np.uint8([1]), "different sizes")):
        with pytest.raises(ValueError, match=message):
            similar(low, make(other))
    with pytest.raises(ValueError, match="0 norm"):
        similar(make(np.zeros(2)), make(np.ones(2)))


def test_boxes_come_from_the_networks_selection() -> None:
    boxes = np.float32([[[0.1, 0.2, 0.5, 0.7], [0, 0, 1, 1]]])
    outputs = [boxes, np.float32([[3, 1]]), np.float32([[0.9, 0.4]]), np.float32([2])]
    content = constant_network((1, 8, 8, 3), outputs)
    task = vision.ObjectDetector.create_from_options(vision.ObjectDetectorOptions(base(content), score_threshold=0.3))
    first, second = task.detect(PICTURE).detections
    assert first.bounding_box == mp.tasks.components.containers.BoundingBox(12, 4, 29, 15)
    assert (first.categories[0].index, second.categories[0].index) == (3, 1)
    one = vision.ObjectDetector.create_from_options(vision.ObjectDetectorOptions(base(content), max_results=1))
    assert len(one.detect(PICTURE).detections) == 1
    with pytest.raises(NotImplementedError, match="TFLite_Detection_PostProcess"):
        vision.ObjectDetector.create_from_options(
            vision.ObjectDetectorOptions(base(constant_network((1, 8, 8, 3), [SCORES])))
        )


def test_masks_have_the_pictures_size() -> None:
    scores = np.zeros((1, 4, 6, 1), np.float32)
    scores[:, :, :3] = 1.0
    content = constant_network((1, 8, 8, 3), [scores])
    options = vision.ImageSegmenterOptions(base(content), output_category_mask=True)
    task = vision.ImageSegmenter.create_from_options(options)
    result = task.segment(PICTURE)
    assert result.confidence_masks is not None and result.category_mask is not None
    mask = result.confidence_masks[0].numpy_view()[..., 0]
    np.testing.assert_allclose(mask, cv2.resize(scores[0, ..., 0], (60, 40)), atol=1e-6)
    category = result.category_mask.numpy_view()[..., 0]
    assert category.shape == (40, 60) and (category[:, :29] == 0).all() and (category[:, 31:] == 255).all()
    assert task.labels == []
    with pytest.raises(ValueError, match="At least one of `output_confidence_masks`"):
        vision.ImageSegmenter.create_from_options(
            vision.ImageSegmenterOptions(base(content), output_confidence_masks=False)
        )
    with pytest.raises(ValueError, match="none of them is a mask"):
        vision.ImageSegmenter.create_from_options(
            vision.ImageSegmenterOptions(base(constant_network((1, 8, 8, 3), [SCORES])))
        )


def test_activations_and_categories() -> None:
    values = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)
    np.testing.assert_allclose(activated(values, "softmax").sum(axis=2), 1, rtol=1e-6)
    np.testing.assert_allclose(activated(values, "sigmoid"), 1 / (1 + np.exp(-values)), rtol=1e-5)
    assert activated(values, "") is values
    assert (category_mask(values, (5, 3)) == values.argmax(axis=2)).all()
    corners = category_mask(values, (50, 30))[[0, 0, -1, -1], [0, -1, 0, -1]]
    assert corners.tolist() == values.argmax(axis=2)[[0, 0, -1, -1], [0, -1, 0, -1]].tolist()
    assert len(confidence_masks(values, (5, 3))) == 4


def test_a_gestures_landmarks_are_relative() -> None:
    hand = np.random.default_rng(1).random((21, 3)).astype(np.float32)
    relative = gesture_landmarks(hand, 0.0, (200, 100))
    expected = (hand - hand[0]) * [1, 0.5, 1]
    extent = np.ptp(expected[:, :2], axis=0).max()
    np.testing.assert_allclose(relative, expected / (extent + 1e-5), atol=1e-5)
    turned = gesture_landmarks(hand, np.pi / 2)  # of a region that is turned clockwise: turned back
    back = (hand - hand[0])[:, [1, 0, 2]] * [1, -1, 1]
    np.testing.assert_allclose(turned, back / np.ptp(back[:, :2], axis=0).max(), atol=1e-4)


def with_labels(content: bytes, path: Path, labels: str) -> bytes:
    """A model with ultralytics' metadata, which names its classes."""
    path.write_bytes(content)
    with ZipFile(path, "a", ZIP_STORED) as archive:
        archive.writestr("metadata.json", labels)
    return path.read_bytes()


@pytest.mark.parametrize(("scores", "expected"), [([0.1, 0.7], ("fist", 0.7)), ([0.8, 0.1], ("palm", 0.9))])
def test_the_own_classifier_of_gestures_goes_first(tmp_path: Path, scores: list[float], expected: Any) -> None:
    palm = 3.0, [-4, -4, 24, 24, -4, -4, 0, 0, 6, -4, *[0] * 8]
    hand = np.tile(np.float32([16, 16, 0]), 21).reshape(1, 63)
    hand[0, 3:6] = 0.0
    hands = bundle(
        {
            "hand_detector.tflite": constant_network((1, 192, 192, 3), found_at_anchors(2016, 18, {600: palm})),
            "hand_landmarks_detector.tflite": constant_network(
                (1, 32, 32, 3), [hand, np.float32([[0.9]]), np.float32([[0.2]]), hand]
            ),
        }
    )
    own = with_labels(constant_network((1, 8), [np.float32([scores])]), tmp_path / "own", '{"names": ["None", "fist"]}')
    canned = constant_network((1, 8), [np.float32([[0.05, 0.9]])])
    gestures = bundle(
        {
            "gesture_embedder.tflite": constant_network((1, 21, 3), [np.ones((1, 8))], more=[(1, 1), (1, 21, 3)]),
            "canned_gesture_classifier.tflite": with_labels(canned, tmp_path / "canned", '{"names": ["None", "palm"]}'),
            "custom_gesture_classifier.tflite": own,
        }
    )
    content = bundle({"hand_landmarker.task": hands, "hand_gesture_recognizer.task": gestures})
    task = vision.GestureRecognizer.create_from_options(vision.GestureRecognizerOptions(base(content)))
    result = task.recognize(PICTURE)
    ((gesture,),) = result.gestures
    assert (gesture.category_name, gesture.index) == (expected[0], -1)
    assert gesture.score == pytest.approx(expected[1])
    assert result.handedness[0][0].category_name == "Left" and len(result.hand_landmarks[0]) == 21


def test_a_place_is_the_fourth_channel(tmp_path: Path) -> None:
    """A network that puts the fourth channel out: its mask is the dot at the place."""
    vector = np.zeros((1, 1, 1, 4), np.float32)
    vector[..., 3] = 1
    tensors = [T("x", (1, 32, 32, 4)), T("w", (1, 1, 1, 4), vector), T("b", (1,), [0.0]), T("y", (1, 32, 32, 1))]
    options = schema.Conv2DOptionsT()
    options.strideH = options.strideW = 1
    content = build(G(tensors, [Op("CONV_2D", [0, 1, 2], [3], options)], [0], [3]))
    task = vision.InteractiveSegmenterLegacy.create_from_options(
        vision.InteractiveSegmenterLegacyOptions(base(content), output_category_mask=True)
    )
    place = vision.InteractiveSegmenterLegacyRegionOfInterest
    point = mp.tasks.components.containers.NormalizedKeypoint(x=0.5, y=0.25)
    image = mp.Image(mp.ImageFormat.SRGB, np.full((32, 32, 3), 9, np.uint8))
    result = task.segment(image, place(place.Format.KEYPOINT, point))
    (mask,) = result.confidence_masks or []
    rows, columns = np.nonzero(mask.numpy_view()[..., 0] > 0.9)
    assert (rows.mean(), columns.mean()) == (8, 16) and 4 <= len(rows) <= 9
    assert result.category_mask is not None and result.category_mask.numpy_view()[8, 15] == 0
    assert marked((1024, 512), 0.5, 0.5).sum() > 2 * marked((512, 512), 0.5, 0.5).sum()
    with pytest.raises(ValueError, match="specify the Region-of-interest"):
        task.segment(image, place(place.Format.UNSPECIFIED))
    with pytest.raises(ValueError, match="not in the picture"):
        task.segment(image, place(place.Format.KEYPOINT, mp.tasks.components.containers.NormalizedKeypoint(x=2, y=0)))


def test_a_segmenters_metadata_names_its_activation() -> None:
    import flatbuffers

    options = flatbuffers.Builder(0)
    options.StartObject(2)
    options.PrependInt8Slot(0, 2, 0)
    options.Finish(options.EndObject(), b"V001")
    assert read_metadata(_with_custom_metadata("SEGMENTER_METADATA", bytes(options.Output()))).activation == "softmax"
    assert read_metadata(_with_custom_metadata("OTHER", bytes(options.Output()))).activation == ""
    assert read_metadata(_with_custom_metadata("SEGMENTER_METADATA", b"\xff" * 8)).activation == ""


def _with_custom_metadata(name: str, data: bytes) -> bytes:
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    made = flatbuffers.Builder(0)
    content, label = made.CreateByteVector(data), made.CreateString(name)
    made.StartObject(2)
    made.PrependUOffsetTRelativeSlot(0, label, 0)
    made.PrependUOffsetTRelativeSlot(1, content, 0)
    custom = made.EndObject()
    for slots, field in ((10, 9), (7, 3)):  # CustomMetadata in SubGraphMetadata in ModelMetadata
        made.StartVector(4, 1, 4)
        made.PrependUOffsetTRelative(custom)
        vector = made.EndVector()
        made.StartObject(slots)
        made.PrependUOffsetTRelativeSlot(field, vector, 0)
        custom = made.EndObject()
    made.Finish(custom, b"M001")
    model = schema.ModelT.InitFromPackedBuf(constant_network((1, 2, 2, 3), [SCORES]), 0)
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = np.frombuffer(bytes(made.Output()), np.uint8)
    entry.name, entry.buffer = "TFLITE_METADATA", len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [entry]
    packed = flatbuffers.Builder(0)
    packed.Finish(model.Pack(packed), b"TFL3")
    return bytes(packed.Output())
