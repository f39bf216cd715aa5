"""Passes that merge PAD into the operator that reads it."""

from __future__ import annotations

from dataclasses import replace

from ...kernels.ops.convolution.conv import Convolution
from ...kernels.ops.convolution.depthwise import Depthwise
from ...kernels.ops.movement.pad import Pad
from ...kernels.ops.pointwise.elementwise import Elementwise
from ...kernels.ops.window import VALID
from .graph import Graph, Node


def read_padding_as_zeros(graph: Graph) -> None:
    """Drop pads of channels that are only added to another tensor: a link reads zeros after an operand's last slice."""
    for node in list(graph.nodes):
        if not isinstance(node.operation, Pad) or node.epilogue or node.outputs[0] in graph.outputs:
            continue
        pad, padded, source = node.operation, node.outputs[0], node.inputs[0]
        behind = pad.amounts[-1][0] == 0 and not any(sum(pair) for pair in pad.amounts[:-1])
        readers = graph.consumers(padded)
        if not behind or pad.mode != "constant" or pad.value != 0 or graph.tensors[source].bhwc[3] == 1:
            continue
        if len(readers) != 1 or not isinstance(readers[0].operation, Elementwise) or not readers[0].epilogue:
            continue
        reader, op = readers[0], readers[0].epilogue[0]
        others = [i for i in (reader.inputs[0], op.operand) if i != padded]
        if op.expression != "ADD" or len(others) != 1 or reader.operands.count(padded) > 1:
            continue
        (other,) = others
        if other is None or graph.tensors[other].bhwc != graph.tensors[padded].bhwc:
            continue
        epilogue = (replace(op, operand=source), *reader.epilogue[1:])
        added = replace(reader, inputs=(other,), epilogue=epilogue, indices=node.indices + reader.indices)
        graph.nodes = [added if n is reader else n for n in graph.nodes if n is not node]
        graph.changes.append(f"removed {node.name} {list(node.indices)}: its reader adds its input")


def merge_padding(graph: Graph) -> None:
    """Move zero and reflecting pads of height and width into the only convolution that reads them."""
    for node in list(graph.nodes):
        if not isinstance(node.operation, Pad) or node.epilogue or node.outputs[0] in graph.outputs:
            continue
        readers = graph.consumers(node.outputs[0])
        if len(readers) != 1 or readers[0].inputs[:1] != node.outputs:
            graph.changes.append(f"kept {node.name} {list(node.indices)}: not exactly one reader")
            continue
        merged = _with_padding(readers[0], node.operation)
        if isinstance(merged, str):
            graph.changes.append(f"kept {node.name} {list(node.indices)}: {merged}")
            continue
        operation = merged
        indices = node.indices + readers[0].indices
        graph.nodes[graph.nodes.index(readers[0])] = replace(
            readers[0], operation=operation, inputs=(node.inputs[0], *readers[0].inputs[1:]), indices=indices
        )
        graph.nodes.remove(node)
        graph.changes.append(f"merged {node.name} into {readers[0].name} {list(indices)}")


def _with_padding(reader: Node, pad: Pad) -> Convolution | Depthwise | str:
    """The reader's operation with the padding merged, or why they cannot have it."""
    operation = reader.operation
    if not isinstance(operation, Convolution | Depthwise):
        return f"{reader.name} has no padding of its own"
    if len(pad.amounts) != 4 or pad.amounts[0] != (0, 0) or pad.amounts[3] != (0, 0):
        return "it pads batch or channels"
    if pad.mode == "symmetric" or pad.value != 0:
        return f"a convolution has no {pad.mode} padding with {pad.value}"
    window = operation.window
    if (pad.mode == "reflect" and window.padding != VALID) or window.extra != (0, 0, 0, 0):
        return "the convolution pads by itself"
    mode = "zero" if pad.mode == "constant" else "reflect"
    extra = (*pad.amounts[1], *pad.amounts[2])
    return replace(operation, window=replace(window, extra=extra, mode=mode))
