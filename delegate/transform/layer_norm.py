"""The pass that finds the operators that spell out a normalization of each row of values, and makes them one node.

    m = mean(x)     v = mean((x - m)^2)     r = 1 / sqrt(v + epsilon)        over the last dimension

    y = (x - m) * r     or     x * r - m * r     or     x * f - m * f     or     x * f + (beta - m * f), f = r * gamma

and without a mean (RMSNorm, arXiv:1910.07467, equation 4): y = x * r, with v = mean(x^2). Layer normalization is that
of arXiv:1607.06450, section 3. What scales and shifts y behind it stays with other passes, which fuse it.

Over height and width of channels first the same formulas are an instance normalization (arXiv:1607.08022). Its kernels
have channels last, as the convolutions around it do: a transposition on either side meets theirs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ...kernels.operation import FusedOp
from ...kernels.ops.movement.reshape import Reshape
from ...kernels.ops.movement.transpose import Transpose
from ...kernels.ops.reduction.instance_norm import InstanceNorm
from ...kernels.ops.reduction.layer_norm import LayerNorm
from ...kernels.ops.reduction.reduce import Reduction
from .graph import Graph, Node
from .numbering import Number, Numbering, between

LONGEST = 8
"""The nodes of the longest formula from its first mean to its result, and the reshapes between them."""
MOST_NODES = 64
"""The most nodes behind a mean that are searched, the nearest first: a model may have any number of readers."""
Found = tuple[LayerNorm, tuple[FusedOp, ...]]
"""A normalization, and what scales and shifts its result."""


def fuse_layer_norm(graph: Graph) -> None:
    """Replace the operators of each normalization by one LAYER_NORM or INSTANCE_NORM node."""
    numbering: Numbering | None = None
    for node in graph.forwards():
        if not isinstance(node.operation, Reduction) or node.operation.kind != "MEAN":
            continue
        numbering = numbering or Numbering(graph)
        for x, result, (operation, epilogue) in _matches(graph, numbering, node):
            members = between(graph, (x,), result)
            if members is None:
                continue
            if _normalizes_planes(graph, node):
                graph.substitute(members, *_instance_norm(graph, x, result, operation.epsilon, epilogue))
            else:
                name = "LAYER_NORM" if operation.centred else "RMS_NORM"
                graph.substitute(members, Node(name, operation, (x,), (result,), epilogue))
            break


def _matches(graph: Graph, numbering: Numbering, mean: Node) -> Iterator[tuple[int, int, Found]]:
    """The normalizations of which a node may be the first mean: of what, the result, and how."""
    assert isinstance(mean.operation, Reduction)
    behind, planes = _behind(graph, mean), _normalizes_planes(graph, mean)
    for x in _normalized(graph, mean):
        shape = graph.tensors[x].shape
        if shape[-1:] in ((), (1,)):
            continue
        axes = mean.operation.axes if planes else (len(shape) - 1,)
        formulas = dict(_formulas(graph, numbering, x, behind, axes))
        if planes:
            formulas = {
                number: found for number, found in formulas.items() if found == (LayerNorm(found[0].epsilon), ())
            }
        for result in (node.outputs[0] for node in behind if graph.tensors[node.outputs[0]].shape == shape):
            number = numbering.of(result)
            active = numbering.parts(number, "RELU")  # of the operator that computes the result
            if number in formulas:
                yield x, result, formulas[number]
            elif active is not None and active[0] in formulas:
                operation, epilogue = formulas[active[0]]
                yield x, result, (operation, (*epilogue, FusedOp("RELU")))


def _normalizes_planes(graph: Graph, mean: Node) -> bool:
    """Whether a mean is that of each plane of a tensor with channels first."""
    operation, shape = mean.operation, graph.tensors[mean.inputs[0]].shape
    if not isinstance(operation, Reduction) or len(shape) != 4 or math.prod(shape[2:]) == 1:
        return False
    return operation.axes == (2, 3) or (operation.axes == (0, 2, 3) and shape[0] == 1)


def _instance_norm(graph: Graph, x: int, result: int, epsilon: float, epilogue: tuple[FusedOp, ...]) -> list[Node]:
    """The normalization of the planes of x, with channels last between transpositions. If x was reshaped so that each
    picture's channels are channels of one, the pictures are as before.
    """
    shape, before = graph.tensors[x].shape, graph.producer(x)
    given = shape if before is None else graph.tensors[before.inputs[0]].shape
    reshaped = before is not None and isinstance(before.operation, Reshape) and given[2:] == shape[2:]
    batch, channels, height, width = planes = given if reshaped and len(given) == 4 else shape
    last = (batch, height, width, channels)
    first, turned, normalized, back = (graph.new_tensor(x, to) for to in (planes, last, last, planes))
    gamma, beta = (graph.new_tensor(x, (channels,), np.full(channels, value, np.float32)) for value in (1, 0))
    return [
        Node("RESHAPE", Reshape(planes), (x,), (first,)),
        Node("TRANSPOSE", Transpose((0, 2, 3, 1)), (first,), (turned,)),
        Node("INSTANCE_NORM", InstanceNorm(epsilon), (turned, gamma, beta), (normalized,), epilogue),
        Node("TRANSPOSE", Transpose((0, 3, 1, 2)), (normalized,), (back,)),
        Node("RESHAPE", Reshape(shape), (back,), (result,)),
    ]


def _normalized(graph: Graph, mean: Node) -> set[int]:
    """The tensors whose normalization may begin so: the input of the mean, and that of a square before it."""
    square = graph.producer(mean.inputs[0])
    return {mean.inputs[0]} if square is None else {mean.inputs[0], square.inputs[0]}


def _behind(graph: Graph, mean: Node) -> list[Node]:
    """The nodes that depend on the mean over at most as many nodes as a formula has, the nearest first."""
    found: dict[Node, None] = {}
    layer = [mean]
    for _ in range(LONGEST):
        layer = [reader for node in layer for tensor in node.outputs for reader in graph.readers(tensor)]
        layer = [node for node in dict.fromkeys(layer) if node not in found]
        found |= dict.fromkeys(layer[: MOST_NODES - len(found)])
    return list(found)


def _formulas(
    graph: Graph, numbering: Numbering, x: int, nodes: list[Node], axes: Sequence[int]
) -> Iterator[tuple[Number, Found]]:
    """The number of every spelling of a normalization of ``x`` along axes, with the constants of these nodes."""
    shape = graph.tensors[x].shape
    rows = [axis not in axes for axis, size in enumerate(shape) if size != 1]
    apply, number = numbering.apply, numbering.of(x)

    def spread(value: Number) -> Number:
        return numbering.repeated(value, rows)

    def columns(vector: int) -> Number:
        return numbering.repeated(numbering.of(vector), [not row for row in rows])

    def mean_of(value: Number) -> Number:
        return numbering.reduced("MEAN", value, [axis for axis, row in enumerate(rows) if not row])

    mean = mean_of(number)
    centred = apply("SUB", number, spread(mean))
    epsilons, vectors = _constants(graph, nodes, shape[-1])
    for epsilon in epsilons:
        shift = numbering.constant(epsilon)
        inverse = apply("RSQRT", apply("ADD", mean_of(apply("SQUARE", number)), shift))
        yield apply("MUL", number, spread(inverse)), (LayerNorm(epsilon, centred=False), ())
        inverse = apply("RSQRT", apply("ADD", mean_of(apply("SQUARE", centred)), shift))
        product, scaled = apply("MUL", inverse, mean), apply("MUL", number, spread(inverse))
        plain: Found = LayerNorm(epsilon), ()
        yield apply("MUL", centred, spread(inverse)), plain
        yield apply("SUB", scaled, spread(product)), plain
        for gamma in vectors:
            factor = apply("MUL", spread(inverse), columns(gamma))
            scaled, product = (apply("MUL", value, factor) for value in (number, spread(mean)))
            scale = FusedOp("MUL", gamma)
            yield apply("SUB", scaled, product), (LayerNorm(epsilon), (scale,))
            for beta in vectors:
                rest = apply("SUB", columns(beta), product)
                yield apply("ADD", scaled, rest), (LayerNorm(epsilon), (scale, FusedOp("ADD", beta)))


def _constants(graph: Graph, nodes: list[Node], channels: int) -> tuple[set[float], set[int]]:
    """The numbers, and the tensors of one value per channel, that these nodes read."""
    tensors = {i: graph.tensors[i].constant for node in nodes for i in node.operands}
    numbers = {float(v.reshape(-1)[0]) for v in tensors.values() if v is not None and v.size == 1}
    return numbers, {i for i, v in tensors.items() if v is not None and v.shape[-1:] == (v.size,) == (channels,)}
