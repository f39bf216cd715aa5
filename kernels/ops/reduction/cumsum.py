"""CUMSUM along any axis, exclusive or not, from either end."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import bhwc_axis, slices
from ..arguments import axis_of, constant, require_float


@dataclass(frozen=True)
class CumulativeSum(Operation):
    """``axis`` is BHWC's. ``exclusive`` leaves out the value itself; ``reverse`` adds from the end."""

    axis: int
    _: KW_ONLY
    exclusive: bool
    reverse: bool

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [shapes[0]]

    def lower(self, lowering: Lowering) -> list[Launch]:
        shape = lowering.shape(lowering.inputs[0])
        places = [shape[0], shape[1], shape[2], slices(shape[3])]
        length, places[self.axis] = places[self.axis], 1
        constants: dict[str, int | float] = {
            "AXIS": self.axis, "LENGTH": length, "LINES": math.prod(places), "LINES_H": places[1],
            "LINES_W": places[2], "EXCLUSIVE": int(self.exclusive), "REVERSE": int(self.reverse),
        }  # fmt: skip
        reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
        return [Launch("cumsum", reads, writes, lowering.group_count(math.prod(places)), constants)]


def _parse(node: TfliteNode) -> Parsed:
    require_float(node.inputs[0], *node.outputs)
    if node.inputs[0] is None or not node.inputs[0].shape:
        raise Unsupported("it needs an input of rank 1 or more")
    rank = len(node.inputs[0].shape)
    axis = bhwc_axis(axis_of(constant(node.inputs[1], "axis").reshape(-1)[0], rank), rank)
    return Parsed(CumulativeSum(axis, exclusive=bool(node.options.Exclusive()), reverse=bool(node.options.Reverse())))


TFLITE = (TfliteOp("CUMSUM", _parse, max_version=1, inputs=2),)
