"""Integers that are exact on the GPU: the nodes that compute on int32, the bounds of their results, and their use."""

from __future__ import annotations

from collections.abc import Mapping

from ...kernels.operation import Unsupported
from ...kernels.ops.arguments import is_exact
from ...kernels.ops.pointwise.integers import INTEGER_EXPRESSIONS, known_bounds
from ...kernels.tensor import INDEX_DTYPES, INTEGER_DTYPES, UNSCALED_DTYPES, Bounds, TensorInfo, bounds_of
from ..transform.graph import Node


def needs_integers(node: Node, tensors: Mapping[int, TensorInfo]) -> bool:
    """Whether a node that moves, chooses or compares values may meet integers that a float32 does not hold."""
    if tensors[node.outputs[0]].dtype not in UNSCALED_DTYPES:
        return False
    if [op.expression for op in node.epilogue] == ["TO_BOOL"]:
        return False  # no integer but 0 becomes 0 as a float
    return any(not is_exact(tensors[i]) for i in node.operands)


def check_integers(node: Node, tensors: Mapping[int, TensorInfo]) -> None:
    """Refuse integers of more than 32 bits, and fused activations that have no form for integers."""
    for tensor in (tensors[i] for i in node.operands):
        if tensor.dtype in INDEX_DTYPES:
            known_bounds(tensor)
    for op in node.epilogue:
        if op.expression not in INTEGER_EXPRESSIONS:
            raise Unsupported(f"{op.expression} has no form for integers on the GPU")


def common_bounds(node: Node, tensors: Mapping[int, TensorInfo]) -> Bounds | None:
    """Bounds of all integers that the node reads, and of zeros; None if they are not known."""
    given = [bounds_of(tensors[i]) for i in node.operands if tensors[i].dtype in INDEX_DTYPES]
    known = [bound for bounds in given if bounds is not None for bound in bounds]
    return (min(*known, 0), max(*known, 0)) if given and None not in given else None


def unread_integers(claimed: Mapping[int, tuple[Node, ...]], tensors: Mapping[int, TensorInfo]) -> dict[int, str]:
    """The reason for each operator that computes on integers that no operator on the GPU reads. A few integers, such as
    loop counters, cost less on the CPU than copies to the GPU and back.
    """
    reasons: dict[int, str] = {}
    read: set[int] = set()
    for index, nodes in sorted(claimed.items(), reverse=True):
        results = [(node, tensors[node.outputs[0]].dtype) for node in nodes]
        if nodes and all(
            node.integers and dtype in INTEGER_DTYPES and read.isdisjoint(node.outputs) for node, dtype in results
        ):
            reasons[index] = "it computes integers that no operator on the GPU reads"
            continue
        for node in nodes:
            read.update(node.operands)
    return reasons
