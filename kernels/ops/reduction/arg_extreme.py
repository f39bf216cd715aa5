"""ARG_MAX and ARG_MIN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial

from ...operation import Collapsed, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp
from ...tensor import INDEX_DTYPES, LARGEST_RANK, around_axis, ranked
from ..arguments import axis_of, declared_by, index_constant, require_type, require_values


@dataclass(frozen=True)
class ArgExtreme(Operation):
    """The index along ``axis`` of ``rank`` dimensions of the largest (``maximum``) or smallest value."""

    axis: int
    rank: int
    _: KW_ONLY
    maximum: bool

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [(*shapes[0][: self.axis], *shapes[0][self.axis + 1 :])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        shape = ranked(lowering.shape(lowering.inputs[0]), self.rank)
        inner = math.prod(shape[self.axis + 1 :])
        channels = (lowering.shape(tensor)[3] for tensor in (lowering.inputs[0], lowering.outputs[0]))
        in_slices = all(size % 4 == 0 for size in (inner, *channels))
        constants: dict[str, int | float] = {
            "AXIS": shape[self.axis], "INNER": inner, "MAXIMUM": int(self.maximum), "IN_SLICES": int(in_slices),
        }  # fmt: skip
        return [lowering.launch("arg_extreme", ("src",), constants)]

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        shape, axis = around_axis(shapes[0], self.axis)
        found = replace(self, axis=axis, rank=4)
        return [Collapsed(found, (shape,), tuple(found.output_shapes([shape])))]


def _parse(node: TfliteNode, *, maximum: bool) -> Parsed:
    require_values(node.inputs[:1], [])
    require_type(INDEX_DTYPES, *node.outputs)
    shape = node.inputs[0].shape if node.inputs[0] else ()
    axis = axis_of(index_constant(node.inputs[1], "axis").reshape(-1)[0], len(shape))
    return Parsed(ArgExtreme(axis, len(shape), maximum=maximum), bounds=(0, shape[axis] - 1))


_OF_NAN = "NaN does not count; whether it does in LiteRT depends on its place and the length of the row"
TFLITE = tuple(
    TfliteOp(
        name, partial(_parse, maximum=name == "ARG_MAX"), max_version=3, inputs=2, max_rank=LARGEST_RANK,
        unlike_litert=_OF_NAN, results=(declared_by("OutputType"),),
    )
    for name in ("ARG_MAX", "ARG_MIN")
)  # fmt: skip
