"""Writes a student as a TensorFlow Lite model of any size: float16 weights behind DEQUANTIZE, float32 biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from .student import Convolution, DepthToSpace, Layer, Logistic, Modulation

SIZE = 384
"""Height and width of the input in the file; ``resize_tensor_input`` changes them."""
Weights = Mapping[str, npt.NDArray[np.float32]]
"""Arrays by layer's number and name ("3.weight", "3.bias"); weights are PyTorch's (outputs, inputs, height, width)."""


def write_tflite(layers: Sequence[Layer], weights: Weights, description: str) -> bytes:
    """The model's file. Its one input is "picture", float32 (1, height, width, 3); its output is "result"."""
    graph = _Graph(weights)
    value = before = graph.tensor("picture", (1, SIZE, SIZE, 3), any_size=True)
    for number, layer in enumerate(layers):
        entered, value = value, graph.layer(str(number), layer, value, before)
        before = entered
    graph.tensors[value].name = b"result"
    return graph.pack(value, description)


class _Graph:
    """Collects the flatbuffer's objects."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.tensors: list[Any] = []
        self.operators: list[Any] = []
        self.codes: list[int] = []
        self.buffers: list[Any] = [schema.BufferT()]

    def tensor(
        self, name: str, shape: Sequence[int], values: npt.NDArray[Any] | None = None, *, any_size: bool = False
    ) -> int:
        tensor: Any = schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer = name.encode(), list(shape), 0
        tensor.type = schema.TensorType.FLOAT32
        if any_size:
            tensor.shapeSignature = [1, -1, -1, shape[3]]
        if values is not None:
            kinds = {"float16": schema.TensorType.FLOAT16, "int32": schema.TensorType.INT32}
            tensor.type = kinds.get(values.dtype.name, schema.TensorType.FLOAT32)
            buffer: Any = schema.BufferT()
            tensor.buffer, buffer.data = len(self.buffers), np.frombuffer(values.tobytes(), np.uint8)
            self.buffers.append(buffer)
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def operator(self, name: str, inputs: Sequence[int], shape: Sequence[int], **options: Any) -> int:
        """Add an operator; ``options`` are those of its options table, "table" is its name. Returns its output."""
        operator: Any = schema.OperatorT()
        code = getattr(schema.BuiltinOperator, name)
        if code not in self.codes:
            self.codes.append(code)
        operator.opcodeIndex, operator.inputs = self.codes.index(code), list(inputs)
        if table := options.pop("table", None):
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, table)
            operator.builtinOptions = getattr(schema, f"{table}T")()
            for option, value in options.items():
                setattr(operator.builtinOptions, option, value)
        output = self.tensor(f"{name.lower()}_{len(self.operators)}", shape, any_size=len(shape) == 4 and shape[1] > 1)
        operator.outputs = [output]
        self.operators.append(operator)
        return output

    def layer(self, name: str, layer: Layer, value: int, before: int) -> int:
        """Add a layer with the input ``value``; ``before`` is the input of the layer before. Returns its output."""
        _, height, width, channels = self.tensors[value].shape
        if isinstance(layer, Convolution):
            result = self.convolution(name, layer, value)
            return self.elementwise("ADD", result, before) if layer.skip else result
        if isinstance(layer, DepthToSpace):
            shape = (1, 2 * height, 2 * width, channels // 4)
            return self.operator("DEPTH_TO_SPACE", [value], shape, table="DepthToSpaceOptions", blockSize=2)
        if isinstance(layer, Logistic):
            return self.operator("LOGISTIC", [value], self.tensors[value].shape)
        return self.modulation(name, layer, value)

    def convolution(self, name: str, layer: Convolution, value: int) -> int:
        _, height, width, _ = self.tensors[value].shape
        stored = self.weights[f"{name}.weight"].transpose(0, 2, 3, 1).astype(np.float16)
        half = self.tensor(f"{name}.weight", stored.shape, stored)
        single = self.operator("DEQUANTIZE", [half], stored.shape, table="DequantizeOptions")
        self.tensors[single].shapeSignature = None
        bias = self.tensor(f"{name}.bias", (layer.outputs,), self.weights[f"{name}.bias"])
        relu = schema.ActivationFunctionType.RELU if layer.relu else schema.ActivationFunctionType.NONE
        return self.operator(
            "CONV_2D", [value, single, bias], (1, -(-height // layer.stride), -(-width // layer.stride), layer.outputs),
            table="Conv2DOptions", padding=schema.Padding.SAME, strideH=layer.stride, strideW=layer.stride,
            dilationHFactor=1, dilationWFactor=1, fusedActivationFunction=relu,
        )  # fmt: skip

    def modulation(self, name: str, layer: Modulation, value: int) -> int:
        n = layer.channels
        axes = self.tensor(f"{name}.axes", (2,), np.array([1, 2], np.int32))
        mean = self.operator("MEAN", [value, axes], (1, 1, 1, n), table="ReducerOptions", keepDims=True)
        hidden = self.convolution(f"{name}.hidden", Convolution(n, n, kernel=1), mean)
        scale = self.convolution(f"{name}.scale", Convolution(n, n, kernel=1, relu=False), hidden)
        shift = self.convolution(f"{name}.shift", Convolution(n, n, kernel=1, relu=False), hidden)
        return self.elementwise("ADD", self.elementwise("MUL", value, scale), shift)

    def elementwise(self, name: str, a: int, b: int) -> int:
        return self.operator(name, [a, b], self.tensors[a].shape, table=f"{name.capitalize()}Options")

    def pack(self, output: int, description: str) -> bytes:
        subgraph: Any = schema.SubGraphT()
        model: Any = schema.ModelT()
        subgraph.name, subgraph.tensors, subgraph.operators = b"main", self.tensors, self.operators
        subgraph.inputs, subgraph.outputs = [0], [output]
        model.version, model.description, model.buffers, model.subgraphs = 3, description, self.buffers, [subgraph]
        model.operatorCodes = []
        for number in self.codes:
            code: Any = schema.OperatorCodeT()
            code.builtinCode, code.deprecatedBuiltinCode, code.version = number, min(number, 127), 1
            model.operatorCodes.append(code)
        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())
