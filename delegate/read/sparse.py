"""Sparse constants of a model as plain arrays.

The format is TensorFlow Lite's SparsityParameters (schema.fbs): the dimensions in the order of storage, blocks as
further dimensions, and for each of them its size, or, as compressed sparse rows, the segments and indices of the stored
values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

MAX_DENSE_BYTES = 1 << 28
"""The largest size of a sparse constant when it is dense: a few bytes of a file could declare any size."""

Indices = npt.NDArray[np.int64]


def dense(values: npt.NDArray[Any], shape: tuple[int, ...], table: tflite.SparsityParameters) -> npt.NDArray[Any]:
    """The constant of this shape, with zeros where nothing is stored; read-only. Raises ValueError for damaged tables.

    ``values`` are those stored, in order.
    """
    if math.prod(shape) * values.itemsize > MAX_DENSE_BYTES:
        raise ValueError(f"shape {list(shape)} is larger than {MAX_DENSE_BYTES} bytes")
    order, blocked = [_listed(vector) for vector in (table.TraversalOrderAsNumpy(), table.BlockMapAsNumpy())]
    rank, levels = len(shape), len(shape) + len(blocked)
    if table.DimMetadataLength() != levels or not _is_traversal(order, blocked, rank):
        raise ValueError(f"order {order} and blocks {blocked} are none of {rank} dimensions")
    places = list(_places(table, levels, math.prod(shape)))
    if len(places[-1]) != len(values):
        raise ValueError(f"{len(values)} values are stored, but {len(places[-1])} have a place")
    position = np.zeros((rank, len(values)), np.int64)
    block_sizes = dict.fromkeys(range(rank), 1)
    for level in range(rank, levels):
        block_sizes[blocked[order[level] - rank]] *= _metadata(table, level).DenseSize()
    for level, dimension in enumerate(order):
        if dimension < rank:
            position[dimension] += places[level] * block_sizes[dimension]
        else:
            position[blocked[dimension - rank]] += places[level]
    if any((row < 0).any() or (row >= size).any() for row, size in zip(position, shape, strict=True)):
        raise ValueError(f"a value lies outside the shape {list(shape)}")
    result = np.zeros(shape, values.dtype)
    result[tuple(position)] = values
    result.flags.writeable = False
    return result


def _is_traversal(order: list[int], blocked: list[int], rank: int) -> bool:
    """Whether the order has every dimension once, blocks last, and blocks divide ascending dimensions, as in LiteRT."""
    outer, inner = order[:rank], order[rank:]
    sound = rank > 0 and sorted(outer) == list(range(rank)) and sorted(inner) == list(range(rank, rank + len(blocked)))
    return sound and sorted(set(blocked)) == blocked and all(0 <= dimension < rank for dimension in blocked)


def _places(table: tflite.SparsityParameters, levels: int, limit: int) -> Iterator[Indices]:
    """The index along each dimension, in stored order, of every value."""
    ways: list[Indices] = []
    rows = 1
    for level in range(levels):
        metadata = _metadata(table, level)
        if metadata.Format() == tflite.DimensionType.DENSE:
            size = metadata.DenseSize()
            if size < 1 or rows * size > limit:
                raise ValueError(f"dimension {level} claims a size of {size}")
            counts, own = np.full(rows, size), np.tile(np.arange(size), rows)
        else:
            counts, own = _compressed(metadata, level, rows)
        ways = [np.repeat(way, counts) for way in ways]
        ways.append(own)
        rows = len(own)
    yield from ways


def _metadata(table: tflite.SparsityParameters, level: int) -> tflite.DimensionMetadata:
    metadata = table.DimMetadata(level)
    if metadata is None:
        raise ValueError(f"dimension {level} is missing")
    return metadata


def _compressed(metadata: tflite.DimensionMetadata, level: int, rows: int) -> tuple[Indices, Indices]:
    """The number of indices of each row, and the indices of all rows."""
    segments = _vector(metadata.ArraySegmentsType(), metadata.ArraySegments())
    indices = _vector(metadata.ArrayIndicesType(), metadata.ArrayIndices())
    counts = np.diff(segments)
    if len(segments) != rows + 1 or segments[0] != 0 or segments[-1] != len(indices) or (counts < 0).any():
        raise ValueError(f"the segments of dimension {level} are not those of {rows} rows and {len(indices)} indices")
    return counts, indices


_VECTORS = {
    tflite.SparseIndexVector.Int32Vector: tflite.Int32Vector,
    tflite.SparseIndexVector.Uint16Vector: tflite.Uint16Vector,
    tflite.SparseIndexVector.Uint8Vector: tflite.Uint8Vector,
}


def _vector(kind: int, union: Any) -> Indices:
    if kind not in _VECTORS or union is None:
        return np.empty(0, np.int64)
    table = _VECTORS[kind]()
    table.Init(union.Bytes, union.Pos)
    return np.array(_listed(table.ValuesAsNumpy()), np.int64)


def _listed(vector: Any) -> list[int]:
    """A vector of a flatbuffer; tflite returns 0 if the file has none."""
    return vector.tolist() if isinstance(vector, np.ndarray) else []
