"""Types of computed tensors as LiteRT infers them. Its kernels do not believe the file: most of them give their outputs
a type, or refuse another one; some write values of one type into a tensor of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...kernels.operation import TfliteNode, TfliteOp
from ...kernels.registry import OPERATORS
from ...kernels.tensor import TensorInfo
from .model import RawOperator, Subgraph


def mistyped_outputs(subgraph: Subgraph) -> Iterator[tuple[RawOperator, TfliteOp, int, str]]:
    """The outputs that are declared with another type than their operators compute: the operator, its row, the tensor
    and the computed type. Operators without a row count as right.
    """
    tensors = dict(enumerate(subgraph.tensors))
    for raw in subgraph.operators:
        row = OPERATORS.get(raw.name)
        if row is None or row.custom != raw.custom:
            continue
        for tensor, computed in computed_types(row, raw, tensors).items():
            yield raw, row, tensor, computed
            if not row.keeps_declared_type:
                tensors[tensor] = replace(tensors[tensor], dtype=computed)


def computed_types(row: TfliteOp, raw: RawOperator, tensors: Mapping[int, TensorInfo]) -> dict[int, str]:
    """The outputs of one operator that are declared with another type than it computes, and that type."""
    inputs = [tensors[i] if i >= 0 else None for i in raw.inputs]
    outputs = [tensors[i] for i in raw.outputs]
    types = row.result_types(TfliteNode(raw.options, inputs, outputs))
    return {
        i: computed for i, output, computed in zip(raw.outputs, outputs, types, strict=True) if computed != output.dtype
    }
