"""The pass that finds spelled out activation functions with a slope for each sign: PReLU and leaky ReLU.

https://arxiv.org/abs/1502.01852. Exporters write them as max(x, 0) - a * max(-x, 0), as a choice between x and a * x by
the sign of x, and in more ways. All are made of functions that are linear on either side of 0, so that two slopes say
what such a group of operators computes, however it is spelled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...kernels.operation import FusedOp
from ...kernels.ops.pointwise.elementwise import Elementwise
from ...kernels.ops.pointwise.logic import Select
from .graph import Graph, Node

Slopes = npt.NDArray[np.float32]
MOST_NODES = 8
"""The most operators of one group."""


@dataclass(frozen=True)
class _Line:
    """A function of x: ``right`` * x above 0, ``left`` * x below. A truth value has 1 and 0 instead of slopes."""

    right: Slopes
    left: Slopes


_ZERO = _Line(np.zeros((), np.float32), np.zeros((), np.float32))
_UNARY: dict[str, Callable[[_Line], _Line]] = {
    "ABS": lambda v: _Line(np.abs(v.right), -np.abs(v.left)),
    "NEG": lambda v: _Line(-v.right, -v.left),
    "RELU": lambda v: _larger(v, _ZERO),
}
_BINARY: dict[str, Callable[[_Line, _Line], _Line]] = {
    "ADD": lambda v, w: _Line(v.right + w.right, v.left + w.left),
    "GREATER": lambda v, w: _truth(v.right > w.right, v.left < w.left),
    "GREATER_EQUAL": lambda v, w: _truth(v.right >= w.right, v.left <= w.left),
    "LESS": lambda v, w: _truth(v.right < w.right, v.left > w.left),
    "LESS_EQUAL": lambda v, w: _truth(v.right <= w.right, v.left >= w.left),
    "MAXIMUM": lambda v, w: _larger(v, w),
    "MINIMUM": lambda v, w: _Line(np.minimum(v.right, w.right), np.maximum(v.left, w.left)),
    "SUB": lambda v, w: _Line(v.right - w.right, v.left - w.left),
}


def _larger(v: _Line, w: _Line) -> _Line:
    return _Line(np.maximum(v.right, w.right), np.minimum(v.left, w.left))


def _truth(right: npt.NDArray[np.bool_], left: npt.NDArray[np.bool_]) -> _Line:
    return _Line(right.astype(np.float32), left.astype(np.float32))


def _bent(v: _Line, slopes: Slopes | np.float32) -> _Line:
    """The PReLU of a function."""
    return _Line(np.where(v.right < 0, v.right * slopes, v.right), np.where(v.left > 0, v.left * slopes, v.left))


def fuse_prelu(graph: Graph) -> None:
    """Replace each group of operators that computes a PReLU, if nothing else reads what is inside."""
    for node in graph.forwards():
        found = _group(graph, node) if len(_computed(graph, node)) > 1 else None
        if found is None:
            continue
        source, members = found
        line = _line(graph, source, members)
        if line is None or not (line.right == 1).all() or not np.isfinite(line.left).all():
            continue
        result = Node("PRELU", Elementwise(), (source,), node.outputs, (_activation(graph, node, line.left),))
        graph.substitute(set(members), result)


def _computed(graph: Graph, node: Node) -> set[int]:
    """The tensors that a node reads and that are no constants; none if the node is of no use in a group."""
    # An Elementwise without functions is a CAST: it makes numbers of truth values, which are no line through 0.
    fits = bool(isinstance(node.operation, Elementwise) and node.epilogue) or node.operation == Select(rows=False)
    if not fits or node.integers or node.input_ops:
        return set()
    return {tensor for tensor in node.operands if graph.tensors[tensor].constant is None}


def _group(graph: Graph, last: Node) -> tuple[int, list[Node]] | None:
    """The operators that compute the result of ``last`` from one tensor, in order, and this tensor."""
    members, read = [last], _computed(graph, last)
    while len(read) > 1 and len(members) < MOST_NODES:
        producers = [node for tensor in read if (node := graph.producer(tensor)) is not None]
        node = max(producers, key=graph.position, default=None)
        if node is None or not (operands := _computed(graph, node)) or not _is_inside(graph, node, members):
            return None
        read = read - {*node.outputs} | operands
        members.insert(0, node)
    if len(read) > 1:
        return None
    (source,) = read
    return (source, members) if graph.tensors[source].shape == graph.tensors[last.outputs[0]].shape else None


def _is_inside(graph: Graph, node: Node, members: list[Node]) -> bool:
    return all(
        tensor not in graph.outputs and all(reader in members for reader in graph.readers(tensor))
        for tensor in node.outputs
    )


def _line(graph: Graph, source: int, members: list[Node]) -> _Line | None:
    """The function of the source that the members compute; None if it is not linear on either side of 0."""
    one = np.ones((), np.float32)
    lines = {source: _Line(one, one)}
    for node in members:
        line = _chosen(graph, node, lines) if isinstance(node.operation, Select) else lines.get(node.inputs[0])
        for op in node.epilogue:
            line = None if line is None else _apply(graph, op, line, lines)
        if line is None:
            return None
        lines[node.outputs[0]] = line
    return lines[members[-1].outputs[0]]


def _operand(graph: Graph, tensor: int, lines: Mapping[int, _Line]) -> _Line | None:
    """The function that a tensor is; a constant is one if it is 0."""
    constant = graph.tensors[tensor].constant
    if constant is not None:
        return None if constant.any() else _ZERO
    return lines.get(tensor)


def _chosen(graph: Graph, node: Node, lines: Mapping[int, _Line]) -> _Line | None:
    condition, first, second = (_operand(graph, tensor, lines) for tensor in node.inputs)
    if condition is None or first is None or second is None:
        return None
    right = np.where(condition.right > 0, first.right, second.right)
    return _Line(right, np.where(condition.left > 0, first.left, second.left))


def _apply(graph: Graph, op: FusedOp, line: _Line, lines: Mapping[int, _Line]) -> _Line | None:
    if op.expression == "LEAKY_RELU":  # a smaller group that was found before
        return _bent(line, np.float32(op.values[0]))
    if op.operand is None:
        return None if op.expression not in _UNARY or op.values else _UNARY[op.expression](line)
    constant = graph.tensors[op.operand].constant
    if op.expression == "PRELU" and constant is not None:
        return _bent(line, constant.astype(np.float32))
    if constant is not None and (op.expression == "MUL" or (op.expression == "DIV" and not op.swapped)):
        factor = constant.astype(np.float32) if op.expression == "MUL" else 1 / constant.astype(np.float32)
        return _Line(line.right * factor, line.left * factor)
    other = _operand(graph, op.operand, lines)
    if other is None or op.expression not in _BINARY:
        return None
    return _BINARY[op.expression](*((other, line) if op.swapped else (line, other)))


def _activation(graph: Graph, node: Node, slopes: Slopes) -> FusedOp:
    """The activation function with slopes below 0."""
    if not slopes.any():
        return FusedOp("RELU")
    if (slopes == slopes.flat[0]).all():
        return FusedOp("LEAKY_RELU", values=(float(slopes.flat[0]),))
    return FusedOp("PRELU", graph.new_tensor(node.outputs[0], slopes.shape, slopes))
