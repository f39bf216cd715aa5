"""Tiny models of tests: chains, constants, and an operator that stays on the CPU."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from framebind.video import tflite_writer
from framebind.video.tflite_writer import G, Op, T

CPU_ONLY = "L2_POOL_2D"
"""A float operator of rank 4 that LiteRT has and the GPU does not; ``cpu_only`` is what it computes in these models."""


def cpu_only(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The root of the mean of the squares of each pixel and of its neighbour on the right, if it has one."""
    squares = np.square(x)
    right = np.concatenate([squares[:, :, 1:], squares[:, :, -1:]], axis=2)
    return np.sqrt((squares + right) / 2)


def _cpu_only_options() -> Any:
    table = schema.Pool2DOptionsT()
    table.padding, table.strideH, table.strideW, table.filterHeight, table.filterWidth = 0, 1, 1, 1, 2
    return table


def build(*subgraphs: G, version: int = 3) -> bytes:
    """The model's bytes. Operators named CPU_ONLY get their options."""

    def complete(operator: Op) -> Op:
        return replace(operator, options=_cpu_only_options()) if operator.name == CPU_ONLY else operator

    completed = [replace(graph, operators=[complete(operator) for operator in graph.operators]) for graph in subgraphs]
    return tflite_writer.build(*completed, version=version)


def unpack(content: bytes) -> Any:
    """A model as a schema ModelT, to be changed and packed again."""
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))


def pack(model: Any) -> bytes:
    """The bytes of a schema ModelT."""
    flat = flatbuffers.Builder(1024)
    flat.Finish(model.Pack(flat), b"TFL3")
    return bytes(flat.Output())


def named(content: bytes, name: bytes) -> bytes:
    """The model with this name for every tensor, subgraph and custom operator."""
    model = unpack(content)
    for code in model.operatorCodes or ():
        code.customCode = code.customCode and name
    for subgraph in model.subgraphs:
        subgraph.name = name
        for tensor in subgraph.tensors:
            tensor.name = name
    return pack(model)


def channels_first(content: bytes) -> bytes:
    """The model with a TRANSPOSE behind each input and before each output of rank 4, as PyTorch's exports are."""
    model = unpack(content)
    graph, data = model.subgraphs[0], [schema.BufferT() for _ in range(2)]
    code: Any = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.TRANSPOSE
    model.operatorCodes.append(code)
    permutations = list[int]()
    for buffer, order in zip(data, ((0, 2, 3, 1), (0, 3, 1, 2)), strict=True):
        buffer.data = np.array(order, np.int32).view(np.uint8)
        model.buffers.append(buffer)
        constant: Any = schema.TensorT()
        constant.name, constant.shape, constant.type = f"order {order}", [4], schema.TensorType.INT32
        constant.buffer = len(model.buffers) - 1
        graph.tensors.append(constant)
        permutations.append(len(graph.tensors) - 1)

    def transposed(tensor: int, *, is_input: bool) -> int:
        inside = graph.tensors[tensor]
        if len(inside.shape) != 4:
            return tensor
        outside, operator = copy.copy(inside), schema.OperatorT()
        outside.shape = [inside.shape[axis] for axis in (0, 3, 1, 2)]
        outside.shapeSignature, inside.name = None, f"{inside.name!r}, channels last".encode()
        graph.tensors.append(outside)
        number = len(graph.tensors) - 1
        operator.opcodeIndex = len(model.operatorCodes) - 1
        ends = (number, tensor) if is_input else (tensor, number)
        operator.inputs, operator.outputs = [ends[0], permutations[not is_input]], [ends[1]]
        graph.operators.insert(0 if is_input else len(graph.operators), operator)
        return number

    graph.inputs = [transposed(int(each), is_input=True) for each in graph.inputs]
    graph.outputs = [transposed(int(each), is_input=False) for each in graph.outputs]
    return pack(model)


def chain(*names: str, shape: Sequence[int] = (1, 4, 5, 3), signature: str = "") -> bytes:
    """Unary operators in a row: tensor 0 is the input, tensor i the result of the i-th, the last one the output."""
    tensors = [T("x" if i == 0 else f"t{i}", shape) for i in range(len(names) + 1)]
    softmax: Any = schema.SoftmaxOptionsT()
    softmax.beta = 1.0
    given = {"SOFTMAX": softmax}  # the others need no options
    operators = [Op(name, [i], [i + 1], given.get(name)) for i, name in enumerate(names)]
    return build(G(tensors, operators, [0], [len(names)], signature=signature))


def constants(*outputs: npt.NDArray[np.float32], side: int = 8, names: Sequence[str] = (), gain: float = 0.0) -> bytes:
    """A picture (1, side, side, 3) in, ``outputs`` out: these values, and to each ``gain`` times the mean.

    ``names`` are those of the outputs; "output" and a number if there are none.
    """
    options = schema.ReducerOptionsT()
    options.keepDims = True
    tensors = [
        T("picture", (1, side, side, 3)), T("axes", (3,), [1, 2, 3], "int32"), T("mean", (1, 1, 1, 1)),
        T("gain", (1,), [gain]), T("nothing", (1, 1, 1, 1)),
    ]  # fmt: skip
    operators = [Op("MEAN", [0, 1], [2], options), Op("MUL", [2, 3], [4], schema.MulOptionsT())]
    results: list[int] = []
    for values, name in itertools.zip_longest(outputs, names):
        number, flat = len(tensors), (1, 1, 1, values.size)
        tensors += [T(f"values {number}", flat, values.reshape(flat)), T(f"sum {number}", flat),
                    T(f"shape {number}", (values.ndim,), values.shape, "int32"),
                    T(name or f"output {number}", values.shape)]  # fmt: skip
        operators.append(Op("ADD", [4, number], [number + 1], schema.AddOptionsT()))
        operators.append(Op("RESHAPE", [number + 1, number + 2], [number + 3], schema.ReshapeOptionsT()))
        results.append(number + 3)
    return build(G(tensors, operators, [0], results))
