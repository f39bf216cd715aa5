"""MEAN, SUM, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD, REDUCE_ANY and REDUCE_ALL."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...operation import Collapsed, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import INT32_BOUNDS, LARGEST_RANK, Bounds, TensorId, TensorInfo, bhwc_axis, merged_runs, slices
from ..arguments import axis_of, index_constant, is_index, require_float, require_type
from ..movement.reshape import launch_reshape
from ..pointwise.integers import known_bounds, wrapped

KINDS = {"SUM": 0, "REDUCE_MAX": 1, "REDUCE_MIN": 2, "REDUCE_PROD": 3, "MEAN": 0, "REDUCE_ANY": 1, "REDUCE_ALL": 2}
"""The kernel's number of each reduction; a mean is a sum, divided, and truth values are 0 and 1."""
IDENTITY = (0.0, 0.0, 0.0, 1.0)
"""Number that a sum and a product begin with, by the kernel's number. A maximum and a minimum begin with NaN."""
INTEGER_IDENTITY = (0, *INT32_BOUNDS, 1)
LEAST_SHARED, FEW_ITEMS_PART = 32, 48
"""A work-group computes each result together, if a result has at least so many values, and if there are fewer results
than 1/48 of the invocations that the device keeps resident. Otherwise a few groups would read one value after the
other. 2,048 sums of 64 values took 16 us on an H200 on 2026-11-22, on 8 groups (selfie_segmentation, 8 frames). Sharing
was measured only together with the change of squeeze-and-excite of that day: docs/internals/squeeze-excite.md.
"""
LONGEST_MEAN = 32767
"""The most integers whose mean is taken: the sum of their remainders fits 32 bits."""


@dataclass(frozen=True)
class Reduction(Operation):
    """A reduction, by its TFLite name: ``axes`` of a TFLite shape of ``rank`` dimensions, not negative; ``keep`` says
    that they stay with size 1.
    """

    axes: tuple[int, ...]
    rank: int
    _: KW_ONLY
    keep: bool
    kind: str = "MEAN"
    integers: bool = False

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        kept = [1 if axis in self.axes else size for axis, size in enumerate(shapes[0])]
        return [tuple(size for axis, size in enumerate(kept) if self.keep or axis not in self.axes)]

    def lower(self, lowering: Lowering) -> list[Launch]:
        axes = frozenset(bhwc_axis(axis, self.rank) for axis in self.axes)
        return lower_reduction(lowering, axes, self.kind, integers=self.integers)

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        """Reductions of one run of neighbouring axes after the other, until at most four runs are left."""
        wide = [axis for axis, size in enumerate(shapes[0]) if size > 1 or axis == self.rank - 1]
        sizes, reduced = merged_runs([shapes[0][axis] for axis in wide], [axis in self.axes for axis in wide])
        steps: list[Collapsed] = []
        while len(sizes) > 4:
            run = reduced.index(True)
            before, behind = math.prod(sizes[:run]), math.prod(sizes[run + 1 :])
            step = replace(self, axes=(1,), rank=3, keep=True)
            if self.integers and self.kind == "MEAN":
                raise Unsupported("its mean of integers is taken in several steps, each of which would round")
            steps.append(Collapsed(step, ((before, sizes[run], behind),), ((before, 1, behind),)))
            sizes, reduced = merged_runs(sizes[:run] + sizes[run + 1 :], reduced[:run] + reduced[run + 1 :])
        axes = tuple(axis for axis, is_reduced in enumerate(reduced) if is_reduced)
        last = replace(self, axes=axes, rank=len(sizes), keep=True)
        return [*steps, Collapsed(last, (sizes,), tuple(last.output_shapes([sizes])))]


