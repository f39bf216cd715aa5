"""ARG_MAX and ARG_MIN."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...operation import Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import TensorInfo, ranked
from ..arguments import constant, require_float, require_type
from ..movement.gather import INTEGERS, _tiles


@dataclass(frozen=True)
class ArgExtreme:
    """Where along ``axis`` of ``rank`` dimensions the largest (``maximum``) or smallest value is."""

    axis: int
    rank: int
    maximum: bool


def _parse_arg(maximum: bool, options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_float(inputs[0])
    require_type(INTEGERS, *outputs)
    rank = len(inputs[0].shape) if inputs[0] else 0
    axis = int(constant(inputs[1], "axis").reshape(-1)[0])
    if not -rank <= axis < rank:
        raise Unsupported(f"axis {axis} is outside rank {rank}")
    return Parsed(ArgExtreme(axis % rank, rank, maximum))


def _lower_arg(lowering: Lowering) -> list[Launch]:
    attributes: ArgExtreme = lowering.attributes
    shape = ranked(lowering.shape(lowering.inputs[0]), attributes.rank)
    inner = math.prod(shape[attributes.axis + 1 :])
    constants: dict[str, int | float] = {
        "AXIS": shape[attributes.axis], "INNER": inner, "MAXIMUM": int(attributes.maximum)
    }  # fmt: skip
    reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
    return [Launch("arg_extreme", reads, writes, _tiles(lowering), constants)]


def _arg(name: str) -> Operator:
    def shapes(attributes: ArgExtreme, given: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [(*given[0][: attributes.axis], *given[0][attributes.axis + 1 :])]

    return Operator(name, lambda *a: _parse_arg(name == "ARG_MAX", *a), shapes, _lower_arg, max_version=3)


OPERATORS = (
    _arg("ARG_MAX"),
    _arg("ARG_MIN"),
)
