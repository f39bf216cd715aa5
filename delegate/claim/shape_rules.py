"""Shapes of an operator's outputs, from those of its inputs, whether or not the GPU runs the operator; and the tensors
from whose shapes all others follow.

The rule is the operation's own ``output_shapes``. Shapes do not depend on types, so an operator with unsupported types
is parsed with supported types.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from ...kernels.operation import TfliteNode, TfliteOp
from ...kernels.tensor import INDEX_DTYPES, INTEGER_DTYPES, TensorInfo
from ..read.model import Subgraph

Shape = tuple[int, ...]
"""A TFLite shape, of any rank."""


def rule_shapes(row: TfliteOp, node: TfliteNode) -> list[Shape] | None:
    """The shapes of the outputs; None if they do not follow from the inputs' shapes and constants."""
    for for_first, for_others, for_outputs in _TYPES:
        inputs = [
            None if tensor is None else (for_others if place else for_first)(tensor)
            for place, tensor in enumerate(node.inputs)
        ]
        try:
            outputs = [for_outputs(tensor) for tensor in node.outputs]
            parsed = row.parse(replace(node, inputs=inputs, outputs=outputs))
            operands = (*parsed.inputs, *(op.operand for op in parsed.epilogue if op.operand is not None))
            given = [node.inputs[place] for place in operands]
            return parsed.operation.output_shapes([tensor.shape for tensor in given if tensor is not None])
        except Exception:  # the next types; a damaged option table raises with all of them
            continue
    return None


def _movable(tensor: TensorInfo) -> TensorInfo:
    """The tensor with a type whose values every operator moves, and integers as they are."""
    dtype = tensor.dtype if tensor.dtype in INTEGER_DTYPES or tensor.dtype == "complex64" else "float32"
    return replace(tensor, dtype=dtype, exact_in_f32=True, quantization=None, stored_dtype="")


def _float(tensor: TensorInfo) -> TensorInfo:
    return replace(tensor, dtype="float32", quantization=None, stored_dtype="")


def _index(tensor: TensorInfo) -> TensorInfo:
    """The tensor as it is if it can be axes or sizes, else as a float."""
    return tensor if tensor.constant is not None and tensor.dtype in INDEX_DTYPES else _float(tensor)


_As = Callable[[TensorInfo], TensorInfo]
_TYPES: tuple[tuple[_As, _As, _As], ...] = (
    (_movable, _movable, _movable),
    (_float, _float, _float),
    (_float, _index, _float),
    (_float, _index, _movable),
    (_movable, _float, _float),
)
"""Types to try for the first input, the others and the outputs: of moves, arithmetic, reductions, ARG_MAX and ONE_HOT.
"""


def shape_sources(subgraph: Subgraph, operators: Sequence[int], on_gpu: Collection[int]) -> tuple[int, ...]:
    """The tensors whose shapes determine the shapes of all tensors of these ``operators``, and the values of SHAPE.

    They are inputs of the subgraph, variables, and outputs of operators that are not ``on_gpu``.
    """
    producers = {tensor: operator for operator in subgraph.operators for tensor in operator.outputs}
    computed = {tensor for index in on_gpu for tensor in subgraph.operators[index].outputs}
    found: set[int] = set()
    seen: set[int] = set()
    waiting = [tensor for index in operators for tensor in subgraph.operators[index].inputs]
    while waiting:
        tensor = waiting.pop()
        if tensor < 0 or tensor in seen or subgraph.tensors[tensor].constant is not None:
            continue
        seen.add(tensor)
        if tensor not in computed:
            found.add(tensor)
        if tensor in producers:
            waiting.extend(producers[tensor].inputs)
    return tuple(sorted(found))
