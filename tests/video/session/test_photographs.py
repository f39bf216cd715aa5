"""``process`` on photographs: a picture for a picture, in its own format, beside videos of the same folder."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from typer.testing import CliRunner, Result

import framebind as fb
from framebind.__main__ import app
from framebind.video.work import PICTURES, Work
from framebind.video.workers.inputs import find_inputs, numbered, result_place
from support.video.clips import write_clip

Array = npt.NDArray[np.uint8]
SIDE = 240


@pytest.fixture
def astronaut(photograph: Callable[..., Array], model_path: Callable[[str], Path]) -> Array:
    """A face, as OpenCV writes pictures: BGR. The tasks' own models have to be there."""
    for name in ("face_detection_front", "selfie_segmentation"):
        model_path(name)
    return np.ascontiguousarray(photograph("astronaut", SIDE, SIDE)[..., ::-1])


def process(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["process", *map(str, arguments)])


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_turned(path: Path, upright: Array) -> None:
    """Write a JPEG file as a camera held on its side does: the pixels lie, and EXIF's orientation 6 turns them."""
    data = cv2.imencode(".jpg", np.ascontiguousarray(np.rot90(upright)))[1].tobytes()
    entry = struct.pack("<HHIHH", 0x0112, 3, 1, 6, 0)  # orientation, a short
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 1) + entry + struct.pack("<I", 0)
    path.write_bytes(data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:])


