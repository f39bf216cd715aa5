"""Regions of what is found and of what is followed: operators against NumPy, with crowds that overlap.

Which detections a task joins with its tracks is MediaPipe's rule: all persons, but of faces and hands only as many as
are looked for. Of two persons or faces whose regions come to overlap one is left, also in frames without a search.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind import mp
from framebind.video.answers.graph import AnswerGraph
from framebind.video.apis import BY_NAME
from framebind.video.mediapipe.calculators.anchors import anchor_middles
from framebind.video.mediapipe.calculators.detections import decode_detections, project_detections
from framebind.video.mediapipe.calculators.rectangles import box_rectangles, transform_rectangles
from framebind.video.mediapipe.calculators.suppression import suppress_weighted
from framebind.video.mediapipe.calculators.tracking import associate, associate_hands
from framebind.video.mediapipe.core.chain_models import letterbox
from framebind.video.mediapipe.graphs.detecting import MOST_FOUND, Kind, Settings, detecting
from framebind.video.mediapipe.graphs.face import FACE
from framebind.video.mediapipe.graphs.hand import PALM
from framebind.video.mediapipe.graphs.pose import PERSON
from framebind.video.mediapipe.graphs.tracks import COLUMNS, regions
from framebind.video.mediapipe.vision.pose_landmarker import pose_rectangles
from support.tiny_models import G, Op, T, build
from support.video.task_bundles import growing_faces, growing_persons

Array = np.ndarray[Any, Any]
SIZE, SIDE = (640, 480), 64
PIXELS = np.array(SIZE, np.float32)


def echo(anchors: int, columns: int) -> bytes:
    """A detector whose outputs are in its picture: boxes, then logits."""
    picture, values = SIDE * SIDE * 3, anchors * columns
    tensors = [T("picture", (1, SIDE, SIDE, 3)), T("flat", (picture,)), T("all", (1,), [picture], "int32")]
    operators = [Op("RESHAPE", [0, 2], [1])]
    for first, count, shape in ((0, values, (1, anchors, columns)), (values, anchors, (1, anchors, 1))):
        n = len(tensors)
        for name, values in (("begin", [first]), ("size", [count]), ("shape", shape)):
            tensors.append(T(f"{name} {n}", (len(values),), values, "int32"))
        tensors += [T(f"part {n}", (count,)), T(f"output {n}", shape)]
        operators += [Op("SLICE", [1, n, n + 1], [n + 3]), Op("RESHAPE", [n + 3, n + 2], [n + 4])]
    return build(G(tensors, operators, [0], [7, 12]))


class Model:
    """A model of one output on LiteRT's CPU kernels."""

    def __init__(self, content: bytes) -> None:
        self._interpreter = fb.Interpreter(model_content=content, delegate="cpu")
        self._interpreter.allocate_tensors()
        self._inputs = [each["index"] for each in self._interpreter.get_input_details()]

    def __call__(self, *values: Array) -> Array:
        for index, value in zip(self._inputs, values, strict=True):
            self._interpreter.set_tensor(index, value)
        self._interpreter.invoke()
        return self._interpreter.get_tensor(self._interpreter.get_output_details()[0]["index"])


class Random:
    """Crowds and tracks."""

    def __init__(self, kind: Kind, seed: int) -> None:
        self.anchors = anchor_middles(SIDE, kind.strides)
        self._columns = 4 + 2 * kind.points
        self._random = np.random.default_rng(seed)

    def outputs(self) -> tuple[Array, Array]:
        """Boxes (n, columns) in pixels of the input, and logits (n): some groups near each other, or nothing."""
        random, n = self._random, len(self.anchors)
        boxes = random.uniform(-9, 9, (n, self._columns)).astype(np.float32)
        boxes[:, 2:4] = random.uniform(8, 34, (n, 2))
        boxes[random.random(n) < 0.1, 2] *= -1  # no box
        logits = np.full(n, -9, np.float32)
        seen = random.choice(n, random.choice([0, 1, 4, 9, MOST_FOUND]), replace=False)
        logits[seen] = random.permutation(MOST_FOUND)[: len(seen)] / 8
        return boxes, logits

    def followed(self, found: Array, count: int) -> Array:
        """Rectangles (k, 5), ``count`` at most, some where something is found."""
        k = int(self._random.integers(0, count + 1))
        rows = self._random.uniform([0.1, 0.1, 0.1, 0.1, -3], [0.9, 0.9, 0.5, 0.5, 3], (k, 5))
        near = self._random.random(k) < 0.6
        if len(found):
            rows[near] = found[self._random.integers(len(found), size=near.sum())]
            rows[near, :2] += self._random.uniform(-0.08, 0.08, (near.sum(), 2))
        return rows.astype(np.float32)


