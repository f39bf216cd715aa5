"""Bundles of tasks whose networks put out constants, whatever they see."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from flatbuffers import flexbuffers

from support.model_metadata import with_json
from support.tiny_models import G, Op, T, build, constants, schema

Array = npt.NDArray[Any]


def constant_network(
    input_shape: tuple[int, ...], outputs: Sequence[Array], *, dtype: str = "float32", more: Sequence[Any] = ()
) -> bytes:
    """A model whose outputs are these float32 arrays. ``more`` has shapes of further inputs, which nothing reads."""
    if dtype == "float32" and not more and len(input_shape) == 4 and input_shape[1] == input_shape[2]:
        return constants(*(values.astype(np.float32) for values in outputs), side=input_shape[1])
    axes = list(range(len(input_shape)))
    tensors = [T("x", input_shape, dtype=dtype), T("axes", (len(axes),), axes, "int32"), T("most", ())]
    operators = [Op("REDUCE_MAX", [0, 1], [2])]
    if dtype != "float32":
        tensors.append(T("real", input_shape))
        operators = [Op("CAST", [0], [3]), Op("REDUCE_MAX", [3, 1], [2])]
    inputs = [0, *range(len(tensors), len(tensors) + len(more))]
    tensors += [T(f"x {number}", shape) for number, shape in enumerate(more, 1)]
    results: list[int] = []
    for number, values in enumerate(outputs):
        first = len(tensors)
        tensors += [
            T(f"zeros {number}", values.shape, np.zeros(values.shape, np.float32)),
            T(f"nothing {number}", values.shape),
            T(f"values {number}", values.shape, values.astype(np.float32)),
            T(f"y {number}", values.shape),
        ]
        operators += [Op("MUL", [2, first], [first + 1]), Op("ADD", [first + 1, first + 2], [first + 3])]
        results.append(first + 3)
    return build(G(tensors, operators, inputs, results))


def bundle(files: dict[str, bytes]) -> bytes:
    """A .task bundle of these files."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return written.getvalue()


def found_at_anchors(count: int, values: int, at: dict[int, tuple[float, Sequence[float]]]) -> list[Array]:
    """The outputs of a detector: at the anchors of ``at`` a score before the sigmoid and values, elsewhere nothing."""
    boxes, logits = np.zeros((1, count, values), np.float32), np.full((1, count, 1), -50, np.float32)
    for anchor, (logit, row) in at.items():
        boxes[0, anchor], logits[0, anchor] = row, logit
    return [boxes, logits]


def one_face(points: Array | None = None) -> bytes:
    """A bundle for FaceLandmarker that sees one face in the middle of a picture, with all landmarks at one place.

    ``points`` (478, 3) are other places, in pixels of the network's input, a square of 32.
    """
    detector = found_at_anchors(896, 16, {16 * 8 * 2 + 8 * 2: (3.0, [0, 0, 32, 32, -5, -5, 5, -5, *[0] * 8])})
    landmarks = np.tile(np.float32([16, 16, 0]), 478) if points is None else points
    landmarks = landmarks.reshape(1, 1, 1, 1434)
    return bundle(
        {
            "face_detector.tflite": constant_network((1, 128, 128, 3), detector),
            "face_landmarks_detector.tflite": constant_network(
                (1, 32, 32, 3), [landmarks, np.full((1, 1, 1, 1), 4, np.float32)]
            ),
            "face_blendshapes.tflite": _product((1, 146, 2), np.zeros((52, 292)), np.linspace(0, 1, 52)),
        }
    )


def one_hand() -> bytes:
    """A bundle for HandLandmarker that sees one hand in the middle: the line from left to right through its region."""
    palm = 3.0, [-4, -4, 24, 24, -4, -4, 0, 0, 6, -4, *[0] * 8]
    hand = np.column_stack([np.linspace(0, 32, 21), np.full(21, 16), np.zeros(21)]).astype(np.float32).reshape(1, 63)
    outputs = [hand, np.float32([[0.9]]), np.float32([[0.8]]), hand]
    return bundle(
        {
            "hand_detector.tflite": constant_network((1, 192, 192, 3), found_at_anchors(2016, 18, {600: palm})),
            "hand_landmarks_detector.tflite": constant_network((1, 32, 32, 3), outputs),
        }
    )


def one_gesture() -> bytes:
    """A bundle for GestureRecognizer: the hand of ``one_hand``, whose gesture is a fist."""
    gestures = {
        "gesture_embedder.tflite": constant_network((1, 21, 3), [np.ones((1, 8))], more=[(1, 1), (1, 21, 3)]),
        "canned_gesture_classifier.tflite": with_json(
            constant_network((1, 8), [np.float32([[0.05, 0.9]])]), names=["None", "Closed_Fist"]
        ),
    }
    return bundle({"hand_landmarker.task": one_hand(), "hand_gesture_recognizer.task": bundle(gestures)})


