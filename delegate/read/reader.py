"""A ``.tflite`` file as plain records: subgraphs, tensors with their constants, operators with their option tables.

The bytes are not trusted: every fault in them becomes a ModelError that names the operator or tensor.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tflite

from ...interop.errors import ModelError
from ...kernels.tensor import TensorInfo
from .checks import check_calls, check_subgraph
from .model import OPTIONAL, Model, RawOperator, Subgraph
from .names import printable, safe_name
from .option_tables import read_options
from .quantization import read_quantization
from .sparse import dense
from .tables import fast

T = TypeVar("T")

IDENTIFIER = b"TFL3"
SCHEMA_VERSION = 3
MAX_RANK = 32

_DTYPE_NAMES = {code: name.lower() for name, code in vars(tflite.TensorType).items() if not name.startswith("_")}
_BUILTIN_NAMES = {code: name for name, code in vars(tflite.BuiltinOperator).items() if not name.startswith("_")}
_CUSTOM = tflite.BuiltinOperator.CUSTOM
_BUILTIN_CODE_FIELD = 10
"""The place of OperatorCode.builtin_code in its flatbuffer table."""

_NUMPY_NAMES = frozenset(
    "float16 float32 float64 bool complex64 complex128 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
)
"""Types whose constants are plain arrays; int4 becomes int8, and others (string, ...) are kept as their raw bytes."""

_DAMAGE = (struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError, KeyError, RecursionError)
"""Exceptions that flatbuffers and NumPy raise for damaged bytes."""


def read_file(path: str | bytes | os.PathLike[str]) -> bytes:
    """A model's bytes. Raises ModelError if the file cannot be read."""
    try:
        return Path(os.fsdecode(path)).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a null character
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"the model {_shown(path)} cannot be read: {reason}. Check the path") from error


def read_content(path: str | bytes | os.PathLike[str] | None, content: bytes | None) -> bytes | None:
    """A model's bytes, from a file or given directly. An empty path counts as none, as in LiteRT; with a path, empty
    content does.

    Raises ModelError if both or neither are given, or the file cannot be read.
    """
    if path and content:
        raise ModelError("give Interpreter model_path or model_content, not both")
    if not path and content is None:
        raise ModelError("give Interpreter a model: model_path or model_content")
    return read_file(path) if path else content


def read_model(content: bytes, path: str | bytes | os.PathLike[str] | None = None) -> Model:
    """Read a TensorFlow Lite flatbuffer. Constants are read-only views of ``content``, which they keep alive.

    ``path`` is the file that the bytes are from, for messages. Raises ModelError if the bytes are truncated, foreign
    or inconsistent.
    """
    try:
        return _read(content)
    except ModelError as error:
        if path is None:
            raise
        raise ModelError(f"{_shown(path)}: {error}") from error


def _shown(path: str | bytes | os.PathLike[str]) -> str:
    return printable(os.fsdecode(path))


def _read(content: bytes) -> Model:
    if len(content) < 8 or content[4:8] != IDENTIFIER:
        raise ModelError(
            f"this is no TensorFlow Lite model: {len(content)} bytes without the identifier {IDENTIFIER.decode()} at "
            "byte 4. Give the .tflite file itself (not a saved model, a checkpoint, an archive or a web page)"
        )
    model = _guarded("the model's header", lambda: fast(tflite.Model.GetRootAs(content, 0)))
    version = _guarded("the model's header", model.Version)
    if version != SCHEMA_VERSION:
        raise ModelError(f"the model has schema version {version}; only version {SCHEMA_VERSION} is known")
    reader = _Reader(content, model)
    count = reader.count("subgraphs", _guarded("the model's header", model.SubgraphsLength))
    if count == 0:
        raise ModelError("the model has no subgraph, so there is nothing to run")
    subgraphs = tuple(reader.subgraph(i) for i in range(count))
    check_calls(subgraphs)
    return Model(subgraphs, content, reader.signatures(subgraphs))


