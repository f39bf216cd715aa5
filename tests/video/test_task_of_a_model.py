"""A model alone names its task: each task says which models it takes, and the one that knows it best is taken."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

import framebind as fb
from framebind.__main__ import app
from framebind.video.answers.graph import AnswerGraph
from framebind.video.model_file import read_model_file
from framebind.video.task import Match, sampling_of
from framebind.video.tasks import tasks_for
from framebind.video.tasks.depth import unit_of
from framebind.video.work import task_for
from support.demo_models import (
    brightness,
    color_classifier,
    flow_model,
    largest_color,
    matting_model,
    object_model,
)
from support.model_metadata import with_flatbuffer, with_json
from support.tiny_models import chain, channels_first, constants, pack, unpack


def zeros(*shapes: Sequence[int]) -> bytes:
    return constants(*(np.zeros(shape, np.float32) for shape in shapes), side=64)


MODELS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a mask": ("matte", lambda: brightness(1)),
    "alpha and foreground, with a state": ("matte", matting_model),
    "classes of each pixel": ("segment", lambda: brightness(21)),
    "the class of each pixel": ("segment", largest_color),
    "a coarse map of classes": ("segment", lambda: zeros((1, 16, 16, 150))),
    "the coarsest map of classes": ("segment", lambda: zeros((1, 4, 4, 8))),
    "a picture": ("style", lambda: chain("EXP", shape=(1, 48, 64, 3))),
    "a larger picture": ("super_resolution", lambda: zeros((1, 128, 128, 3))),
    "a picture and a half": ("style", lambda: zeros((1, 96, 96, 3))),
    "the motion of two pictures": ("optical_flow", flow_model),
    "scores of classes": ("classify", color_classifier),
    "selected boxes": ("detect", lambda: zeros((1, 10, 4), (1, 10), (1, 10), (1,))),
    "features": ("raw", lambda: zeros((1, 2, 2, 64))),
    "more features": ("raw", lambda: zeros((1, 3, 3, 64))),
    "features of many channels": ("raw", lambda: zeros((1, 8, 8, 320))),
    "a smaller picture": ("raw", lambda: zeros((1, 32, 32, 3))),
    "another number": ("raw", lambda: zeros((1, 1))),
    "a picture of five channels": ("raw", lambda: chain("EXP", shape=(1, 8, 8, 5))),
}  # fmt: skip


@pytest.mark.parametrize("is_first", [False, True], ids=["nhwc", "nchw"])
@pytest.mark.parametrize("kind", MODELS)
def test_outputs_name_the_task(kind: str, is_first: bool, tmp_path: Path) -> None:
    name, make = MODELS[kind]
    (path := tmp_path / "model.tflite").write_bytes(channels_first(make()) if is_first else make())
    best, *others = tasks_for(read_model_file(path))
    assert best.name == name == task_for("", str(path)) and best.fit.because
    assert not others or others[-1].name == "raw"
    assert task_for("pose", str(path)) == "pose" and task_for("", "") == "style"


def test_known_models_name_their_tasks(model_path: Callable[[str], Path], tmp_path: Path) -> None:
    expected = {
        "style_transfer_f16_384": "style", "deeplabv3_257_mv_gpu": "segment", "face_detection_front": "detect",
        "selfie_segmentation": "matte", "pose_landmark_lite": "raw", "srvgg_x4": "super_resolution",
        "yolov8n_640": "detect",
    }  # fmt: skip
    for model, task in expected.items():
        assert task_for("", str(model_path(model))) == task
    assert task_for("", "style_transfer") == "style"
    assert task_for("", str(object_model(tmp_path / "objects.tflite", logits=True))) == "detect"


def test_bytes_are_not_normalized(tmp_path: Path) -> None:
    """A network that takes uint8 without a scale does it itself; other classifiers of pictures take -1 to 1."""
    graph = AnswerGraph()
    floats = graph.cast(graph.input((1, 8, 8, 3), "uint8"), "float32")
    for content, given, expected in (
        (graph.build(floats), None, (0.0, 1.0)),
        (graph.build(floats), 0.2, (0.2, 1.0)),
        (color_classifier(), None, (0.5, 0.5)),
    ):
        (path := tmp_path / "model.tflite").write_bytes(content)
        sampling = sampling_of(read_model_file(path), given, None, usual=(0.5, 0.5))
        assert (sampling.mean, sampling.std) == expected


def test_what_the_file_says_counts_most(tmp_path: Path) -> None:
    (path := tmp_path / "model.tflite").write_bytes(
        with_json(color_classifier(), task="classify", names=list("abcdef"))
    )
    best, *_ = tasks_for(read_model_file(path))
    assert best.name == "classify" and best.fit.match == Match.METADATA


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_process_takes_the_task_names_and_normalization_of_the_model(tmp_path: Path) -> None:
    labels = {("names.txt", ""): "red\ngreen\nblue\nd\ne\nf\n"}
    content = with_flatbuffer(color_classifier(), mean=[0.0], std=[127.5], labels=labels)
    (path := tmp_path / "colors.tflite").write_bytes(content)
    cv2.imwrite(str(tmp_path / "a.png"), np.full((16, 16, 3), (0, 255, 0), np.uint8))
    command = ["process", str(tmp_path / "a.png"), "--model", str(path), "--output", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*command, "--save", "video,jsonl"])
    assert done.exit_code == 0, done.output
    rows = list(map(json.loads, (tmp_path / "out" / "a.png.jsonl").open()))
    # Green is 2, the others are 0: softmax of 4 times the colours.
    assert rows[0]["class"] == "green" and rows[0]["score"] == pytest.approx(np.exp(8) / (np.exp(8) + 5), abs=1e-3)
    assert fb.video.VideoStage(model=path).work.task == "classify"
    with fb.video.Watch([tmp_path / "a.png"], model=path) as watch:
        assert next(watch).found[0]["class"] == "green"


def test_what_is_saved_or_shown_needs_a_task_that_knows_the_model(tmp_path: Path) -> None:
    (path := tmp_path / "model.tflite").write_bytes(zeros((1, 2, 2, 64)))
    for command, message in (
        (["process", "a.mp4", "--output", str(tmp_path), "--save", "video"], "the task of models that no other one"),
        (["demo", "--headless"], "no task knows the outputs of"),
        (["watch", "0"], "no task knows the model by itself"),
    ):
        done = CliRunner().invoke(app, [*command, "--model", str(path)])
        assert done.exit_code == 2 and message in " ".join(done.output.replace("│", " ").split())
    with pytest.raises(ValueError, match="the task 'raw' finds nothing"):
        fb.video.Watch(["0"], model=path)


def test_options_come_behind_the_name_of_a_demo() -> None:
    done = CliRunner().invoke(app, ["demo", "--headless", "pose"])
    assert done.exit_code == 2 and "demo pose --headless" in " ".join(done.output.replace("│", " ").split())
    assert CliRunner().invoke(app, ["demo", "--headless"]).exit_code == 2


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_demo_normalizes_pictures_as_its_options_say(tmp_path: Path) -> None:
    (path := tmp_path / "colors.tflite").write_bytes(color_classifier())
    cv2.imwrite(str(tmp_path / "a.png"), np.full((240, 320, 3), (0, 255, 0), np.uint8))
    command = ["demo", "--model", str(path), "--source", str(tmp_path / "a.png"), "--headless", "--frames", "1"]
    pictures = []
    for options in ([], ["--mean", "0", "--std", "1"], ["--mean", "0,2,0", "--std", "0.1"]):
        output = tmp_path / f"{len(pictures)}.png"
        done = CliRunner().invoke(app, [*command, "--output", str(output), *options])
        assert done.exit_code == 0, done.output
        pictures.append(cv2.imread(str(output)))
    assert not np.array_equal(pictures[1], pictures[2]), "the scores are others"
    refused = CliRunner().invoke(app, ["demo", "blur", "--headless", "--mean", "0"])
    assert refused.exit_code == 2 and "the task 'blur' takes no --mean" in refused.output


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("midas_v2", "depth"), ("DepthAnything", "depth"), ("my-disparity", "depth"), ("mask", "matte"),
        ("depthwise_mask", "matte"), ("depth_to_space", "matte"), ("indepth", "matte"),
    ],
)  # fmt: skip
def test_a_map_of_one_channel_is_depth_if_its_name_says_so(name: str, task: str, tmp_path: Path) -> None:
    (path := tmp_path / f"{name}.tflite").write_bytes(brightness(1))
    assert task_for("", str(path)) == task
    (path := tmp_path / "of_the_output.tflite").write_bytes(with_output(brightness(1), name))
    assert task_for("", str(path)) == task
    (path := tmp_path / "says.tflite").write_bytes(with_json(brightness(1), task="depth"))
    assert task_for("", str(path)) == "depth"


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("depth_anything_metric", "metres"), ("zoedepth_nyu", "metres"), ("UniDepth", "metres"),
        ("metric3d_depth", "metres"), ("depth_anything", "inverse"), ("asymmetric_depth", "inverse"),
    ],
)  # fmt: skip
def test_a_name_says_that_depth_is_in_metres(name: str, unit: str, tmp_path: Path) -> None:
    (path := tmp_path / f"{name}.tflite").write_bytes(brightness(1))
    assert task_for("", str(path)) == "depth" and unit_of(read_model_file(path)) == unit
    assert unit_of(read_model_file(path), "inverse") == "inverse"


def with_output(content: bytes, name: str) -> bytes:
    """The model whose last tensor, its output, has that name."""
    model = unpack(content)
    model.subgraphs[0].tensors[-1].name = name.encode()
    return pack(model)


def test_inspect_says_the_task_and_why(tmp_path: Path) -> None:
    (path := tmp_path / "model.tflite").write_bytes(brightness(1))
    said = " ".join(CliRunner().invoke(app, ["inspect", str(path)]).output.split())
    assert (
        "Its task for videos is matte, because its one output is a mask of 64 x 48; --task depth is possible, too."
        in said
    )
    content = json.loads(CliRunner().invoke(app, ["inspect", str(path), "--json"]).output)
    assert [each["task"] for each in content["tasks"]] == ["matte", "depth", "raw"]
