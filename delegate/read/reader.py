"""A ``.tflite`` file as plain records: subgraphs, tensors with their constants, operators with their option tables.

The bytes are not trusted: every fault in them becomes a ModelError that names the operator or tensor.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import tflite

from ...interop.errors import ModelError
from ...kernels.tensor import TensorInfo
from . import gpu_only, tables
from .bodies import with_bodies
from .checks import check_calls, check_subgraph
from .model import NUMPY_TYPES, OPTIONAL, Model, RawOperator, Subgraph
from .names import printable, safe_name
from .option_tables import read_options
from .quantization import read_quantization
from .sparse import dense
from .tables import child, entries, entry, fast, numbers, vector

P = ParamSpec("P")
T = TypeVar("T")

IDENTIFIER = b"TFL3"
SCHEMA_VERSION = 3
MAX_RANK = 32

_DTYPE_NAMES = {code: name.lower() for name, code in vars(tflite.TensorType).items() if not name.startswith("_")}
_BUILTIN_NAMES = {code: name for name, code in vars(tflite.BuiltinOperator).items() if not name.startswith("_")}
_CUSTOM = tflite.BuiltinOperator.CUSTOM


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
    content does. Builtin operators that LiteRT refuses are custom ones in these bytes: see gpu_only.py.

    Raises ModelError if both or neither are given, or the file cannot be read.
    """
    if path and content:
        raise ModelError("give Interpreter model_path or model_content, not both")
    if not path and content is None:
        raise ModelError("give Interpreter a model: model_path or model_content")
    found = read_file(path) if path else content
    return gpu_only.with_custom_codes(found) if isinstance(found, bytes) else found


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
    reader = _Reader(content)
    subgraphs = reader.called(tuple(reader.subgraphs()))
    if not subgraphs:
        raise ModelError("the model has no subgraph, so there is nothing to run")
    return Model(subgraphs, content, reader.signatures(subgraphs), reader.signature_names)


class _Place:
    """The part of the file that is being read, as text for errors. Only an error makes the text."""

    def __init__(self) -> None:
        self.set("the model's header")

    def set(self, text: str, *values: object) -> None:
        """Go on to the part that ``text`` names, in which each {} stands for a value."""
        self._text, self._values = text, values

    def __str__(self) -> str:
        return self._text.format(*self._values)


