"""Facts about tensors: BHWC shapes, slices of four channels, integer types, quantization, strides."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np


def broadcast_shape(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that NumPy's broadcasting rules give. Raises ValueError if they give none."""
    if len(set(shapes)) == 1:
        return shapes[0]
    result = []
    for sizes in itertools.zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            raise ValueError(f"shapes {shapes} do not broadcast")
        result.append(wide.pop() if wide else 1)
    return tuple(reversed(result))


Shape = tuple[int, int, int, int]
Permutation = tuple[int, int, int, int]
"""The dimensions of a tensor in another order."""
TO_CHANNELS_LAST: Permutation = (0, 2, 3, 1)
TO_CHANNELS_FIRST: Permutation = (0, 3, 1, 2)
"""The permutations of TRANSPOSE from NCHW (batch, channels, height, width) to BHWC, and back."""


def permuted(shape: Shape, permutation: Permutation) -> Shape:
    """The sizes, or strides, of four dimensions in another order."""
    a, b, c, d = permutation
    return shape[a], shape[b], shape[c], shape[d]


@dataclass(frozen=True)
class Scratch:
    """The id of an intermediate result that only the launches of one operator touch. It is always f32."""

    number: int


@dataclass(frozen=True)
class Frame:
    """The id of one frame of a batch: the part ``number`` of ``count`` equal ones of a tensor's first dimension."""

    tensor: int
    number: int
    count: int


@dataclass(frozen=True)
class BoundObject:
    """The id of the object that is bound to ``tensor``, if a copy stands between it and the model's kernels.

    ``frame`` is the frame that the object holds, if each frame of a batch has an object of its own. Dimension i of the
    object is dimension ``permutation[i]`` of the tensor.
    """

    tensor: int
    frame: Frame | None = None
    permutation: Permutation = (0, 1, 2, 3)


TensorId = int | Scratch | BoundObject | Frame
"""The id of a tensor that a launch reads or writes; an int is a tensor of the graph."""


class IntegerRange(NamedTuple):
    """The size of a stored integer in bytes, the smallest value and the largest."""

    nbytes: int
    lowest: int
    highest: int


QUANTIZED_DTYPES: dict[str, IntegerRange] = {
    "int8": IntegerRange(1, -128, 127), "uint8": IntegerRange(1, 0, 255), "int16": IntegerRange(2, -32768, 32767)
}  # fmt: skip
"""Integers that stand for real numbers in computed tensors, by a scale and a zero point."""
UNSCALED_DTYPES: dict[str, IntegerRange] = {
    "bool": IntegerRange(1, 0, 1),
    "int32": IntegerRange(4, -(1 << 31), (1 << 31) - (1 << 7)),
    "int64": IntegerRange(8, -(1 << 63), (1 << 63) - (1 << 39)),
}
"""Truth values and indices, which stand for themselves. The bounds are the nearest that a float32 holds."""
INTEGER_DTYPES: dict[str, IntegerRange] = QUANTIZED_DTYPES | UNSCALED_DTYPES
"""All types of integers that a tensor can have outside a partition."""
RUNTIME_DTYPES = frozenset({"float32", *INTEGER_DTYPES})
"""All types that a computed tensor can have if an operator on the GPU reads or writes it."""
STORED_BYTES: dict[str, int] = {"float16": 2, **{name: kind.nbytes for name, kind in INTEGER_DTYPES.items()}}
"""Bytes of a value by the types, other than float32, that a tensor can have outside a partition."""
INDEX_DTYPES = frozenset({"int32", "int64"})
"""The types of indices, axes and sizes."""
Bounds = tuple[int, int]
"""The smallest and the largest integer."""
INT32_BOUNDS: Bounds = (-(1 << 31), (1 << 31) - 1)
"""The bounds of exact integers on the GPU, whatever type they have in the model."""


