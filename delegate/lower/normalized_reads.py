"""Rewrite of launches: the convolution that reads an instance normalization normalizes its input itself."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ...kernels.operation import Lowering
from ...kernels.ops.bottleneck.normalized_conv import Normalization, launch_normalized
from ...kernels.ops.convolution.conv import Convolution
from ...kernels.ops.convolution.separable import CLAMPS
from ...kernels.tensor import TensorId
from .launches import LabelledLaunch, Lowered, only_resizes


class _Reader(NamedTuple):
    """The convolution that is to normalize, and its operation; the copy before it that doubles pixels, if there is one,
    and the number of doublings; and whether other launches read the normalized tensor, too.
    """

    convolution: LabelledLaunch
    operation: Convolution
    copy: LabelledLaunch | None
    doublings: int
    kept: bool


def normalize_where_read(lowered: Lowered, entry: LabelledLaunch) -> None:
    """Let the first launch that reads a normalized tensor normalize it, if it is a convolution for matrix units. It
    also writes the normalized tensor if other launches read it.
    """
    if not entry.launch.fusion.is_normalization or not _is_halves(lowered, entry.launch.reads["src"]):
        return
    fused, reader = _fused(lowered, entry), _reader(lowered, entry)
    if fused is None or reader is None or entry.rounds or reader.convolution.rounds:
        return
    low, high, added = fused
    convolution, reads = reader.convolution, entry.launch.reads
    epsilon = float(entry.launch.constants["EPSILON"])
    inputs = (*(reads[name] for name in ("src", "gamma", "beta", "sums")), *added)
    kept = entry.destination if reader.kept else lowered.scratch((1, 1, 1, 4))
    outputs = (convolution.destination, kept)
    lowering = Lowering(inputs, outputs, lowered.shapes.__getitem__, lowered.scratch, lowered.target)
    normalization = Normalization(epsilon, low, high, reader.doublings, reader.kept)
    launch = launch_normalized(reader.operation, lowering, normalization)
    if launch is not None:
        labels = (entry.label, *([reader.copy.label] if reader.copy else []), convolution.label)
        merged = replace(convolution, launch=launch, label=" + ".join(labels))
        if lowered.replace(entry, convolution, merged):
            lowered.launches = [other for other in lowered.launches if other is not reader.copy]


def _is_halves(lowered: Lowered, tensor: TensorId) -> bool:
    """Whether the normalized tensor is in the program's own memory, and so in 16 bits."""
    shared = any(tensor in (part, alias.parent) for part, alias in lowered.aliases.items())
    inside = lowered.only_writer(tensor) is not None and tensor not in lowered.outputs
    return lowered.target.halves and inside and not shared


def _fused(lowered: Lowered, entry: LabelledLaunch) -> tuple[float, float, tuple[TensorId, ...]] | None:
    """The range of a normalization's activation, and the tensor added before it; None for any other epilogue."""
    added, ops = list[TensorId](), entry.epilogue
    first = ops[0].operand if ops and ops[0].expression == "ADD" and not ops[0].max_pool_2x2 else None
    if first is not None and lowered.shapes[first] == lowered.shapes[entry.destination]:
        added, ops = [first], ops[1:]
    bounds = CLAMPS.get(tuple(op.expression for op in ops))
    return None if bounds is None else (*bounds, tuple(added))


def _reader(lowered: Lowered, entry: LabelledLaunch) -> _Reader | None:
    """The first launch behind a normalization that reads its memory, perhaps with pixels doubled, if it is a
    convolution.
    """
    tensor, behind = entry.destination, lowered.launches[lowered.launches.index(entry) + 1 :]
    readers = [other for other in behind if lowered.parent(tensor) in map(lowered.parent, other.reads)]
    if not readers:
        return None
    copy, resize, doublings = None, only_resizes(readers[0]), 0
    first = readers[0]
    kept = len(readers) > 1 or lowered.only_reader(tensor) is None
    if resize is not None:
        height, width = lowered.shapes[tensor][1:3]
        factor = resize.size[0] // height
        doubled = not resize.bilinear and not resize.align_corners and resize.size == (factor * height, factor * width)
        following = lowered.only_reader(first.destination)
        if kept or not doubled or factor not in (2, 4) or following is None:
            return None
        copy, first, tensor, doublings = first, following, first.destination, factor.bit_length() - 1
    launch, operation = first.launch, first.launch.fusion.convolution
    plain = not (first.input_ops or first.partial_sums is not None or first.prologue or launch.resize)
    if not plain or launch.reads.get("src") != tensor or first.reads.count(tensor) != 1:
        return None
    return _Reader(first, operation, copy, doublings, kept) if isinstance(operation, Convolution) else None
