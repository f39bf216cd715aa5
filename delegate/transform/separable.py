"""The passes that join a depthwise convolution with the 1x1 convolution after or before it in one dispatch."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ...kernels.operation import FusedOp
from ...kernels.ops.bottleneck.expanded import ACTIVATIONS, Expanded
from ...kernels.ops.bottleneck.separable_pair import SeparablePair
from ...kernels.ops.convolution.depthwise import Depthwise
from ...kernels.ops.convolution.separable import CLAMPS, Rounding, Separable
from ...kernels.ops.window import Window
from .graph import Graph, Node
from .patterns import pointwise_convolution

LONGEST_RUN = 4
"""Neighbouring pixels that an invocation of the joined kernel computes, at most."""
LARGEST_REACH = 256
"""Columns that such an invocation may hold. It reads all between the first and the last, also those that a dilation
leaves out: a file may say 65,536.
"""


def fuse_separable(graph: Graph) -> None:
    """Replace each pair by one node, if no other node reads the tensor between them."""
    for node in graph.forwards():
        if not isinstance(node.operation, Depthwise) or node.operation.multiplier != 1:
            continue
        if node.operation.window.reach(1, LONGEST_RUN)[0] > LARGEST_REACH:
            continue
        reader, between = graph.sole_reader(node.outputs[0]), _between(graph, node, CLAMPS)
        pointwise = None if reader is None else pointwise_convolution(reader)
        if reader is None or pointwise is None or reader.input_ops or reader.inputs != node.outputs:
            continue
        if between is not None:
            activation, rounding = between
            operation = Separable(node.operation, activation, pointwise, rounding)
            graph.substitute({node, reader}, reader, name="SEPARABLE_CONV_2D", operation=operation, inputs=node.inputs)


def fuse_expanded(graph: Graph) -> None:
    """Replace a 1x1 convolution and its only reader, a depthwise one (or pair), by one node."""
    for node in graph.forwards():
        expansion = pointwise_convolution(node)
        if expansion is None:
            continue
        (reader, added), between = _filter(graph, node), _between(graph, node, ACTIVATIONS)
        if reader is None or between is None or reader.inputs != node.outputs:
            continue
        if isinstance(reader.operation, Separable) or (
            isinstance(reader.operation, Depthwise) and reader.operation.multiplier == 1
        ):
            activation, rounding = between
            if rounding is not None and added is not None:
                continue
            operation = Expanded(expansion, activation, reader.operation, rounding, added)
            graph.substitute(
                {node, reader}, reader, name="EXPANDED_CONV_2D", operation=operation,
                inputs=node.inputs, input_ops=node.input_ops, epilogue=reader.epilogue if added is None else (),
            )  # fmt: skip


def _between(
    graph: Graph, node: Node, activations: Collection[tuple[str, ...]]
) -> tuple[tuple[str, ...], Rounding | None] | None:
    """The node's epilogue between two convolutions of one step: one of the ``activations``, or a rounding to numbers of
    steps; None if it is neither.
    """
    names = tuple(op.expression for op in node.epilogue)
    if names in activations:
        return names, None
    if names != ("MUL", "STEPS"):
        return None
    factors, (lowest, highest, scale) = node.epilogue[0].operand, node.epilogue[1].values
    constant = None if factors is None else graph.tensors[factors].constant
    if factors is None or constant is None or scale != 1.0:
        return None
    return (), Rounding(constant, factors, lowest, highest)


def _filter(graph: Graph, node: Node) -> tuple[Node | None, tuple[str, ...] | None]:
    """The only reader of a node, and None; or a depthwise convolution that adds its input to its result, and the
    activation before the sum.
    """
    tensor = node.outputs[0]
    readers = graph.readers(tensor)
    if len(readers) == 1 and tensor not in graph.outputs and graph.has_own_memory(tensor):
        (reader,) = readers
        *first, last = reader.epilogue or (None,)
        activation = tuple(op.expression for op in first if op is not None)
        adds = last == FusedOp("ADD", tensor) or last == FusedOp("ADD", tensor, swapped=True)
        keeps = isinstance(reader.operation, Depthwise) and _keeps_size(reader.operation.window)
        if adds and keeps and activation in CLAMPS and reader.operands.count(tensor) == 2:
            return reader, activation
    return graph.sole_reader(tensor), None


def fuse_separable_pairs(graph: Graph) -> None:
    """Replace two separable convolutions by one node, if only the second reads the first."""
    for node in graph.forwards():
        first, between = _of_pair(node), node.outputs[0]
        if first is None or between in graph.outputs or not graph.has_own_memory(between):
            continue
        readers = graph.readers(between)
        second = _of_pair(readers[0]) if len(readers) == 1 else None
        if second is None or readers[0].inputs != node.outputs:
            continue
        reader, (residual, rest), (next_residual, last) = readers[0], _residual(node), _residual(readers[0])
        activation = tuple(op.expression for op in rest)
        if activation in CLAMPS and not any(op.operand == between for op in last):
            operation = SeparablePair(first, residual, activation, second, next_residual)
            graph.substitute(
                {node, reader}, reader, name="SEPARABLE_PAIR", operation=operation, inputs=node.inputs, epilogue=last
            )


def _of_pair(node: Node) -> Separable | None:
    """The separable convolution that a node is, if it may be one of a pair, else None."""
    operation = node.operation
    if not isinstance(operation, Separable) or operation.rounding is not None or node.input_ops:
        return None
    return operation if _keeps_size(operation.depthwise.window) else None


def _keeps_size(window: Window) -> bool:
    same = window.padding == 0 and not any(window.extra) and window.mode == "zero"
    return same and window.strides == window.dilations == (1, 1)


def _residual(node: Node) -> tuple[FusedOp | None, tuple[FusedOp, ...]]:
    """The sum with the node's input, without its operand, if the epilogue begins with it; and the other operations."""
    first = node.epilogue[0] if node.epilogue else None
    if first is None or first.expression != "ADD" or first.operand != node.inputs[0] or first.max_pool_2x2:
        return None, node.epilogue
    return replace(first, operand=None), node.epilogue[1:]
