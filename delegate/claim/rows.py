"""Tensors that consist of rows of others, made by SLICE and CONCATENATION without a copy. A loop that fills a list
writes each step's row between two slices of the previous list, so each step copies all rows. Over all steps, the slices
are the rows that earlier steps wrote, and the list is their concatenation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...kernels.operation import Unsupported
from ...kernels.ops.arguments import axis_of
from ..read.model import RawOperator
from .parsing import ParsedSubgraph


@dataclass(frozen=True)
class Part:
    """``size`` rows of a tensor, the first of which is ``begin``."""

    tensor: int
    begin: int
    size: int


@dataclass(frozen=True)
class Rows:
    """A tensor of this ``shape``: parts of others one after the other along ``axis``.

    ``options`` are those of the CONCATENATION that joined them; None if there was none.
    """

    axis: int
    shape: tuple[int, ...]
    parts: tuple[Part, ...]
    options: Any = None


def rows_of(raw: RawOperator, parsed: ParsedSubgraph, known: Mapping[int, Rows]) -> Rows | None:
    """The rows that an operator takes; None if it does anything else, or if its result has none of their elements.

    ``known`` are the tensors that are rows of others already.
    """
    if raw.custom or len(raw.outputs) != 1 or raw.name not in ("SLICE", "CONCATENATION") or min(raw.inputs) < 0:
        return None
    kinds = {(parsed.stored[i].dtype, parsed.stored[i].quantization) for i in (*_moved(raw), *raw.outputs)}
    if len(kinds) > 1 or any(i in parsed.unknown for i in raw.inputs):
        return None
    return _sliced(raw, parsed, known) if raw.name == "SLICE" else _joined(raw, parsed, known)


def _moved(raw: RawOperator) -> tuple[int, ...]:
    return raw.inputs[:1] if raw.name == "SLICE" else raw.inputs


def _sliced(raw: RawOperator, parsed: ParsedSubgraph, known: Mapping[int, Rows]) -> Rows | None:
    if len(raw.inputs) != 3:
        return None
    shape = parsed.tensors[raw.inputs[0]].shape
    begins, sizes = (parsed.tensors[i].constant for i in raw.inputs[1:])
    if begins is None or sizes is None or not begins.size == sizes.size == len(shape):
        return None
    ranges = [
        (int(begin), dimension - int(begin) if size == -1 else int(size))
        for begin, size, dimension in zip(begins.reshape(-1), sizes.reshape(-1), shape, strict=True)
    ]
    if any(not 0 <= begin <= begin + size <= n or size < 0 for (begin, size), n in zip(ranges, shape, strict=True)):
        return None
    axes = [axis for axis, taken in enumerate(ranges) if taken != (0, shape[axis])]
    rows = known.get(raw.inputs[0])
    if len(axes) != 1 or (rows is not None and rows.axis != axes[0]):
        return None
    (axis,) = axes
    begin, size = ranges[axis]
    parts = rows.parts if rows is not None else (Part(raw.inputs[0], 0, shape[axis]),)
    taken = tuple(_taken(parts, begin, begin + size))
    return Rows(axis, (*shape[:axis], size, *shape[axis + 1 :]), taken, rows.options if rows is not None else None)


def _taken(parts: tuple[Part, ...], begin: int, end: int) -> list[Part]:
    """The parts of the rows from ``begin`` to before ``end``."""
    found, start = list[Part](), 0
    for part in parts:
        first, last = max(begin - start, 0), min(end - start, part.size)
        if first < last:
            found.append(Part(part.tensor, part.begin + first, last - first))
        start += part.size
    return found


def _joined(raw: RawOperator, parsed: ParsedSubgraph, known: Mapping[int, Rows]) -> Rows | None:
    if raw.options is None or raw.options.FusedActivationFunction() or not any(i in known for i in raw.inputs):
        return None
    shapes = [parsed.tensors[i].shape for i in raw.inputs]
    try:
        axis = axis_of(raw.options.Axis(), len(shapes[0]))
    except Unsupported:
        return None
    if len({(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}) > 1 or {len(s) for s in shapes} != {
        len(shapes[0])
    }:
        return None
    parts = list[Part]()
    for tensor, shape in zip(raw.inputs, shapes, strict=True):
        rows = known.get(tensor)
        if rows is not None and rows.axis != axis:
            return None
        parts += rows.parts if rows is not None else [Part(tensor, 0, shape[axis])]
    whole = (*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])
    return Rows(axis, whole, tuple(parts), raw.options) if parts else None
