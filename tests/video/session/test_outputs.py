"""The files of results, read by those who will read them: pyarrow, NumPy, json."""

from __future__ import annotations

import contextlib
import json
import resource
from pathlib import Path
from typing import Any, Literal

import ai_edge_litert.interpreter as litert
import av
import cv2
import numpy as np
import pyarrow.parquet
import pycocotools.mask
import pytest
from typer.testing import CliRunner

import framebind as fb
from framebind.__main__ import app
from framebind.tools.certify.cases.quantized_models import convolution
from framebind.video.copies import MASKS
from framebind.video.results import tables
from framebind.video.results.arrays import ArraysFile
from framebind.video.results.outputs import open_outputs
from framebind.video.results.rows import COLUMNS, make_rows
from framebind.video.results.tables import ParquetFile, parquet_schema
from framebind.video.session.session import Session
from framebind.video.times import Times
from framebind.video.vision.palette import palette
from framebind.video.vision.run_lengths import encode
from framebind.video.work import Work
from support.demo_models import brightness
from support.tiny_models import chain
from support.video.clips import picture, write_clip


def test_parquet_has_the_rows_in_groups_of_bounded_size(tmp_path: Path) -> None:
    found = {"class": "face", "score": 0.5, "box": [1.0, 2.0, 3.0, 4.0], "points": [[1.0, 2.0], [3.0, 4.0]]}
    rows = [row for number in range(5000) for row in make_rows("a.mp4", number / 25, number, [found] * (number % 3))]
    with ParquetFile(tmp_path / "a.parquet") as file:
        for row in rows:
            file.put([row])
    read = pyarrow.parquet.ParquetFile(tmp_path / "a.parquet")
    assert [read.metadata.row_group(n).num_rows for n in range(read.num_row_groups)] == [tables.ROW_GROUP, 2570]
    assert read.read().to_pylist() == rows
    assert tuple(parquet_schema().names) == COLUMNS


def test_parquet_of_a_video_that_failed_is_closed(tmp_path: Path) -> None:
    with pytest.raises(fb.SourceError), ParquetFile(tmp_path / "a.parquet") as file:
        file.put(make_rows("a.mp4", None, 0, []))
        raise fb.SourceError("the video is damaged")
    assert pyarrow.parquet.read_table(tmp_path / "a.parquet").num_rows == 0


@pytest.mark.parametrize("save", ["jsonl", "npz"])
def test_a_full_disk_is_said_with_the_file_that_it_does_not_take(save: Literal["jsonl", "npz"], tmp_path: Path) -> None:
    work = Work("raw" if save == "npz" else "detect", str(tmp_path / "none.tflite"), save=(save,))
    rows: Any = [{**row, "outputs": {"a": np.zeros(9999)}} for row in make_rows("a" * 9999, None, 0, [])]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))
    try:
        with pytest.raises(fb.SourceError, match=r"results '.*new/clip' cannot be written: File too large"):
            with contextlib.ExitStack() as stack:
                reader: Any = None
                outputs = open_outputs(stack, work, tmp_path / "new" / "clip", None, reader, Times())
                outputs.put(rows if save == "npz" else [{**rows[0], "outputs": {}}])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list((tmp_path / "new").iterdir())


