"""The pass that computes nodes of constants: tables that a model moves, gathers and scales are ready before it runs.

Exporters spell a resized table of positions, or the indices of a grid, by dozens of operators. LiteRT computes them in
every run.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...kernels.ops.indexing.gather_nd import GatherNd
from ...kernels.ops.movement.concat import Concatenation
from ...kernels.ops.movement.reshape import ExpandDimensions, Reshape, Squeeze
from ...kernels.ops.movement.strided_copy import Rearrangement
from ...kernels.ops.pointwise.elementwise import Elementwise
from ...kernels.ops.pointwise.logic import Select
from .graph import Graph, Node

MOST_VALUES = 1 << 20
"""The largest result that is kept as a constant: a model of a few bytes may ask for any number of values."""
MOST_TOGETHER = 1 << 25
"""The most values of all results together."""
ARITHMETIC: dict[str, np.ufunc] = {"ADD": np.add, "MUL": np.multiply, "SUB": np.subtract}
"""The expressions that are computed: the results of a device and of NumPy are equal."""
Array = npt.NDArray[Any]


def fold_constants(graph: Graph) -> None:
    """Make the results of nodes that read only constants constants themselves."""
    left = MOST_TOGETHER
    for node in graph.forwards():
        result = node.outputs[0]
        info = graph.tensors[result]
        count = math.prod(info.shape)
        if result in graph.outputs or len(node.outputs) > 1 or count > min(MOST_VALUES, left):
            continue
        values = _values(graph, node)
        if values is not None:
            left -= count
            graph.remove(node, "its values are constants")
            graph.tensors[result] = replace(info, constant=values.reshape(info.shape))


def _values(graph: Graph, node: Node) -> Array | None:
    """The values of a node's output; None if they are not computed here."""
    inputs = [_plain(graph, tensor) for tensor in node.inputs]
    known = [value for value in inputs if value is not None]
    if not known or len(known) < len(inputs):
        return None
    values = _of_operation(node, known)
    for op in node.epilogue:
        operand = None if op.operand is None else _plain(graph, op.operand)
        if values is None or operand is None or op.expression not in ARITHMETIC or values.dtype != operand.dtype:
            return None
        first, second = (operand, values) if op.swapped else (values, operand)
        values = np.asarray(ARITHMETIC[op.expression](first, second))
    return values


def _plain(graph: Graph, tensor: int) -> Array | None:
    """The values of a constant that stand for themselves."""
    info = graph.tensors[tensor]
    return None if info.quantization is not None or info.dtype == "complex64" else info.constant


def _of_operation(node: Node, inputs: list[Array]) -> Array | None:
    operation, source = node.operation, inputs[0]
    if isinstance(operation, Reshape | Squeeze | ExpandDimensions | Elementwise):
        return source
    if isinstance(operation, Concatenation):
        return np.concatenate(inputs, operation.axis)
    if isinstance(operation, Rearrangement):
        digits, base = operation.order(source.shape)
        places = np.array(base)
        for size, stride in digits:
            places = places[..., None] + np.arange(size) * stride
        return source.reshape(-1)[places].reshape(operation.output_shapes([source.shape])[0])
    if isinstance(operation, Select) and not operation.rows:
        return np.where(inputs[0] != 0, *inputs[1:])
    if isinstance(operation, GatherNd):
        last = np.array(source.shape[: operation.depth]) - 1
        return source[tuple(np.moveaxis(np.clip(inputs[1], 0, last), -1, 0))]
    return None
