"""NON_MAX_SUPPRESSION_V4: the numbers of boxes that overlap no better one."""

from __future__ import annotations

from dataclasses import dataclass

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import TensorInfo, slices
from ..arguments import constant, require_float, require_type, shape_constant

MOST_BOXES = 8192
"""The most boxes: a work-group keeps a mark for each four, 8 KB of its local memory."""
MOST_KEPT = 512


@dataclass(frozen=True)
class NonMaxSuppression(Operation):
    """The numbers (``count``) of the best of boxes (n, 4) by their scores (n), and how many there are.

    A box is two opposite corners. Scores are above ``score``; of two boxes whose intersection over union is
    ``overlap`` or more the better one stays, the first of equal ones.
    """

    count: int
    overlap: float
    score: float

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        boxes, scores = shapes
        if len(scores) != 1 or boxes != (*scores, 4):
            raise ValueError(f"boxes of shape {boxes} and scores of shape {scores} are not (n, 4) and (n)")
        return [(self.count,), ()]

    def lower(self, lowering: Lowering) -> list[Launch]:
        boxes, scores = lowering.inputs
        writes = {"dst": lowering.outputs[0], "count": lowering.outputs[1]}
        group, marks = lowering.group_size, slices(lowering.shape(scores)[3])
        local = (
            ("int", "left", marks),
            ("float", "tops", group),
            ("int", "places", group),
            ("int", "chosen", self.count),
        )
        constants: dict[str, int | float] = {"OVERLAP": self.overlap, "SCORE": self.score}
        return [Launch("non_max_suppression", {"boxes": boxes, "scores": scores}, writes, 1, constants, {}, local)]


def _number(tensor: TensorInfo | None, what: str) -> float:
    require_float(tensor)
    return float(constant(tensor, what).reshape(-1)[0])


def _parse(node: TfliteNode) -> Parsed:
    boxes, scores, most, overlap, score = node.inputs[:5]
    require_float(boxes, scores)
    require_type({"int32"}, *node.outputs)
    count = int(shape_constant(most, "max_output_size").reshape(-1)[0])
    operation = NonMaxSuppression(count, _number(overlap, "iou_threshold"), _number(score, "score_threshold"))
    if boxes is None or scores is None or len(node.outputs) != 2:
        raise Unsupported("it needs boxes, scores and two outputs")
    operation.output_shapes([boxes.shape, scores.shape])
    if boxes.shape[0] > MOST_BOXES or not 1 <= count <= MOST_KEPT:
        raise Unsupported(f"{count} of {boxes.shape[0]} boxes are not 1 to {MOST_KEPT} of at most {MOST_BOXES}")
    return Parsed(operation, (0, 1), bounds=(0, max(count, boxes.shape[0])))


_EQUAL = "of boxes of equal scores the GPU takes the first one first; LiteRT's order is that of a heap"
TFLITE = (
    TfliteOp("NON_MAX_SUPPRESSION_V4", _parse, max_version=1, inputs=5, unlike_litert=_EQUAL, results=("int32",)),
)
