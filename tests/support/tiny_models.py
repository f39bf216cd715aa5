"""Builds small TensorFlow Lite models, sound or broken on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

CPU_ONLY = "LOCAL_RESPONSE_NORMALIZATION"
"""A float operator of rank 4 that LiteRT has and the GPU does not; ``cpu_only`` is what it computes in these models."""


def cpu_only(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """x divided by the root of 1 + the squares of it and of its neighbouring channels."""
    squares = np.pad(np.square(x), [(0, 0)] * 3 + [(1, 1)])
    return x / np.sqrt(1 + squares[..., :-2] + squares[..., 1:-1] + squares[..., 2:])


def _cpu_only_options() -> Any:
    table = schema.LocalResponseNormalizationOptionsT()
    table.radius, table.bias, table.alpha, table.beta = 1, 1.0, 1.0, 0.5
    return table


_TYPES = {
    "float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7, "int8": 9, "resource": 13
}  # fmt: skip


@dataclass
class T:
    """A tensor; ``values`` make it a constant. ``buffer`` and ``raw`` override the buffer's number and bytes."""

    name: str
    shape: Sequence[int]
    values: Any = None
    dtype: str = "float32"
    variable: bool = False
    buffer: int | None = None
    raw: bytes | None = None
    scales: Sequence[float] = ()
    zero_points: Sequence[int] = ()
    axis: int = 0
    signature: Sequence[int] | None = None
    sparsity: Any = None
    """A schema SparsityParametersT; ``raw`` has the values that are stored then."""


@dataclass
class Op:
    """An operator by TFLite name; an unknown name is a custom operator. ``options`` is a schema object, or bytes."""

    name: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: Any = None
    version: int = 1


@dataclass
class G:
    """A subgraph."""

    tensors: Sequence[T]
    operators: Sequence[Op]
    inputs: Sequence[int]
    outputs: Sequence[int]
    name: str = "main"
    signature: str = ""
    """Its signature's key; the names of inputs and outputs are those of the tensors."""


@dataclass
class _Builder:
    buffers: list[Any] = field(default_factory=lambda: [_buffer(b"")])
    codes: list[Any] = field(default_factory=list)
    code_numbers: dict[tuple[str, int], int] = field(default_factory=dict)

    def code(self, name: str, version: int) -> int:
        if (name, version) not in self.code_numbers:
            code = schema.OperatorCodeT()
            number = getattr(schema.BuiltinOperator, name, None)
            code.builtinCode = schema.BuiltinOperator.CUSTOM if number is None else number
            code.deprecatedBuiltinCode = min(code.builtinCode, 127)
            code.customCode = name if number is None else None
            code.version = version
            self.code_numbers[name, version] = len(self.codes)
            self.codes.append(code)
        return self.code_numbers[name, version]

    def tensor(self, given: T) -> Any:
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type = given.name, list(given.shape), _TYPES[given.dtype]
        tensor.isVariable = given.variable
        tensor.shapeSignature, tensor.sparsity = given.signature, given.sparsity
        tensor.quantization = _quantization(given) if given.scales else None
        data = given.raw
        if given.values is not None:
            data = np.broadcast_to(np.asarray(given.values, given.dtype), tuple(given.shape)).tobytes()
        if data is not None:
            tensor.buffer = len(self.buffers)
            self.buffers.append(_buffer(data))
        if given.buffer is not None:
            tensor.buffer = given.buffer
        return tensor

    def operator(self, given: Op) -> Any:
        operator = schema.OperatorT()
        operator.opcodeIndex = self.code(given.name, given.version)
        operator.inputs, operator.outputs = list(given.inputs), list(given.outputs)
        options = _cpu_only_options() if given.name == CPU_ONLY else given.options
        if isinstance(options, bytes):
            operator.customOptions = list(options)
        elif options is not None:
            operator.builtinOptions = options
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__.removesuffix("T"))
        return operator

    def subgraph(self, given: G) -> Any:
        subgraph = schema.SubGraphT()
        subgraph.name = given.name
        subgraph.tensors = [self.tensor(tensor) for tensor in given.tensors]
        subgraph.operators = [self.operator(operator) for operator in given.operators]
        subgraph.inputs, subgraph.outputs = list(given.inputs), list(given.outputs)
        return subgraph


def _buffer(data: bytes) -> Any:
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(data, np.uint8) if data else None
    return buffer


def _quantization(given: T) -> Any:
    quantization = schema.QuantizationParametersT()
    quantization.scale = np.array(given.scales, np.float32)
    quantization.zeroPoint = np.array(given.zero_points, np.int64)
    quantization.quantizedDimension = given.axis
    return quantization


def _signature(index: int, given: G) -> Any:
    def named(indices: Sequence[int]) -> list[Any]:
        maps = []
        for tensor in indices:
            entry = schema.TensorMapT()
            entry.name, entry.tensorIndex = given.tensors[tensor].name, tensor
            maps.append(entry)
        return maps

    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = given.signature, index
    signature.inputs, signature.outputs = named(given.inputs), named(given.outputs)
    return signature


def build(*subgraphs: G, version: int = 3) -> bytes:
    """The model's bytes."""
    builder = _Builder()
    model = schema.ModelT()
    model.version = version
    model.subgraphs = [builder.subgraph(subgraph) for subgraph in subgraphs]
    model.buffers, model.operatorCodes = builder.buffers, builder.codes
    model.signatureDefs = [_signature(i, subgraph) for i, subgraph in enumerate(subgraphs) if subgraph.signature]
    flat = flatbuffers.Builder(1024)
    flat.Finish(model.Pack(flat), b"TFL3")
    return bytes(flat.Output())


def chain(*names: str, shape: Sequence[int] = (1, 4, 5, 3), signature: str = "") -> bytes:
    """Unary operators in a row: tensor 0 is the input, tensor i the result of the i-th, the last one the output."""
    tensors = [T("x" if i == 0 else f"t{i}", shape) for i in range(len(names) + 1)]
    operators = [Op(name, [i], [i + 1]) for i, name in enumerate(names)]
    return build(G(tensors, operators, [0], [len(names)], signature=signature))


def constants(*outputs: npt.NDArray[np.float32], side: int = 8) -> bytes:
    """A picture (1, side, side, 3) in, ``outputs`` out, whatever it shows: its mean times 0, and the values added."""
    options = schema.ReducerOptionsT()
    options.keepDims = True
    tensors = [
        T("picture", (1, side, side, 3)), T("axes", (3,), [1, 2, 3], "int32"), T("mean", (1, 1, 1, 1)),
        T("zero", (1,), [0.0]), T("nothing", (1, 1, 1, 1)),
    ]  # fmt: skip
    operators = [Op("MEAN", [0, 1], [2], options), Op("MUL", [2, 3], [4], schema.MulOptionsT())]
    results: list[int] = []
    for values in outputs:
        number, flat = len(tensors), (1, 1, 1, values.size)
        tensors += [T(f"values {number}", flat, values.reshape(flat)), T(f"sum {number}", flat),
                    T(f"shape {number}", (values.ndim,), values.shape, "int32"),
                    T(f"output {number}", values.shape)]  # fmt: skip
        operators.append(Op("ADD", [4, number], [number + 1], schema.AddOptionsT()))
        operators.append(Op("RESHAPE", [number + 1, number + 2], [number + 3], schema.ReshapeOptionsT()))
        results.append(number + 3)
    return build(G(tensors, operators, [0], results))
