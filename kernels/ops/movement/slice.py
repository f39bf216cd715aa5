"""Operators that cut: SLICE, STRIDED_SLICE with all its masks, SPLIT, SPLIT_V and UNPACK."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...operation import Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import TensorInfo, ranked, strides_of
from ..arguments import constant, require_movable
from .strided_copy import launch_strided_copy


@dataclass(frozen=True)
class Cut:
    """What is taken along one dimension: from ``begin`` to before ``end`` (None: from or to the edge) by ``step``.

    Negative bounds count from the end, as in Python. ``drop`` says that the dimension, of one value, is left out.
    """

    begin: int | None
    end: int | None
    step: int = 1
    drop: bool = False

    def indices(self, size: int) -> tuple[int, int]:
        """The first index and how many. ValueError where that is none."""
        if self.drop:
            place = 0 if self.begin is None else self.begin + size if self.begin < 0 else self.begin
            if not 0 <= place < size:
                raise ValueError(f"index {self.begin} is outside {size} values")
            return place, 1
        taken = range(*slice(self.begin, self.end, self.step).indices(size))
        if not taken:
            raise ValueError(f"{self.begin}:{self.end}:{self.step} takes none of {size} values")
        return taken.start, len(taken)


@dataclass(frozen=True)
class Slice:
    """One cut for each input dimension; ``new`` are the dimensions of the output that have no counterpart."""

    cuts: tuple[Cut, ...]
    new: tuple[int, ...] = ()


@dataclass(frozen=True)
class Split:
    """Parts of ``sizes`` along ``axis`` of ``rank`` dimensions; ``drop`` says that the axis is left out (UNPACK)."""

    sizes: tuple[int, ...]
    axis: int
    rank: int
    drop: bool = False


# SLICE, STRIDED_SLICE -------------------------------------------------------------------------------------------------


def _parse_slice(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    begins, sizes = (constant(inputs[i], what).reshape(-1).tolist() for i, what in ((1, "begin"), (2, "size")))
    if inputs[0] is None or not len(begins) == len(sizes) == len(inputs[0].shape):
        raise Unsupported("begin and size must have a value for each dimension")
    for begin, length, dimension in zip(begins, sizes, inputs[0].shape, strict=True):
        if begin < 0 or length < -1 or begin + max(length, 0) > dimension:
            raise Unsupported(f"{length} values from {begin} are not inside {dimension}")
    return Parsed(Slice(tuple(Cut(b, None if n == -1 else b + n) for b, n in zip(begins, sizes, strict=True))))


def _parse_strided(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    if inputs[0] is None:
        raise Unsupported("it needs an input")
    begins, ends, steps = (
        constant(inputs[i], what).reshape(-1).tolist() for i, what in ((1, "begin"), (2, "end"), (3, "strides"))
    )
    if not len(begins) == len(ends) == len(steps) or 0 in steps:
        raise Unsupported("begin, end and strides must have one length, and no stride may be 0")
    if options.Offset():
        ends = [begin + end for begin, end in zip(begins, ends, strict=True)]
    return Parsed(dense_slice(len(inputs[0].shape), begins, ends, steps, options))


def dense_slice(rank: int, begins: list[int], ends: list[int], steps: list[int], options: Any) -> Slice:
    """The masks spelled out: a cut for every dimension, those of the ellipsis included."""

    def has(mask: int, i: int) -> bool:
        return bool(mask >> i & 1)

    count = len(begins)
    ellipsis = next((i for i in range(count) if has(options.EllipsisMask(), i)), count)
    # A dimension after the ellipsis is not added and taken: each entry is one of the three.
    added = [i for i in range(count) if has(options.NewAxisMask(), i) and i != ellipsis]
    used = count - len(added) - (ellipsis < count)
    if used > rank:
        raise Unsupported(f"{used} ranges for {rank} dimensions")
    cuts: list[Cut] = []
    new: list[int] = []
    place = 0
    for i in range(count + 1):
        if i == ellipsis:
            cuts += [Cut(None, None)] * (rank - used)
            place += rank - used
        elif i in added:
            new.append(place)
            place += 1
        elif i < count:
            drop = has(options.ShrinkAxisMask(), i)
            begin = None if has(options.BeginMask(), i) else int(begins[i])
            end = None if has(options.EndMask(), i) else int(ends[i])
            cuts.append(Cut(begin, end, int(steps[i]), drop))
            place += not drop
    return Slice(tuple(cuts), tuple(new))


def _slice_shapes(attributes: Slice, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    shape = [cut.indices(n)[1] for cut, n in zip(attributes.cuts, shapes[0], strict=True) if not cut.drop]
    for cut, size in zip(attributes.cuts, shapes[0], strict=True):
        cut.indices(size)  # raises where a dropped index is outside
    for place in attributes.new:
        shape.insert(place, 1)
    return [tuple(shape)]


def _lower_slice(lowering: Lowering) -> list[Launch]:
    source, cuts = lowering.inputs[0], lowering.attributes.cuts
    shape = ranked(lowering.shape(source), len(cuts))
    base, digits = 0, []
    for cut, size, stride in zip(cuts, shape, strides_of(shape), strict=True):
        first, count = cut.indices(size)
        base += first * stride
        digits.append((count, cut.step * stride))
    return [launch_strided_copy(lowering, source, lowering.outputs[0], digits, base)]


# SPLIT, SPLIT_V, UNPACK -----------------------------------------------------------------------------------------------


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise Unsupported(f"axis {axis} is outside rank {rank}")
    return axis % rank


def _parse_split(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[1:2], outputs)
    source, axis = inputs[1], int(constant(inputs[0], "axis").reshape(-1)[0])
    if source is None:
        raise Unsupported("it needs an input")
    axis = _axis(axis, len(source.shape))
    if source.shape[axis] % len(outputs):
        raise Unsupported(f"{source.shape[axis]} values do not split into {len(outputs)} parts")
    sizes = (source.shape[axis] // len(outputs),) * len(outputs)
    return Parsed(Split(sizes, axis, len(source.shape)), (1,))


def _parse_split_v(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    source, sizes = inputs[0], constant(inputs[1], "sizes").reshape(-1).tolist()
    if source is None or len(sizes) != len(outputs) or sizes.count(-1) > 1:
        raise Unsupported(f"sizes {sizes} do not fit the {len(outputs)} outputs")
    axis = _axis(int(constant(inputs[2], "axis").reshape(-1)[0]), len(source.shape))
    rest = source.shape[axis] - sum(n for n in sizes if n != -1)
    sizes = [rest if n == -1 else n for n in sizes]
    return Parsed(Split(tuple(sizes), axis, len(source.shape)))


def _parse_unpack(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    if inputs[0] is None:
        raise Unsupported("it needs an input")
    rank = len(inputs[0].shape)
    return Parsed(Split((1,) * len(outputs), _axis(options.Axis(), rank), rank, drop=True))


def _split_shapes(attributes: Split, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    axis, shape = attributes.axis, shapes[0]
    if sum(attributes.sizes) != shape[axis] or min(attributes.sizes) < 1:
        raise ValueError(f"parts of {attributes.sizes} do not make up axis {axis} of {shape}")
    middles = [() if attributes.drop else (size,) for size in attributes.sizes]
    return [(*shape[:axis], *middle, *shape[axis + 1 :]) for middle in middles]


def _lower_split(lowering: Lowering) -> list[Launch]:
    """One dispatch an output."""
    attributes: Split = lowering.attributes
    source = lowering.inputs[0]
    shape = list(ranked(lowering.shape(source), attributes.rank))
    strides = strides_of(shape)
    launches, start = [], 0
    for size, destination in zip(attributes.sizes, lowering.outputs, strict=True):
        digits = [(size if i == attributes.axis else n, strides[i]) for i, n in enumerate(shape)]
        launches.append(launch_strided_copy(lowering, source, destination, digits, start * strides[attributes.axis]))
        start += size
    return launches


OPERATORS = (
    Operator("SLICE", _parse_slice, _slice_shapes, _lower_slice, max_version=8),
    Operator("STRIDED_SLICE", _parse_strided, _slice_shapes, _lower_slice, max_version=8),
    Operator("SPLIT", _parse_split, _split_shapes, _lower_split, max_version=5),
    Operator("SPLIT_V", _parse_split_v, _split_shapes, _lower_split, max_version=3),
    Operator("UNPACK", _parse_unpack, _split_shapes, _lower_split, max_version=6),
)