def lower_reduction(
    lowering: Lowering,
    axes: frozenset[int],
    kind: str = "MEAN",
    destination: TensorId | None = None,
    *,
    integers: bool = False,
) -> list[Launch]:
    """One dispatch that reduces ``axes`` of BHWC into ``destination`` (by default the output), and a reshape if the
    channels are dropped.

    Output pixels have the same order whether other reduced axes are dropped or kept, so the kernel only counts pixels.
    """
    shape = lowering.shape(lowering.inputs[0])
    extents = (shape[0], shape[1], shape[2], slices(shape[3]))
    sizes = {f"REDUCED_{name}": extents[axis] if axis in axes else 1 for axis, name in enumerate("BHWS")}
    kept = {f"KEPT_{name}": 1 if axis in axes else extents[axis] for axis, name in enumerate("BHWS")}
    items, count = math.prod(kept.values()), math.prod(sizes.values())
    few = count >= LEAST_SHARED and items <= lowering.target.invocations // FEW_ITEMS_PART
    cooperative = few or count >= lowering.group_size // 2
    values = math.prod(shape[axis] for axis in axes)
    constants: dict[str, int | float] = {**sizes, **kept, "ITEMS": items, "COOPERATIVE": int(cooperative)}
    constants |= {"KIND": KINDS[kind], "CHANNELS": int(3 in axes)}
    places = lowering.group_size if cooperative else 1
    if integers:
        kernel, local = "integer_reduce", (("int4", "partial", places), ("int4", "partial_rests", places))
        mean = kind == "MEAN"
        constants |= {"IDENTITY": INTEGER_IDENTITY[KINDS[kind]], "MEAN": int(mean), "DIVISOR": values if mean else 1}
    else:
        kernel, local = "reduce", (("float4", "partial", places),)
        constants |= {"IDENTITY": IDENTITY[KINDS[kind]], "DIVISOR": float(values) if kind == "MEAN" else 1.0}
    group_count = items if cooperative else lowering.group_count(items)
    reads, destination = {"src": lowering.inputs[0]}, lowering.outputs[0] if destination is None else destination
    if lowering.shape(destination)[3] == (1 if 3 in axes else shape[3]):
        return [Launch(kernel, reads, {"dst": destination}, group_count, constants, {}, local)]
    kept_shape = (*(1 if axis in axes else size for axis, size in enumerate(shape)),)
    reduced = lowering.scratch((kept_shape[0], kept_shape[1], kept_shape[2], kept_shape[3]))
    return [
        Launch(kernel, reads, {"dst": reduced}, group_count, constants, {}, local),
        launch_reshape(lowering, reduced, destination),
    ]


def _parse_truths(node: TfliteNode, *, kind: str) -> Parsed:
    require_type({"bool"}, node.inputs[0], *node.outputs)
    return Parsed(_reduction(node, kind))


def _parse(node: TfliteNode, *, kind: str) -> Parsed:
    source, dtype = node.inputs[0], node.outputs[0].dtype
    if source is None or not is_index(source, dtype):
        require_float(source, *node.outputs)
        return Parsed(_reduction(node, kind))
    reduction = replace(_reduction(node, kind), integers=True)
    count = math.prod(source.shape[axis] for axis in reduction.axes)
    return Parsed(reduction, integers=True, bounds=_integer_bounds(source, count, kind, dtype))


def _reduction(node: TfliteNode, kind: str) -> Reduction:
    source = node.inputs[0]
    if source is None or not source.shape:
        raise Unsupported("it needs an input of rank 1 or more")
    rank = len(source.shape)
    axes = tuple(sorted({axis_of(axis, rank) for axis in index_constant(node.inputs[1], "axes").reshape(-1)}))
    return Reduction(axes, rank, keep=bool(node.options.KeepDims()), kind=kind)


def _integer_bounds(source: TensorInfo, count: int, kind: str, dtype: str) -> Bounds:
    """The bounds of a reduction of ``count`` integers. Raises Unsupported if its result may not be exact."""
    lowest, highest = known_bounds(source)
    if kind == "MEAN" and count > LONGEST_MEAN:
        raise Unsupported(f"its mean is that of {count} integers; {LONGEST_MEAN} at most are supported")
    if kind == "SUM":
        return wrapped((lowest * count, highest * count), dtype)
    if kind != "REDUCE_PROD":
        return lowest, highest
    largest = max(abs(lowest), abs(highest)) ** min(count, 64)  # what overflows so soon stays so
    return wrapped((-largest, largest), dtype)


def _fold(_: Any, inputs: list[np.ndarray], *, reduce: Callable[..., Any]) -> np.ndarray:
    if inputs[0].dtype.kind == "f":
        raise ValueError("the order of a sum of floats is the device's")
    return np.asarray(reduce(inputs[0], tuple(inputs[1].reshape(-1).tolist())))


_FOLDS: dict[str, Callable[..., Any]] = {
    "SUM": np.sum, "REDUCE_MAX": np.max, "REDUCE_MIN": np.min, "REDUCE_PROD": np.prod, "REDUCE_ANY": np.any,
    "REDUCE_ALL": np.all,
}  # fmt: skip


_OF_NAN = "NaN does not count beside numbers; LiteRT forgets what came before it"


def _row(kind: str) -> TfliteOp:
    fold = partial(_fold, reduce=_FOLDS[kind]) if kind in _FOLDS else None
    parse = _parse_truths if kind in ("REDUCE_ANY", "REDUCE_ALL") else _parse
    return TfliteOp(
        kind, partial(parse, kind=kind), max_version=3, inputs=2, max_rank=LARGEST_RANK, fold=fold,
        unlike_litert=_OF_NAN if kind in ("REDUCE_MAX", "REDUCE_MIN") else "", keeps_declared_type=True,
    )  # fmt: skip


TFLITE = tuple(map(_row, KINDS))
