"""Tables of a flatbuffer, read in a fraction of the time that flatbuffers' own class takes: a model has thousands."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from flatbuffers.table import Table

T = TypeVar("T")

# Fields that are read by number, by table: the first of a table in schema.fbs has 4, the next 6, and so on.
MODEL_CODES, MODEL_SUBGRAPHS, MODEL_BUFFERS, MODEL_METADATA, MODEL_SIGNATURES = 6, 8, 12, 16, 18
SUBGRAPH_TENSORS, SUBGRAPH_INPUTS, SUBGRAPH_OUTPUTS, SUBGRAPH_OPERATORS = 4, 6, 8, 10
OPERATOR_INPUTS, OPERATOR_OUTPUTS, OPERATOR_OPTIONS, OPERATOR_CUSTOM_OPTIONS, OPERATOR_OPTIONS_2 = 6, 8, 12, 14, 28
CODE_BUILTIN = 10
TENSOR_SHAPE, TENSOR_QUANTIZATION, TENSOR_SPARSITY = 4, 12, 16
QUANTIZATION_SCALES, QUANTIZATION_ZERO_POINTS = 8, 10
BUFFER_DATA = 4
SIGNATURE_INPUTS, SIGNATURE_OUTPUTS = 4, 6

_INT32, _UINT16, _UINT32 = struct.Struct("<i"), struct.Struct("<H"), struct.Struct("<I")
_LENGTH_BYTES = 4
"""Bytes before a vector or a text that hold its length."""
_ENTRY_BYTES = 4
"""Bytes of the offset to a table."""


@lru_cache(64)
def _shorts(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}H")


class FastTable(Table):
    """Implements flatbuffers' Table. It reads the places of the fields once, and numbers without checks of their type.

    Damaged bytes raise struct.error, as there.
    """

    __slots__ = ("_places",)

    def __init__(self, content: bytes, position: int) -> None:
        self.Bytes, self.Pos = content, position
        places = position - _INT32.unpack_from(content, position)[0]
        if places < 0:
            raise struct.error(f"the list of fields of the table at byte {position} begins before the file")
        size = _UINT16.unpack_from(content, places)[0]
        self._places: tuple[int, ...] = _shorts((size + 1) // 2).unpack_from(content, places)

    def Offset(self, vtableOffset: int) -> int:  # noqa: N802, N803 - flatbuffers' names
        """The place of a field in the table; 0 if it is not there. The number of the first field is 4, then 6, 8 ..."""
        index = vtableOffset >> 1
        return self._places[index] if index < len(self._places) else 0

    def Indirect(self, off: int) -> int:  # noqa: N802
        """The position to which the offset at a position leads."""
        return off + _UINT32.unpack_from(self.Bytes, off)[0]

    def String(self, off: int) -> bytes:  # noqa: N802
        """The text to which the offset at a position leads."""
        begin = off + _UINT32.unpack_from(self.Bytes, off)[0]
        length = _UINT32.unpack_from(self.Bytes, begin)[0]
        return bytes(self.Bytes[begin + _LENGTH_BYTES : begin + _LENGTH_BYTES + length])

    def VectorLen(self, off: int) -> int:  # noqa: N802
        """The number of elements of the vector in a field."""
        off += self.Pos
        return _UINT32.unpack_from(self.Bytes, off + _UINT32.unpack_from(self.Bytes, off)[0])[0]

    def Vector(self, off: int) -> int:  # noqa: N802
        """The position of the first element of the vector in a field."""
        off += self.Pos
        return off + _UINT32.unpack_from(self.Bytes, off)[0] + _LENGTH_BYTES

    def Get(self, flags: Any, off: int) -> Any:  # noqa: N802
        """The number at a position, of the type that ``flags`` stands for."""
        return flags.packer_type.unpack_from(self.Bytes, off)[0]


def fast(table: T) -> T:
    """Read a table of tflite's fast from now on. Returns the same object. Raises struct.error if it is damaged."""
    unchecked: Any = table
    unchecked._tab = FastTable(unchecked._tab.Bytes, unchecked._tab.Pos)
    return table


def entry(kind: Callable[[], T], content: bytes, position: int) -> T:
    """The table, of one of tflite's classes, to which the offset at a position leads."""
    table: Any = kind()
    table._tab = FastTable(content, position + _UINT32.unpack_from(content, position)[0])
    return table


def child(kind: Callable[[], T], table: Any, field: int) -> T | None:
    """The table, of one of tflite's classes, in a field of another; None if it is not there."""
    place = table._tab.Offset(field)
    return entry(kind, table._tab.Bytes, table._tab.Pos + place) if place else None


def entries(table: Any, field: int) -> range:
    """The positions of the offsets, for ``entry``, of all tables of the vector in a field."""
    begin, count = vector(table, field)
    return range(begin, begin + count * _ENTRY_BYTES, _ENTRY_BYTES)


def vector(table: Any, field: int) -> tuple[int, int]:
    """The position of the first element of the vector in a field, and their number; zeros if there is none."""
    place = table._tab.Offset(field)
    if not place:
        return 0, 0
    place += table._tab.Pos
    begin = place + _UINT32.unpack_from(table._tab.Bytes, place)[0]
    return begin + _LENGTH_BYTES, _UINT32.unpack_from(table._tab.Bytes, begin)[0]


def numbers(table: Any, field: int, kind: str) -> tuple[Any, ...]:
    """The numbers of the vector in a field, of a kind that is a letter of struct's; with "s" one value, its bytes."""
    begin, count = vector(table, field)
    return struct.unpack_from(f"<{count}{kind}", table._tab.Bytes, begin)
