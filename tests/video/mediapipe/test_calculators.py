"""The calculators of ``framebind.mp`` against their formulas, OpenCV, and examples worked out by hand."""

from __future__ import annotations

import math
import zlib

import cv2
import numpy as np
import pytest

from framebind.video.mediapipe.calculators import c_math
from framebind.video.mediapipe.calculators.anchors import anchor_middles
from framebind.video.mediapipe.calculators.detections import (
    Detections,
    decode_detections,
    project_detections,
    without_bars,
)
from framebind.video.mediapipe.calculators.face_geometry import CanonicalFace, face_matrix
from framebind.video.mediapipe.calculators.heat_maps import refine_landmarks
from framebind.video.mediapipe.calculators.image_to_tensor import (
    WHOLE,
    PixelRegion,
    crop_region,
    region_matrix,
    region_of,
)
from framebind.video.mediapipe.calculators.landmarks import (
    decode_landmarks,
    project_in_square,
    project_landmarks,
    turn_world_landmarks,
)
from framebind.video.mediapipe.calculators.masks import warp_mask
from framebind.video.mediapipe.calculators.procrustes import similarity
from framebind.video.mediapipe.calculators.rectangles import (
    alignment_rectangles,
    box_rectangles,
    hand_rectangle,
    transform_rectangles,
)
from framebind.video.mediapipe.calculators.smoothing import LandmarkFilter, VisibilityFilter, object_scale
from framebind.video.mediapipe.calculators.suppression import suppress_weighted
from framebind.video.mediapipe.calculators.tracking import associate, associate_hands, distinct_hands
from framebind.video.mediapipe.core.tracker import Tracker

RANDOM = np.random.default_rng(5)


@pytest.mark.parametrize(
    ("side", "strides", "count"),
    [(128, (8, 16, 16, 16), 896), (192, (8, 16, 16, 16), 2016), (224, (8, 16, 32, 32, 32), 2254)],
)
def test_anchors_are_the_middles_of_cells(side: int, strides: tuple[int, ...], count: int) -> None:
    anchors = anchor_middles(side, strides)
    assert anchors.shape == (count, 2)
    assert anchors[0].tolist() == anchors[1].tolist() == pytest.approx([4 / side, 4 / side])  # two in the first cell
    last = strides[-1] / 2 / side
    assert anchors[-1].tolist() == pytest.approx([1 - last, 1 - last])


def test_boxes_are_decoded_from_their_anchors() -> None:
    boxes = np.array([[10, -20, 40, 20, 5, 5], [1, 1, 1, 1, 0, 0]], np.float32)
    found = decode_detections(boxes, np.array([2.0, -2.0]), np.array([[0.5, 0.25], [0, 0]], np.float32), 100, 0.5)
    assert found.places[0].tolist() == pytest.approx([0.4, -0.05, 0.8, 0.15, 0.55, 0.3])
    assert found.scores.tolist() == pytest.approx([1 / (1 + math.exp(-2))])


def test_overlapping_boxes_become_their_weighted_mean() -> None:
    places = np.array([[0, 0, 1, 1], [0.1, 0, 1.1, 1], [3, 3, 4, 4]], np.float32)
    found = suppress_weighted(Detections(places, np.array([0.6, 0.9, 0.7], np.float32)), 0.3)
    assert found.scores.tolist() == pytest.approx([0.9, 0.7])  # the best of a group, best first
    assert found.places[0].tolist() == pytest.approx([0.06, 0, 1.06, 1])
    assert found.places[1].tolist() == [3, 3, 4, 4]
    assert len(suppress_weighted(Detections(places[:0], np.zeros(0, np.float32)), 0.3).scores) == 0


def test_a_letterbox_is_taken_off_detections() -> None:
    region = region_of(WHOLE, (200, 100), aspect=1.0)  # a square of 200 pixels around the picture
    assert region == PixelRegion(100, 50, 200, 200, 0)
    found = Detections(np.array([[0.25, 0.25, 0.75, 0.75, 0.5, 0.5]], np.float32), np.ones(1, np.float32))
    assert project_detections(found, region_matrix(region, (200, 100))).places[0].tolist() == pytest.approx(
        [0.25, 0, 0.75, 1, 0.5, 0.5]
    )


def test_rectangles_turn_with_their_key_points() -> None:
    place = np.array([[0.2, 0.2, 0.4, 0.6, 0.2, 0.5, 0.4, 0.5]], np.float32)  # the line is level
    level = box_rectangles(place, 0, 1, (100, 50), 0.0)[0]
    assert level.tolist() == pytest.approx([0.3, 0.4, 0.2, 0.4, 0])
    upright = box_rectangles(place, 0, 1, (100, 50), math.pi / 2)[0]
    assert upright[4] == pytest.approx(math.pi / 2)
    square = transform_rectangles(level[None], (100, 50), 1.5)[0]
    assert square.tolist() == pytest.approx([0.3, 0.4, 0.3, 0.6, 0])  # 20 x 20 pixels, grown by a half
    moved = transform_rectangles(upright[None], (100, 50), 1.0, shift_y=-0.5)[0]
    assert moved[:2].tolist() == pytest.approx([0.3 + 0.1, 0.4])  # up in a region that is turned right is to the right


