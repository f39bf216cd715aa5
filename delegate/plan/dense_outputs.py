"""Outputs that are bound to a buffer without padding, and the launches that write parts of them directly."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable

from ...kernels.tensor import TensorId, slices
from ..lower.launches import LabelledLaunch, Lowered

Ranges = dict[TensorId, tuple[int, int]]
"""tensor -> (output, first element): a tensor's values are written directly into the unpadded buffer of an output."""


def dense_ranges(
    lowered: Lowered, outputs: Iterable[int], kept: Container[TensorId]
) -> tuple[Ranges, list[LabelledLaunch]]:
    """The tensors that launches can write directly into ``outputs``, which are bound to buffers without padding; and
    the launches that are still needed.

    The order of values in such a buffer does not depend on the shape. So a reshape needs no step, unless another launch
    reads its source too, or the source is ``kept`` in its own memory.
    """
    ranges: Ranges = {}
    launches = lowered.launches
    read = {lowered.parent(tensor) for entry in launches for tensor in entry.reads}
    for output in outputs:
        parts = _parts(lowered, output) if output not in read else None
        for tensor, first in (parts or {}).items():
            source, launches = _source(lowered, launches, tensor, kept)
            if source is not None:
                ranges[source] = (output, first)
    return ranges, launches


def _parts(lowered: Lowered, output: int) -> dict[int, int] | None:
    """The first element of each tensor that lies in ``output``, itself if none does; None if one is no range of
    whole pixels.
    """
    shape, found = lowered.shapes[output], dict[int, int]()
    for tensor, part in lowered.aliases.items():
        if part.parent == output:
            pixel, rest = divmod(part.start, slices(shape[3]))
            if rest or part.pixel_stride != slices(shape[3]) or lowered.shapes[tensor][3] != shape[3]:
                return None
            found[tensor] = pixel * shape[3]
    return found or {output: 0}


def _source(
    lowered: Lowered, launches: list[LabelledLaunch], tensor: int, kept: Container[TensorId]
) -> tuple[TensorId | None, list[LabelledLaunch]]:
    """The tensor to write there, and the launches that are still needed: the tensor itself, or the source if it is a
    reshape; None if no launch writes it.
    """
    writers = [entry for entry in launches if tensor in entry.launch.writes.values()]
    if len(writers) != 1 or not writers[0].launch.fusion.is_reshape or writers[0].epilogue or writers[0].input_ops:
        return tensor if writers else None, launches
    source = writers[0].launch.reads["src"]
    makers = [entry for entry in launches if source in entry.launch.writes.values()]
    readers = [entry for entry in launches if lowered.parent(source) in map(lowered.parent, entry.reads)]
    alone = len(makers) == len(readers) == 1 and lowered.alias(source) is None and source not in kept
    if not alone or math.prod(lowered.shapes[source]) != math.prod(lowered.shapes[tensor]):
        return tensor, launches
    return source, [entry for entry in launches if entry is not writers[0]]
