"""All constants of a program as one block of bytes in the layout that its kernels read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...kernels.operation import PackedArray
from ...kernels.tensor import LARGEST_HALF, Shape, slices
from ...kernels.views import SLICE_BYTES, Storage
from ..transform.graph import Graph
from .launches import VALUES, Lowered

Key = int | tuple[int, str]
"""A constant tensor's number, or a launch's number and the name of one of its arrays."""

_DTYPES: dict[Storage, type] = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "u16": np.uint16}
_WHOLE: dict[np.dtype[Any], Storage] = {np.dtype(np.int32): "i32", np.dtype(np.uint16): "u16"}
"""The storage of arrays that hold whole numbers."""


@dataclass(frozen=True)
class PackedConstant:
    """The place of a constant in the block: offset and size in bytes; and its storage, f32 if halves would overflow."""

    offset: int
    nbytes: int
    storage: Storage


Constants = tuple[np.ndarray, dict[Key, PackedConstant]]
"""All constants as one block of bytes, and the place of each in it."""


@dataclass(frozen=True)
class Wanted:
    """The constants of a program by key, those that must not be stored as halves (``keep_f32``), and those that are
    stored as halves only if halves hold each value exactly (``exact``).

    ``keep_f32`` are indices, the numbers of fused operations, all that an exact launch reads, and tensors that a launch
    reads which rounds to the steps of a quantized tensor; ``exact`` are the arrays of a launch that does so: a rounded
    weight can move a sum across a step.
    """

    arrays: dict[Key, PackedArray]
    keep_f32: set[Key]
    exact: set[Key]

    def fits(self, places: Mapping[Key, PackedConstant], nbytes: int) -> bool:
        """Whether these are places of these constants, in a block of ``nbytes``."""
        return places.keys() == self.arrays.keys() and all(
            place.nbytes == self.arrays[key].rows * SLICE_BYTES[place.storage]
            and 0 <= place.offset <= nbytes - place.nbytes
            for key, place in places.items()
        )


def list_constants(lowered: Lowered, graph: Graph) -> Wanted:
    """The constants that ``pack_constants`` packs. No value is computed or read yet."""
    wanted = Wanted({}, set(), set())
    for entry in lowered.launches:
        for name, array in entry.arrays.items():
            wanted.arrays[entry.number, name] = array
            if VALUES in name or array.exact or entry.exact:
                wanted.keep_f32.add((entry.number, name))
            elif entry.rounds:
                wanted.exact.add((entry.number, name))
        if entry.rounds or entry.exact:
            wanted.keep_f32.update(tensor for tensor in entry.reads if isinstance(tensor, int))
    read = {tensor for entry in lowered.launches for tensor in entry.reads if isinstance(tensor, int)}
    for tensor in dict.fromkeys((*sorted(read), *graph.outputs)):  # an output that is constant is copied out
        info = graph.tensors[tensor]
        if info.constant is not None:
            kind = np.int32 if tensor in lowered.integers else np.float32
            wanted.arrays[tensor] = pack_slices(info.constant, lowered.shapes[tensor], kind)
            if info.constant.dtype.kind != "f":  # indices are exact
                wanted.keep_f32.add(tensor)
    return wanted


def pack_constants(wanted: Wanted, storage: Storage, alignment: int) -> Constants:
    """The block (uint8), and the place of each constant in it; offsets are multiples of ``alignment`` bytes."""
    places: dict[Key, PackedConstant] = {}
    parts: list[bytes] = []
    alike: dict[int, list[tuple[int, bytes]]] = {}
    """The constants of each size and their places: the steps of a loop have equal constants."""
    end = 0
    for key, packed in wanted.arrays.items():
        array = packed.make()
        if key in wanted.exact:
            with np.errstate(over="ignore"):
                fits = np.array_equal(array.astype(np.float16), array)
        else:
            small = float(np.abs(array).max(initial=0.0)) <= LARGEST_HALF
            fits = storage == "f16" and key not in wanted.keep_f32 and small
        kept = _WHOLE.get(array.dtype, "f16" if fits else "f32")
        part = array.astype(_DTYPES[kept]).tobytes()
        assert len(part) == packed.rows * SLICE_BYTES[kept]
        same = alike.setdefault(len(part), [])
        offset = next((place for place, padded in same if padded.startswith(part)), end)
        places[key] = PackedConstant(offset, len(part), kept)
        if offset == end:
            parts.append(part + bytes(-len(part) % alignment))
            same.append((end, parts[-1]))
            end += len(parts[-1])
    return np.frombuffer(b"".join(parts), np.uint8), places


def pack_slices(values: np.ndarray, shape: Shape, kind: type[np.float32 | np.int32] = np.float32) -> PackedArray:
    """A constant tensor as (n, 4) numbers of this kind in slices of four channels, padded with zeros."""
    batch, height, width, channels = shape

    def pack() -> np.ndarray:
        packed = np.zeros((batch * height * width, slices(channels) * 4), kind)
        packed[:, :channels] = values.reshape(-1, channels)
        return packed.reshape(-1, 4)

    return PackedArray(batch * height * width * slices(channels), pack)
