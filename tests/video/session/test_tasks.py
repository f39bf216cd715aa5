"""The rows of each task: on the GPU they are those that NumPy finds in the outputs of LiteRT's CPU interpreter.

The tasks of bundles get the pixels for that, as in the player's modes with copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import ai_edge_litert.interpreter as litert
import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.video.bundles import content_of, models_of
from framebind.video.layouts import Layout
from framebind.video.model_metadata import ModelMetadata, read_metadata
from framebind.video.network import shapes
from framebind.video.results.rows import make_rows
from framebind.video.sampling import Sampling, sampled
from framebind.video.task import Run
from framebind.video.tasks import find_task, task_names
from support.demo_models import brightness, color_classifier, segments
from support.video.task_bundles import one_gesture, one_hand, one_person, one_whole

Array = npt.NDArray[Any]
SIZE = (200, 150)
OF_ONE_PICTURE = [name for name in task_names() if (task := find_task(name)).finder and not task.has_pairs]
MODELS = {
    "blur": "face_detection_front",
    "detect": "face_detection_front",
    "face": "face_landmarker.task",
    "matte": "selfie_segmentation",
    "segment": "deeplabv3_257_mv_gpu",
}
ROWS = {"face": 5948, "gestures": 2 * 516, "hands": 2 * 516, "holistic": 8044, "pose": 1064}
"""The bytes that a frame of each task of MediaPipe reads: its rows, and nothing else."""
BUNDLES = {"gestures": one_gesture, "hands": one_hand, "holistic": one_whole, "pose": one_person}


@dataclass
class Pixels:
    """A frame in the CPU's memory, which is read as a texture is."""

    rgb: Array

    def read(self, *, reason: str) -> Array:
        return np.pad(self.rgb, [(0, 0), (0, 0), (0, 1)], constant_values=255)


@dataclass
class CpuModel:
    """A model on LiteRT's CPU interpreter: a file, or the first one of a bundle."""

    path: Path
    inputs: dict[int, tuple[int, ...]] = field(init=False)
    outputs: dict[int, tuple[int, ...]] = field(init=False)
    names: dict[int, str] = field(init=False)
    layouts: dict[int, Layout] = field(init=False)
    choices: Mapping[int, int] = field(default_factory=dict)
    takes_bytes: bool = False
    metadata: ModelMetadata = field(init=False)
    bundle: Mapping[str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        content = content_of(self.path) or self.path.read_bytes()
        self._interpreter = litert.Interpreter(model_content=content)
        self._interpreter.allocate_tensors()
        self.metadata, self.bundle = read_metadata(content), models_of(self.path)
        details = self._interpreter.get_input_details(), self._interpreter.get_output_details()
        self.inputs, self.outputs = map(shapes, details)
        self.names = {each["index"]: each["name"] for each in details[1]}
        self.layouts = dict.fromkeys((*self.inputs, *self.outputs), "nhwc")

    def run(self, picture: npt.NDArray[np.uint8], sampling: Sampling) -> list[npt.NDArray[np.float32]]:
        ((tensor, shape),) = self.inputs.items()
        values = sampled(picture, shape[1:3], sampling)
        self._interpreter.set_tensor(tensor, (values[None] - np.float32(sampling.mean)) / np.float32(sampling.std))
        self._interpreter.invoke()
        return [np.array(self._interpreter.get_tensor(output)) for output in self.outputs]


@pytest.mark.parametrize(
    "task", [name for name in task_names() if find_task(name).finder and not find_task(name).has_pairs]
)
@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_rows_are_those_of_the_cpu(
    task: str, tmp_path: Path, photograph: Callable[..., Array], model_path: Callable[[str], Path]
) -> None:
    (path := tmp_path / "small.tflite").write_bytes(
        brightness(1) if task == "depth" else segments() if task == "instances" else color_classifier()
    )
    if task in MODELS:
        path = model_path(MODELS[task])
    if task in BUNDLES:
        (path := tmp_path / "small.task").write_bytes(BUNDLES[task]())
    rgb = photograph("astronaut", *SIZE)
    pictures = [rgb, np.roll(rgb, 3, axis=1)]
    (folder := tmp_path / "frames").mkdir()
    for number, picture in enumerate(pictures):
        cv2.imwrite(str(folder / f"{number}.png"), picture[..., ::-1])
    fb.transfers.reset()
    with fb.video.VideoStage(task, str(path)) as stage:
        rows = stage.rows(folder)
    downloads = {why: count.bytes for (way, why), count in fb.transfers.by_reason.items() if way == "download"}
    downloads.pop("flag of the barrier between work-groups", None)  # on GPUs that run many steps as one
    assert task not in ROWS or downloads == {"detections": len(pictures) * ROWS[task]}
    model = CpuModel(path)
    make = find_task(task).finder
    assert make is not None
    find, mode = make(model, SIZE).find, "copying" if task == "hands" else "cpu"
    expected = [
        row
        for number, picture in enumerate(pictures)
        for row in make_rows(str(folder), None, number, find(Run(Pixels(picture), partial(model.run, picture), mode)))
    ]
    assert [(row["frame"], row["class"]) for row in rows] == [(row["frame"], row["class"]) for row in expected]
    assert task == "raw" or {row["frame"] for row in rows if row["class"] is not None} == {0, 1}
    for row, other in zip(rows, expected, strict=True):
        assert row["score"] == pytest.approx(other["score"], abs=0.02)
        assert row["share"] == pytest.approx(other["share"], abs=0.005)
        for name in ("box", "points", "depths", "world_points"):
            assert (row[name] is None) == (other[name] is None)
            # The sampler of a GPU has 8 bits for places between two texels; a mean over 17 points hides no single one.
            if other[name] is not None:
                np.testing.assert_allclose(row[name], other[name], atol=0.5)
        for name, values in other.get("outputs", {}).items():
            np.testing.assert_allclose(row.get("outputs", {})[name], values, atol=0.02)
        assert row["side"] == other["side"] and row["blendshapes"] == pytest.approx(other["blendshapes"], abs=0.02)
        assert row["point_scores"] == pytest.approx(other["point_scores"], abs=0.03)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_classes_have_the_names_of_a_file(tmp_path: Path) -> None:
    (model := tmp_path / "colors.tflite").write_bytes(color_classifier())
    (labels := tmp_path / "colors.txt").write_text("red\ngreen\nblue\nd\ne\nf\n")
    cv2.imwrite(str(tmp_path / "a.png"), np.full((16, 16, 3), (255, 0, 0), np.uint8))
    with fb.video.VideoStage("classify", model, labels=labels) as stage:
        rows = stage.rows(tmp_path / "a.png")
    assert len(rows) == 5 and rows[0]["class"] == "blue" and rows[0]["score"] == max(row["score"] or 0 for row in rows)
