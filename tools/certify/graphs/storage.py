"""Storage of a draft: one graph in float32, with weights in 16 or 8 bits, or quantized to 8 or 16 bits throughout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from ....video.tflite_writer import G, Op, T, build
from .draft import Array, Draft, Entry

Storage = Literal["float32", "float16", "dynamic", "int8", "int16"]
STORAGES: tuple[Storage, ...] = ("float32", "float16", "dynamic", "int8", "int16")
"""float16: weights in halves behind DEQUANTIZE; dynamic: 8-bit weights of float operators; the others throughout."""
Range = tuple[float, float]
Ranges = Mapping[int, Range]
Scale = tuple[float, int]
"""A scale and a zero point."""
FIXED: dict[tuple[str, str], Scale] = {
    ("LOGISTIC", "int8"): (1 / 256, -128), ("SOFTMAX", "int8"): (1 / 256, -128), ("TANH", "int8"): (1 / 128, 0),
    ("LOGISTIC", "int16"): (1 / 32768, 0),
}  # fmt: skip
"""Scales that LiteRT demands of outputs."""
HYBRID = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
"""Operators of float activations that take 8-bit weights."""


def write(draft: Draft, storage: Storage, ranges: Ranges | None = None, without: int | None = None) -> bytes:
    """The model's bytes. Integers need the range of each activation; tensors have the numbers of the entries.

    ``without`` leaves out the operator of that number: the model's inputs are then the draft's and its outputs.
    """
    tensors, before = tensors_of(draft, storage, ranges)
    operators = [operator for i, operator in enumerate(draft.operators) if i != without]
    inputs = [0] if without is None else list(dict.fromkeys([0, *draft.operators[without].outputs]))
    return build(G(tensors, [*before, *operators], inputs, draft.outputs()))


def tensors_of(draft: Draft, storage: Storage, ranges: Ranges | None) -> tuple[list[T], list[Op]]:
    """The tensors in this storage, and operators that make the weights of others."""
    if storage in ("int8", "int16"):
        assert ranges is not None
        scales = _scales(draft, storage, ranges)
        return [_quantized(draft, i, scales, storage) for i in range(len(draft.entries))], []
    if storage == "float16":
        return _with_halves(draft)
    hybrid = _hybrid_weights(draft) if storage == "dynamic" else set[int]()
    tensors = [
        _eight_bits(f"t{i}", entry) if i in hybrid else _plain(f"t{i}", entry) for i, entry in enumerate(draft.entries)
    ]
    return tensors, []


def float_twin(draft: Draft) -> Draft:
    """The draft whose weights are the numbers that those of its "dynamic" model stand for."""
    entries = list(draft.entries)
    for i in _hybrid_weights(draft):
        stored = _eight_bits("", entries[i])
        values = np.asarray(stored.values, np.float32) * _along(np.array(stored.scales, np.float32), entries[i])
        entries[i] = replace(entries[i], values=values)
    return replace(draft, entries=entries)


def _hybrid_weights(draft: Draft) -> set[int]:
    """The weights that "dynamic" stores in 8 bits."""
    return {i for op in draft.operators if op.name in HYBRID for i in op.inputs if draft.entries[i].role == "weights"}


def with_constants(draft: Draft, change: Callable[[Array], Array]) -> Draft:
    """The draft with other numbers in its weights, biases and operands."""
    entries = [
        replace(e, values=change(e.values)) if e.values is not None and e.role != "integers" else e
        for e in draft.entries
    ]
    return replace(draft, entries=entries)


def _plain(name: str, entry: Entry) -> T:
    return T(name, entry.shape, entry.values, "int32" if entry.role == "integers" else "float32")


def _with_halves(draft: Draft) -> tuple[list[T], list[Op]]:
    tensors = [_plain(f"t{i}", entry) for i, entry in enumerate(draft.entries)]
    operators: list[Op] = []
    for i, entry in enumerate(draft.entries):
        if entry.role in ("weights", "bias"):
            tensors.append(T(f"half of t{i}", entry.shape, entry.values, "float16"))
            tensors[i] = T(f"t{i}", entry.shape)
            operators.append(Op("DEQUANTIZE", [len(tensors) - 1], [i]))
    return tensors, operators


def _along(scales: Array, entry: Entry) -> Array:
    """Scales of weights in a shape that broadcasts to them."""
    return scales.reshape([-1 if i == entry.axis else 1 for i in range(len(entry.shape))])


def _eight_bits(name: str, entry: Entry) -> T:
    """Symmetric weights with one scale for each index along the axis."""
    assert entry.values is not None and entry.axis is not None
    others = tuple(i for i in range(len(entry.shape)) if i != entry.axis)
    scales = np.maximum(np.abs(entry.values).max(others), 1e-6).astype(np.float32) / np.float32(127)
    stored = np.clip(np.rint(entry.values / _along(scales, entry)), -127, 127)
    return T(
        name, entry.shape, stored, "int8", scales=scales.tolist(), zero_points=[0] * len(scales), axis=entry.axis
    )  # fmt: skip


def _quantized(draft: Draft, tensor: int, scales: Mapping[int, Scale], storage: str) -> T:
    entry, name = draft.entries[tensor], f"t{tensor}"
    if entry.role == "integers":
        return _plain(name, entry)
    if entry.role == "weights":
        return _eight_bits(name, entry)
    if entry.role == "bias":
        assert entry.values is not None
        of_weights = _eight_bits("", draft.entries[entry.weights]).scales
        factor = np.array(of_weights, np.float32) * np.float32(scales[entry.source][0])
        values = np.rint(entry.values / factor)
        dtype = "int64" if storage == "int16" else "int32"
        return T(name, entry.shape, values, dtype, scales=factor.tolist(), zero_points=[0] * len(factor))
    scale, zero_point = scales[tensor]
    values = None
    if entry.values is not None:
        limits = np.iinfo(storage)
        values = np.clip(np.rint(entry.values / scale) + zero_point, limits.min, limits.max)
    return T(name, entry.shape, values, storage, scales=[scale], zero_points=[zero_point])


def _scales(draft: Draft, storage: str, ranges: Mapping[int, Range]) -> dict[int, Scale]:
    """The scale of each activation and operand; those that must be the same share one range."""
    parents = list(range(len(draft.entries)))

    def root(i: int) -> int:
        while parents[i] != i:
            i = parents[i]
        return i

    for a, b in draft.same:
        parents[root(a)] = root(b)
    found: dict[int, Range] = {}
    for i, entry in enumerate(draft.entries):
        if entry.role in ("activation", "operand"):
            low, high = ranges[i] if entry.values is None else (float(entry.values.min()), float(entry.values.max()))
            before = found.get(root(i), (0.0, 0.0))
            found[root(i)] = min(before[0], low), max(before[1], high)
    scales = {i: _scale(of, storage) for i, of in found.items()}
    scales |= {root(i): FIXED[name, storage] for i, name in draft.fixed.items() if (name, storage) in FIXED}
    return {i: scales[root(i)] for i, e in enumerate(draft.entries) if e.role in ("activation", "operand")}


def _scale(of: Range, storage: str) -> Scale:
    low, high = of
    if high - low < 1e-6:
        high = low + 1
    if storage == "int16":
        return float(np.float32(max(-low, high) / 32767)), 0
    scale = float(np.float32((high - low) / 255))
    return scale, int(np.clip(np.rint(-128 - low / scale), -128, 127))