def slices(channels: int) -> int:
    """The number of slices of four channels that hold ``channels`` channels; the last one is padded with zeros."""
    return -(-channels // 4)


LARGEST_RANK = 8
"""The highest rank of a tensor on the GPU; LiteRT's own limit for most operators."""


def bhwc(shape: tuple[int, ...]) -> Shape:
    """A TFLite shape as BHWC: [c] is (1,1,1,c), [b,c] is (b,1,1,c), [b,w,c] is (b,1,w,c).

    The mapping is the one of the C++ delegate, except that rank 1 is a channel vector, as broadcasting takes it. Of
    rank 5 and more, all dimensions before the last three are the batch. Raises ValueError above LARGEST_RANK.
    """
    if len(shape) > LARGEST_RANK:
        raise ValueError(f"rank {len(shape)} has no BHWC form")
    if len(shape) > 4:
        return (math.prod(int(n) for n in shape[:-3]), int(shape[-3]), int(shape[-2]), int(shape[-1]))
    full = (1, 1, 1, 1, *(int(n) for n in shape))
    if len(shape) in (2, 3):
        return (full[4], 1, full[5] if len(shape) == 3 else 1, full[-1])
    return (full[-4], full[-3], full[-2], full[-1])


def bhwc_axis(axis: int, rank: int) -> int:
    """The axis of BHWC (0 to 3) that is axis ``axis`` of a TFLite shape of ``rank`` dimensions."""
    axis = axis + rank if axis < 0 else axis
    if not 0 <= axis < rank:
        raise ValueError(f"axis {axis} is outside rank {rank}")
    return {1: (3,), 2: (0, 3), 3: (0, 2, 3), 4: (0, 1, 2, 3)}[rank][axis]


@dataclass(frozen=True)
class Quantization:
    """value = scale * (stored - zero_point): one scale for the tensor, or one for each index along ``axis``."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int = 0

    @cached_property
    def scale_array(self) -> np.ndarray:
        """The scales as float64: to make it of hundreds of numbers takes long enough to do so once."""
        return np.array(self.scales, np.float64)


@dataclass(frozen=True)
class TensorInfo:
    """Facts about a tensor of a model: its TFLite shape, the name of its dtype and, if it is constant, its values.

    ``variable`` marks a tensor that keeps its value from one invoke to the next. ``stored_dtype`` is the type (of
    integers, or float16) of the model's tensor if this is its float view (see ops/pointwise/quantize.py), else "".
    ``scales``: if this is the float view of a constant of 8-bit integers, their scales: one, or one per output channel.
    ``exact_in_f32``: the integers come from an operator on the GPU, which computes only integers that a float32 can
    hold. ``bounds``: the smallest and the largest integer that it may hold, if an operator on the GPU computes it. None
    means the bounds of its type. ``channels_first``: as a picture, its dimensions are batch, channels, height and width
    (NCHW). ``transposed``: the model itself moves these channels to the end before it reads the tensor, or from there
    when it writes it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    constant: np.ndarray | None = None
    quantization: Quantization | None = None
    variable: bool = False
    stored_dtype: str = ""
    scales: tuple[float, ...] = ()
    exact_in_f32: bool = False
    bounds: Bounds | None = None
    channels_first: bool = False
    transposed: bool = False

    @property
    def picture_shape(self) -> Shape:
        """The tensor as a picture: batch, height, width, channels."""
        return permuted(self.bhwc, TO_CHANNELS_LAST) if self.channels_first else self.bhwc

    @cached_property
    def bhwc(self) -> Shape:
        """The shape for kernels. A complex tensor has the slices of all real parts first, then those of the imaginary
        parts.
        """
        batch, height, width, channels = bhwc(self.shape)
        return (batch, height, width, 8 * slices(channels) if self.dtype == "complex64" else channels)


def bounds_of(tensor: TensorInfo) -> Bounds | None:
    """The smallest and the largest integer that a tensor of indices may hold; None if they may not fit 32 bits."""
    if tensor.constant is not None and tensor.constant.size:
        return int(tensor.constant.min()), int(tensor.constant.max())
    return tensor.bounds or (INT32_BOUNDS if tensor.dtype == "int32" else None)


LARGEST_HALF = 65504.0
FLOAT_MAX = 3.4028234663852886e38
LARGEST_WHOLE_HALF = 2048
"""The largest integer up to which a half holds all integers."""


def ranked(shape: Shape, rank: int) -> tuple[int, ...]:
    """The TFLite shape of ``rank`` dimensions whose BHWC form is ``shape``."""
    batch, height, width, channels = shape
    by_rank = ((), (channels,), (batch, channels), (batch, width, channels), (batch, height, width, channels))
    return by_rank[rank]


def around_axis(shape: Sequence[int], axis: int) -> tuple[Shape, int]:
    """A shape of four dimensions for an operation along ``axis``, and the axis in it. The dimensions before the axis
    are merged, and so are those behind it. The last dimension stays the last, so that values keep their places in
    slices.
    """
    if axis == len(shape) - 1:
        return (math.prod(shape[:axis]), 1, 1, shape[axis]), 3
    return (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 : -1]), shape[-1]), 1


def merged_runs(shape: Sequence[int], marks: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Merge neighbouring dimensions that have the same mark. Returns the merged shape, and the mark of each of its
    dimensions. The last dimension stays alone if there are then four or fewer, so that values keep their places in
    slices.
    """
    groups = itertools.groupby(zip(shape, marks, strict=True), lambda dimension: dimension[1])
    runs = [(mark, [size for size, _ in run]) for mark, run in groups]
    mark, sizes = runs[-1]
    if len(sizes) > 1 and len(runs) < 4:
        runs[-1:] = [(mark, sizes[:-1]), (mark, sizes[-1:])]
    return tuple(math.prod(sizes) for _, sizes in runs), tuple(mark for mark, _ in runs)


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """The number of values between neighbours along each dimension, for values without padding."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
