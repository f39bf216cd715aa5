"""YOLO's masks of objects, from random outputs, against the published formulas in plain loops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import av
import cv2
import numpy as np
import numpy.typing as npt
import pytest
from pycocotools import mask as coco
from typer.testing import CliRunner

import framebind as fb
from framebind.__main__ import app
from framebind.interop.device import Device
from framebind.video.answers.prototypes import OBJECTS, PrototypeSums
from framebind.video.copies import DETECTIONS, copied_for
from framebind.video.head import in_pixels
from framebind.video.heads import best_fit, decoder_of
from framebind.video.layouts import Layout, PictureShape
from framebind.video.model_metadata import ModelMetadata
from framebind.video.session.session import Session
from framebind.video.task import Match
from framebind.video.vision.instances import classes_of, instances, part_of
from framebind.video.vision.masks import OPACITY
from framebind.video.vision.palette import palette
from framebind.video.vision.run_lengths import encode, encode_part
from framebind.video.work import Work
from support.demo_models import segments
from support.heads import assert_found, candidates, expected, model_of
from support.video.clips import write_clip
from support.video.outputs import outputs_on

SIZE = (64, 96)


def decoded(mask: Any) -> npt.NDArray[np.uint8]:
    """The mask in a row, by pycocotools."""
    return coco.decode(mask)


def enlarged(values: npt.NDArray[np.float64], x: float, y: float) -> float:
    """The bilinear value (height, width) at a place in cells; beyond the middles of the outer cells it stays."""
    height, width = values.shape
    x, y = min(max(x - 0.5, 0), width - 1), min(max(y - 0.5, 0), height - 1)
    left, top = int(x), int(y)
    right, bottom = min(left + 1, width - 1), min(top + 1, height - 1)
    above = values[top, left] * (1 - (x - left)) + values[top, right] * (x - left)
    below = values[bottom, left] * (1 - (x - left)) + values[bottom, right] * (x - left)
    return float(above * (1 - (y - top)) + below * (y - top))


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("form", ["cells last", "classes last", "selected"])
def test_masks_are_decoded_by_the_formulas(form: str, is_first: bool) -> None:
    random, frame = np.random.default_rng(3), (30, 26)
    boxes, scores = candidates(1, SIZE, (8, 16, 32), 3)
    coefficients, prototypes = random.normal(size=(len(boxes), 8)), random.normal(size=(16, 24, 8))
    rows, wanted = np.hstack([boxes, scores, coefficients]), expected(boxes, scores, 0.5, 0.7)
    numbers = [int(np.argmin(np.abs(scores - each[1]).min(axis=1))) for each in wanted]
    if form == "selected":
        selected = zip(numbers, wanted, strict=True)
        rows = np.array([[*box, score, kind, *coefficients[row]] for row, (kind, score, box) in selected])
    outputs = [
        np.ascontiguousarray(rows.T if form == "cells last" else rows, np.float32)[None],
        np.ascontiguousarray(prototypes.transpose(2, 0, 1) if is_first else prototypes, np.float32)[None],
    ]
    model = model_of(outputs, SIZE)
    fit, decoder = best_fit(model, "instances"), decoder_of(model, "instances")
    assert fit is not None and fit.match == Match.OUTPUTS and best_fit(model, "detect") is None
    assert decoder.classes == (None if form == "selected" else 3)
    found, crop = decoder.decode(outputs, 0.5), decoder.crop(model, frame)
    assert_found(found, wanted)
    assert crop == (-4.5, 0, 39, 26) and found.coefficients is not None
    places = in_pixels(found.boxes, crop)
    sums = PrototypeSums(1, PictureShape(16, 24, 8, "nchw" if is_first else "nhwc"))
    masks = instances(outputs, found.coefficients, sums, [part_of(box, frame) for box in places], crop)
    for row, box, (part, mask) in zip(numbers, places, masks, strict=True):
        values = np.sum([prototypes[..., n] * coefficients[row, n] for n in range(8)], axis=0)
        for y in range(frame[1]):
            for x in range(frame[0]):
                value = enlarged(values, (x + 0.5 + 4.5) / 39 * 24, (y + 0.5) / 26 * 16)
                is_inside = box[0] <= x < box[2] and box[1] <= y < box[3]
                if is_inside != (part.left <= x < part.right and part.top <= y < part.bottom):
                    raise AssertionError(f"{x}, {y} is on the wrong side of {box}")
                if is_inside and abs(value) > 1e-5:
                    assert mask[y - part.top, x - part.left] == (value > 0)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_the_gpu_makes_the_same_masks_and_only_rows_of_them_are_read(layout: Layout, gpu: Device) -> None:
    random, shape, frame = np.random.default_rng(1), PictureShape(24, 40, 32, layout), (160, 96)
    prototypes = random.normal(size=(24, 40, 32)).astype(np.float32)
    coefficients = random.normal(size=(OBJECTS + 3, 32)).astype(np.float32)
    corners = np.sort(random.random((OBJECTS + 3, 2, 2)), axis=1).reshape(-1, 4) * [*frame, *frame]
    parts, arrays = [part_of(box, frame) for box in corners], [shape.to_tensor(prototypes)]
    wanted = instances(arrays, coefficients, PrototypeSums(0, shape), parts, (0, 0, *frame))
    with outputs_on(gpu, arrays) as outputs:
        sums = PrototypeSums(0, shape)
        instances(outputs, coefficients, sums, parts, (0, 0, *frame))
        fb.transfers.reset()
        found = instances(outputs, coefficients, sums, parts, (0, 0, *frame))
    differing = [np.count_nonzero(one.mask != other.mask) for one, other in zip(found, wanted, strict=True)]
    assert sum(differing) <= 1e-4 * sum(each.mask.size for each in wanted), "sums round otherwise"
    rows = [-(-each.bottom // 4) + 2 - each.top // 4 for each in parts]
    assert 0 < copied_for(DETECTIONS) == fb.transfers.bytes <= coefficients.nbytes + 4 * 40 * sum(rows)


def test_metadata_and_other_models() -> None:
    outputs = [np.zeros((1, 116, 126), np.float32), np.zeros((1, 32, 16, 24), np.float32)]
    fit = best_fit(model_of(outputs, SIZE, ModelMetadata(task="segment")), "instances")
    assert fit is not None and fit.match == Match.METADATA
    assert best_fit(model_of(outputs, SIZE, ModelMetadata(task="detect")), "instances") is None
    assert best_fit(model_of([outputs[0][:, :36], outputs[1]], SIZE), "instances") is None, "no class is left"


@pytest.mark.parametrize("place", [(0, 0), (3, 2), (5, 4), (0, 4), (5, 0)])
def test_run_lengths_of_a_part_are_those_of_the_whole(place: tuple[int, int]) -> None:
    for seed in range(8):
        part, whole = np.random.default_rng(seed).random((3, 4)) < 0.2 + seed / 8, np.zeros((7, 9), bool)
        left, top = place
        whole[top : top + 3, left : left + 4] = part
        encoded = encode_part(part, place, (9, 7))
        assert encoded == encode(whole)
        np.testing.assert_array_equal(decoded(encoded), whole)
    assert encode_part(np.zeros((0, 4), bool), (0, 0), (9, 7)) == encode(np.zeros((7, 9), bool))


def test_of_objects_that_overlap_the_likeliest_is_seen() -> None:
    parts = [part_of(np.array(box), (4, 3)) for box in ([0, 0, 2, 2], [0.5, 1, 9, 9])]
    sums = PrototypeSums(0, PictureShape(2, 2, 1))
    found = instances([np.ones((1, 2, 2, 1), np.float32)], np.ones((2, 1), np.float32), sums, parts, (0, 0, 4, 3))
    assert classes_of(found, [4, 0], (4, 3)).tolist() == [[5, 5, 0, 0], [5, 5, 1, 1], [0, 1, 1, 1]]


@pytest.fixture
def model(tmp_path: Path) -> str:
    (path := tmp_path / "segments.tflite").write_bytes(segments())
    return str(path)


def test_the_gpu_draws_the_masks_that_the_cpu_finds(model: str, tmp_path: Path) -> None:
    """Pictures come out as they went in. Of the two objects, which overlap, the likelier one is seen."""
    (folder := tmp_path / "frames").mkdir()
    before = np.random.default_rng(0).integers(0, 256, (80, 128, 3), np.uint8)
    cv2.imwrite(str(folder / "0.png"), before)
    work = Work("instances", model, save=("video", "masks", "jsonl"), masks="png", suffix=".png")
    with Session(work) as session:
        (rows,) = session.frames(work, str(folder), tmp_path / "out")
    assert [row["class"] for row in rows] == ["disc", "bar"]
    disc, bar = (decoded(row["mask"]).astype(bool) for row in rows)
    files = sorted(tmp_path.glob("out*/*"))
    after, numbers = (np.asarray(cv2.imread(str(path), cv2.IMREAD_UNCHANGED)) for path in files)
    np.testing.assert_array_equal(numbers, np.where(disc, 1, np.where(bar, 2, 0)))
    # Beside boxes and tags:
    inside = np.zeros((80, 128), bool)
    inside[34:46, 10:25] = inside[34:46, 36:92] = inside[62:68, 36:92] = inside[70:, :30] = True
    colors = 255 * np.array([(0, 0, 0), *palette(2)])[:, ::-1]
    shares = OPACITY * (numbers > 0)[..., None]
    np.testing.assert_allclose(after[inside], (before * (1 - shares) + colors[numbers] * shares)[inside], atol=1)
    assert {*np.unique(numbers[inside])} == {0, 1, 2}


def test_a_painted_video_reads_no_masks(model: str, tmp_path: Path) -> None:
    (folder := tmp_path / "frames").mkdir()
    for number in range(3):
        cv2.imwrite(str(folder / f"{number}.png"), np.full((80, 128, 3), 90, np.uint8))
    work = Work("instances", model, save=("video",), suffix=".png")
    with Session(work, road="textures") as session:
        assert session.process(folder, tmp_path / "out")["frames"] == 3
    assert copied_for(DETECTIONS) == 3 * 4 * 38 * 84, "the rows alone"


def test_the_cpu_paints_the_same_on_the_decoders_frames(model: str, tmp_path: Path) -> None:
    write_clip(tmp_path / "a.mp4", size=(128, 80), frames=2)
    work, frames = Work("instances", model, quality=100), list[npt.NDArray[np.float32]]()
    roads: tuple[Literal["textures", "planes"], ...] = "textures", "planes"
    for road in roads:
        with Session(work, road=road) as session:
            assert len([*session.frames(work, str(tmp_path / "a.mp4"), tmp_path / road)]) == 2
        frame = next(av.open(str(tmp_path / f"{road}.mp4")).decode(video=0))
        frames.append(frame.to_ndarray(format="rgb24").astype(np.float32))
    # Chroma has half the resolution: edges differ by what colours do.
    differences = np.abs(frames[0] - frames[1])
    assert np.median(differences) <= 2 and np.percentile(differences, 95) < 15


def test_process_and_watch_need_the_model_alone(model: str, tmp_path: Path) -> None:
    write_clip(tmp_path / "a.mp4", size=(128, 80), frames=2)
    given = ["--model", model, "--save", "masks,jsonl", "--masks", "rle", "--backend", "gl"]
    done = CliRunner().invoke(app, ["process", str(tmp_path / "a.mp4"), "--output", str(tmp_path / "out"), *given])
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in (tmp_path / "out" / "a.jsonl").read_text().splitlines()]
    assert [row["class"] for row in rows] == ["disc", "bar"] * 2 and rows[0]["box"] == [32, 8, 96, 72]
    areas = [int(coco.area(row["mask"])) for row in rows[:2]]
    assert areas[0] == pytest.approx(np.pi * 25.6**2, rel=0.03) and rows[0]["mask"]["size"] == [80, 128]
    with fb.video.Watch([str(tmp_path / "a.mp4")], model=model, backend="gl") as watch:
        result = next(watch)
        assert [each["mask"] for each in result.found] == [row["mask"] for row in rows[:2]]
        assert result.picture().shape == (80, 128, 4)
