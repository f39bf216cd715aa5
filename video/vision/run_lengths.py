"""COCO's run-length encoding of masks, as pycocotools writes and reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


def encode(mask: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """A mask (height, width), as ``encode_part`` gives it."""
    return encode_part(mask, (0, 0), (mask.shape[1], mask.shape[0]))


def encode_part(mask: npt.NDArray[np.bool_], corner: tuple[int, int], size: tuple[int, int]) -> dict[str, Any]:
    """A mask (height, width) as a dict of ``size``, [height, width], and ``counts``, a str.

    It is a part, from ``corner`` (left, top) on, of a mask of ``size`` (width, height), of which the rest is empty.

    The counts are the lengths of runs of 0 and 1 by turns, column after column, 0 first. From the fourth on, each is
    the difference to the last but one. They are written in characters of 5 bits from "0" on, the low ones first, with a
    sixth bit if more follow (rleToString in pycocotools' maskApi.c).
    """
    (rows, columns), (left, top), (width, height) = mask.shape, corner, size
    whole = np.zeros((columns, height), bool)
    whole[:, top : top + rows] = mask.T
    values = np.concatenate([[False], whole.ravel(), [False] * (left + columns < width)])
    ends = np.flatnonzero(values[1:] != values[:-1]) + left * height
    lengths = np.diff(np.concatenate([[0], ends, [width * height]]))
    lengths[3:] -= lengths[1:-2].copy()
    return {"size": [height, width], "counts": "".join(map(_characters, lengths.tolist()))}


def decode(encoded: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    """The mask (height, width) of a dict that ``encode`` gives."""
    (height, width), lengths = encoded["size"], list[int]()
    value = shift = 0
    for character in encoded["counts"].encode():
        bits = character - 48
        value |= (bits & 0x1F) << shift
        shift += 5
        if bits & 0x20:
            continue
        if bits & 0x10:
            value -= 1 << shift
        lengths.append(value + (lengths[-2] if len(lengths) > 2 else 0))
        value = shift = 0
    values = np.arange(len(lengths)) % 2 == 1
    return np.repeat(values, lengths).reshape(width, height).T


def _characters(value: int) -> str:
    text = ""
    while True:
        bits, value = value & 0x1F, value >> 5
        is_last = value == (-1 if bits & 0x10 else 0)
        text += chr(48 + (bits if is_last else bits | 0x20))
        if is_last:
            return text
