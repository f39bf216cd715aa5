"""Writer of TensorFlow Lite models from a few tensors and operators, sound or broken on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

_TYPES = {
    "float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7, "complex64": 8,
    "int8": 9, "resource": 13, "int4": 17,
}  # fmt: skip
DTYPES = {number: name for name, number in _TYPES.items()}
"""Types of tensors by their numbers in a file."""


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
    """The key of the subgraph's signature, "" for none; the names of inputs and outputs are those of the tensors."""


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
        tensor: Any = schema.TensorT()
        tensor.name, tensor.shape, tensor.type = given.name, list(given.shape), _TYPES[given.dtype]
        tensor.isVariable = given.variable
        tensor.shapeSignature, tensor.sparsity = given.signature, given.sparsity
        tensor.quantization = _quantization(given) if given.scales else None
        data = given.raw
        if given.values is not None:
            data = _bytes(given.values, given.dtype, tuple(given.shape))
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
        if isinstance(given.options, bytes):
            operator.customOptions = list(given.options)
        elif given.options is not None:
            name = type(given.options).__name__.removesuffix("T")
            if hasattr(schema.BuiltinOptions, name):
                operator.builtinOptions = given.options
                operator.builtinOptionsType = getattr(schema.BuiltinOptions, name)
            else:
                operator.builtinOptions2 = given.options
                operator.builtinOptions2Type = getattr(schema.BuiltinOptions2, name)
        return operator

    def subgraph(self, given: G) -> Any:
        subgraph = schema.SubGraphT()
        subgraph.name = given.name
        subgraph.tensors = [self.tensor(tensor) for tensor in given.tensors]
        subgraph.operators = [self.operator(operator) for operator in given.operators]
        subgraph.inputs, subgraph.outputs = list(given.inputs), list(given.outputs)
        return subgraph


def _bytes(values: Any, dtype: str, shape: tuple[int, ...]) -> bytes:
    """The values of a constant as a file has them: two int4 lie in a byte, the first in its lower half."""
    array = np.broadcast_to(np.asarray(values, "int8" if dtype == "int4" else dtype), shape)
    if dtype != "int4":
        return array.tobytes()
    halves = np.append(array.reshape(-1), np.zeros(array.size % 2, np.int8)).view(np.uint8) & 15
    return (halves[0::2] | halves[1::2] << 4).tobytes()


def _buffer(data: bytes) -> Any:
    buffer: Any = schema.BufferT()
    buffer.data = np.frombuffer(data, np.uint8) if data else None
    return buffer


def _quantization(given: T) -> Any:
    quantization: Any = schema.QuantizationParametersT()
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