class _Reader:
    """Holds the bytes and the root table while they are read."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._place = _Place()
        self.signature_names: dict[tuple[str, str], int] = {}
        """The tensors of subgraph 0 by side and name in its signatures, once ``signatures`` was called."""
        self._guarded(self._read_header)

    def _guarded(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``read``. If the bytes are damaged, the ModelError names the part of the file that it came to."""
        try:
            return read(*args, **kwargs)
        except ModelError:
            raise
        except _DAMAGE as error:
            raise ModelError(
                f"{self._place} cannot be read ({type(error).__name__}: {printable(str(error))}): the file is "
                "truncated or damaged; get it again"
            ) from error

    def _read_header(self) -> None:
        self._model = fast(tflite.Model.GetRootAs(self._content, 0))
        version = self._model.Version()
        if version != SCHEMA_VERSION:
            raise ModelError(f"the model has schema version {version}; only version {SCHEMA_VERSION} is known")
        self._place.set("the buffers")
        self._buffers = self._entries("buffers", self._model, tables.MODEL_BUFFERS)
        self._place.set("the operator codes")
        self._codes = list(self._operator_codes())

    def _entries(self, what: str, table: Any, field: int) -> range:
        """The positions of the entries of a vector of tables; see ``entries``. No loop over them outlasts the file."""
        found = entries(table, field)
        if 4 * len(found) > len(self._content):
            raise ModelError(f"the model claims {len(found)} {what}, more than its {len(self._content)} bytes can hold")
        return found

    def _operator_codes(self) -> Iterator[tuple[int, str, int]]:
        """(code, name, version) of each entry of the model's table of operator codes."""
        for i, position in enumerate(self._entries("operator codes", self._model, tables.MODEL_CODES)):
            self._place.set("operator code {}", i)
            table = entry(tflite.OperatorCode, self._content, position)
            code = max(table.DeprecatedBuiltinCode(), _builtin_code(table))  # LiteRT's rule
            builtin = _BUILTIN_NAMES.get(code, f"BUILTIN_{code}")
            yield code, safe_name(table.CustomCode()) if code == _CUSTOM else builtin, table.Version()

    def subgraphs(self) -> Iterator[Subgraph]:
        """Each subgraph of the file, checked."""
        self._place.set("the model's header")
        positions = self._guarded(self._entries, "subgraphs", self._model, tables.MODEL_SUBGRAPHS)
        for i, position in enumerate(positions):
            subgraph = self._guarded(self._subgraph, f"subgraph {i}", position)
            check_subgraph(f"subgraph {i}", subgraph)
            yield subgraph

    def called(self, subgraphs: tuple[Subgraph, ...]) -> tuple[Subgraph, ...]:
        """The subgraphs, after a check of those that operators run; each operator with a body has its name."""
        self._place.set("the numbers of the subgraphs that operators run")
        self._guarded(check_calls, subgraphs)
        return self._guarded(with_bodies, subgraphs)

    def _subgraph(self, where: str, position: int) -> Subgraph:
        self._place.set(where)
        table = entry(tflite.SubGraph, self._content, position)
        name = safe_name(table.Name())
        tensors = list(self._tensors(where, table))
        operators = tuple(self._operators(where, table, len(tensors)))
        self._place.set("{}: its inputs", where)
        inputs = self._indices(table, tables.SUBGRAPH_INPUTS, len(tensors))
        self._place.set("{}: its outputs", where)
        outputs = self._indices(table, tables.SUBGRAPH_OUTPUTS, len(tensors))
        for i in {i for i, tensor in enumerate(tensors) if 0 in tensor.shape} - {*inputs, *_computed(operators)}:
            tensors[i] = _empty_constant(tensors[i])
        return Subgraph(name, tuple(tensors), operators, inputs, outputs)

    def signatures(self, subgraphs: Sequence[Subgraph]) -> frozenset[int]:
        """Check the table of signatures, which LiteRT itself reads: names, subgraphs and tensors.

        Returns the numbers of the subgraphs.
        """
        self._place.set("the signatures")
        return self._guarded(lambda: frozenset(self._signatures(subgraphs)))

    def _signatures(self, subgraphs: Sequence[Subgraph]) -> Iterator[int]:
        for i, position in enumerate(self._entries("signatures", self._model, tables.MODEL_SIGNATURES)):
            where = f"signature {i}"
            self._place.set(where)
            table = entry(tflite.SignatureDef, self._content, position)
            (table.SignatureKey() or b"").decode()
            number = table.SubgraphIndex()
            if number >= len(subgraphs):
                raise ModelError(f"{where} names subgraph {number}, but there are {len(subgraphs)} subgraphs")
            for side, field in (("input", tables.SIGNATURE_INPUTS), ("output", tables.SIGNATURE_OUTPUTS)):
                self._place.set(where)
                for j, inner in enumerate(self._entries(f"tensors in {where}", table, field)):
                    self._place.set("{}, tensor {}", where, j)
                    name, tensor = self._signature_tensor(inner, len(subgraphs[number].tensors))
                    if number == 0:
                        self.signature_names.setdefault((side, name), tensor)
            yield number

    def _signature_tensor(self, position: int, tensors: int) -> tuple[str, int]:
        """A name in a signature, and the number of its tensor."""
        table = entry(tflite.TensorMap, self._content, position)
        name, tensor = (table.Name() or b"").decode(), int(table.TensorIndex())
        if tensor >= tensors:
            raise ModelError(f"{self._place} names tensor {tensor}, but there are {tensors} tensors")
        return name, tensor

    def _tensors(self, where: str, table: tflite.SubGraph) -> Iterator[TensorInfo]:
        for i, position in enumerate(self._entries(f"tensors in {where}", table, tables.SUBGRAPH_TENSORS)):
            self._place.set("{}, tensor {}", where, i)
            tensor = entry(tflite.Tensor, self._content, position)
            name = safe_name(tensor.Name())
            self._place.set("{}, tensor {} '{}'", where, i, name)
            yield self._tensor(name, tensor)

    def _tensor(self, name: str, tensor: tflite.Tensor) -> TensorInfo:
        shape = numbers(tensor, tables.TENSOR_SHAPE, "i")
        if len(shape) > MAX_RANK or (shape and min(shape) < 0):
            raise ModelError(f"{self._place} has the impossible shape {list(shape[:MAX_RANK])}")
        dtype = _DTYPE_NAMES.get(tensor.Type())
        if dtype is None:
            raise ModelError(f"{self._place} has the unknown type number {tensor.Type()}: the model is too new")
        sparse = child(tflite.SparsityParameters, tensor, tables.TENSOR_SPARSITY)
        constant = self._constant(tensor.Buffer(), shape, dtype, sparse)
        table = child(tflite.QuantizationParameters, tensor, tables.TENSOR_QUANTIZATION)
        return TensorInfo(
            name=name,
            shape=shape,
            # A dtype that DENSIFY alone accepts: LiteRT does not have this tensor as an array of its shape.
            dtype=dtype if sparse is None else f"sparse {dtype}",
            constant=constant,
            quantization=read_quantization(self._place, table, shape, dtype, constant=constant is not None),
            variable=tensor.IsVariable(),
        )

    def _constant(
        self, index: int, shape: tuple[int, ...], dtype: str, sparse: tflite.SparsityParameters | None
    ) -> np.ndarray | None:
        if index == 0:  # buffer 0 is always empty: a tensor that is computed
            return None
        if index >= len(self._buffers):
            raise ModelError(
                f"{self._place} has its values in buffer {index}, but the file has {len(self._buffers)} buffers"
            )
        data = self._data(index)
        if data is None:
            return None
        if dtype == "int4" and sparse is None:
            return _unpacked(self._place, data, shape)
        kind = NUMPY_TYPES.get(dtype)
        if kind is None:
            return data
        if sparse is not None:
            return _densified(self._place, data, kind, shape, sparse)
        needed = math.prod(shape) * kind.itemsize
        if data.nbytes != needed:
            raise ModelError(
                f"{self._place}: shape {list(shape)} of type {dtype} takes {needed} bytes, but its buffer has "
                f"{data.nbytes}"
            )
        return data.view(kind).reshape(shape)

    def _data(self, index: int) -> np.ndarray | None:
        """A buffer's bytes, read-only, from inside the flatbuffer or (in large models) from after it; None if empty."""
        buffer = entry(tflite.Buffer, self._content, self._buffers[index])
        offset, size = buffer.Offset(), buffer.Size()
        if offset > 1:  # 0 and 1 mean: not outside
            if offset + size > len(self._content):
                raise ModelError(f"{self._place}: its values at bytes {offset} to {offset + size} lie outside the file")
            return np.frombuffer(self._content, np.uint8, size, offset)
        begin, size = vector(buffer, tables.BUFFER_DATA)
        return np.frombuffer(self._content, np.uint8, size, begin) if size else None

    def _operators(self, where: str, table: tflite.SubGraph, tensors: int) -> Iterator[RawOperator]:
        place = self._place
        place.set(where)
        for i, position in enumerate(self._entries(f"operators in {where}", table, tables.SUBGRAPH_OPERATORS)):
            place.set("{}, operator {}", where, i)
            operator = entry(tflite.Operator, self._content, position)
            code_index = operator.OpcodeIndex()
            if code_index >= len(self._codes):
                raise ModelError(f"{place} has code number {code_index} of {len(self._codes)}")
            code, name, version = self._codes[code_index]
            custom = code == _CUSTOM and name not in gpu_only.NAMES
            place.set("{}, operator {} {}: its options", where, i, name)
            options = read_options(operator, name, custom=custom)
            place.set("{}, operator {} {}: its inputs", where, i, name)
            inputs = self._indices(operator, tables.OPERATOR_INPUTS, tensors, OPTIONAL)
            place.set("{}, operator {} {}: its outputs", where, i, name)
            outputs = self._indices(operator, tables.OPERATOR_OUTPUTS, tensors)
            composite = _composite_name(options) if name == "STABLEHLO_COMPOSITE" and not custom else ""
            yield RawOperator(i, name, version, custom, options, inputs, outputs, code, composite=composite)

    def _indices(self, table: Any, field: int, tensors: int, least: int = 0) -> tuple[int, ...]:
        """A vector of numbers of tensors. ``least`` is OPTIONAL if they may be left out."""
        indices = numbers(table, field, "i")
        for index in indices:
            if not least <= index < tensors:
                raise ModelError(f"{self._place} name tensor {index}, but there are {tensors} tensors")
        return indices


