"""The pass that finds the ten operators that spell out an instance normalization, and makes them one node.

m = mean(x)                 v = mean((x - m)^2)            over height and width
factor = rsqrt(v + epsilon) * gamma
y = x * factor + (beta - m * factor)

In a quantized model each of these is rounded to 8 bits. Only the rounding of y is kept: the others only cost accuracy.
"""

from __future__ import annotations

from dataclasses import replace

from ...kernels.operation import FusedOp
from ...kernels.ops.pointwise.elementwise import COMMUTATIVE, Elementwise
from ...kernels.ops.reduction.instance_norm import InstanceNorm
from ...kernels.ops.reduction.reduce import Reduction
from .graph import Graph, Node


class _NoMatchError(Exception):
    """The nodes around a mean are not those of an instance normalization."""


def fuse_instance_norm(graph: Graph) -> None:
    """Replace each group of ten nodes by one INSTANCE_NORM node."""
    for node in graph.forwards():
        if not isinstance(node.operation, Reduction):
            continue
        try:
            members, norm = _match(graph, node)
        except _NoMatchError:
            continue
        graph.substitute(members, norm)


def _match(graph: Graph, mean: Node) -> tuple[set[Node], Node]:
    """The ten nodes, and the node that replaces them."""
    x, m = mean.inputs[0], mean.outputs[0]
    _require(mean.operation == Reduction((1, 2), 4, keep=True) and not _exact(mean))
    difference = _reader(graph, "SQUARED_DIFFERENCE", x, m)
    variance = _only_reader(graph, difference)
    _require(variance.operation == mean.operation and not _exact(variance))
    shifted = _only_reader(graph, variance)
    epsilon = graph.tensors[_other_operand(shifted, "ADD", variance)].constant
    inverse = _only_reader(graph, shifted)
    _require(_is(inverse, "RSQRT"))
    factor = _only_reader(graph, inverse)
    gamma = _other_operand(factor, "MUL", inverse)
    scaled = _reader(graph, "MUL", x, factor.outputs[0])
    scaled_mean = _reader(graph, "MUL", m, factor.outputs[0])
    offset = _only_reader(graph, scaled_mean)
    beta = _minuend(offset, scaled_mean)
    result = _only_reader(graph, scaled)
    addition = replace(result, epilogue=result.epilogue[:1])  # an activation may follow in the same node
    _require(_other_operand(addition, "ADD", scaled) == offset.outputs[0])
    _require(epsilon is not None and epsilon.size == 1)
    _require(all(graph.tensors[each].bhwc[1:] == graph.tensors[m].bhwc[1:] for each in (gamma, beta)))
    before = {mean, difference, variance, shifted, inverse, factor, scaled, scaled_mean, offset}
    members = before | {result}
    inner = {tensor for node in before for tensor in node.outputs}
    _require(not inner & set(graph.outputs))
    _require(all(reader in members for tensor in inner for reader in graph.readers(tensor)))
    assert epsilon is not None
    operation = InstanceNorm(float(epsilon.reshape(-1)[0]))
    return members, Node("INSTANCE_NORM", operation, (x, gamma, beta), result.outputs, result.epilogue[1:])


def _require(condition: bool) -> None:
    if not condition:
        raise _NoMatchError


def _only_reader(graph: Graph, node: Node) -> Node:
    reader = graph.sole_reader(node.outputs[0])
    if reader is None:
        raise _NoMatchError
    return reader


def _is(node: Node, expression: str) -> bool:
    return isinstance(node.operation, Elementwise) and [op.expression for op in _exact(node)] == [expression]


def _exact(node: Node) -> tuple[FusedOp, ...]:
    """The node's epilogue without roundings."""
    return tuple(op for op in node.epilogue if op.expression != "QUANTIZE")


def _reader(graph: Graph, expression: str, first: int, second: int) -> Node:
    """The only node that is this expression of exactly these two tensors."""
    found = [node for node in graph.readers(second) if set(node.operands) == {first, second} and _is(node, expression)]
    _require(len(found) == 1)
    return found[0]


def _other_operand(node: Node, expression: str, known: Node) -> int:
    """The second operand of a commutative expression, of which ``known`` computes one."""
    _require(_is(node, expression) and expression in COMMUTATIVE and known.outputs[0] in node.operands)
    first, second = node.operands
    return second if first == known.outputs[0] else first


def _minuend(node: Node, subtrahend: Node) -> int:
    """The tensor a of a node that computes a - subtrahend."""
    _require(_is(node, "SUB"))
    value, other = node.operands
    left, right = (other, value) if node.epilogue[0].swapped else (value, other)
    _require(right == subtrahend.outputs[0])
    return left
