"""Complex numbers, which the GPU stores in another form than LiteRT: no operator on the CPU may write or read them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ...kernels.tensor import TensorInfo
from ..read.model import RawOperator, Subgraph


def shared_with_cpu(
    operators: Collection[int], subgraph: Subgraph, tensors: Mapping[int, TensorInfo]
) -> dict[int, str]:
    """The reason for each of ``operators`` that shares complex numbers with an operator on the CPU."""
    reasons: dict[int, str] = {}
    left = set(operators)
    while True:
        inside, outside = _divided(subgraph.operators, left)
        crossing = {tensor for raw in inside for tensor in _complex((*raw.inputs, *raw.outputs), tensors)}
        crossing &= {i for raw in outside for i in (*raw.inputs, *raw.outputs)} | {*subgraph.outputs, *subgraph.inputs}
        stranded = {raw.index for raw in inside if crossing & {*raw.inputs, *raw.outputs}}
        if not stranded:
            return reasons
        reasons |= dict.fromkeys(stranded, "its complex numbers cross to the CPU, which has them in another form")
        left -= stranded


def _divided(raw: Sequence[RawOperator], chosen: Collection[int]) -> tuple[list[RawOperator], list[RawOperator]]:
    return [one for one in raw if one.index in chosen], [one for one in raw if one.index not in chosen]


def _complex(numbers: Sequence[int], tensors: Mapping[int, TensorInfo]) -> set[int]:
    return {i for i in numbers if i >= 0 and tensors[i].dtype == "complex64"}
