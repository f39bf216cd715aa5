"""Files with builtin operators that LiteRT's interpreter does not have, as files that it takes.

LiteRT refuses a file that names such an operator ("Didn't find op for builtin opcode"), before any delegate sees it. A
custom operator that it does not know is left to a delegate. So these operators get the code of a custom operator, whose
name is their own. The reader takes that for the builtin operator again.
"""

from __future__ import annotations

import struct

import tflite

from ...kernels.registry import OPERATORS
from . import tables
from .tables import entries, entry, fast

NAMES = frozenset(name for name, row in OPERATORS.items() if row.only_gpu)
_CODES = {getattr(tflite.BuiltinOperator, name): name for name in NAMES}


def with_custom_codes(content: bytes) -> bytes:
    """The model's bytes, changed if it has such operators. Damaged bytes are returned as they are.

    The tables of codes are written again at the end of the file, because the offsets of a flatbuffer point forwards.
    """
    try:
        model = fast(tflite.Model.GetRootAs(content, 0))
        found = [
            (position, _CODES[table.BuiltinCode()], table.Version())
            for position in entries(model, tables.MODEL_CODES)[: len(content) // 4]
            if (table := entry(tflite.OperatorCode, content, position)).BuiltinCode() in _CODES
        ]
    except (struct.error, IndexError, ValueError, TypeError, OverflowError):
        return content  # the reader says what is wrong
    if not found:
        return content
    data = bytearray(content)
    for position, name, version in found:
        data += bytes(-len(data) % 4)
        struct.pack_into("<I", data, position, len(data) + len(_FIELDS) - position)
        data += _code_table(name, version)
    return bytes(data)


_FIELDS = struct.pack("<HHHHHH", 12, 20, 16, 4, 8, 12)
"""The list of the places of an OperatorCode's fields: old code, name, version, code."""


def _code_table(name: str, version: int) -> bytes:
    """An OperatorCode of a custom operator, after the list of its fields, and its name."""
    custom = tflite.BuiltinOperator.CUSTOM
    # The name begins 16 bytes after the field that points to it.
    table = struct.pack("<iIiib3x", len(_FIELDS), 16, version, custom, custom)
    return _FIELDS + table + struct.pack("<I", len(name)) + name.encode() + b"\0"