def one_person() -> bytes:
    """A bundle for PoseLandmarker that sees one person, with all landmarks in the middle of the region, and a mask."""
    rows = np.tile(np.float32([16, 16, 3.2, 2, -2]), (39, 1))
    rows[34, 1] = 0.0
    person = {28 * 14 * 2 + 14 * 2: (3.0, [0, 0, 20, 20, -4, -4, -4, -32, 0, 0, 0, 0])}
    outputs = [rows.reshape(1, 195), np.float32([[0.9]]), np.full((1, 32, 32, 1), 2, np.float32)]
    outputs += [np.full((1, 8, 8, 39), -9, np.float32), np.zeros((1, 117), np.float32)]
    return bundle(
        {
            "pose_detector.tflite": constant_network((1, 224, 224, 3), found_at_anchors(2254, 12, person)),
            "pose_landmarks_detector.tflite": constant_network((1, 32, 32, 3), outputs),
        }
    )


def varied_persons(
    light: tuple[float, float] | None = None,
    gains: tuple[float, float] = (150.0, 10.0),
    end: tuple[float, float] = (15.5, 1.0),
) -> bytes:
    """A bundle for PoseLandmarker that sees two persons, whose landmarks, heat maps, mask and metres are noise.

    With ``light`` the detector and the landmarks' network see them only in pictures whose mean, from 0 to 1, is larger
    than these, and all numbers change with the light, by ``gains``. ``end`` is on the circle that places the next
    region, in pixels of the network's input, a square of 32.
    """
    noise = np.random.default_rng(5)
    rows = np.column_stack([noise.uniform(-2, 34, (39, 3)), noise.normal(0, 2, (39, 2))])
    rows[33:35, :2] = [[15, 17], end]
    outputs = [rows.reshape(1, 195), np.float32([[0.9]]), noise.normal(0, 2, (1, 32, 32, 1))]
    outputs += [noise.normal(-1, 3, (1, 8, 8, 39)), noise.normal(0, 0.3, (1, 117))]
    person = [0, 0, 20, 20, -4, -4, 3, -32, 0, 0, 0, 0]
    persons = {28 * 14 * 2 + 14 * 2: (3.0, person), 28 * 14 * 2 + 5 * 2: (2.0, person)}
    boxes = found_at_anchors(2254, 12, persons)
    gains = (0.0, 0.0) if light is None else gains
    first, second = (
        constants(*((each - gain * least).astype(np.float32) for each in values), side=side, gain=gain)
        for values, side, gain, least in zip((boxes, outputs), (224, 32), gains, light or (0.0, 0.0), strict=True)
    )
    return bundle({"pose_detector.tflite": first, "pose_landmarks_detector.tflite": second})


def growing_persons() -> bytes:
    """A bundle for PoseLandmarker that sees two persons, whose regions grow by a half in each frame."""
    rows = np.zeros((39, 5))
    rows[:, :2], rows[34, 1] = 16, 16 - 0.6 * 32
    person = [0, 0, 20, 20, 0, 0, 0, -20, 0, 0, 0, 0]
    persons = {28 * 14 * 2 + 19 * 2: (3.0, person), 28 * 14 * 2 + 8 * 2: (2.0, person)}
    outputs = [rows.reshape(1, 195), np.float32([[0.9]]), np.full((1, 32, 32, 1), 2)]
    outputs += [np.full((1, 8, 8, 39), -9), np.zeros((1, 117))]
    return bundle(
        {
            "pose_detector.tflite": constant_network((1, 224, 224, 3), found_at_anchors(2254, 12, persons)),
            "pose_landmarks_detector.tflite": constant_network((1, 32, 32, 3), outputs),
        }
    )


def growing_faces() -> bytes:
    """A bundle for FaceLandmarker that sees two faces, whose regions grow by a half in each frame."""
    points = np.column_stack([np.linspace(0, 32, 478), np.linspace(0, 32, 478), np.zeros(478)])
    points[[33, 263], 1] = 16
    face = [0, 0, 20, 20, -5, 0, 5, 0, *[0] * 8]
    faces = {16 * 8 * 2 + 11 * 2: (3.0, face), 16 * 8 * 2 + 4 * 2: (2.0, face)}
    outputs = [points.reshape(1, 1, 1, 1434), np.full((1, 1, 1, 1), 4)]
    return bundle(
        {
            "face_detector.tflite": constant_network((1, 128, 128, 3), found_at_anchors(896, 16, faces)),
            "face_landmarks_detector.tflite": constant_network((1, 32, 32, 3), outputs),
            "face_blendshapes.tflite": constant_network((1, 146, 2), [np.linspace(0, 1, 52)]),
        }
    )


