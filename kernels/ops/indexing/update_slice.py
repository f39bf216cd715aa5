"""DYNAMIC_UPDATE_SLICE: a tensor with a part of it replaced, whose place is known only while the model runs."""

from __future__ import annotations

from dataclasses import dataclass

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import INDEX_DTYPES, bhwc_axis
from ..arguments import require_type, require_values


@dataclass(frozen=True)
class UpdateSlice(Operation):
    """The third input has the start of the part along each of ``rank`` dimensions. Starts are clamped so that the part
    stays inside.
    """

    rank: int

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        shape, part, starts = shapes
        if len(part) != len(shape) or any(size > whole for size, whole in zip(part, shape, strict=True)):
            raise ValueError(f"a part of shape {part} does not fit into {shape}")
        if starts != (self.rank,):
            raise ValueError(f"starts of shape {starts} are not one for each of {self.rank} dimensions")
        return [shape]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """One dispatch."""
        source, part, starts = lowering.inputs
        destination = lowering.outputs[0]
        places = {bhwc_axis(axis, self.rank): axis for axis in range(self.rank)}
        constants: dict[str, int | float] = {f"PLACE_{name}": places.get(i, -1) for i, name in enumerate("BHWC")}
        constants["WHOLE"] = int(lowering.shape(part)[3] == lowering.shape(destination)[3])
        reads, writes = {"src": source, "part": part, "starts": starts}, {"dst": destination}
        return [Launch("update_slice", reads, writes, lowering.groups_for(destination), constants)]


def _parse(node: TfliteNode) -> Parsed:
    source, part, starts = node.inputs[:3]
    require_values([source, part], node.outputs)
    require_type(INDEX_DTYPES, starts)
    if source is None or part is None or starts is None or not source.shape or source.dtype != part.dtype:
        raise Unsupported("it needs a tensor of rank 1 or more, a part of the same type, and starts")
    if part.stored_dtype and source.stored_dtype and part.quantization != source.quantization:
        raise Unsupported(
            f"tensor '{part.name}' does not have the scale of '{source.name}', whose integers it replaces"
        )
    return Parsed(UpdateSlice(len(source.shape)), (0, 1, 2))


TFLITE = (TfliteOp("DYNAMIC_UPDATE_SLICE", _parse, max_version=4, inputs=3, moves_values=True),)