def _guarded(what: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except ModelError:
        raise
    except _DAMAGE as error:
        reason = f"{type(error).__name__}: {printable(str(error))}"
        raise ModelError(f"{what} cannot be read ({reason}): the file is truncated or damaged; get it again") from error


class _Reader:
    """Holds the bytes and the root table while they are read."""

    def __init__(self, content: bytes, model: tflite.Model) -> None:
        self._content = content
        self._model = model
        self._buffers = self.count("buffers", _guarded("the buffers", model.BuffersLength))
        self._codes = self._operator_codes()

    def count(self, what: str, number: int) -> int:
        """A vector's length, checked against the file: four bytes an element at least, so no loop outlasts the file."""
        if number * 4 > len(self._content):
            raise ModelError(f"the model claims {number} {what}, more than its {len(self._content)} bytes can hold")
        return number

    def subgraph(self, index: int) -> Subgraph:
        where = f"subgraph {index}"
        table = self._item(where, self._model.Subgraphs, index)
        name = _guarded(where, lambda: safe_name(table.Name()))
        tensors = tuple(self._tensors(where, table))
        operators = tuple(self._operators(where, table, len(tensors)))
        inputs, outputs = (
            self._indices(f"{where}: its {kind}", read, len(tensors), optional=False)
            for kind, read in (("inputs", table.InputsAsNumpy), ("outputs", table.OutputsAsNumpy))
        )
        subgraph = Subgraph(name, tensors, operators, inputs, outputs)
        check_subgraph(where, subgraph)
        return subgraph

    def signatures(self, subgraphs: Sequence[Subgraph]) -> frozenset[int]:
        """Check the table of signatures, which LiteRT itself reads: names, subgraphs and tensors.

        Returns the numbers of the subgraphs.
        """
        numbers: set[int] = set()
        for i in range(self.count("signatures", _guarded("the signatures", self._model.SignatureDefsLength))):
            where = f"signature {i}"
            table = self._item(where, self._model.SignatureDefs, i)
            _guarded(where, lambda t=table: (t.SignatureKey() or b"").decode())
            number = _guarded(where, table.SubgraphIndex)
            if number >= len(subgraphs):
                raise ModelError(f"{where} names subgraph {number}, but there are {len(subgraphs)} subgraphs")
            numbers.add(number)
            for length, get in ((table.InputsLength, table.Inputs), (table.OutputsLength, table.Outputs)):
                for j in range(self.count(f"tensors in {where}", _guarded(where, length))):
                    self._signature_tensor(
                        f"{where}, tensor {j}", self._item(f"{where}, tensor {j}", get, j), subgraphs[number]
                    )
        return frozenset(numbers)

    def _signature_tensor(self, where: str, table: tflite.TensorMap, subgraph: Subgraph) -> None:
        _guarded(where, lambda: (table.Name() or b"").decode())
        index = _guarded(where, table.TensorIndex)
        if index >= len(subgraph.tensors):
            raise ModelError(f"{where} names tensor {index}, but there are {len(subgraph.tensors)} tensors")

    def _item(self, where: str, get: Callable[[int], T | None], index: int) -> T:
        item = _guarded(where, lambda: get(index))
        if item is None:
            raise ModelError(f"{where} is missing from the file")
        return _guarded(where, lambda: fast(item))

    def _operator_codes(self) -> list[tuple[int, str, int]]:
        """(code, name, version) of each entry of the model's table of operator codes."""
        codes = []
        length = self.count("operator codes", _guarded("the operator codes", self._model.OperatorCodesLength))
        for i in range(length):
            where = f"operator code {i}"
            table = self._item(where, self._model.OperatorCodes, i)

            def read(table: Any = table) -> tuple[int, str, int]:
                code = max(table.DeprecatedBuiltinCode(), _builtin_code(table))  # LiteRT's rule
                builtin = _BUILTIN_NAMES.get(code, f"BUILTIN_{code}")
                name = safe_name(table.CustomCode()) if code == _CUSTOM else builtin
                return code, name, table.Version()

            codes.append(_guarded(where, read))
        return codes

    def _tensors(self, where: str, table: tflite.SubGraph) -> Iterator[TensorInfo]:
        for i in range(self.count(f"tensors in {where}", _guarded(where, table.TensorsLength))):
            tensor = self._item(f"{where}, tensor {i}", table.Tensors, i)
            name = _guarded(f"{where}, tensor {i}", lambda t=tensor: safe_name(t.Name()))
            label = f"{where}, tensor {i} '{name}'"
            yield _guarded(label, lambda t=tensor, label=label, name=name: self._tensor(label, name, t))

    def _tensor(self, label: str, name: str, tensor: tflite.Tensor) -> TensorInfo:
        shape = _ints(tensor.ShapeAsNumpy())
        if len(shape) > MAX_RANK or any(size < 0 for size in shape):
            raise ModelError(f"{label} has the impossible shape {list(shape[:MAX_RANK])}")
        dtype = _DTYPE_NAMES.get(tensor.Type())
        if dtype is None:
            raise ModelError(f"{label} has the unknown type number {tensor.Type()}: the model is too new")
        sparse = tensor.Sparsity()
        constant = self._constant(label, tensor.Buffer(), shape, dtype, sparse)
        return TensorInfo(
            name=name,
            shape=shape,
            # A dtype that DENSIFY alone accepts: LiteRT does not have this tensor as an array of its shape.
            dtype=dtype if sparse is None else f"sparse {dtype}",
            constant=constant,
            quantization=read_quantization(label, tensor.Quantization(), shape, dtype, constant=constant is not None),
            variable=bool(tensor.IsVariable()),
        )

    def _constant(
        self, label: str, index: int, shape: tuple[int, ...], dtype: str, sparse: tflite.SparsityParameters | None
    ) -> np.ndarray | None:
        if index == 0:  # buffer 0 is always empty: a tensor that is computed
            return None
        if index >= self._buffers:
            raise ModelError(f"{label} has its values in buffer {index}, but the file has {self._buffers} buffers")
        data = self._data(label, index)
        if data is None:
            return None
        if dtype == "int4" and sparse is None:
            return _unpacked(label, data, shape)
        if dtype not in _NUMPY_NAMES:
            return data
        if sparse is not None:
            return self._dense(label, data, shape, dtype, sparse)
        needed = math.prod(shape) * np.dtype(dtype).itemsize
        if data.nbytes != needed:
            raise ModelError(
                f"{label}: shape {list(shape)} of type {dtype} takes {needed} bytes, but its buffer has {data.nbytes}"
            )
        return data.view(dtype).reshape(shape)

    @staticmethod
    def _dense(
        label: str, data: np.ndarray, shape: tuple[int, ...], dtype: str, table: tflite.SparsityParameters
    ) -> np.ndarray:
        try:
            return dense(data.view(dtype), shape, table)
        except _DAMAGE as error:
            raise ModelError(f"{label} is sparse, and its values cannot be placed: {error}") from error

    def _data(self, label: str, index: int) -> np.ndarray | None:
        """A buffer's bytes, read-only, from inside the flatbuffer or (in large models) from after it; None if empty."""
        buffer = self._item(f"{label}, buffer {index}", self._model.Buffers, index)
        offset, size = buffer.Offset(), buffer.Size()
        if offset > 1:  # 0 and 1 mean: not outside
            if offset + size > len(self._content):
                raise ModelError(f"{label}: its values at bytes {offset} to {offset + size} lie outside the file")
            return np.frombuffer(self._content, np.uint8, size, offset)
        data = _array(buffer.DataAsNumpy())
        data.flags.writeable = False
        return data if data.size else None

    def _operators(self, where: str, table: tflite.SubGraph, tensors: int) -> Iterator[RawOperator]:
        for i in range(self.count(f"operators in {where}", _guarded(where, table.OperatorsLength))):
            operator = self._item(f"{where}, operator {i}", table.Operators, i)
            code_index = _guarded(f"{where}, operator {i}", operator.OpcodeIndex)
            if code_index >= len(self._codes):
                raise ModelError(f"{where}, operator {i} has code number {code_index} of {len(self._codes)}")
            code, name, version = self._codes[code_index]
            label = f"{where}, operator {i} {name}"
            yield RawOperator(
                index=i,
                name=name,
                version=version,
                custom=code == _CUSTOM,
                options=_guarded(
                    f"{label}: its options",
                    lambda o=operator, name=name, code=code: read_options(o, name, custom=code == _CUSTOM),
                ),
                inputs=self._indices(f"{label}: its inputs", operator.InputsAsNumpy, tensors, optional=True),
                outputs=self._indices(f"{label}: its outputs", operator.OutputsAsNumpy, tensors, optional=False),
                code=code,
            )

    def _indices(self, where: str, read: Callable[[], Any], tensors: int, *, optional: bool) -> tuple[int, ...]:
        indices = _ints(_guarded(where, read))
        for index in indices:
            if not (0 <= index < tensors or (optional and index == OPTIONAL)):
                raise ModelError(f"{where} name tensor {index}, but there are {tensors} tensors")
        return indices


def _builtin_code(table: tflite.OperatorCode) -> int:
    """The raw field builtin_code.

    tflite's BuiltinCode() returns the older field instead if this one is below 127, so that files that leave out the
    older field are misread.
    """
    position = table._tab.Offset(_BUILTIN_CODE_FIELD)
    return struct.unpack_from("<i", table._tab.Bytes, table._tab.Pos + position)[0] if position else 0


def _array(vector: Any) -> np.ndarray:
    """A vector of a flatbuffer; tflite returns 0 if the file has none."""
    return vector if isinstance(vector, np.ndarray) else np.empty(0, np.uint8)


def _unpacked(label: str, data: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The int8 values of int4 ones, of which a byte holds two, the first in its lower half."""
    count = math.prod(shape)
    if data.nbytes != -(-count // 2):
        raise ModelError(
            f"{label}: shape {list(shape)} of type int4 takes {-(-count // 2)} bytes, but its buffer has {data.nbytes}"
        )
    both = np.stack([data << 4, data], -1).view(np.int8) >> 4
    values = both.reshape(-1)[:count].reshape(shape)
    values.flags.writeable = False
    return values


def _ints(vector: Any) -> tuple[int, ...]:
    return tuple(_array(vector).tolist())
