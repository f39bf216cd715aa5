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
    complex_numbers = {i for i, tensor in tensors.items() if tensor.dtype == "complex64"}
    left = set(operators) if complex_numbers else set[int]()
    while left:
        inside, outside = _divided(subgraph.operators, left)
        crossing = complex_numbers.intersection(i for raw in inside for i in (*raw.inputs, *raw.outputs))
        crossing &= {i for raw in outside for i in (*raw.inputs, *raw.outputs)} | {*subgraph.outputs, *subgraph.inputs}
        stranded = {raw.index for raw in inside if crossing & {*raw.inputs, *raw.outputs}}
        if not stranded:
            break
        reasons |= dict.fromkeys(stranded, "its complex numbers cross to the CPU, which has them in another form")
        left -= stranded
    return reasons


def _divided(raw: Sequence[RawOperator], chosen: Collection[int]) -> tuple[list[RawOperator], list[RawOperator]]:
    return [one for one in raw if one.index in chosen], [one for one in raw if one.index not in chosen]
