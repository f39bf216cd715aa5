"""The calculators as operators, on LiteRT's CPU kernels, against those in NumPy; and a chain of them on the GPU."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import framebind as fb
from framebind.video.answers.graph import AnswerGraph
from framebind.video.apis import GL
from framebind.video.assets import PHOTOGRAPH
from framebind.video.embedded_network import embedded
from framebind.video.mediapipe.calculators.detections import decode_detections, project_detections
from framebind.video.mediapipe.calculators.heat_maps import refine_landmarks
from framebind.video.mediapipe.calculators.image_to_tensor import WHOLE, region_matrix, region_of
from framebind.video.mediapipe.calculators.landmarks import decode_landmarks, project_landmarks, turn_world_landmarks
from framebind.video.mediapipe.calculators.rectangles import (
    alignment_rectangles,
    box_rectangles,
    transform_rectangles,
)
from framebind.video.mediapipe.calculators.smoothing import LandmarkFilter
from framebind.video.mediapipe.calculators.suppression import suppress_weighted
from framebind.video.mediapipe.calculators.tracking import associate, associate_hands, distinct_hands
from framebind.video.mediapipe.core.chain import Chain
from framebind.video.mediapipe.core.chain_models import letterbox, sampled_region
from framebind.video.mediapipe.core.options import BaseOptions, VisionTaskRunningMode
from framebind.video.mediapipe.graphs import detections, face, hand, heat_maps, landmarks, tracks
from framebind.video.mediapipe.graphs.detecting import Settings
from framebind.video.mediapipe.vision.face_chain import face_models
from framebind.video.mediapipe.vision.face_landmarker import (
    FaceLandmarkerOptions,
    FacePipeline,
    face_of,
    next_face,
)
from framebind.video.mediapipe.vision.hand_landmarker import next_hand
from support.tiny_models import chain as chain_model
from support.tiny_models import pack, unpack

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(3)
SIZE = (640, 480)
PIXELS = np.array(SIZE, np.float32)


def run(content: bytes, *values: Array) -> list[Array]:
    """The outputs of a model on LiteRT's CPU kernels."""
    interpreter = fb.Interpreter(model_content=content, delegate="cpu")
    interpreter.allocate_tensors()
    inputs: list[dict[str, Any]] = interpreter.get_input_details()
    for detail, value in zip(inputs, values, strict=True):
        interpreter.set_tensor(detail["index"], np.asarray(value, np.float32).reshape(detail["shape"]))
    interpreter.invoke()
    outputs: list[dict[str, Any]] = interpreter.get_output_details()
    return [interpreter.get_tensor(detail["index"]) for detail in outputs]


def following(size: tuple[int, int], side: int, count: int, *, turns_depths: bool = True) -> bytes:
    """A model from tracks to regions."""
    graph = AnswerGraph()
    given = graph.input((count, tracks.COLUMNS))
    return graph.build(tracks.regions(graph, given, size, side, turns_depths=turns_depths))


def tracks_of(rectangles: Array, there: float = 1) -> Array:
    """Rectangles (n, 5) of a picture of SIZE as tracks."""
    x, y, width, height, angle = rectangles.T
    ones = np.full(len(x), there)
    return np.column_stack(
        [x * SIZE[0], y * SIZE[1], width * SIZE[0], height * SIZE[1], np.cos(angle), np.sin(angle), ones, ones]
    )


def rectangles(count: int) -> Array:
    return np.column_stack(
        [RANDOM.uniform(0.2, 0.8, (count, 2)), RANDOM.uniform(0.1, 0.6, (count, 2)), RANDOM.uniform(-3, 3, count)]
    ).astype(np.float32)


@pytest.mark.parametrize(("target", "shift", "square"), [(0.0, 0.0, False), (90.0, -0.5, True)])
def test_the_best_detections_become_tracks(target: float, shift: float, square: bool) -> None:
    side, anchors = 128, RANDOM.random((60, 2)).astype(np.float32)
    boxes = np.concatenate(
        [RANDOM.uniform(-9, 9, (60, 2)), RANDOM.uniform(10, 60, (60, 2)), RANDOM.uniform(-20, 20, (60, 4))], axis=1
    ).astype(np.float32)
    logits = RANDOM.normal(0, 2, 60).astype(np.float32)
    graph, matrix = AnswerGraph(), letterbox(SIZE)
    inputs = graph.input((1, 60, 8)), graph.input((1, 60, 1))
    places, there = detections.best_detections(
        graph, inputs, detections.decoding(anchors, 8, side, matrix), 0.4, 0.3, 4
    )
    line = tracks.place_matrix(0, 1, 8, target)
    (found,) = run(
        graph.build(tracks.box_tracks(graph, places, there, line, 1.5, shift=shift, square=square)), boxes, logits
    )
    kept = suppress_weighted(decode_detections(boxes, logits, anchors, side, 0.4), 0.3)
    placed = project_detections(kept, matrix / PIXELS[:, None]).places[:4]
    boxes_of = box_rectangles(placed, 0, 1, SIZE, target)
    expected = transform_rectangles(boxes_of, SIZE, 1.5, shift_y=shift, square=square)
    assert len(expected) == 4 and len(kept.places) > 4
    np.testing.assert_allclose(found[:, :7], tracks_of(expected)[:, :7], rtol=1e-4, atol=1e-3)
    none = run(graph.build(places, there), boxes, np.full(60, -9))
    assert not none[0].any() and not none[1].any()


