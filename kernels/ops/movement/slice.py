"""Operators that cut: SLICE, STRIDED_SLICE with all its masks, SPLIT, SPLIT_V and UNPACK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...operation import Collapsed, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import INDEX_DTYPES, LARGEST_RANK, TensorInfo, around_axis, ranked, strides_of
from ..arguments import NEAREST_PLACE, axis_of, index_constant, require_type, require_values, shape_constant
from .slice_at import slice_at
from .strided_copy import Digit, Rearrangement, launch_strided_copy


@dataclass(frozen=True)
class Cut:
    """A range along one dimension: from ``begin`` up to ``end``, which is excluded, by ``step``. None is the edge.

    Negative bounds count from the end, as in Python. ``drop``: one value is taken, and the dimension is removed.
    ``computed``: the begin is computed while the model runs, and this is its index in the second input; ``begin`` and
    ``end`` then only say how many values are taken.
    """

    begin: int | None
    end: int | None
    step: int = 1
    drop: bool = False
    computed: int | None = None

    def indices(self, size: int) -> tuple[int, int]:
        """The first index and the number of indices. Raises ValueError if the index to drop is outside."""
        if self.drop:
            place = 0 if self.begin is None else self.begin + size if self.begin < 0 else self.begin
            if not 0 <= place < size:
                raise ValueError(f"index {self.begin} is outside {size} values")
            return place, 1
        taken = range(*slice(self.begin, self.end, self.step).indices(size))
        return taken.start, len(taken)


@dataclass(frozen=True)
class Slice(Rearrangement):
    """One cut for each input dimension. ``new`` are the dimensions of size 1 that the output has in addition."""

    cuts: tuple[Cut, ...]
    new: tuple[int, ...] = ()

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        shape = [cut.indices(n)[1] for cut, n in zip(self.cuts, shapes[0], strict=True) if not cut.drop]
        for cut, size in zip(self.cuts, shapes[0], strict=True):
            cut.indices(size)  # raises if a dropped index is outside
        for place in self.new:
            shape.insert(place, 1)
        return [tuple(shape)]

    @property
    def input_rank(self) -> int:
        return len(self.cuts)

    def order(self, shape: tuple[int, ...]) -> tuple[list[Digit], int]:
        base, digits = 0, list[Digit]()
        for cut, size, stride in zip(self.cuts, shape, strides_of(shape), strict=True):
            first, count = cut.indices(size)
            base += first * stride
            digits.append((count, cut.step * stride))
        return digits, base


@dataclass(frozen=True)
class Split(Operation):
    """Parts of ``sizes`` along ``axis`` of ``rank`` dimensions; ``drop``: the axis is left out (UNPACK).

    A part may be empty. It has no memory, and no operator on the GPU reads it.
    """

    sizes: tuple[int, ...]
    axis: int
    rank: int
    drop: bool = False

    def keeps_steps(self) -> bool:
        return True

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        axis, shape = self.axis, shapes[0]
        if sum(self.sizes) != shape[axis] or min(self.sizes) < 0:
            raise ValueError(f"parts of {self.sizes} do not make up axis {axis} of {shape}")
        middles = [() if self.drop else (size,) for size in self.sizes]
        return [(*shape[:axis], *middle, *shape[axis + 1 :]) for middle in middles]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """One dispatch per output that has values."""
        source = lowering.inputs[0]
        shape = list(ranked(lowering.shape(source), self.rank))
        strides = strides_of(shape)
        launches, start = [], 0
        parts = zip(self.sizes, lowering.outputs, strict=True)
        for size, destination in ((size, destination) for size, destination in parts if size):
            digits = [(size if i == self.axis else n, strides[i]) for i, n in enumerate(shape)]
            launches.append(launch_strided_copy(lowering, source, destination, digits, start * strides[self.axis]))
            start += size
        return launches

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        shape, axis = around_axis(shapes[0], self.axis)
        split = Split(self.sizes, axis, 4)
        return [Collapsed(split, (shape,), tuple(split.output_shapes([shape])))]


# SLICE, STRIDED_SLICE -------------------------------------------------------------------------------------------------


def _parse_slice(node: TfliteNode) -> Parsed:
    require_values(node.inputs[:1], node.outputs)
    source, begin = node.inputs[:2]
    sizes = shape_constant(node.inputs[2], "size").reshape(-1).tolist()
    begins = [0] * len(sizes) if begin is None or begin.constant is None else begin.constant.reshape(-1).tolist()
    if source is None or begin is None or not _are_lists(len(source.shape), begin, node.inputs[2]):
        raise Unsupported("begin and size must have a value for each dimension")
    for first, length, dimension in zip(begins, sizes, source.shape, strict=True):
        if first < 0 or length < -1 or first + max(length, 0) > dimension:
            raise Unsupported(f"{length} values from {first} are not inside {dimension}")
    if begin.constant is not None:
        return Parsed(Slice(tuple(Cut(b, None if n == -1 else b + n) for b, n in zip(begins, sizes, strict=True))))
    if min(sizes) < 1:
        raise Unsupported(f"its size {sizes} follows from its begin, which is known only while the model runs")
    require_type(INDEX_DTYPES, begin)
    return _cut_at(source, Slice(tuple(Cut(0, n, computed=i) for i, n in enumerate(sizes))), from_end=False)


def _are_lists(length: int, *tensors: TensorInfo | None) -> bool:
    return all(tensor is not None and tensor.shape == (length,) for tensor in tensors)


def _parse_strided(node: TfliteNode) -> Parsed:
    require_values(node.inputs[:1], node.outputs)
    if node.inputs[0] is None:
        raise Unsupported("it needs an input")
    require_type(INDEX_DTYPES, *node.inputs[1:3])
    steps = shape_constant(node.inputs[3], "strides").reshape(-1).tolist()
    if 0 in steps or not _are_lists(len(steps), *node.inputs[1:4]):
        raise Unsupported("begin, end and strides must be lists of one length, and no stride may be 0")
    begins, ends = (
        None if t is None or t.constant is None else t.constant.reshape(-1).tolist() for t in node.inputs[1:3]
    )
    if node.options.Offset() and ends is not None:
        ends = None if begins is None else [begin + end for begin, end in zip(begins, ends, strict=True)]
    taken = dense_slice(len(node.inputs[0].shape), begins, ends, steps, node.options)
    computed = any(cut.computed is not None for cut in taken.cuts)
    return _cut_at(node.inputs[0], taken, from_end=True) if computed else Parsed(taken)


def _cut_at(source: TensorInfo, taken: Slice, *, from_end: bool) -> Parsed:
    """A slice with begins that are computed: they are in the second input."""
    shape = source.shape
    fixed = [(*cut.indices(size), cut.step) for cut, size in zip(taken.cuts, shape, strict=True)]
    places = {axis: cut.computed for axis, cut in enumerate(taken.cuts) if cut.computed is not None}
    (destination,) = taken.output_shapes([shape])
    return Parsed(slice_at(shape, fixed, places, destination, from_end=from_end), (0, 1))


def dense_slice(rank: int, begins: list[int] | None, ends: list[int] | None, steps: list[int], options: Any) -> Slice:
    """Resolve the masks to a cut for every dimension, also for those of the ellipsis. ``begins`` or ``ends`` is None if
    they are computed while the model runs.
    """

    def has(mask: int, i: int) -> bool:
        return bool(mask >> i & 1)

    count = len(steps)
    for name, mask in (("ellipsis", options.EllipsisMask()), ("new axis", options.NewAxisMask())):
        if mask >> count:
            raise Unsupported(f"its {name} mask {mask} has bits beyond its {count} ranges")
    if options.EllipsisMask().bit_count() > 1:
        raise Unsupported("it has more than one ellipsis")
    ellipsis = next((i for i in range(count) if has(options.EllipsisMask(), i)), count)
    # A dimension after the ellipsis is not added and taken: each entry is one of the three.
    added = [i for i in range(count) if has(options.NewAxisMask(), i) and i != ellipsis]
    used = count - len(added) - (ellipsis < count)
    if used > rank:
        raise Unsupported(f"{used} ranges for {rank} dimensions")
    if ellipsis < count and used == rank:
        raise Unsupported("its ellipsis stands for no dimension, and LiteRT takes it for one")
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
            if drop and steps[i] < 0:
                raise Unsupported(f"it takes one value of dimension {place} backwards, which LiteRT's result is not")
            begin = None if begins is None or has(options.BeginMask(), i) else int(begins[i])
            end = None if ends is None or has(options.EndMask(), i) else int(ends[i])
            computed = i if begins is None and not has(options.BeginMask(), i) else None
            if not drop and (computed is not None or (ends is None and not has(options.EndMask(), i))):
                raise Unsupported(f"the size of dimension {place} of its result is known only while the model runs")
            cuts.append(Cut(begin, end, int(steps[i]), drop, computed))
            place += not drop
    return Slice(tuple(cuts), tuple(new))


def _fold_slice(_: Any, inputs: list[np.ndarray]) -> np.ndarray:
    begins, sizes = (given.reshape(-1).tolist() for given in inputs[1:])
    return inputs[0][tuple(slice(a, None if n < 0 else a + n) for a, n in zip(begins, sizes, strict=True))]


def _fold_strided(options: Any, inputs: list[np.ndarray]) -> np.ndarray:
    begins, ends, steps = (given.reshape(-1).tolist() for given in inputs[1:4])
    if options.Offset():
        ends = [begin + end for begin, end in zip(begins, ends, strict=True)]
    taken = dense_slice(inputs[0].ndim, begins, ends, steps, options)
    index = tuple(cut.begin or 0 if cut.drop else slice(cut.begin, cut.end, cut.step) for cut in taken.cuts)
    result = np.asarray(inputs[0][index])
    for place in taken.new:
        result = np.expand_dims(result, place)
    return result


# SPLIT, SPLIT_V, UNPACK -----------------------------------------------------------------------------------------------


def _parse_split(node: TfliteNode) -> Parsed:
    require_values(node.inputs[1:2], node.outputs)
    source, axis = node.inputs[1], int(index_constant(node.inputs[0], "axis").reshape(-1)[0])
    if source is None:
        raise Unsupported("it needs an input")
    axis = axis_of(axis, len(source.shape))
    if source.shape[axis] % len(node.outputs):
        raise Unsupported(f"{source.shape[axis]} values do not split into {len(node.outputs)} parts")
    sizes = (source.shape[axis] // len(node.outputs),) * len(node.outputs)
    return Parsed(Split(sizes, axis, len(source.shape)), (1,))


def _parse_split_v(node: TfliteNode) -> Parsed:
    require_values(node.inputs[:1], node.outputs)
    source, sizes = node.inputs[0], index_constant(node.inputs[1], "sizes").reshape(-1).tolist()
    if source is None or len(sizes) != len(node.outputs) or sizes.count(-1) > 1:
        raise Unsupported(f"sizes {sizes} do not fit the {len(node.outputs)} outputs")
    axis = axis_of(int(index_constant(node.inputs[2], "axis").reshape(-1)[0]), len(source.shape))
    return Parsed(Split(_part_sizes(sizes, source.shape[axis]), axis, len(source.shape)))


def _part_sizes(sizes: Sequence[int], total: int) -> tuple[int, ...]:
    """The sizes of the parts of ``total`` values, of which one may be -1: it takes the rest."""
    rest = total - sum(n for n in sizes if n != -1)
    return tuple(rest if n == -1 else n for n in sizes)


def _fold_split_v(_: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    axis = int(inputs[2].reshape(-1)[0])
    sizes = _part_sizes(inputs[1].reshape(-1).tolist(), inputs[0].shape[axis])
    return np.split(inputs[0], np.cumsum(sizes[:-1]), axis)


def _parse_unpack(node: TfliteNode) -> Parsed:
    require_values(node.inputs[:1], node.outputs)
    if node.inputs[0] is None:
        raise Unsupported("it needs an input")
    rank = len(node.inputs[0].shape)
    return Parsed(Split((1,) * len(node.outputs), axis_of(node.options.Axis(), rank), rank, drop=True))


TFLITE = (
    TfliteOp(
        "SLICE", _parse_slice, max_version=8, inputs=3, max_rank=LARGEST_RANK, moves_values=True, fold=_fold_slice,
        unlike_litert=NEAREST_PLACE,
    ),
    TfliteOp(
        "STRIDED_SLICE", _parse_strided, max_version=8, inputs=4, max_rank=LARGEST_RANK, moves_values=True,
        fold=_fold_strided, unlike_litert=NEAREST_PLACE,
    ),
    TfliteOp(
        "SPLIT", _parse_split, max_version=5, inputs=2, max_rank=LARGEST_RANK, moves_values=True,
        fold=lambda options, inputs: np.split(inputs[1], options.NumSplits(), int(inputs[0].reshape(-1)[0])),
        results=(1,),
    ),
    TfliteOp(
        "SPLIT_V", _parse_split_v, max_version=3, inputs=3, max_rank=LARGEST_RANK, moves_values=True,
        fold=_fold_split_v,
    ),
    TfliteOp(
        "UNPACK", _parse_unpack, max_version=6, max_rank=LARGEST_RANK, moves_values=True,
        fold=lambda options, inputs: list(np.moveaxis(inputs[0], options.Axis(), 0)),
    ),
)  # fmt: skip