def found_by(kind: Kind, anchors: Array, outputs: tuple[Array, Array], count: int) -> Array:
    """The rectangles (n, 5) that a task joins with its tracks."""
    kept = suppress_weighted(decode_detections(*outputs, anchors, SIDE, 0.4), kind.overlap)
    kept = project_detections(kept, letterbox(SIZE) / PIXELS[:, None])
    if kind is PERSON:
        return pose_rectangles(kept, SIZE)
    boxes = box_rectangles(kept.places, *kind.line, SIZE, kind.target)
    return transform_rectangles(boxes, SIZE, kind.scale, shift_y=kind.shift, square=kind.square)[:count]


def tracks_of(rectangles: Array, count: int) -> Array:
    """The tracks (count, 8) of rectangles."""
    tracks = np.zeros((count, 8), np.float32)
    x, y, width, height, angle = rectangles.T
    there = np.ones_like(x)
    sides = width * SIZE[0], height * SIZE[1]
    row = [x * SIZE[0], y * SIZE[1], *sides, np.cos(angle), np.sin(angle), there, there]
    tracks[: len(x)] = np.column_stack(row)
    return tracks


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("kind", [PERSON, FACE, PALM], ids=["persons", "faces", "hands"])
def test_regions_are_those_of_the_tracker(kind: Kind, count: int) -> None:
    random, overlap = Random(kind, count), 0.3
    detector = echo(len(random.anchors), 4 + 2 * kind.points)
    content = detecting(detector, kind, letterbox(SIZE), SIZE, 32, Settings(count, 0.4, overlap=overlap))
    find, join = Model(content), associate if kind.later_stays else associate_hands
    graph, more = AnswerGraph(), 0
    place = Model(graph.build(regions(graph, graph.input((count, COLUMNS)), SIZE, 32, turns_depths=kind.turns_depths)))
    for _ in range(60):
        outputs = random.outputs()
        found = found_by(kind, random.anchors, outputs, count)
        followed = random.followed(found, count)
        flat = np.zeros(SIDE * SIDE * 3, np.float32)
        flat[: outputs[0].size + outputs[1].size] = np.concatenate([each.ravel() for each in outputs])
        result = find(flat.reshape(1, SIDE, SIDE, 3), tracks_of(followed, count))
        joined = join(followed, found if len(followed) < count else found[:0], overlap)
        expected = place(tracks_of(joined[:count], count))
        np.testing.assert_allclose(result[result[:, 3] > 0], expected[expected[:, 3] > 0], rtol=1e-4, atol=0.02)
        more += len(joined) > count
    assert more > 10 or kind is not PERSON


@pytest.mark.parametrize("kind", ["pose", "face"])
def test_of_two_that_come_to_overlap_one_stays(kind: str) -> None:
    vision, base = mp.tasks.vision, mp.tasks.BaseOptions
    name, count = {"pose": ("PoseLandmarker", "num_poses"), "face": ("FaceLandmarker", "num_faces")}[kind]
    content = growing_persons() if kind == "pose" else growing_faces()

    def task() -> Any:
        model = base(model_asset_buffer=content, delegate=base.Delegate.CPU)
        options = getattr(vision, f"{name}Options")(model, running_mode=vision.RunningMode.VIDEO, **{count: 2})
        return getattr(vision, name).create_from_options(options)

    pixels = np.random.default_rng(0).integers(0, 256, (48, 64, 4), np.uint8)
    image = mp.Image(image_format=mp.ImageFormat.SRGB, data=np.ascontiguousarray(pixels[..., :3]))
    with BY_NAME["gl"].open_context(), task() as cpu, task() as gpu:
        picture, counts = BY_NAME["gl"].new_texture(pixels), list[int]()
        for milliseconds in range(33, 400, 33):
            ours, expected = (
                [[(point.x, point.y) for point in one] for one in getattr(result, f"{kind}_landmarks")]
                for result in (gpu.detect_for_video(picture, milliseconds), cpu.detect_for_video(image, milliseconds))
            )
            np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-3)
            counts.append(len(ours))
        assert counts[:2] == [2, 2] and 1 in counts and 2 in counts[counts.index(1) :]
        picture.release()
