"""CUMSUM along any axis, exclusive or not, from either end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace

from ...operation import Collapsed, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import LARGEST_RANK, around_axis, bhwc_axis, slices
from ..arguments import axis_of, index_constant, is_index, require_float
from ..pointwise.integers import known_bounds, wrapped


@dataclass(frozen=True)
class CumulativeSum(Operation):
    """Sums along ``axis`` of ``rank`` dimensions. ``exclusive`` leaves out the value itself; ``reverse`` adds from the
    end.
    """

    axis: int
    rank: int
    _: KW_ONLY
    exclusive: bool
    reverse: bool

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [shapes[0]]

    def lower(self, lowering: Lowering) -> list[Launch]:
        shape, axis = lowering.shape(lowering.inputs[0]), bhwc_axis(self.axis, self.rank)
        places = [shape[0], shape[1], shape[2], slices(shape[3])]
        length, places[axis] = places[axis], 1
        constants: dict[str, int | float] = {
            "AXIS": axis, "LENGTH": length, "LINES": math.prod(places), "LINES_H": places[1],
            "LINES_W": places[2], "EXCLUSIVE": int(self.exclusive), "REVERSE": int(self.reverse),
        }  # fmt: skip
        reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
        return [Launch("cumsum", reads, writes, lowering.group_count(math.prod(places)), constants)]

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        shape, axis = around_axis(shapes[0], self.axis)
        return [Collapsed(replace(self, axis=axis, rank=4), (shape,), (shape,))]


def _parse(node: TfliteNode) -> Parsed:
    source, dtype = node.inputs[0], node.outputs[0].dtype
    integers = is_index(source, dtype)
    if not integers:
        require_float(source, *node.outputs)
    if source is None or not source.shape:
        raise Unsupported("it needs an input of rank 1 or more")
    rank = len(source.shape)
    axis = axis_of(index_constant(node.inputs[1], "axis").reshape(-1)[0], rank)
    exclusive, reverse = bool(node.options.Exclusive()), bool(node.options.Reverse())
    operation = CumulativeSum(axis, rank, exclusive=exclusive, reverse=reverse)
    if not integers:
        return Parsed(operation)
    lowest, highest = (min(known_bounds(source)[0], 0), max(known_bounds(source)[1], 0))
    count = source.shape[axis]
    return Parsed(operation, integers=True, bounds=wrapped((lowest * count, highest * count), dtype))


TFLITE = (TfliteOp("CUMSUM", _parse, max_version=1, inputs=2, max_rank=LARGEST_RANK, keeps_declared_type=True),)
