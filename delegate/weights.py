"""All constants of a program as one block of bytes in the layout that its kernels read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..kernels.layout import SLICE_BYTES, Shape, Storage, slices
from .graph import Graph
from .lower import VALUES, Lowered

Key = int | tuple[int, str]
"""A constant tensor's number, or a launch's number and the name of one of its arrays."""

LARGEST_HALF = 65504.0


@dataclass(frozen=True)
class Constant:
    """Where a constant lies: offset and size in bytes, and its storage (f32 where halves would overflow)."""

    offset: int
    nbytes: int
    storage: Storage


def pack_constants(
    lowered: Lowered, graph: Graph, storage: Storage, alignment: int
) -> tuple[np.ndarray, dict[Key, Constant]]:
    """The block (uint8) and where each constant lies in it.

    Constants of launches that round to the steps of a quantized tensor stay f32: 16 bits move sums across steps.
    """
    arrays: dict[Key, np.ndarray] = {}
    precise: set[Key] = set()
    for number, entry in enumerate(lowered.launches):
        for name, array in entry.arrays.items():
            arrays[number, name] = array
            if entry.rounds or name.startswith(VALUES):
                precise.add((number, name))
        if entry.rounds:
            precise.update(entry.reads)
    read = {tensor for entry in lowered.launches for tensor in entry.reads}
    for tensor in dict.fromkeys((*sorted(read), *graph.outputs)):  # an output that is constant is copied out
        info = graph.tensors.get(tensor)
        if info is not None and info.constant is not None:
            arrays[tensor] = pack_slices(info.constant, lowered.shapes[tensor])
            if info.constant.dtype.kind != "f":  # indices are exact
                precise.add(tensor)
    places: dict[Key, Constant] = {}
    parts: list[bytes] = []
    end = 0
    for key, array in arrays.items():
        fits = storage == "f16" and key not in precise and float(np.abs(array).max(initial=0.0)) <= LARGEST_HALF
        kept: Storage = "f16" if fits else "f32"
        part = array.astype(np.float16 if fits else np.float32).tobytes()
        assert len(part) == array.shape[0] * SLICE_BYTES[kept]
        places[key] = Constant(end, len(part), kept)
        parts.append(part + bytes(-len(part) % alignment))
        end += len(parts[-1])
    return np.frombuffer(b"".join(parts), np.uint8), places


def pack_slices(values: np.ndarray, shape: Shape) -> np.ndarray:
    """A constant tensor as (n, 4) float32 in slices of four channels, padded with zeros."""
    batch, height, width, channels = shape
    packed = np.zeros((batch * height * width, slices(channels) * 4), np.float32)
    packed[:, :channels] = values.reshape(-1, channels)
    return packed.reshape(-1, 4)
