"""The strided copy: a launch that writes values of the input in another order, by sizes and strides.

TRANSPOSE, TILE, BROADCAST_TO, REVERSE_V2, slices, batch and space, space and depth are built on it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from ...operation import Collapsed, Launch, Lowering, Operation, Unsupported
from ...tensor import TensorId, ranked

Digit = tuple[int, int]
"""(size, stride): a dimension of the output's values, and the distance in the input of two neighbours along it."""
MAX_DIGITS = 8


@dataclass(frozen=True)
class StridedCopy(Operation):
    """Values of the input, from index ``base`` on, in the order of ``digits``, as a tensor of shape ``destination``.

    Values are counted in the order of memory, so the shape of the input does not matter.
    """

    digits: tuple[Digit, ...]
    base: int
    destination: tuple[int, ...]

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [self.destination]

    def lower(self, lowering: Lowering) -> list[Launch]:
        return [launch_strided_copy(lowering, lowering.inputs[0], lowering.outputs[0], self.digits, self.base)]


class Rearrangement(Operation):
    """An operation of one input and one output that is a strided copy."""

    @property
    @abstractmethod
    def input_rank(self) -> int:
        """The rank of the input."""

    @abstractmethod
    def order(self, shape: tuple[int, ...]) -> tuple[list[Digit], int]:
        """The digits and the base of the copy from an input of this shape."""

    def lower(self, lowering: Lowering) -> list[Launch]:
        source = lowering.inputs[0]
        digits, base = self.order(ranked(lowering.shape(source), self.input_rank))
        return [launch_strided_copy(lowering, source, lowering.outputs[0], digits, base)]

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        digits, base = self.order(shapes[0])
        outputs = tuple(self.output_shapes(shapes))
        return [Collapsed(StridedCopy(tuple(digits), base, outputs[0]), (shapes[0],), outputs)]


def launch_strided_copy(
    lowering: Lowering,
    source: TensorId,
    destination: TensorId,
    digits: Sequence[Digit],
    base: int = 0,
    moves: Sequence[int] = (),
) -> Launch:
    """One dispatch. ``digits`` count the values of ``destination``, the outermost first; their sizes multiply to its
    size.

    ``base`` is the index of the input value that becomes the first output value. While the model runs, a multiple of
    each of ``moves`` may be added to it.
    """
    batch, rows, columns, channels = lowering.shape(destination)
    kept = [digit for digit in digits if digit[0] != 1] or [(1, 0)]
    if len(kept) > MAX_DIGITS:
        kept = merged_digits(kept)
    if len(kept) > MAX_DIGITS:
        raise Unsupported(f"it moves values along {len(kept)} dimensions; a copy does so along {MAX_DIGITS} at most")
    assert math.prod(size for size, _ in kept) == batch * rows * columns * channels
    moves_slices = _moves_slices(kept, base, moves, channels, lowering.shape(source)[3])
    constants: dict[str, int | float] = {"BASE": base, "MOVES_SLICES": int(moves_slices)}
    for place, (size, stride) in enumerate([(1, 0)] * (MAX_DIGITS - len(kept)) + kept):
        constants |= {f"SIZE_{place}": size, f"STRIDE_{place}": stride}
    group_count = lowering.groups_for(destination)
    return Launch("strided_copy", {"src": source}, {"dst": destination}, group_count, constants)


def merged_digits(digits: Sequence[Digit]) -> list[Digit]:
    """Merge two digits if the outer one continues where the inner one ends: fewer digits count in the same order."""
    merged: list[Digit] = []
    for size, stride in digits:
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            size *= merged.pop()[0]
        merged.append((size, stride))
    return merged


def _moves_slices(digits: list[Digit], base: int, moves: Sequence[int], channels: int, source_channels: int) -> bool:
    """Whether every slice of the output is a slice of the input, so that the kernel can copy slices."""
    *outer, (size, stride) = digits
    if (size, stride) != (channels, 1):
        return False
    strides = [*moves, *(stride for _, stride in outer)]
    if source_channels % 4 == 0:
        return base % 4 == 0 and all(stride % 4 == 0 for stride in strides)
    first = base % source_channels
    inside = first % 4 == 0 and first + channels <= source_channels
    return inside and all(stride % source_channels == 0 for stride in strides)