def one_whole() -> bytes:
    """A bundle for HolisticLandmarker that sees one person, whose face and hands are where the person's region is."""
    rows = np.tile(np.float32([16, 16, 3.2, 2, -2]), (39, 1))
    rows[34, 1] = 0.0
    rows[[2, 5, 15, 17, 19], 0] = 20, 12, 18, 20, 20  # eyes, and a left hand that points to the right
    rows[[16, 18, 20], 0] = 14, 12, 12  # and a right one that points to the left
    person = {28 * 14 * 2 + 14 * 2: (3.0, [0, 0, 20, 20, -4, -4, -4, -32, 0, 0, 0, 0])}
    outputs = [rows.reshape(1, 195), np.float32([[0.9]]), np.full((1, 32, 32, 1), 2, np.float32)]
    outputs += [np.full((1, 8, 8, 39), -9, np.float32), np.arange(117, dtype=np.float32).reshape(1, 117)]
    hand = np.column_stack([np.linspace(0, 32, 21), np.full(21, 16), np.zeros(21)]).astype(np.float32).reshape(1, 63)
    seen = 16 * 8 * 2 + 8 * 2, (3.0, [0, 0, 32, 32, -5, -5, 5, -5, *[0] * 8])
    face = np.tile(np.float32([16, 16, 0]), 478).reshape(1, 1, 1, 1434)
    return bundle(
        {
            "pose_detector.tflite": constant_network((1, 224, 224, 3), found_at_anchors(2254, 12, person)),
            "pose_landmarks_detector.tflite": constant_network((1, 32, 32, 3), outputs),
            "face_detector.tflite": constant_network((1, 128, 128, 3), found_at_anchors(896, 16, dict([seen]))),
            "face_landmarks_detector.tflite": constant_network(
                (1, 32, 32, 3), [face, np.full((1, 1, 1, 1), 4, np.float32)]
            ),
            "face_blendshapes.tflite": _product((1, 146, 2), np.zeros((52, 292)), np.linspace(0, 1, 52)),
            "hand_roi_refinement.tflite": constant_network((1, 32, 32, 3), [np.float32([[[[16, 16, 16, 24]]]])]),
            "hand_landmarks_detector.tflite": constant_network(
                (1, 32, 32, 3), [hand, np.float32([[0.9]]), np.float32([[0.8]]), hand]
            ),
        }
    )


def varied_whole() -> bytes:
    """A bundle for HolisticLandmarker that sees the first person of ``varied_persons``, a face and hands.

    Landmarks and probabilities change with the light of their region. The regions around landmarks are nearly those
    that the body names.
    """
    noise = np.random.default_rng(6)
    face = np.column_stack([noise.uniform(9, 23, 478), noise.uniform(3, 17, 478), noise.normal(0, 3, 478)])
    face[[33, 263], :2] = [[11, 9], [22, 9]]
    hand = np.column_stack([noise.uniform(9, 22, 21), noise.uniform(8, 19, 21), noise.normal(0, 3, 21)])
    hand[[0, 9], :2] = [[16, 21], [15, 9]]
    seen = found_at_anchors(
        896, 16, {16 * 8 * 2 + 8 * 2: (3.0, [0, 0, 32, 32, -12, -9, 14, -9, -2, 3, 0, 12, -14, 0, 16, 2])}
    )
    networks = {
        "face_detector.tflite": constants(*seen, side=128),
        "face_landmarks_detector.tflite": constants(
            *_floats(face.reshape(1, 1, 1, 1434), np.full((1, 1, 1, 1), 1)), side=32, gain=1
        ),
        "face_blendshapes.tflite": _product((1, 146, 2), noise.normal(0, 1e-3, (52, 292))),
        "hand_roi_refinement.tflite": constants(*_floats(np.array([[[[16, 14, 16, 24]]]])), side=32, gain=1),
        "hand_landmarks_detector.tflite": constants(
            *_floats(hand.reshape(1, 63), np.array([[0.4]]), np.array([[0.3]]), hand.reshape(1, 63) / 50),
            side=32, gain=0.5,
        ),
    }  # fmt: skip
    with zipfile.ZipFile(io.BytesIO(varied_persons((0.0, 0.5), (0.0, 1.0), (12.0, 4.2)))) as persons:
        return bundle({**networks, **{name: persons.read(name) for name in persons.namelist()}})


def _product(shape: tuple[int, ...], weights: Array, bias: float | Array = 0.0) -> bytes:
    """A network whose output (n) is its input as a vector (m), times ``weights`` (n, m), and ``bias`` (n) added."""
    outputs, inputs = weights.shape
    tensors = [
        T("x", shape), T("flat shape", (2,), [1, inputs], "int32"), T("flat", (1, inputs)),
        T("w", weights.shape, weights.astype(np.float32)), T("b", (outputs,), np.full(outputs, bias, np.float32)),
        T("row", (1, outputs)), T("shape", (1,), [outputs], "int32"), T("y", (outputs,)),
    ]  # fmt: skip
    operators = [
        Op("RESHAPE", [0, 1], [2], schema.ReshapeOptionsT()),
        Op("FULLY_CONNECTED", [2, 3, 4], [5], schema.FullyConnectedOptionsT()),
        Op("RESHAPE", [5, 6], [7], schema.ReshapeOptionsT()),
    ]
    return build(G(tensors, operators, [0], [7]))


