"""The pass that spares quantized models roundings: those of values that are rounded so already, and nodes of their own.

Converters put QUANTIZE and DEQUANTIZE around operators without an integer kernel, such as MIRROR_PAD. A value that was
rounded before such an operator is rounded after it.
"""

from __future__ import annotations

from dataclasses import replace

from ...kernels.operation import FusedOp
from ...kernels.ops.pointwise.elementwise import Elementwise
from ...kernels.ops.pointwise.quantize import rounding_op
from .graph import Graph, Node, redirect


def merge_rounding(graph: Graph) -> None:
    """Remove QUANTIZE nodes of values on the same steps, and let the node that computes others round what it writes."""
    steps = {i: rounding_op(graph.tensors[i]) for i in graph.inputs}
    number = 0
    while number < len(graph.nodes):
        node = graph.nodes[number]
        source, destination = node.inputs[0], node.outputs[0]
        steps[destination] = _steps(node, steps.get(source))
        alone = isinstance(node.operation, Elementwise) and [op.expression for op in node.epilogue] == ["QUANTIZE"]
        if alone and steps[destination] == steps.get(source) and destination not in graph.outputs:
            del graph.nodes[number]
            redirect(graph, destination, source)
            graph.changes.append(f"removed QUANTIZE {list(node.indices)}: its input is on the same steps")
        elif not (alone and _round_when_written(graph, number)):
            number += 1


def _round_when_written(graph: Graph, number: int) -> bool:
    """Let the node that computes what QUANTIZE node ``number`` reads round it, unless others read that; whether so."""
    node = graph.nodes[number]
    (source,) = node.inputs
    before = next((i for i, other in enumerate(graph.nodes) if other.outputs == (source,)), None)
    if before is None or source in graph.outputs or len(graph.consumers(source)) > 1:
        return False
    producer = graph.nodes[before]
    indices = producer.indices + node.indices
    graph.nodes[before] = replace(
        producer, outputs=node.outputs, epilogue=producer.epilogue + node.epilogue, indices=indices
    )
    del graph.nodes[number]
    graph.changes.append(f"linked QUANTIZE {list(node.indices)} to {producer.name} {list(producer.indices)}")
    return True


def _steps(node: Node, before: FusedOp | None) -> FusedOp | None:
    """The rounding after which the node's output would be the same; None where it has none."""
    if node.epilogue:
        return node.epilogue[-1] if node.epilogue[-1].expression == "QUANTIZE" else None
    return before if node.operation.keeps_steps() else None