def sharpness(pixels: npt.NDArray[Any]) -> float:
    return float(np.abs(np.diff(pixels.astype(float), axis=0)).mean())


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_folder_of_photographs_and_a_video(tmp_path: Path, astronaut: Array) -> None:
    """Each format has a result of its own kind; a photograph that EXIF turns comes out upright, with rows in pixels."""
    inputs, out = tmp_path / "photos", tmp_path / "out"
    (inputs / "trip").mkdir(parents=True)
    for suffix in sorted(PICTURES):
        cv2.imwrite(str(inputs / f"face{suffix}"), astronaut)
    cv2.imwrite(str(inputs / "trip" / "wide.JPG"), cv2.copyMakeBorder(astronaut, 0, 0, 60, 61, cv2.BORDER_REPLICATE))
    write_turned(inputs / "turned.jpg", astronaut)
    write_clip(inputs / "face.mp4", frames=3)
    arguments = (inputs, "--output", out, "--task", "blur", "--save", "video,jsonl", "--start", "0.04")
    done = process(*arguments)
    assert done.exit_code == 0, done.output
    assert f"1 video and {len(PICTURES) + 2} photographs, {len(PICTURES) + 4} frames" in done.output
    assert f"videos and photographs: {len(PICTURES) + 3} of {len(PICTURES) + 3}" in done.output, "the bar"

    for name in (*(f"face{suffix}" for suffix in PICTURES), "turned.jpg"):
        (row,) = rows_of(out / f"{name}.jsonl")
        assert row["source"] == str(inputs / name) and row["frame"] == 0 and row["time"] is None, name
        left, top, right, bottom = map(round, row["box"])
        shown = cv2.imread(str(out / name))
        assert shown is not None and shown.shape == astronaut.shape, name
        assert sharpness(shown[top:bottom, left:right]) < 0.5 * sharpness(astronaut[top:bottom, left:right]), name
        corner = np.abs(shown[:60, :60].astype(float) - astronaut[:60, :60]).mean()
        assert corner < 4, f"{name}: JPEG changes little, and the corner has no face"
    assert (out / "face.jpg").read_bytes()[:3] == b"\xff\xd8\xff" and (out / "face.webp").read_bytes()[8:12] == b"WEBP"
    wide = cv2.imread(str(out / "trip" / "wide.JPG"))
    assert wide is not None and wide.shape == (SIDE, SIDE + 121, 3)
    assert (out / "face.mp4").is_file() and [row["frame"] for row in rows_of(out / "face.jsonl")] == [0, 1]

    before = (out / "face.jpg").stat().st_mtime_ns
    cv2.imwrite(str(inputs / "later.png"), astronaut)
    again = process(*arguments, "--resume")
    assert again.exit_code == 0 and "1 photograph, 1 frame" in again.output
    assert "photographs: 1 of 1" in again.output and "videos" not in again.output
    assert f"1 video and {len(PICTURES) + 2} photographs left out" in again.output
    assert (out / "later.png").is_file() and (out / "face.jpg").stat().st_mtime_ns == before


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_masks_of_a_photograph_are_one_file(tmp_path: Path, astronaut: Array) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), astronaut)
    for form in ("video", "png"):
        arguments = ("--task", "matte", "--save", "video,masks", "--masks", form)
        done = process(tmp_path / "a.png", "--output", tmp_path / form, *arguments)
        assert done.exit_code == 0, done.output
        assert sorted(path.name for path in (tmp_path / form).iterdir()) == [
            "a.png", "a.png.masks.png", "framebind-process.jsonl",
        ]  # fmt: skip
    shown, values = (cv2.imread(str(tmp_path / form / "a.png.masks.png"), -1) for form in ("video", "png"))
    assert shown is not None and values is not None and values.ndim == 2 and values.shape == (SIDE, SIDE)
    np.testing.assert_array_equal(shown[..., 0], values)
    assert values[120, 100] > 200 and values[10, 10] < 60, "the person is in the middle"


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_stage_makes_a_picture_of_a_photograph(tmp_path: Path, astronaut: Array) -> None:
    cv2.imwrite(str(tmp_path / "a.jpg"), astronaut)
    stage = fb.video.VideoStage("blur", save=["video", "jsonl"], output=tmp_path / "out", start=5.0, every=3)
    with stage:
        rows = stage.rows(tmp_path / "a.jpg")
        stage.rows(tmp_path / "a.jpg", place=tmp_path / "named")
        with pytest.raises(fb.SourceError, match=r"a\.jpg' is there: overwrite=True"):
            stage.rows(tmp_path / "a.jpg")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.jpg", "a.jpg.jsonl"]
    assert rows_of(tmp_path / "out" / "a.jpg.jsonl") == rows_of(tmp_path / "named.jpg.jsonl") == rows
    for path in (tmp_path / "out" / "a.jpg", tmp_path / "named.jpg"):
        shown = cv2.imread(str(path))
        assert shown is not None and shown.shape == astronaut.shape and not np.array_equal(shown, astronaut)


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_photograph_that_is_broken_or_would_be_replaced(tmp_path: Path, astronaut: Array) -> None:
    (inputs := tmp_path / "in").mkdir()
    (inputs / "broken.jpg").write_bytes(b"no picture")
    cv2.imwrite(str(inputs / "whole.jpg"), astronaut)
    assert "is read and would be replaced" in process(inputs, "--output", inputs, "--task", "blur").output
    done = process(inputs, "--output", tmp_path / "out", "--task", "blur")
    assert done.exit_code == 1 and "1 photograph failed" in done.output
    assert not (tmp_path / "out" / "broken.jpg").exists() and (tmp_path / "out" / "whole.jpg").is_file()


def test_results_of_two_inputs_never_have_one_name(tmp_path: Path, astronaut: Array) -> None:
    for name in ("a.png", "a.png.masks.png"):
        cv2.imwrite(str(tmp_path / name), astronaut)
    done = process(tmp_path, "--output", tmp_path / "out", "--task", "matte", "--save", "video,masks")
    assert done.exit_code == 2 and "two inputs" in done.output and not (tmp_path / "out" / "a.png").exists()


def test_names_of_results_and_parts_of_photographs(tmp_path: Path) -> None:
    assert [each.place for each in find_inputs([str(write_clip(tmp_path / "a.mkv"))])] == [Path("a.mkv")]
    assert result_place(Path("trip/a.JPG")) == Path("trip/a.JPG")
    assert numbered(Path("a.jpg"), 2) == Path("a-2.jpg") and numbered(Path("a.b"), 2) == Path("a.b-2")
    work = Work("blur", save=("video", "jsonl"), start=3.0, end=4.0, every=2)
    photograph = work.of("s3://bucket/a.jpg?versionId=7")
    assert (photograph.start, photograph.end, photograph.every) == (0.0, None, 1) and work.of(Path("a.mp4")) is work
    assert [path.name for path in photograph.outputs(Path("a.jpg"))] == ["a.jpg", "a.jpg.jsonl"]