@pytest.mark.parametrize("later_stays", [True, False])
@pytest.mark.parametrize("followed", [0, 1, 2, 3])
@pytest.mark.parametrize("found_first", [False, True])
def test_tracks_are_joined_as_rectangles_are(followed: int, later_stays: bool, found_first: bool) -> None:
    graph = AnswerGraph()
    inputs, order = (graph.input((3, 8)), graph.input((3, 8))), slice(None, None, -1 if found_first else 1)
    content = graph.build(tracks.associate(graph, *inputs, 0.3, later_stays=later_stays, found_first=found_first))
    join = associate if later_stays else associate_hands
    for _ in range(12):
        before, found = rectangles(3), rectangles(3)
        found[0, :4] = before[0, :4] + 0.01  # what was found again
        previous = tracks_of(before)
        previous[followed:] = 0
        (joined,) = run(content, previous, tracks_of(found))
        looked = found if followed < 3 else found[:0]
        expected = tracks_of(join(*(before[:followed], looked)[order], 0.3)[:3])
        np.testing.assert_allclose(joined[: len(expected)], expected, rtol=1e-5, atol=1e-3)
        assert not joined[len(expected) :].any()


@pytest.mark.parametrize("turns_depths", [True, False])
def test_regions_are_placed_as_crops_are(turns_depths: bool) -> None:
    rows = rectangles(4)
    (found,) = run(following(SIZE, 192, 4, turns_depths=turns_depths), tracks_of(rows, there=0))
    for region, row in zip(found, rows, strict=True):
        matrix = region_matrix(region_of(row, SIZE), SIZE)
        expected = sampled_region(matrix * PIXELS[:, None], 192)
        expected[7] = (math.hypot(matrix[0, 0], matrix[1, 0]) if turns_depths else row[2]) * SIZE[0]
        np.testing.assert_allclose(region, expected, rtol=1e-5, atol=1e-3)


def test_the_region_of_a_person_is_around_a_circle() -> None:
    points, graph = RANDOM.uniform(0, 1, (5, 2, 2)).astype(np.float32), AnswerGraph()
    matrix = tracks.circle_matrix(1, 4, 6, math.pi / 2)
    content = graph.build(tracks.circle_tracks(graph, graph.input((5, 6)), graph.input((5, 1)), matrix, 1.25))
    rows = np.zeros((5, 6))
    rows[:, 1:3], rows[:, 4:6] = points[:, 0] * PIXELS, points[:, 1] * PIXELS
    (found,) = run(content, rows, np.ones(5))
    circles = alignment_rectangles(points[:, 0], points[:, 1], SIZE)
    np.testing.assert_allclose(found, tracks_of(transform_rectangles(circles, SIZE, 1.25)), rtol=1e-4, atol=1e-3)


def test_landmarks_move_to_the_means_of_their_heat_maps() -> None:
    points = RANDOM.uniform(-20, 84, (2, 40, 3)).astype(np.float32)
    points[0, :4] = [[-5.2, 20, 1], [-5.5, 20, 1], [63.9, 63.9, 1], [64, 30, 1]]  # at the borders of the map
    maps = RANDOM.normal(-2, 1.5, (2, 16, 12, 40)).astype(np.float32)
    maps[0, :, :, :4] += 4
    graph = AnswerGraph()
    (found,) = run(
        graph.build(heat_maps.refine(graph, graph.input((2, 40, 3)), graph.input((2, 16, 12, 40)), 64)), points, maps
    )
    moved = np.zeros((2, 40), bool)
    for number in range(2):
        expected = refine_landmarks(points[number] / np.float32(64), maps[number]) * 64
        expected[:, 2] = points[number, :, 2]
        np.testing.assert_allclose(found[number], expected, rtol=1e-4, atol=1e-4)
        moved[number] = (np.abs(found[number] - points[number]) > 0.01).any(axis=1)
    assert 10 < moved.sum() < 70 and moved[0, :4].tolist() == [True, False, True, False]


