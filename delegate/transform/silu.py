"""The pass that makes one operation of x * LOGISTIC(x), the activation function SiLU (also called swish).

https://arxiv.org/abs/1702.03118. Exporters write it as two operators. Both read x, so that neither could be fused into
the node that computes x.
"""

from __future__ import annotations

from ...kernels.operation import FusedOp
from ...kernels.ops.pointwise.elementwise import Elementwise
from .graph import Graph, Node

_LOGISTIC = (FusedOp("LOGISTIC"),)


def fuse_silu(graph: Graph) -> None:
    """Replace each product of a tensor and its LOGISTIC, if nothing else reads the LOGISTIC."""
    for node in graph.forwards():
        if not isinstance(node.operation, Elementwise) or len(node.epilogue) != 1 or node.input_ops:
            continue
        other = node.epilogue[0].operand
        if node.epilogue[0].expression != "MUL" or other is None or node.integers:
            continue
        for value, gate in ((node.inputs[0], other), (other, node.inputs[0])):
            logistic = graph.producer(gate)
            if logistic is not None and _is_logistic(logistic, value) and graph.sole_reader(gate) is node:
                graph.substitute({logistic, node}, node, inputs=(value,), epilogue=(FusedOp("SILU"),))
                break


def _is_logistic(node: Node, value: int) -> bool:
    fused = node.epilogue == _LOGISTIC and not node.input_ops
    return isinstance(node.operation, Elementwise) and fused and node.inputs == (value,)