def _floats(*values: Array) -> list[Array]:
    return [each.astype(np.float32) for each in values]


def selecting_detector() -> bytes:
    """A detector of three classes whose last operator, TFLite_Detection_PostProcess, selects four of six boxes.

    Boxes and scores change with the light of the picture, (1, 16, 16, 3).
    """
    options = flexbuffers.Builder()
    with options.Map():
        for name, value in (("max_detections", 4), ("max_classes_per_detection", 1), ("num_classes", 3)):
            options.Int(name, value)
        options.Bool("use_regular_nms", False)
        for name, value in (
            ("nms_score_threshold", 0.1), ("nms_iou_threshold", 0.5), ("x_scale", 10.0), ("y_scale", 10.0),
            ("w_scale", 5.0), ("h_scale", 5.0),
        ):  # fmt: skip
            options.Float(name, value)
    noise, mean = np.random.default_rng(0), schema.ReducerOptionsT()
    mean.keepDims, flat, shape = True, (1, 1, 1, 24), (1, 6, 4)
    boxes, scores = noise.normal(0, 1, flat), noise.uniform(0, 1, flat)
    anchors = np.column_stack([noise.uniform(0.2, 0.8, (6, 2)), noise.uniform(0.1, 0.3, (6, 2))])
    tensors = [
        T("picture", (1, 16, 16, 3)), T("axes", (3,), [1, 2, 3], "int32"), T("mean", (1, 1, 1, 1)),
        T("b", flat, boxes.astype(np.float32)), T("moved", flat), T("shape", (3,), shape, "int32"), T("boxes", shape),
        T("s", flat, scores.astype(np.float32)), T("dimmed", flat), T("scores", shape),
        T("anchors", (6, 4), anchors.astype(np.float32)), T("places", (1, 4, 4)), T("classes", (1, 4)),
        T("best", (1, 4)), T("count", (1,)),
    ]  # fmt: skip
    operators = [
        Op("MEAN", [0, 1], [2], mean), Op("ADD", [2, 3], [4], schema.AddOptionsT()),
        Op("RESHAPE", [4, 5], [6], schema.ReshapeOptionsT()), Op("MUL", [2, 7], [8], schema.MulOptionsT()),
        Op("RESHAPE", [8, 5], [9], schema.ReshapeOptionsT()),
        Op("TFLite_Detection_PostProcess", [6, 9, 10], [11, 12, 13, 14], bytes(options.Finish())),
    ]  # fmt: skip
    return build(G(tensors, operators, [0], [11, 12, 13, 14]))


def strokes_files(
    number: int, weights: Sequence[float], metadata: bytes = bytes([8, 64, 16, 48, 24, 32, 32, 32])
) -> dict[str, bytes]:
    """The files of a bundle for InteractiveSegmenter whose mask is what the decoder gets: the heat map of strokes (0),
    or the picture (1), with its three channels weighted.

    ``metadata`` are messages of one byte a number: width and height of the picture, then of the heat map.
    """
    shapes = [(1, 32, 32, 3), (1, 48, 64, 3)]
    return {
        "interactive_segmentation_encoder.int8.tflite": weighted(shapes[1:], 0, np.eye(3)),
        "interactive_segmentation_decoder.int8.tflite": weighted(shapes, number, np.array([weights])),
        "metadata.pb": metadata,
    }


def echoed_strokes(number: int, weights: Sequence[float], *metadata: bytes) -> bytes:
    """The bundle of ``strokes_files``."""
    return bundle(strokes_files(number, weights, *metadata))


def weighted(shapes: Sequence[tuple[int, ...]], number: int, weights: Array) -> bytes:
    """A network whose output is input ``number``, with its channels weighted: (outputs, channels)."""
    options = schema.Conv2DOptionsT()
    options.strideH = options.strideW = 1
    (*place, channels), outputs = shapes[number], len(weights)
    tensors = [T(f"input {each}", shape) for each, shape in enumerate(shapes)]
    first = len(shapes)
    tensors += [
        T("w", (outputs, 1, 1, channels), weights.astype(np.float32).reshape(outputs, 1, 1, channels)),
        T("b", (outputs,), [0.0] * outputs), T("y", (*place, outputs)),
    ]  # fmt: skip
    convolution = Op("CONV_2D", [number, first, first + 1], [first + 2], options)
    return build(G(tensors, [convolution], list(range(first)), [first + 2]))