def test_landmarks_of_regions_are_projected() -> None:
    rows, values = rectangles(2), RANDOM.uniform(0, 64, (2, 5, 3)).astype(np.float32)
    (regions,) = run(following(SIZE, 64, 2), tracks_of(rows))
    graph = AnswerGraph()
    content = graph.build(landmarks.project(graph, graph.input((2, 5, 3)), graph.input((2, 8)), 64))
    (found,) = run(content, values, regions)
    for points, row, given in zip(found, rows, values, strict=True):
        matrix = region_matrix(region_of(row, SIZE), SIZE)
        expected = project_landmarks(decode_landmarks(given, 5, 64), matrix) * [SIZE[0], SIZE[1], SIZE[0]]
        np.testing.assert_allclose(points, expected, rtol=1e-4, atol=1e-3)


def test_smoothing_begins_again_when_a_thing_comes_back() -> None:
    graph = AnswerGraph()
    values, there, hertz = graph.input((1, 6, 3)), graph.input((1, 1, 1)), graph.input((1, 1, 1))
    states = graph.input((3, 6, 3)), graph.input((1, 1, 1))
    scale = landmarks.object_scale(graph, landmarks.bounds(graph, values))
    shown, after = landmarks.smooth(graph, values, there, scale, hertz, states, min_cutoff=0.05, beta=80.0)
    content = graph.build(shown, *after)
    reference, time, state = LandmarkFilter(0.05, 80.0), 1000.0, [np.zeros((3, 6, 3)), np.zeros(1)]
    points = RANDOM.uniform(100, 200, (1, 6, 3)).astype(np.float32)
    for frame in range(12):
        points = points + RANDOM.normal(0, 1, points.shape).astype(np.float32)
        milliseconds, is_there = (33, 40)[frame % 2], frame not in (5, 6)
        time += milliseconds
        found, *state = run(content, points, np.array(is_there), np.array(1000 / milliseconds), *state)
        if not is_there:
            reference.reset()
            continue
        extent = float((points[0].max(axis=0) - points[0].min(axis=0))[:2].sum() / 2)
        np.testing.assert_allclose(found, reference(points, time, extent), rtol=1e-5, atol=1e-3)
        assert frame in (0, 7) or np.abs(found - points).max() > 0.1


def hands_of(count: int) -> Array:
    """Landmarks (count, 21, 3) in pixels, of which the second and third are nearly the first."""
    hands = RANDOM.uniform(100, 300, (count, 21, 3)).astype(np.float32)
    hands[1:3] = hands[0] + RANDOM.normal(0, 2, (2, 21, 3))
    return hands


def test_the_next_region_of_a_hand_is_upright_in_it() -> None:
    hands, graph = hands_of(4), AnswerGraph()
    content = graph.build(hand.next_tracks(graph, graph.input((4, 21, 3)), graph.input((4, 1))))
    (found,) = run(content, hands, np.ones(4))
    units = np.array([SIZE[0], SIZE[1], SIZE[0]], np.float32)
    np.testing.assert_allclose(found, tracks_of(np.stack([next_hand(each / units, SIZE) for each in hands])), atol=2e-3)


def test_the_next_region_of_a_face_may_be_beyond_the_picture() -> None:
    """MediaPipe's bounds reach to the left and the upper border at least."""
    faces, graph = RANDOM.uniform(-300, 600, (4, 478, 3)).astype(np.float32), AnswerGraph()
    faces[1:, :, 0], faces[2:, :, 1] = RANDOM.uniform(-300, -20, (3, 478)), RANDOM.uniform(-90, -10, (2, 478))
    points = graph.input((4, 478, 3))
    content = graph.build(face.next_tracks(graph, points, landmarks.bounds(graph, points), graph.input((4, 1))))
    (found,) = run(content, faces, np.ones(4))
    units = np.array([SIZE[0], SIZE[1], SIZE[0]], np.float32)
    np.testing.assert_allclose(found, tracks_of(np.stack([next_face(each / units, SIZE) for each in faces])), atol=2e-3)