def _computed(operators: Sequence[RawOperator]) -> Iterator[int]:
    return (tensor for operator in operators for tensor in operator.outputs)


def _composite_name(options: Any) -> str:
    """The name in a composite's option table; "" without one."""
    return safe_name(options.Name()) if options is not None else ""


def _empty_constant(tensor: TensorInfo) -> TensorInfo:
    """An empty tensor that nothing computes, as a constant. The file has no values for it, as for a computed one."""
    kind = NUMPY_TYPES.get(tensor.dtype)
    if tensor.constant is not None or tensor.variable or kind is None:
        return tensor
    return replace(tensor, constant=np.empty(tensor.shape, kind))


def _builtin_code(table: tflite.OperatorCode) -> int:
    """The raw field builtin_code.

    tflite's BuiltinCode() returns the older field instead if this one is below 127, so that files that leave out the
    older field are misread.
    """
    position = table._tab.Offset(tables.CODE_BUILTIN)
    return struct.unpack_from("<i", table._tab.Bytes, table._tab.Pos + position)[0] if position else 0


def _densified(
    label: object, data: np.ndarray, kind: np.dtype[Any], shape: tuple[int, ...], table: tflite.SparsityParameters
) -> np.ndarray:
    try:
        return dense(data.view(kind), shape, table)
    except _DAMAGE as error:
        raise ModelError(f"{label} is sparse, and its values cannot be placed: {error}") from error


def _unpacked(label: object, data: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
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
