"""The pass that finds the ten operators that spell out an instance normalization, and makes them one node.

m = mean(x)                 v = mean((x - m)^2)            over height and width
factor = rsqrt(v + epsilon) * gamma
y = x * factor + (beta - m * factor)

In a quantized model each of these is rounded to 8 bits. Only the rounding of y is kept: those inside cost accuracy that
the quantized model need not lose.
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
    """Replace each group of ten nodes by one INSTANCE_NORM node, in the place of the last."""
    for node in list(graph.nodes):
        if not isinstance(node.operation, Reduction):
            continue
        try:
            members, norm = _match(graph, node)
        except _NoMatchError:
            continue
        replaced = {id(member) for member in members[:-1]}
        graph.nodes = [norm if other is members[-1] else other for other in graph.nodes if id(other) not in replaced]
        graph.changes.append(f"fused instance normalization {list(norm.indices)}")


def _match(graph: Graph, mean: Node) -> tuple[list[Node], Node]:
    """The ten nodes, the one that computes y last, and the node that stands for them."""
    x, m = mean.inputs[0], mean.outputs[0]
    _require(mean.operation == Reduction((1, 2), 4, True) and not _exact(mean))
    difference = _reader(graph, "SQUARED_DIFFERENCE", {x, m})
    variance = _only_reader(graph, difference)
    _require(variance.operation == mean.operation and not _exact(variance))
    shifted = _only_reader(graph, variance)
    epsilon = graph.tensors[_other_operand(shifted, "ADD", variance)].constant
    inverse = _only_reader(graph, shifted)
    _require(_is(inverse, "RSQRT"))
    factor = _only_reader(graph, inverse)
    gamma = _other_operand(factor, "MUL", inverse)
    scaled = _reader(graph, "MUL", {x, factor.outputs[0]})
    scaled_mean = _reader(graph, "MUL", {m, factor.outputs[0]})
    offset = _only_reader(graph, scaled_mean)
    beta = _minuend(offset, scaled_mean)
    result = _only_reader(graph, scaled)
    addition = replace(result, epilogue=result.epilogue[:1])  # an activation may follow in the same node
    _require(_other_operand(addition, "ADD", scaled) == offset.outputs[0])
    _require(epsilon is not None and epsilon.size == 1)
    members = [mean, difference, variance, shifted, inverse, factor, scaled, scaled_mean, offset, result]
    inner = {i for node in members[:-1] for i in node.outputs}
    _require(not inner & set(graph.outputs))
    _require(all(reader in members for i in inner for reader in graph.consumers(i)))
    assert epsilon is not None
    indices = tuple(sorted(i for node in members for i in node.indices))
    operation = InstanceNorm(float(epsilon.reshape(-1)[0]))
    return members, Node("INSTANCE_NORM", operation, (x, gamma, beta), result.outputs, result.epilogue[1:], indices)


def _require(condition: bool) -> None:
    if not condition:
        raise _NoMatchError


def _only_reader(graph: Graph, node: Node) -> Node:
    readers = graph.consumers(node.outputs[0])
    _require(len(readers) == 1)
    return readers[0]


def _is(node: Node, expression: str) -> bool:
    return isinstance(node.operation, Elementwise) and [op.expression for op in _exact(node)] == [expression]


def _exact(node: Node) -> tuple[FusedOp, ...]:
    """The node's links without those that only round."""
    return tuple(op for op in node.epilogue if op.expression != "QUANTIZE")


def _reader(graph: Graph, expression: str, operands: set[int]) -> Node:
    """The only node that is this expression of exactly these tensors."""
    found = [node for node in graph.nodes if set(node.operands) == operands and _is(node, expression)]
    _require(len(found) == 1)
    return found[0]


def _other_operand(node: Node, expression: str, known: Node) -> int:
    """The second operand of a commutative expression, of which ``known`` computes one."""
    _require(_is(node, expression) and expression in COMMUTATIVE and known.outputs[0] in node.operands)
    first, second = node.operands
    return second if first == known.outputs[0] else first


def _minuend(node: Node, subtrahend: Node) -> int:
    """a, where the node computes a - subtrahend."""
    _require(_is(node, "SUB"))
    value, other = node.operands
    left, right = (other, value) if node.epilogue[0].swapped else (value, other)
    _require(right == subtrahend.outputs[0])
    return left