@pytest.mark.parametrize("missing", [(), (0,), (0, 1)])
def test_a_hand_like_an_earlier_one_is_left_out(missing: tuple[int, ...]) -> None:
    hands, graph, there = hands_of(4), AnswerGraph(), np.ones((4, 1))
    there[list(missing)] = 0
    content = graph.build(hand.distinct(graph, graph.input((4, 21, 3)), graph.input((4, 1))))
    (stays,) = run(content, hands, there)
    left = np.flatnonzero(there.ravel())
    kept = left[distinct_hands([hands[number] / [*SIZE, 1] for number in left], SIZE)]
    assert np.flatnonzero(stays.ravel()).tolist() == kept.tolist() and len(kept) < len(left) + (len(missing) > 1)


def test_world_landmarks_turn_with_their_region() -> None:
    rows, world = rectangles(3), RANDOM.normal(0, 0.1, (3, 21, 3)).astype(np.float32)
    (regions,) = run(following(SIZE, 224, 3), tracks_of(rows))
    graph = AnswerGraph()
    (found,) = run(
        graph.build(landmarks.turned_world(graph, graph.input((3, 21, 3)), graph.input((3, 8)))), world, regions
    )
    expected = [turn_world_landmarks(each, row[4]) for each, row in zip(world, rows, strict=True)]
    np.testing.assert_allclose(found, np.stack(expected), atol=1e-5)


def test_a_network_of_other_types_is_not_joined() -> None:
    model = unpack(chain_model("NEG", "NEG"))
    model.subgraphs[0].tensors[1].type = 5  # strings
    with pytest.raises(fb.ModelError, match="a tensor of type 5, which cannot be joined"):
        embedded(pack(model))
    model = unpack(chain_model("NEG", "NEG"))
    model.operatorCodes[0].builtinCode = 999
    with pytest.raises(fb.ModelError, match="the operator 999, which cannot be joined"):
        embedded(pack(model))


# The chain of faces ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundle(model_path: Callable[[str], Path]) -> Path:
    return model_path("selfie_segmentation").with_name("face_landmarker.task")


def frames() -> list[Array]:
    """The photograph, moving; then nothing; then the photograph, at another place."""
    photograph = np.asarray(cv2.imread(str(PHOTOGRAPH)))[..., ::-1]
    places = [(0, 0, 0), (6, 4, 3), None, (-40, 20, -9), (-36, 22, -5)]
    moved = []
    for place in places:
        if place is None:
            moved.append(np.full((512, 512, 3), 90, np.uint8))
            continue
        turn = cv2.getRotationMatrix2D((220, 130), place[2], 1)
        turn[:, 2] += place[:2]
        moved.append(cv2.warpAffine(photograph, turn, (512, 512), borderMode=cv2.BORDER_REPLICATE))
    return moved


def chain_of(bundle: Path, settings: Settings) -> Chain:
    with zipfile.ZipFile(bundle) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    return Chain(face_models(files, settings, (512, 512)), (512, 512), GL)


@pytest.mark.parametrize("count", [1, 2])
def test_faces_are_followed_without_a_copy_between_the_networks(count: int, bundle: Path) -> None:
    options = FaceLandmarkerOptions(
        BaseOptions(str(bundle), delegate=BaseOptions.Delegate.CPU), VisionTaskRunningMode.VIDEO, count,
        output_face_blendshapes=True,
    )  # fmt: skip
    reference = FacePipeline(options)
    with GL.open_context():
        chain = chain_of(bundle, Settings(count, is_smooth=count == 1))
        alpha = np.full((512, 512, 1), 255, np.uint8)
        texture = GL.new_texture(np.concatenate([frames()[0], alpha], axis=-1))
        chain.submit(texture)  # compiles
        chain.forget()
        seen = 0
        for number, picture in enumerate(frames()[: 5 if count == 1 else 3]):
            milliseconds = (number + 1) * 33
            faces = reference.find(picture, WHOLE, milliseconds)
            texture.write(np.concatenate([picture, alpha], axis=-1))
            with fb.transfer_guard("disallow"):
                chain.submit(texture, 1000 / 33, detect=seen < count)
            fb.transfers.reset()
            chain.push()
            rows = chain.take()
            copied = fb.transfers.by_reason["download", "detections"]
            assert (copied.calls, copied.bytes) == (1, 5948 * count)
            seen = int((rows[:, -1] > 0).sum())
            assert seen == len(faces) == (picture.std() > 0), number
            for row, face in zip(rows, faces, strict=False):
                found = face_of(row, (512, 512))
                assert np.abs(found.landmarks - face.landmarks).max() <= 1e-4, f"frame {number}"
                assert found.blendshapes is not None and face.blendshapes is not None
                assert np.abs(found.blendshapes - face.blendshapes).max() <= 0.002, number
                assert abs(found.presence - face.presence) <= 1e-3, number
        chain.close()
        texture.release()
