"""The options of custom operators that LiteRT reads as a FlexBuffer, without a look at where its parts lie."""

from __future__ import annotations

from ...interop.errors import ModelError

READ_BY_LITERT = frozenset({"AudioSpectrogram", "Mfcc", "NumericVerify", "TFLite_Detection_PostProcess"})
"""LiteRT's own custom operators."""
_MAP = 9
_INLINE = frozenset({0, 1, 2, 3, 26})
"""Types whose value is where it is named: nothing, integers with and without a sign, floats, booleans."""


def check_flexible(where: str, options: bytes) -> None:
    """Raise ModelError if options are no map of numbers, or if a part of them lies outside of their bytes.

    A FlexBuffer is read from its end: the width of the root, its type and width of what it names, and the distance back
    to the map. In front of a map's values are their number, and the width and place of its keys; behind them are their
    types (https://flatbuffers.dev/flatbuffers_internals/#flexbuffers).
    """
    try:
        _check_map(options)
    except (ValueError, IndexError) as error:
        raise ModelError(f"{where} has damaged options: {error or 'they end too early'}") from error


def _check_map(options: bytes) -> None:
    width, packed = options[-1], options[-2]
    values = _back(options, len(options) - 2 - width, width)
    if packed >> 2 != _MAP:
        raise ValueError("they are no map")
    width = 1 << (packed & 3)
    count = _number(options, values - width, width)
    key_width = _number(options, values - 2 * width, width)
    keys = _back(options, values - 3 * width, width)
    if _number(options, keys - key_width, key_width) != count:
        raise ValueError("not as many keys as values")
    for number in range(count):
        if options[values + count * width + number] >> 2 not in _INLINE:
            raise ValueError("a value is no number")
        key = _back(options, keys + number * key_width, key_width)
        options.index(0, key)  # its end


def _back(options: bytes, place: int, width: int) -> int:
    """The place that is as far in front of a place as is written there."""
    found = place - _number(options, place, width)
    if found < 0:
        raise ValueError("a part lies in front of them")
    return found


def _number(options: bytes, place: int, width: int) -> int:
    if width not in (1, 2, 4, 8) or place < 0 or place + width > len(options):
        raise ValueError(f"{width} bytes at {place} are not there")
    return int.from_bytes(options[place : place + width], "little")
