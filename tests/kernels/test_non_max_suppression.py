"""NON_MAX_SUPPRESSION_V4 where LiteRT's kernel has another order or none: against NumPy, on each device."""

from __future__ import annotations

import numpy as np

import framebind as fb
from framebind.interop.device import Device
from framebind.tools.certify.cases.operator_models import Array, run_model
from framebind.video.mediapipe.calculators.suppression import overlaps
from support.model_runs import backend_of
from support.tiny_models import G, Op, T, build, schema

BOXES, KEPT, OVERLAP, SCORE = 203, 24, 0.25, 0.125
MODEL = build(
    G(
        [
            T("boxes", (BOXES, 4)), T("scores", (BOXES,)), T("most", (), KEPT, "int32"), T("overlap", (), OVERLAP),
            T("least", (), SCORE), T("kept", (KEPT,), dtype="int32"), T("count", (), dtype="int32"),
        ],
        [Op("NON_MAX_SUPPRESSION_V4", [0, 1, 2, 3, 4], [5, 6], schema.NonMaxSuppressionV4OptionsT())],
        [0, 1], [5, 6],
    )
)  # fmt: skip


def kept_of(boxes: Array, scores: Array) -> list[int]:
    """The numbers of the boxes that stay, best first, the first of equal ones."""
    kept = list[int]()
    for number in np.argsort(-scores, kind="stable"):
        alike = overlaps(boxes[number], boxes[kept]) >= OVERLAP
        if scores[number] > SCORE and not alike.any():
            kept.append(int(number))
    return kept[:KEPT]


def crowds() -> dict[str, tuple[Array, Array]]:
    """Boxes (n, 4) and scores (n): whole numbers, so that many areas and overlaps are exactly those of the bound."""
    random = np.random.default_rng(0)
    corners = random.integers(0, 12, (BOXES, 2))
    boxes = np.concatenate([corners, corners + random.integers(1, 5, (BOXES, 2))], axis=1).astype(np.float32)
    scores = random.integers(0, 9, BOXES).astype(np.float32) / 8
    flat = boxes.copy()
    flat[::3, 2] = flat[::3, 0]  # without an area: they overlap nothing
    last = np.where(np.arange(BOXES) == BOXES - 1, np.float32(1), np.float32(0))
    return {
        "equal scores": (boxes, scores), "all equal": (boxes, np.ones(BOXES, np.float32)),
        "without areas": (flat, scores), "one place": (np.tile(boxes[:1], (BOXES, 1)), scores),
        "none": (boxes, np.full(BOXES, SCORE, np.float32)), "the last": (boxes, last),
    }  # fmt: skip


def test_the_first_of_equal_boxes_stays(gpu: Device) -> None:
    interpreter = fb.Interpreter(model_content=MODEL)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend_of(gpu)))
    interpreter.modify_graph_with_delegate(delegate)
    assert {each.runs_on for each in interpreter.delegated_ops()} == {"gpu"}
    counts = dict[str, int]()
    for name, (boxes, scores) in crowds().items():
        found, count = run_model(interpreter, [boxes[:, [2, 1, 0, 3]] if name == "one place" else boxes, scores])
        expected = kept_of(boxes, scores)
        assert found.tolist() == expected + [0] * (KEPT - len(expected)) and count == len(expected), name
        counts[name] = len(expected)
    assert counts["equal scores"] == KEPT and (counts["one place"], counts["none"], counts["the last"]) == (1, 0, 1)
    delegate.close()
