"""The size of a picture by its file's header: a file of some kilobytes may claim more than the memory holds.

Decoders make room for all pixels before they find out that the file has none.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO

_PNG, _TIFF = b"\x89PNG\r\n\x1a\n", {b"II*\0": "<", b"MM\0*": ">", b"II+\0": "<", b"MM\0+": ">"}
_GIF = (b"GIF87a", b"GIF89a")
_SIZES, _WIDTHS, _HEIGHTS = {1: "B", 3: "H", 4: "I", 16: "Q"}, (256, 322), (257, 323)
"""TIFF's types of numbers, and its tags of widths and heights: those of the picture and of a tile."""
_MOST_TAGS, _MOST_SEGMENTS = 4096, 4096
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG's markers of frames, which have a size (SOF)."""
_ALONE, _END = frozenset((0x01, *range(0xD0, 0xD9))), 0xD9
"""JPEG's markers without a segment, and that of the end."""


def claimed_size(file: BinaryIO) -> tuple[int, int] | None:
    """The width and height that a file of PNG, JPEG, BMP, GIF, WebP or TIFF claims to have, in pixels.

    The format is told by the content. None if it is another one, or the header is damaged.
    """
    head = file.read(32)
    try:
        if head.startswith(_PNG):
            return struct.unpack(">II", head[16:24])
        if head.startswith(b"\xff\xd8"):
            return _jpeg_size(file)
        if head.startswith(b"BM"):
            return _bmp_size(head)
        if head.startswith(_GIF):
            return struct.unpack("<HH", head[6:10])
        if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
            return _webp_size(head)
        if head[:4] in _TIFF:
            return _tiff_size(file, _TIFF[head[:4]], is_big=b"+" in head[2:4])
    except (struct.error, ValueError, OverflowError):  # it ends too early, or leads beyond any file
        pass
    return None


def _jpeg_size(file: BinaryIO) -> tuple[int, int] | None:
    """The size in the first frame's header, behind any number of segments."""
    file.seek(2)
    for _ in range(_MOST_SEGMENTS):
        beginning = file.read(2)
        while len(beginning) == 2 and beginning[1] == 0xFF:  # markers may have any number of these before them
            beginning = beginning[1:] + file.read(1)
        (marker,) = struct.unpack("xB", beginning)
        if beginning[0] != 0xFF or marker == _END:
            return None
        if marker in _ALONE:
            continue
        (length,) = struct.unpack(">H", file.read(2))
        if marker in _FRAMES:
            height, width = struct.unpack(">xHH", file.read(5))
            return width, height
        file.seek(max(length, 2) - 2, os.SEEK_CUR)
    return None


def _bmp_size(head: bytes) -> tuple[int, int]:
    (header,) = struct.unpack("<I", head[14:18])
    width, height = struct.unpack("<HH", head[18:22]) if header == 12 else struct.unpack("<ii", head[18:26])
    return abs(width), abs(height)  # a negative height: from the top down


def _webp_size(head: bytes) -> tuple[int, int] | None:
    kind = head[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", head[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        (bits,) = struct.unpack("<I", head[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X" and len(head) >= 30:
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    return None


def _tiff_size(file: BinaryIO, order: str, *, is_big: bool) -> tuple[int, int] | None:
    """The size in the first directory: of the picture, or of its tiles if these are larger."""
    widths, heights = [0], [0]
    for tag, value in _tiff_numbers(file, order, is_big=is_big):
        if tag in _WIDTHS:
            widths.append(value)
        elif tag in _HEIGHTS:
            heights.append(value)
    return max(widths), max(heights)


def _tiff_numbers(file: BinaryIO, order: str, *, is_big: bool) -> Iterator[tuple[int, int]]:
    """The tags in the first directory and the first number of each. ``is_big``: with addresses of 64 bits."""
    start, count, tag_bytes = ("Q", "Q", 20) if is_big else ("I", "H", 12)
    file.seek(8 if is_big else 4)
    file.seek(_read(file, order + start))
    for _ in range(min(_read(file, order + count), _MOST_TAGS)):
        entry = file.read(tag_bytes)
        tag, kind = struct.unpack(order + "HH", entry[:4])
        if kind in _SIZES:
            (value,) = struct.unpack_from(order + _SIZES[kind], entry, 12 if is_big else 8)
            yield tag, value


def _read(file: BinaryIO, kind: str) -> int:
    """The next number of a file. Raises struct.error at its end."""
    return struct.unpack(kind, file.read(struct.calcsize(kind)))[0]