def test_alignment_points_are_the_middle_and_the_radius() -> None:
    square = alignment_rectangles(np.array([[0.5, 0.5]]), np.array([[0.5, 0.1]]), (100, 200))[0]
    assert square.tolist() == pytest.approx([0.5, 0.5, 1.6, 0.8, 0])  # 80 pixels up: 160 wide, not turned


def test_a_hand_is_bounded_in_its_own_direction() -> None:
    upright = np.zeros((21, 3), np.float32)
    upright[:, 0], upright[:, 1] = 0.5, np.linspace(0.8, 0.2, 21)
    upright[5, 0], upright[17, 0] = 0.4, 0.6
    rectangle = hand_rectangle(upright, (100, 100))
    assert rectangle[4] == pytest.approx(-math.atan2(0.025, 0.27))  # the knuckles are a little to the left
    quarter = upright[:, [1, 0, 2]] * [-1, 1, 1] + [1, 0, 0]  # turned clockwise by 90 degrees
    turned = hand_rectangle(quarter.astype(np.float32), (100, 100))
    assert turned[4] - rectangle[4] == pytest.approx(math.pi / 2, abs=1e-5)
    assert turned[2:4].tolist() == pytest.approx(rectangle[2:4].tolist(), abs=1e-5)


@pytest.mark.parametrize("replicate", [True, False])
@pytest.mark.parametrize("turn", [0.0, math.pi / 2])
def test_a_crop_is_opencvs(turn: float, replicate: bool) -> None:
    """Steps of 48/32 of a pixel: OpenCV 4, which rounds coordinates to 32 steps, and 5, which does not, agree."""
    picture = RANDOM.integers(0, 256, (40, 50, 3), dtype=np.uint8)
    region = PixelRegion(20, 15.5, 48, 48, turn)
    cropped = crop_region(picture, region, (32, 32), replicate=replicate)
    corners = np.array([[-24, -24], [24, -24], [-24, 24]], np.float32) @ np.array(
        [[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]]
    ) + [20, 15.5]
    matrix = cv2.getAffineTransform(np.float32([[0, 0], [32, 0], [0, 32]]), corners.astype(np.float32))
    expected = cv2.warpPerspective(
        picture, np.vstack([matrix, [0, 0, 1]]), (32, 32), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE if replicate else cv2.BORDER_CONSTANT,
    )  # fmt: skip
    assert np.abs(cropped.astype(int) - expected).max() <= 1  # a half is rounded either way


@pytest.mark.parametrize(
    ("rectangle", "replicate", "expected"),
    [
        ((0.41, 0.57, 0.5, 0.66, 0.7), True, 767817690),
        ((0.9, 0.1, 0.4, 0.5, -2.2), True, 2998299719),
        ((0.5, 0.5, 1, 1, 0), False, 2301148862),
    ],
)
def test_a_crop_has_the_bits_of_opencv_4(rectangle: tuple[float, ...], replicate: bool, expected: int) -> None:
    """The checksums are those of ``boxPoints``, ``getPerspectiveTransform`` and ``warpPerspective`` of OpenCV 4.11."""
    v, u = np.mgrid[:90, :120]
    picture = (np.stack([u * 7 + v * 3, u * v, u * u + v * 5], axis=-1) % 256).astype(np.uint8)
    region = region_of(np.array(rectangle, np.float32), (120, 90), aspect=None if replicate else 1.0)
    assert zlib.crc32(crop_region(picture, region, (64, 64), replicate=replicate).tobytes()) == expected


def test_a_region_without_an_area_is_one_pixel() -> None:
    cropped = crop_region(np.full((8, 8, 3), 7, np.uint8), PixelRegion(4, 4, 0, 0, 0.0), (4, 4))
    assert cropped.shape == (4, 4, 3) and (cropped == 7).all()


def test_functions_are_those_of_float32() -> None:
    x, y = RANDOM.normal(0, 3, (2, 500)).astype(np.float32)
    pairs = [
        (c_math.cosine(x), np.cos(x.astype(float))), (c_math.sine(x), np.sin(x.astype(float))),
        (c_math.angle_of(x, y), np.arctan2(y.astype(float), x)),
        (c_math.sigmoid(x), 1 / (1 + np.exp(-x.astype(float)))),
    ]  # fmt: skip
    for found, exact in pairs:
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, exact, rtol=3e-7)
    assert c_math.sigmoid(np.float32([-1000, 1000])).tolist() == [0, 1]
    assert c_math.cosine(0.0).shape == () and c_math.angle_of(np.zeros((2, 3)), 1.0).shape == (2, 3)


