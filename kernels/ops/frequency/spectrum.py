"""RFFT2D: the discrete Fourier transform of real pictures, as sums over all values of a row, then over all rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...operation import Launch, Lowering, Operation, PackedArray, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import INDEX_DTYPES
from ..arguments import SPECTRA, require_float, require_type, shape_constant

LONGEST_LINE = 4096
"""The longest row and column: each frequency takes as many products. A limit, not measured."""


@dataclass(frozen=True)
class Spectrum(Operation):
    """The frequencies of pictures of ``size`` (height, width), which are powers of two. The input's size is
    ``picture``.

    The input is cut, or extended with zeros. Rows have the frequencies from 0 to half the width, columns all of them.
    """

    picture: tuple[int, int]
    size: tuple[int, int]

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [(*shapes[0][:-2], self.size[0], self.size[1] // 2 + 1)]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """One dispatch for the rows, and one for the columns if there are several."""
        (source,), (destination,) = lowering.inputs, lowering.outputs
        (height, width), channels = self.size, lowering.shape(destination)[3]
        rows, columns = min(self.picture[0], height), min(self.picture[1], width)
        batch = math.prod(lowering.shape(destination)[:3]) // height
        row_sums = destination if height == 1 else lowering.scratch((batch, rows, 1, channels))
        shared: dict[str, int | float] = {"FREQUENCY_SLICES": channels // 8, "ROWS": rows}
        items = batch * rows * channels // 8
        constants = shared | {
            "ITEMS": items, "SOURCE_ROWS": self.picture[0], "COLUMNS": columns, "LENGTH": width,
        }  # fmt: skip
        first = Launch(
            "row_spectrum", {"src": source}, {"dst": row_sums}, lowering.group_count(items), constants,
            {"turns": _turns(width)},
        )  # fmt: skip
        if height == 1:
            return [first]
        items = batch * height * channels // 8
        second = Launch(
            "column_spectrum", {"src": row_sums}, {"dst": destination}, lowering.group_count(items),
            shared | {"ITEMS": items, "LENGTH": height}, {"turns": _turns(height)},
        )  # fmt: skip
        return [first, second]


def _turns(length: int) -> PackedArray:
    """The roots of unity by which values are multiplied: real and imaginary part in the first two of four columns."""

    def make() -> np.ndarray:
        angles = -2 * np.pi * np.arange(length) / length
        roots = np.zeros((length, 4), np.float32)
        roots[:, 0], roots[:, 1] = np.cos(angles), np.sin(angles)
        return roots

    return PackedArray(length, make)


def _parse(node: TfliteNode) -> Parsed:
    require_float(node.inputs[0])
    require_type(INDEX_DTYPES, node.inputs[1])
    require_type({"complex64"}, *node.outputs)
    source, size = node.inputs[0], shape_constant(node.inputs[1], "FFT length").reshape(-1).tolist()
    if source is None or len(source.shape) < 2 or len(size) != 2:
        raise Unsupported("it needs an input of rank 2 or more, and two lengths")
    height, width = size
    if any(n < 1 or n & (n - 1) or n > LONGEST_LINE for n in size) or width < 2:
        raise Unsupported(f"lengths {size} are not powers of two up to {LONGEST_LINE}, with two columns at least")
    return Parsed(Spectrum((source.shape[-2], source.shape[-1]), (height, width)))


TFLITE = (TfliteOp("RFFT2D", _parse, max_version=1, inputs=2, unlike_litert=SPECTRA, results=("complex64",)),)
