"""TOPK_V2: the largest values along the last axis, and their indices."""

from __future__ import annotations

from dataclasses import dataclass

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import INDEX_DTYPES, slices
from ..arguments import require_float, require_type, shape_constant

MOST_RANKS = 1024
"""The most results of a work-group, which it sorts in 8 KB of local memory."""
DIGITS, MOST_WORKERS = 16, 256
"""The counters of an invocation, one for each digit, and the most invocations that count: 16 KB of local memory."""


@dataclass(frozen=True)
class TopK(Operation):
    """``count`` values of each row, the largest first, equal ones in the row's order."""

    count: int

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        if self.count > shapes[0][-1]:
            raise ValueError(f"{shapes[0]} has fewer than {self.count} values along its last axis")
        return [(*shapes[0][:-1], self.count)] * 2

    def lower(self, lowering: Lowering) -> list[Launch]:
        """One dispatch: a work-group for each row, or one for each MOST_RANKS results of it."""
        batch, height, width, _ = lowering.shape(lowering.inputs[0])
        writes = {"dst": lowering.outputs[0], "indices": lowering.outputs[1]}
        workers = min(lowering.group_size, MOST_WORKERS)
        ranks = min(1 << (4 * slices(self.count) - 1).bit_length(), MOST_RANKS)
        blocks = -(-self.count // ranks)
        constants: dict[str, int | float] = {"RANKS": ranks, "BLOCKS": blocks, "WORKERS": workers}
        local = (("int", "counts", DIGITS * workers), ("int", "keys", ranks), ("int", "places", ranks))
        groups = batch * height * width * blocks
        return [Launch("top_k", {"src": lowering.inputs[0]}, writes, groups, constants, {}, local)]


def _parse(node: TfliteNode) -> Parsed:
    require_float(node.inputs[0], *node.outputs[:1])
    require_type({"int32"}, *node.outputs[1:])
    source = node.inputs[0]
    count = int(shape_constant(node.inputs[1], "k", INDEX_DTYPES | {"int16"}).reshape(-1)[0])
    if source is None or not source.shape or not 1 <= count <= source.shape[-1]:
        raise Unsupported(f"k is {count}, which is not between 1 and the size of the last axis")
    return Parsed(TopK(count), bounds=(0, source.shape[-1]))  # the size itself for a row of NaN


TFLITE = (TfliteOp("TOPK_V2", _parse, max_version=3, inputs=2, moves_values=True, results=(0, "int32")),)