def test_a_mask_is_warped_as_opencv_does() -> None:
    mask = RANDOM.random((32, 32)).astype(np.float32)
    region = PixelRegion(24, 20, 64, 64, 0.0)
    warped = warp_mask(mask, region_matrix(region, (48, 40)), (48, 40))
    matrix = np.array([[0.5, 0, 4], [0, 0.5, 6]])  # from a pixel of the picture to one of the mask
    expected = cv2.warpAffine(mask, matrix, (48, 40), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
    np.testing.assert_allclose(warped, expected, atol=1e-6)
    assert not warp_mask(mask, region_matrix(region._replace(width=0), (48, 40)), (48, 40)).any()


def test_landmarks_go_from_the_region_to_the_picture() -> None:
    region = PixelRegion(50, 20, 20, 20, math.pi / 2)
    landmarks = decode_landmarks(np.array([64, 32, 16, 0, 100], np.float32), 1, 64, depth=0.5)
    assert landmarks[0].tolist() == pytest.approx([1, 0.5, 0.5, 0.5, 1])
    projected = project_landmarks(landmarks, region_matrix(region, (100, 80)))[0]
    assert projected[:2].tolist() == pytest.approx([0.5, 30 / 80])  # 10 to the right of the middle: 10 down
    assert projected[2] == pytest.approx(0.5 * 20 / 80)  # the region's width, which lies along the picture's height
    assert turn_world_landmarks(np.array([[1.0, 0, 3]]), math.pi / 2)[0].tolist() == pytest.approx([0, 1, 3], abs=1e-7)


def test_a_square_has_its_own_depth() -> None:
    """MediaPipe's projection by a rectangle scales depths by its normalized width, also if it is turned."""
    rectangle = np.array([0.4, 0.6, 0.2, 0.4, 1.1], np.float32)  # 20 x 20 pixels of 100 x 50
    landmarks = RANDOM.random((9, 5)).astype(np.float32)
    projected = project_in_square(landmarks, rectangle)
    expected = project_landmarks(landmarks, region_matrix(region_of(rectangle, (100, 50)), (100, 50)))
    np.testing.assert_allclose(projected[:, [0, 1, 3, 4]], expected[:, [0, 1, 3, 4]], atol=1e-6)
    np.testing.assert_allclose(projected[:, 2], landmarks[:, 2] * 0.2, rtol=1e-6)


def test_bars_are_taken_off() -> None:
    for size in ((100, 50), (30, 90), (64, 64)):
        found = Detections(RANDOM.random((3, 8)).astype(np.float32), np.ones(3, np.float32))
        expected = project_detections(found, region_matrix(region_of(WHOLE, size, aspect=1.0), size))
        np.testing.assert_allclose(without_bars(found, size).places[:, 4:], expected.places[:, 4:], atol=1e-5)


def test_heat_maps_move_landmarks_that_they_are_sure_of() -> None:
    maps = np.full((16, 16, 3), -20, np.float32)
    maps[5, 6, 0] = maps[5, 8, 0] = 4.0
    maps[5, 6, 1] = -1.0  # less than a half
    maps[15, 15, 2] = 9.0
    landmarks = np.array([[7.2 / 16, 5.5 / 16, 1], [7.2 / 16, 5.5 / 16, 1], [1.01, 1.01, 1]], np.float32)
    refined = refine_landmarks(landmarks, maps)
    assert refined[0].tolist() == pytest.approx([7 / 16, 5 / 16, 1], abs=1e-4)
    assert refined[1:].tolist() == landmarks[1:].tolist()  # not sure, and outside


def test_a_tracked_thing_is_replaced_by_what_was_found_there() -> None:
    old = np.array([[0.2, 0.2, 0.2, 0.2, 0], [0.8, 0.8, 0.2, 0.2, 0]], np.float32)
    new = np.array([[0.22, 0.2, 0.2, 0.2, 1], [0.5, 0.5, 0.1, 0.1, 2]], np.float32)
    assert associate(old, new, 0.5)[:, 4].tolist() == [0, 1, 2]
    assert associate(old, new, 0.5)[0, 0] == pytest.approx(0.8)
    assert associate_hands(old, new, 0.5)[:, 4].tolist() == [0, 0, 2]  # a followed hand stays


def test_followed_things_that_meet_become_one() -> None:
    """The rule holds if no detector runs, too, because as many things are followed as are wanted."""
    tracker = Tracker(2, 0.5)
    one, other = np.float32([0.2, 0.2, 0.2, 0.2, 0]), np.float32([0.8, 0.8, 0.2, 0.2, 0])
    calls: list[int] = []

    def detect() -> np.ndarray:
        calls.append(1)
        return np.stack([one, other])

    assert len(tracker.regions(detect, stream=True)) == 2
    tracker.follow([one, other])
    assert len(tracker.regions(detect, stream=True)) == 2 and len(calls) == 1
    tracker.follow([one, one + np.float32(0.01)])
    assert tracker.regions(detect, stream=True).tolist() == [(one + np.float32(0.01)).tolist()] and len(calls) == 1
    tracker.follow([])
    assert len(tracker.regions(detect, stream=True)) == 2 and len(calls) == 2
    assert len(tracker.regions(detect, stream=False)) == 2 and len(calls) == 3


def test_the_same_hand_counts_once() -> None:
    hand = RANDOM.random((21, 3)).astype(np.float32)
    hands = [hand, hand + 0.001, hand + np.float32([0.7, 0, 0])]
    assert distinct_hands(hands, (640, 480)) == [0, 2]


def test_smoothing_is_the_one_euro_filter() -> None:
    values = [np.array([10.0, 0.0]), np.array([12.0, 0.0]), np.array([11.0, 0.5])]
    smooth = LandmarkFilter(0.05, 80.0)
    results = [smooth(value, time, 4.0) for value, time in zip(values, (10, 50, 70), strict=True)]
    assert results[0].tolist() == [10, 0]

    def share(cutoff: float, rate: float) -> float:
        return 1 / (1 + rate / (2 * math.pi * cutoff))

    speed = share(1, 25) * (2 / 4 * 25)
    expected = 10 + share(0.05 + 80 * speed, 25) * 2
    assert results[1][0] == pytest.approx(expected, abs=1e-5)
    speed += share(1, 50) * (-1 / 4 * 50 - speed)
    expected += share(0.05 + 80 * abs(speed), 50) * (11 - expected)
    assert results[2][0] == pytest.approx(expected, abs=1e-5)
    assert smooth(values[0], 70, 4.0) is values[0]  # a time that is not later
    assert object_scale(np.array([[0, 0], [4, 2]])) == 3


def test_visibility_moves_by_a_tenth() -> None:
    smooth = VisibilityFilter()
    assert smooth(np.float32([1.0])) == 1 and smooth(np.float32([0.0])) == pytest.approx(0.9)
    smooth.reset()
    assert smooth(np.float32([0.5])) == 0.5


def _rotation(axis: int, angle: float) -> np.ndarray:
    return cv2.Rodrigues(np.eye(3)[axis] * angle)[0]


def test_procrustes_finds_the_similarity() -> None:
    points, weights = RANDOM.normal(size=(20, 3)), RANDOM.random(20)
    turned = _rotation(0, 0.3) @ _rotation(1, -0.5)
    matrix = similarity(points, 2.5 * points @ turned.T + [1, 2, 3], weights)
    assert matrix is not None
    np.testing.assert_allclose(matrix[:3], np.column_stack([2.5 * turned, [1, 2, 3]]), atol=1e-9)
    mirrored = similarity(points, points * [1, 1, -1], weights)
    assert mirrored is not None and np.linalg.det(mirrored[:3, :3]) > 0  # never a reflection
    assert similarity(np.zeros((4, 3)), np.zeros((4, 3)), np.ones(4)) is None
    assert similarity(points, np.full_like(points, np.nan), weights) is None


def test_a_face_is_placed_where_it_was_projected_from() -> None:
    """A canonical face before a camera of 63 degrees: its picture, with relative depths, gives its place back."""
    points = RANDOM.uniform(-7, 7, (60, 3)) * [1, 1, 0.4]
    place = np.column_stack([_rotation(1, 0.3), [3.0, -2.0, -60.0]])
    seen = points @ place[:, :3].T + place[:, 3]
    width, height = 1280, 720
    half = math.tan(math.radians(63) / 2)
    x = seen[:, 0] / -seen[:, 2] / half * height / width
    y = seen[:, 1] / -seen[:, 2] / half
    depths = -(seen[:, 2] - seen[:, 2].mean()) / 60 / (2 * half * width / height)
    landmarks = np.column_stack([(1 + x) / 2, (1 - y) / 2, depths])
    matrix = face_matrix(landmarks, CanonicalFace(points, np.ones(60)), (width, height))
    assert matrix is not None
    np.testing.assert_allclose(matrix[:3, :3], place[:, :3], atol=0.02)
    np.testing.assert_allclose(matrix[:3, 3], place[:, 3], rtol=0.02)
    assert face_matrix(np.zeros((60, 3)), CanonicalFace(points, np.ones(60)), (width, height)) is None