def test_arrays_grow_in_a_file_of_bounded_memory(tmp_path: Path) -> None:
    frames = [{"scores": np.full((1, 2), n, np.float32), "time": np.float64(n / 25)} for n in range(12)]
    with ArraysFile(tmp_path / "a.npz") as file:
        for frame in frames:
            file.put(frame)
    with np.load(tmp_path / "a.npz") as read:
        assert (read["scores"].shape, read["scores"].dtype, read["time"].shape) == ((12, 1, 2), np.float32, (12,))
        np.testing.assert_array_equal(read["scores"][:, 0, 0], range(12))
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_any_model_s_outputs_are_saved_as_they_are(tmp_path: Path) -> None:
    (model := tmp_path / "exp.tflite").write_bytes(chain("EXP", shape=(1, 48, 64, 3)))
    source = write_clip(tmp_path / "a.mkv", "ffv1", "yuv444p", frames=3)
    result = CliRunner().invoke(
        app, ["process", str(source), "--task", "raw", "--model", str(model), "--mean", "0.5,0.5,0.5", "--std", "0.25",
              "--output", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")]
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    with np.load(tmp_path / "out" / "a-mkv.npz") as read:
        assert set(read) == {"frame", "time", "t1"}
        np.testing.assert_allclose(read["time"], [0, 0.04, 0.08], atol=1e-3)
        seen = (np.log(read["t1"][:, 0]) * 0.25 + 0.5) * 255
        # Three roundings: to Y, to U or V, and back.
        np.testing.assert_allclose(seen, [picture(number) for number in range(3)], atol=2.5)
    with fb.video.VideoStage("raw", model) as stage:
        rows = stage.rows(source, end=0.06)
        (table,) = stage({"path": [str(source)]})
    assert [row["outputs"]["t1"].shape for row in rows] == [(1, 48, 64, 3)] * 2  # type: ignore[typeddict-item]
    assert [len(each) for each in table["t1"]] == [48 * 64 * 3] * 3 and table["class"].null_count == 3


def test_raw_outputs_are_kept_in_memory_by_their_bytes() -> None:
    rows: list[Any] = make_rows("a.mp4", None, 0, [{"outputs": {"y": np.zeros(1 << 22, np.float32)}}]) * 9
    assert [len(group) for group in tables.in_groups(rows)] == [4, 4, 1]
    assert [len(group) for group in tables.in_groups(make_rows("a.mp4", None, 0, [{}] * 5000))] == [4096, 904]


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_outputs_of_an_integer_model_are_what_litert_s_stand_for(tmp_path: Path) -> None:
    (model := tmp_path / "int8.tflite").write_bytes(convolution("int8", (1, 8, 8, 3), 4))
    cv2.imwrite(str(tmp_path / "a.png"), np.full((8, 8, 3), 200, np.uint8))
    with fb.video.VideoStage("raw", model) as stage:
        (row,) = stage.rows(tmp_path / "a.png")
    interpreter = litert.Interpreter(model_path=str(model))
    interpreter.allocate_tensors()
    (taken,), (given,) = interpreter.get_input_details(), interpreter.get_output_details()
    (scale, zero), (step, offset) = taken["quantization"], given["quantization"]
    value = np.clip(np.rint(200 / 255 / scale + zero), -128, 127)
    interpreter.set_tensor(taken["index"], np.full((1, 8, 8, 3), value, np.int8))
    interpreter.invoke()
    expected = (interpreter.get_tensor(given["index"]).astype(np.float32) - offset) * step
    np.testing.assert_allclose(row["outputs"]["y"], expected, atol=1.01 * step)  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(task="raw"), "has no model of its own"),
        (dict(task="raw", model="m.tflite", save=["video"]), "the task 'raw' saves npz, not video"),
        (dict(task="detect", save=["npz"]), "npz is for the task raw"),
        (dict(task="detect", save=["masks"]), "masks is for the tasks depth, instances, matte and segment"),
        (dict(task="matte", save=["masks"], suffix=".png"), "masks are png or rle"),
        (dict(task="matte", save=["video"], masks="png"), "masks is 'png', the form of saved masks, and save has no"),
        (dict(task="matte", labels="a.txt"), "labels is for the tasks classify, detect, instances and segment"),
        (dict(task="segment", background="blur"), "background is for the task matte, not for 'segment'"),
        (dict(task="raw", model="m.tflite", std=[1.0, 0.0, 1.0]), "no std is 0"),
        (dict(task="detect", backend="vulkan"), "backend 'vulkan' is none of"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fb.video.VideoStage(output="out", **options)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("is_bound", [False, True])
@pytest.mark.parametrize("task", ["matte", "segment"])
def test_masks_are_a_video_pictures_and_run_lengths(task: str, is_bound: bool, tmp_path: Path) -> None:
    """A model that is sure of what is bright: the same place in each form, at the picture's size.

    ``is_bound``: as on CUDA, with OpenGL in its place.
    """
    (model := tmp_path / "bright.tflite").write_bytes(brightness(1 if task == "matte" else 21))
    (folder := tmp_path / "frames").mkdir()
    for number in range(2):
        half = np.zeros((48, 64, 3), np.uint8)
        half[:, 32 + 8 * number :] = 255
        cv2.imwrite(str(folder / f"{number}.png"), half)
    fb.transfers.reset()
    for form in ("video", "png", "rle"):
        stage = fb.video.VideoStage(task, model, save=["masks", "jsonl"], masks=form, output=tmp_path / form)
        if is_bound:
            with Session(stage.work, road="planes") as session:
                place = tmp_path / form / folder.stem
                rows = [row for each in session.frames(stage.work, str(folder), place) for row in each]
            continue
        with stage:
            rows = stage.rows(folder)
    masks = fb.transfers.by_reason.get(("download", MASKS))
    assert masks is None if is_bound else masks is not None and masks.bytes == 2 * 48 * 64 * (4 + 1 + 1)
    assert sorted(path.name for path in (tmp_path / "png").rglob("*")) == [
        "000000.png", "000001.png", "frames.jsonl", "frames.masks",
    ]  # fmt: skip
    colors = np.array([(1.0, 1.0, 1.0)] if task == "matte" else palette(21)[15:16])
    with av.open(str(tmp_path / "video" / "frames.masks.mp4")) as container:
        shown = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    for number, row in enumerate(rows):
        edge = 32 + 8 * number
        values = cv2.imread(str(tmp_path / "png" / "frames.masks" / f"{number:06}.png"), cv2.IMREAD_UNCHANGED)
        assert values is not None and values.shape == (48, 64)
        place = pycocotools.mask.decode(row["mask"])
        assert row["class"] == "person" and row["share"] == pytest.approx(1 - edge / 64, abs=0.05)
        for found in (values >= 128 if task == "matte" else values == 15, place == 1):
            assert found[:, edge + 3 :].all() and not found[:, : edge - 3].any()
        assert np.abs(shown[number][:, edge + 6 :] - 255 * colors[0]).max() < 12
        assert shown[number][:, : edge - 6].max() < 12
    assert [json.loads(line)["mask"] for line in (tmp_path / "rle" / "frames.jsonl").open()] == [
        row["mask"] for row in rows
    ]


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("road", ["textures", "planes"])
def test_masks_have_the_times_of_their_own_frames(road: Literal["textures", "planes"], tmp_path: Path) -> None:
    """The next frame of planes is decoded while the model runs: its time is not that of the mask."""
    (model := tmp_path / "bright.tflite").write_bytes(brightness(1))
    source, place = write_clip(tmp_path / "a.mp4", frames=5, times=[0, 4, 12, 14, 30]), tmp_path / "out"
    work = Work("matte", str(model), save=("masks",), masks="video")
    with Session(work, road=road) as session:
        rows = [row for each in session.frames(work, str(source), place) for row in each]
    expected, found = times_of(source), times_of(tmp_path / "out.masks.mp4")
    assert len(expected) == 5 and [row["time"] for row in rows] == pytest.approx(expected, abs=1e-3)
    assert found == pytest.approx(expected, abs=1e-3)


def times_of(video: Path) -> list[float]:
    with av.open(str(video)) as container:
        return [frame.time or 0.0 for frame in container.decode(video=0)]


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_painted_frames_as_pictures_are_replaced_as_a_whole(tmp_path: Path) -> None:
    (model := tmp_path / "bright.tflite").write_bytes(brightness(1))
    source, output = write_clip(tmp_path / "a.mp4", frames=6), tmp_path / "out"
    options: dict[str, Any] = dict(save=["video"], suffix=".png", output=output, every=2)
    with fb.video.VideoStage("matte", model, **options) as stage:
        stage.rows(source)
        with pytest.raises(fb.SourceError, match="is there"):
            stage.rows(source)
    with fb.video.VideoStage("matte", model, overwrite=True, **options) as stage:
        stage.rows(source, end=0.1)
        assert sorted(path.name for path in (output / "a.frames").iterdir()) == ["000000.png", "000002.png"]
        assert cv2.imread(str(output / "a.frames" / "000002.png")).shape == (48, 64, 3)
        (output / "a.frames" / "mine.txt").touch()
        with pytest.raises(fb.SourceError, match="holds other files"):
            stage.rows(source)
    assert (output / "a.frames" / "mine.txt").exists()


@pytest.mark.parametrize("seed", range(4))
def test_run_lengths_are_coco_s(seed: int) -> None:
    noise = np.random.default_rng(seed).uniform(0, 1, (37, 53))
    mask = np.asarray((noise > (0.0, 0.5, 0.98, 1.0)[seed]) if seed else cv2.blur(noise, (9, 9)) > 0.5)
    expected = pycocotools.mask.encode(np.asfortranarray(mask.astype(np.uint8)))
    assert encode(mask) == {"size": expected["size"], "counts": expected["counts"].decode()}
