"""Messages of Protocol Buffers, as bundles have them: their fields, bounded and checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def fields(content: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: (number, value), an integer or bytes. ValueError or IndexError if it is damaged."""
    at = 0
    while at < len(content):
        key, at = _integer(content, at)
        kind = key & 7
        if kind == 0:
            value, at = _integer(content, at)
        else:
            if kind == 2:
                length, at = _integer(content, at)
            elif kind in (1, 5):
                length = 8 if kind == 1 else 4
            else:
                raise ValueError(f"wire type {kind}")
            if at + length > len(content):
                raise ValueError("a field is cut off")
            value, at = content[at : at + length], at + length
        yield key >> 3, value


def _integer(content: bytes, at: int) -> tuple[int, int]:
    """A variable-length integer, and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("an integer has more than ten bytes")
