"""Passes that merge PAD into the operator that reads it."""

from __future__ import annotations

from dataclasses import replace

from ...kernels.ops.convolution.conv import Convolution
from ...kernels.ops.convolution.depthwise import Depthwise
from ...kernels.ops.convolution.grouped_conv import GroupedConvolution
from ...kernels.ops.movement.pad import Pad
from ...kernels.ops.pointwise.elementwise import Elementwise
from ...kernels.ops.window import VALID
from .graph import Graph, Node


def read_padding_as_zeros(graph: Graph) -> None:
    """Drop pads of channels that are only added to a tensor: epilogues read zeros after an operand's last slice."""
    for node in graph.forwards():
        if not isinstance(node.operation, Pad) or node.epilogue:
            continue
        pad, padded, source = node.operation, node.outputs[0], node.inputs[0]
        behind = pad.amounts[-1][0] == 0 and not any(sum(pair) for pair in pad.amounts[:-1])
        if not behind or pad.mode != "constant" or pad.value != 0 or graph.tensors[source].bhwc[3] == 1:
            continue
        reader = graph.sole_reader(padded)
        if reader is None or not isinstance(reader.operation, Elementwise) or not reader.epilogue:
            continue
        addition = reader.epilogue[0]
        other = addition.operand if reader.inputs[0] == padded else reader.inputs[0]
        if addition.expression != "ADD" or padded not in (reader.inputs[0], addition.operand) or other is None:
            continue
        if graph.tensors[other].bhwc != graph.tensors[padded].bhwc:
            continue
        epilogue = (replace(addition, operand=source), *reader.epilogue[1:])
        graph.substitute({node, reader}, reader, inputs=(other,), epilogue=epilogue)


def merge_padding(graph: Graph) -> None:
    """Move zero and reflecting padding of height and width into the only convolution that reads it."""
    for node in graph.forwards():
        if not isinstance(node.operation, Pad) or node.epilogue or node.outputs[0] in graph.outputs:
            continue
        reader = graph.sole_reader(node.outputs[0])
        if reader is None or reader.inputs[:1] != node.outputs:
            graph.keep(node, "not exactly one reader")
            continue
        merged = _with_padding(reader, node.operation)
        if isinstance(merged, str):
            graph.keep(node, merged)
            continue
        inputs = (node.inputs[0], *reader.inputs[1:])
        graph.substitute({node, reader}, reader, operation=merged, inputs=inputs)


def _with_padding(reader: Node, pad: Pad) -> Convolution | Depthwise | GroupedConvolution | str:
    """The reader's operation with the padding merged, or the reason why they cannot be merged."""
    operation = reader.operation
    if not isinstance(operation, Convolution | Depthwise | GroupedConvolution):
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
