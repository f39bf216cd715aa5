"""STABLEHLO_BROADCAST_IN_DIM: dimensions of the input become named dimensions of the output, and repeat along the rest.

Semantics: openxla.org/stablehlo/spec, section broadcast_in_dim. The shape of the result is the one in the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ...operation import Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import LARGEST_RANK, strides_of
from ..arguments import require_values
from .strided_copy import Digit, Rearrangement

LARGEST_RESULT = 1 << 31
"""Values of the result, at most: a file can ask for any number of them."""


@dataclass(frozen=True)
class BroadcastInDim(Rearrangement):
    """Dimension ``i`` of the input is dimension ``places[i]`` of ``destination``, or has size 1."""

    places: tuple[int, ...]
    destination: tuple[int, ...]

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        sizes = [self.destination[place] for place in self.places]
        if any(size not in (1, wide) for size, wide in zip(shapes[0], sizes, strict=True)):
            raise ValueError(f"shape {shapes[0]} does not become dimensions {self.places} of {self.destination}")
        return [self.destination]

    @property
    def input_rank(self) -> int:
        return len(self.places)

    def order(self, shape: tuple[int, ...]) -> tuple[list[Digit], int]:
        strides = [0] * len(self.destination)
        for place, size, stride in zip(self.places, shape, strides_of(shape), strict=True):
            strides[place] = 0 if size == 1 else stride
        return list(zip(self.destination, strides, strict=True)), 0


def _parse(node: TfliteNode) -> Parsed:
    source, destination = node.inputs[0], node.outputs[0].shape
    require_values(node.inputs[:1], node.outputs)
    given = node.options.BroadcastDimensionsAsNumpy() if node.options is not None else ()
    places = tuple(int(place) for place in given) if isinstance(given, Iterable) else ()  # tflite gives 0 for none
    rank = len(destination)
    if source is None or len(places) != len(source.shape) or len({*places}) != len(places):
        raise Unsupported(f"broadcast dimensions {places} do not name one of the result for each of the input")
    if any(not 0 <= place < rank for place in places):
        raise Unsupported(f"broadcast dimensions {places} are outside rank {rank}")
    if math.prod(destination) > LARGEST_RESULT:
        raise Unsupported(f"its result {destination} has more than {LARGEST_RESULT} values")
    return Parsed(BroadcastInDim(places, destination))


TFLITE = (
    TfliteOp(
        "STABLEHLO_BROADCAST_IN_DIM", _parse, max_version=1, max_rank=LARGEST_RANK, moves_values=True, only_gpu=True
    ),
)
