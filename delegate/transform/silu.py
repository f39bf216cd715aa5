"""The pass that makes one operation of x * LOGISTIC(x), the activation function SiLU (also called swish).

https://arxiv.org/abs/1702.03118. Exporters write it as two operators. Both read x, so that neither could be fused into
the node that computes x. In a quantized model the LOGISTIC is rounded to its own steps, and so it is here.
"""

from __future__ import annotations

from ...kernels.operation import FusedOp
from ...kernels.ops.pointwise.elementwise import Elementwise
from .graph import Graph, Node

_LOGISTIC = FusedOp("LOGISTIC")


def fuse_silu(graph: Graph) -> None:
    """Replace each product of a tensor and its LOGISTIC, if nothing else reads the LOGISTIC."""
    for node in graph.forwards():
        if not isinstance(node.operation, Elementwise) or not node.epilogue or node.input_ops:
            continue
        (product, *rest), other = node.epilogue, node.epilogue[0].operand
        if product.expression != "MUL" or other is None or node.integers or any(op.operand is not None for op in rest):
            continue
        for value, gate in ((node.inputs[0], other), (other, node.inputs[0])):
            logistic = graph.producer(gate)
            silu = None if logistic is None else _silu(logistic, value)
            if logistic is not None and silu is not None and graph.sole_reader(gate) is node:
                graph.substitute({logistic, node}, node, inputs=(value,), epilogue=(silu, *rest))
                break


def _silu(node: Node, value: int) -> FusedOp | None:
    """The operation for a node that computes the LOGISTIC of ``value``, which may be rounded; None for another."""
    if not isinstance(node.operation, Elementwise) or node.input_ops or node.inputs != (value,):
        return None
    if node.epilogue == (_LOGISTIC,):
        return FusedOp("SILU")
    rounded = len(node.epilogue) == 2 and node.epilogue[0] == _LOGISTIC and node.epilogue[1].expression == "QUANTIZE"
    return FusedOp("SILU_OF_STEPS", values=node.epilogue[1].values) if rounded else None
