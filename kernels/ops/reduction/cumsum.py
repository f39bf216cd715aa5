"""CUMSUM along any axis, exclusive or not, from either end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...operation import Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import TensorInfo, bhwc_axis, slices
from ..arguments import constant, require_float


@dataclass(frozen=True)
class CumulativeSum:
    """``axis`` is BHWC's. ``exclusive`` leaves out the value itself; ``reverse`` adds from the end."""

    axis: int
    exclusive: bool
    reverse: bool


def _parse(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_float(inputs[0], *outputs)
    if inputs[0] is None or not inputs[0].shape:
        raise Unsupported("it needs an input of rank 1 or more")
    axis = bhwc_axis(int(constant(inputs[1], "axis").reshape(-1)[0]), len(inputs[0].shape))
    return Parsed(CumulativeSum(axis, bool(options.Exclusive()), bool(options.Reverse())))


def _lower(lowering: Lowering) -> list[Launch]:
    attributes: CumulativeSum = lowering.attributes
    shape = lowering.shape(lowering.inputs[0])
    places = [shape[0], shape[1], shape[2], slices(shape[3])]
    length, places[attributes.axis] = places[attributes.axis], 1
    constants: dict[str, int | float] = {
        "AXIS": attributes.axis, "LENGTH": length, "LINES": math.prod(places), "LINES_H": places[1],
        "LINES_W": places[2], "EXCLUSIVE": int(attributes.exclusive), "REVERSE": int(attributes.reverse),
    }  # fmt: skip
    reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
    return [Launch("cumsum", reads, writes, lowering.group_count(math.prod(places)), constants)]


OPERATORS = (Operator("CUMSUM", _parse, lambda _, shapes: [shapes[0]], _lower, max_version=1),)
