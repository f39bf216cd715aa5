"""The pass that removes roundings from quantized models: repeated ones, and those by separate nodes.

Converters put QUANTIZE and DEQUANTIZE around operators without an integer kernel, such as MIRROR_PAD. A value that was
rounded before such an operator is rounded after it.
"""

from __future__ import annotations

from ....kernels.operation import FusedOp
from ....kernels.ops.pointwise.elementwise import Elementwise
from ....kernels.ops.pointwise.quantize import rounding_op
from ..graph import Graph, Node


def merge_rounding(graph: Graph) -> None:
    """Remove QUANTIZE nodes of values that are already rounded, and let the nodes that compute the others round their
    output.
    """
    rounding = {tensor: rounding_op(graph.tensors[tensor]) for tensor in graph.inputs}
    """By tensor, a rounding that does not change its values."""
    for node in graph.forwards():
        source, destination = node.inputs[0], node.outputs[0]
        rounding[destination] = _rounding(node, rounding.get(source))
        if not isinstance(node.operation, Elementwise) or [op.expression for op in node.epilogue] != ["QUANTIZE"]:
            continue
        producer = graph.producer(source)
        if rounding[destination] == rounding.get(source) and destination not in graph.outputs:
            graph.remove(node, "its input is rounded so already")
            graph.redirect(destination, source)
        elif producer is not None and producer.outputs == (source,) and graph.sole_reader(source) is node:
            epilogue = producer.epilogue + node.epilogue
            graph.substitute({producer, node}, producer, at=producer, outputs=node.outputs, epilogue=epilogue)


def _rounding(node: Node, before: FusedOp | None) -> FusedOp | None:
    """A rounding that does not change the node's output; None if there is none."""
    if node.epilogue:
        return node.epilogue[-1] if node.epilogue[-1].expression == "QUANTIZE" else None
    return before if node.operation.keeps_steps() else None
