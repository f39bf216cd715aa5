"""TOPK_V2: the largest values along the last axis, and their indices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...operation import Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import TensorInfo
from ..arguments import constant, require_float, require_type


@dataclass(frozen=True)
class TopK:
    """``count`` values of each row, the largest first, equal ones in the row's order."""

    count: int


def _parse(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_float(inputs[0], *outputs[:1])
    require_type(frozenset({"int32"}), *outputs[1:])
    count = int(constant(inputs[1], "k").reshape(-1)[0])
    if inputs[0] is None or not inputs[0].shape or not 1 <= count <= inputs[0].shape[-1]:
        raise Unsupported(f"k is {count}, which is not between 1 and the size of the last axis")
    return Parsed(TopK(count))


def _output_shapes(attributes: TopK, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    if attributes.count > shapes[0][-1]:
        raise ValueError(f"{shapes[0]} has fewer than {attributes.count} values along its last axis")
    return [(*shapes[0][:-1], attributes.count)] * 2


def _lower(lowering: Lowering) -> list[Launch]:
    """One dispatch, a work-group for each row."""
    batch, height, width, _ = lowering.shape(lowering.inputs[0])
    writes = {"dst": lowering.outputs[0], "indices": lowering.outputs[1]}
    shared = (("float", "values", lowering.group_size), ("int", "places", lowering.group_size))
    return [Launch("top_k", {"src": lowering.inputs[0]}, writes, batch * height * width, {}, {}, shared)]


OPERATORS = (Operator("TOPK_V2", _parse, _output_shapes, _lower, max_version=3),)
