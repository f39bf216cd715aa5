"""COCO's run-length encoding of masks, as pycocotools writes and reads it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def encode(mask: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """A mask (height, width) as a dict of ``size``, [height, width], and ``counts``, a str.

    The counts are the lengths of runs of 0 and 1 by turns, column after column, 0 first. From the fourth on, each is
    the difference to the last but one. They are written in characters of 5 bits from "0" on, the low ones first, with a
    sixth bit if more follow (rleToString in pycocotools' maskApi.c).
    """
    columns = np.concatenate([[False], mask.T.ravel()])
    ends = np.flatnonzero(columns[1:] != columns[:-1])
    lengths = np.diff(np.concatenate([[0], ends, [mask.size]]))
    lengths[3:] -= lengths[1:-2].copy()
    return {"size": list(mask.shape), "counts": "".join(map(_characters, lengths.tolist()))}


def _characters(value: int) -> str:
    text = ""
    while True:
        bits, value = value & 0x1F, value >> 5
        is_last = value == (-1 if bits & 0x10 else 0)
        text += chr(48 + (bits if is_last else bits | 0x20))
        if is_last:
            return text
