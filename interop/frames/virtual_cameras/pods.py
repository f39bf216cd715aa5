"""PipeWire's parameters as bytes ("SPA PODs"): what a stream offers, and the format that was chosen of it.

Source: PipeWire's page "SPA POD", and the headers spa/utils/type.h and spa/param/*.h. A POD is the size of its body,
its type and the body, padded to 8 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

_ID, _INT, _LONG, _RECTANGLE, _FRACTION, _OBJECT, _CHOICE = 3, 4, 5, 10, 11, 15, 19
_FORMAT, _BUFFERS, _META = 0x40003, 0x40004, 0x40005
"""Types of objects."""
PARAM_ENUM_FORMAT, PARAM_FORMAT, _PARAM_BUFFERS, _PARAM_META = 3, 4, 5, 6
_RANGE, _ENUM, _FLAGS = 1, 3, 4
"""Kinds of choices: the default, the least and the most value; the default, and all values; any of these bits."""
_MEDIA_TYPE, _MEDIA_SUBTYPE, _VIDEO_FORMAT, _VIDEO_MODIFIER, _VIDEO_SIZE, _VIDEO_RATE = 1, 2, *range(0x20001, 0x20005)
_MANDATORY = 1 << 3
"""The flag of a property without which no format is agreed on."""
_COLOR_RANGE, _COLOR_MATRIX = 0x2000C, 0x2000D
_VIDEO, _RAW, _LIMITED = 2, 1, 2
_MATRICES = {"bt709": 3, "bt601": 4}
VIDEO_FORMATS = {"nv12": 23, "yuy2": 4, "rgba": 11}
META_HEADER, META_BUSY = 1, 7
HEADER_BYTES = 32
MEM_PTR, MEM_FD, DMA_BUF = 1 << 1, 1 << 2, 1 << 3
"""Kinds of memory."""


def _pod(kind: int, body: bytes) -> bytes:
    return struct.pack("=II", len(body), kind) + body + bytes(-len(body) % 8)


def _object(kind: int, param: int, values: Iterable[tuple[int, bytes]]) -> bytes:
    flagged = ((key, _MANDATORY if key == _VIDEO_MODIFIER else 0, pod) for key, pod in values)
    body = b"".join(struct.pack("=II", key, flags) + pod for key, flags, pod in flagged)
    return _pod(_OBJECT, struct.pack("=II", kind, param) + body)


def _choice(choice: int, kind: int, values: list[int]) -> bytes:
    return _pod(_CHOICE, struct.pack(f"=IIII{len(values)}I", choice, 0, 4, kind, *values))


def _value(kind: int, *numbers: int) -> bytes:
    return _pod(kind, struct.pack(f"={len(numbers)}I", *numbers))


def offered_format(size: tuple[int, int], rate: tuple[int, int], matrix: str, formats: Iterable[str]) -> bytes:
    """The offer of a raw video of a size (width, height) in any of the formats (of VIDEO_FORMATS), the first preferred.

    ``rate`` is frames per second, as numerator and denominator; ``matrix`` "bt601" or "bt709" of the limited range.
    """
    numbers = [VIDEO_FORMATS[name] for name in formats]
    return _object(_FORMAT, PARAM_ENUM_FORMAT, [
        (_MEDIA_TYPE, _value(_ID, _VIDEO)),
        (_MEDIA_SUBTYPE, _value(_ID, _RAW)),
        (_VIDEO_FORMAT, _choice(_ENUM, _ID, [numbers[0], *numbers])),
        (_VIDEO_SIZE, _value(_RECTANGLE, *size)),
        (_VIDEO_RATE, _value(_FRACTION, *rate)),
        (_COLOR_RANGE, _value(_ID, _LIMITED)),
        (_COLOR_MATRIX, _value(_ID, _MATRICES[matrix])),
    ])  # fmt: skip


def offered_dma_buf(size: tuple[int, int], rate: tuple[int, int], modifier: int) -> bytes:
    """The offer of RGBA in DMA-BUFs of that modifier, as ``offered_format``. Who does not know modifiers ignores it."""
    return _object(_FORMAT, PARAM_ENUM_FORMAT, [
        (_MEDIA_TYPE, _value(_ID, _VIDEO)),
        (_MEDIA_SUBTYPE, _value(_ID, _RAW)),
        (_VIDEO_FORMAT, _value(_ID, VIDEO_FORMATS["rgba"])),
        (_VIDEO_MODIFIER, _value(_LONG, modifier & 0xFFFFFFFF, modifier >> 32)),
        (_VIDEO_SIZE, _value(_RECTANGLE, *size)),
        (_VIDEO_RATE, _value(_FRACTION, *rate)),
    ])  # fmt: skip


def chosen_format(pod: bytes) -> str | None:
    """The name in VIDEO_FORMATS of the format that was chosen of an offer; None if it is none of these."""
    size, kind = struct.unpack_from("=II", pod)
    at, end = 16, min(8 + size, len(pod))
    while kind == _OBJECT and at + 20 <= end:
        key, _, nbytes, value_kind = struct.unpack_from("=IIII", pod, at)
        # A choice of one kind, which libpipewire leaves there, has its value behind four numbers.
        place = at + 16 + (16 if value_kind == _CHOICE else 0)
        if key == _VIDEO_FORMAT and place + 4 <= end:
            (value,) = struct.unpack_from("=I", pod, place)
            return next((name for name, number in VIDEO_FORMATS.items() if number == value), None)
        at += 16 + nbytes + -nbytes % 8
    return None


def buffers(nbytes: int, stride: int, kinds: int = MEM_PTR | MEM_FD, blocks: int = 1, most: int = 8) -> bytes:
    """The buffers that a stream wants, ``most`` at most: blocks of memory of one of the kinds."""
    counts = [4, 2, most]
    return _object(_BUFFERS, _PARAM_BUFFERS, [
        (1, _choice(_RANGE, _INT, counts)),
        (2, _value(_INT, blocks)),
        (3, _value(_INT, nbytes)),
        (4, _value(_INT, stride)),
        (6, _choice(_FLAGS, _INT, [kinds])),
    ])  # fmt: skip


def header() -> bytes:
    """The header of each buffer, with its time and number: struct spa_meta_header."""
    return _object(_META, _PARAM_META, [(1, _value(_ID, META_HEADER)), (2, _value(_INT, HEADER_BYTES))])
