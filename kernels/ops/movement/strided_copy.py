"""The strided copy: a launch that writes values of the input in another order, by sizes and strides.

TRANSPOSE, TILE, BROADCAST_TO, REVERSE_V2, slices, batch and space, space and depth are built on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...operation import Launch, Lowering
from ...tensor import TensorId

Digit = tuple[int, int]
"""(size, stride): a dimension of the output's values, and the distance in the input of two neighbours along it."""
MAX_DIGITS = 8


def launch_strided_copy(
    lowering: Lowering, source: TensorId, destination: TensorId, digits: Sequence[Digit], base: int = 0
) -> Launch:
    """One dispatch. ``digits`` count the values of ``destination``, the outermost first; their sizes multiply to its
    size.

    ``base`` is the number of the input's value that the output's first value shows.
    """
    batch, rows, columns, channels = lowering.shape(destination)
    kept = [digit for digit in digits if digit[0] != 1] or [(1, 0)]
    assert math.prod(size for size, _ in kept) == batch * rows * columns * channels and len(kept) <= MAX_DIGITS
    moves_slices = _moves_slices(kept, base, channels, lowering.shape(source)[3])
    constants: dict[str, int | float] = {"BASE": base, "MOVES_SLICES": int(moves_slices)}
    for place, (size, stride) in enumerate([(1, 0)] * (MAX_DIGITS - len(kept)) + kept):
        constants |= {f"SIZE_{place}": size, f"STRIDE_{place}": stride}
    group_count = lowering.groups_for(destination)
    return Launch("strided_copy", {"src": source}, {"dst": destination}, group_count, constants)


def _moves_slices(digits: list[Digit], base: int, channels: int, source_channels: int) -> bool:
    """Whether every slice of the output is a slice of the input, so that the kernel can copy slices."""
    *outer, (size, stride) = digits
    if (size, stride) != (channels, 1):
        return False
    if source_channels % 4 == 0:
        return base % 4 == 0 and all(stride % 4 == 0 for _, stride in outer)
    first = base % source_channels
    inside = first % 4 == 0 and first + channels <= source_channels
    return inside and all(stride % source_channels == 0 for _, stride in outer)
