"""The first subgraph of a model as tensors and operators of the writer, to become a part of another model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from ai_edge_litert import schema_py_generated as schema

import framebind as fb

from .tflite_writer import DTYPES, Op, T

_NAMES = {number: name for name, number in vars(schema.BuiltinOperator).items() if not name.startswith("_")}


class Embedded(NamedTuple):
    """A model's tensors and operators, which name tensors by number, and the numbers of its inputs and outputs."""

    tensors: list[T]
    operators: list[Op]
    inputs: list[int]
    outputs: list[int]


def input_side(content: bytes) -> int:
    """The height of the picture that a model's first input takes, which its reader has checked."""
    graph: Any = schema.Model.GetRootAs(content, 0).Subgraphs(0)
    return int(graph.Tensors(graph.Inputs(0)).Shape(1))


def embedded(content: bytes, batch: int = 1) -> Embedded:
    """A model that its reader has checked. All that is computed from its inputs, of batch 1, gets ``batch``.

    Raises ModelError if its tensors or operators are none that the writer has.
    """
    model: Any = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    graph = model.subgraphs[0]
    tensors = [_tensor(model, tensor) for tensor in graph.tensors]
    operators = [_operator(model, operator) for operator in graph.operators]
    inputs, outputs = [*map(int, graph.inputs)], [*map(int, graph.outputs)]
    if batch > 1:
        _enlarge(tensors, operators, inputs, batch)
    return Embedded(tensors, operators, inputs, outputs)


def _enlarge(tensors: Sequence[T], operators: Sequence[Op], inputs: Sequence[int], batch: int) -> None:
    computed = {*inputs}
    for operator in operators:
        if computed.intersection(operator.inputs):
            computed.update(operator.outputs)
            if operator.name == "RESHAPE" and len(operator.inputs) > 1:
                target = tensors[operator.inputs[1]]
                sizes = np.frombuffer(target.raw or b"", np.int32).copy()
                if len(sizes) and sizes[0] == 1:
                    sizes[0] = batch
                    target.raw = sizes.tobytes()
    for number in computed:
        first, *others = tensors[number].shape
        tensors[number].shape = (batch if first == 1 else first, *others)


def _tensor(model: Any, tensor: Any) -> T:
    if tensor.type not in DTYPES:
        raise fb.ModelError(f"a network has a tensor of type {tensor.type}, which cannot be joined to other networks")
    quantization: Any = tensor.quantization or schema.QuantizationParametersT()
    scales = () if quantization.scale is None else quantization.scale
    data = model.buffers[tensor.buffer].data
    return T(
        "", [] if tensor.shape is None else [int(side) for side in tensor.shape], dtype=DTYPES[tensor.type],
        variable=tensor.isVariable, raw=None if data is None or not len(data) else bytes(data),
        scales=scales, zero_points=quantization.zeroPoint if len(scales) else (),
        axis=quantization.quantizedDimension if len(scales) else 0, sparsity=tensor.sparsity,
    )  # fmt: skip


def _operator(model: Any, operator: Any) -> Op:
    code = model.operatorCodes[operator.opcodeIndex]
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    if number not in _NAMES:
        raise fb.ModelError(f"a network has the operator {number}, which cannot be joined to other networks")
    is_custom = number == schema.BuiltinOperator.CUSTOM
    options: Any = operator.builtinOptions or operator.builtinOptions2
    if is_custom:
        options = bytes(operator.customOptions) if operator.customOptions is not None else b""
    return Op(
        code.customCode.decode() if is_custom else _NAMES[number], [*map(int, operator.inputs)],
        [*map(int, operator.outputs)], options, code.version,
    )  # fmt: skip
