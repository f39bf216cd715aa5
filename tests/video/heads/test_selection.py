"""Candidates that the GPU selects: those that NumPy selects, of every form of outputs, and few bytes read."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.interop.device import Device
from framebind.interop.null.device import NullDevice
from framebind.video.answers.candidates import BLOCK, LEADING, candidate_graph
from framebind.video.answers.selection import Columns, Selection, select
from framebind.video.apis import api_of
from framebind.video.copies import DETECTIONS, copied_for
from framebind.video.heads import decoder_of
from framebind.video.heads.efficientdet import anchors_of
from framebind.video.layouts import PictureShape
from framebind.video.vision import ssd
from support.heads import model_of
from support.tiny_models import constants
from support.video.clips import write_clip
from support.video.outputs import outputs_on

Array = npt.NDArray[Any]
RANDOM = np.random.default_rng(0)


def scored(rows: int, classes: int, step: int = 1) -> Array:
    """Scores, a few of them high; with ``step``, many are equal."""
    scores = RANDOM.random((rows, classes)).astype(np.float32) ** 12
    return np.round(scores * 64) / 64 if step > 1 else scores


def rows(*parts: Array, is_last: bool = False) -> Array:
    joined = np.hstack(parts).astype(np.float32)
    return np.ascontiguousarray(joined.T if is_last else joined)[None]


SELECTIONS: dict[str, tuple[Selection, Callable[[], list[Array]]]] = {
    "cells last, equal scores": (
        Selection(2100, Columns(0, 4, 14, True), (Columns(0, 0, 4, True), Columns(0, 14, 46, True))),
        lambda: [rows(RANDOM.random((2100, 4)), scored(2100, 10, 64), RANDOM.random((2100, 32)), is_last=True)],
    ),
    "two outputs, objectness, and scores that are no numbers": (
        Selection(3001, Columns(1, 2, 9), (Columns(0, 0, 4),), 300, objectness=Columns(1, 1, 2)),
        lambda: [
            rows(RANDOM.random((3001, 4))),
            rows(np.where(RANDOM.random((3001, 9)) < 0.02, np.nan, scored(3001, 9) ** 0.2)),
        ],
    ),
    "pairs": (
        Selection(300, Columns(0, 0, 80), (Columns(1, 0, 4),), 300, has_pairs=True),
        lambda: [rows(2 * scored(300, 80) ** 8 - 1), rows(RANDOM.random((300, 4)))],
    ),
}


@pytest.mark.parametrize("form", SELECTIONS)
def test_the_gpu_selects_what_numpy_selects(form: str, gpu: Device) -> None:
    selection, make = SELECTIONS[form]
    arrays, counts = make(), list[int]()
    with outputs_on(gpu, arrays) as outputs:
        row = 4 * (LEADING + sum(each.last - each.first for each in selection.values))
        outputs.candidates(selection, 0.0)
        for least in (-10.0, 0.01, 0.9, 10.0):
            wanted = select(selection, arrays, least)
            fb.transfers.reset()
            found = outputs.candidates(selection, least)
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(one, other)
            counts.append(len(wanted.scores))
            read = min((counts[-1] // BLOCK + 1) * BLOCK, selection.count)
            assert copied_for(DETECTIONS) == read * row and set(fb.transfers.by_reason) == {("download", DETECTIONS)}
        assert counts == sorted(counts, reverse=True) and counts[0] == selection.count > counts[2] > counts[3] == 0


CELLS, ANCHORS = 2100, len(anchors_of(PictureShape(320, 320, 3)))
"""Candidates of YOLO and of EfficientDet for an input of 320x320."""
HEADS: dict[str, tuple[str, Callable[[], list[Array]]]] = {
    "yolo": ("detect", lambda: [rows(_boxes(CELLS), scored(CELLS, 80), is_last=True)]),
    "yolo v5": ("detect", lambda: [rows(320 * _boxes(3 * CELLS), scored(3 * CELLS, 1) ** 0.1, scored(3 * CELLS, 80))]),
    "yolo of two outputs": ("detect", lambda: [rows(scored(CELLS, 80)), rows(_boxes(CELLS), is_last=True)]),
    "yolo-pose": (
        "pose", lambda: [rows(320 * _boxes(CELLS), scored(CELLS, 1), RANDOM.random((CELLS, 51)), is_last=True)],
    ),
    "ssd": ("detect", lambda: [rows(RANDOM.normal(size=(2034, 4))), rows(np.ones((2034, 1)), scored(2034, 20))]),
    "efficientdet": ("detect", lambda: [rows(RANDOM.normal(size=(ANCHORS, 4))), _logits(ANCHORS, 8)]),
    "queries": ("detect", lambda: [_logits(900, 91), rows(_boxes(900))]),
}  # fmt: skip


def _boxes(count: int) -> Array:
    return RANDOM.uniform(0.1, 0.4, (count, 4))


def _logits(count: int, classes: int) -> Array:
    return rows(ssd.logit(0.01) + 20 * scored(count, classes))


@pytest.mark.parametrize("gpu", ["gl"], indirect=True)
@pytest.mark.parametrize("head", HEADS)
def test_heads_find_the_same_and_read_little(head: str, gpu: Device) -> None:
    task, make = HEADS[head]
    arrays = make()
    decoder = decoder_of(model_of(arrays, (320, 320)), task)
    with outputs_on(gpu, arrays) as outputs:
        wanted = decoder.decode(arrays, decoder.least)
        decoder.decode(outputs, decoder.least)  # the first frame also tells logits from probabilities
        fb.transfers.reset()
        found = decoder.decode(outputs, decoder.least)
        assert 0 < 4 * copied_for(DETECTIONS) < sum(values.nbytes for values in arrays)
        assert set(fb.transfers.by_reason) == {("download", DETECTIONS)} and len(wanted.boxes) > 3
        for one, other in zip(found, wanted, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_streams_share_a_detector(tmp_path: Path, context: fb.GlContext) -> None:
    values = np.zeros((1, 84, CELLS), np.float32)
    values[0, :4, 70], values[0, 4 + 7, 70] = (0.5, 0.5, 0.25, 0.5), 0.75
    (model := tmp_path / "yolo.tflite").write_bytes(constants(values, side=320))
    clips = [str(write_clip(tmp_path / f"{name}.mp4", size=(64, 64), frames=3)) for name in "ab"]
    with fb.video.Watch(clips, model=str(model), backend="gl") as watch:
        results = list(itertools.islice(watch, 4))
    boxes = [[each["box"] for each in result.found] for result in results]
    assert len({result.stream for result in results}) == 2 and boxes == [[[24.0, 16.0, 40.0, 48.0]]] * 4


def test_the_graph_is_one_program_on_every_device(device: Device) -> None:
    selection, make = SELECTIONS["cells last, equal scores"]
    interpreter = fb.Interpreter(model_content=candidate_graph(selection, {0: make()[0].shape}))
    delegate = fb.GpuDelegate("null" if isinstance(device, NullDevice) else api_of("auto").name)
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert all(operator.runs_on == "gpu" for operator in interpreter.delegated_ops())
    assert len(delegate.partitions()) == 1
    (output,) = interpreter.outputs()
    assert interpreter.get_tensor(output).shape == (selection.count, LEADING + 36)
    delegate.close()
