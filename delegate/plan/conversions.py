"""Copies between bound objects and the tensors that kernels use, if kernels cannot use the objects themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...kernels.operation import Lowering
from ...kernels.ops.movement.transpose import Transpose
from ...kernels.ops.pointwise.elementwise import Elementwise
from ...kernels.ops.pointwise.quantize import Store
from ...kernels.tensor import TO_CHANNELS_FIRST, TO_CHANNELS_LAST, BoundObject, Frame, Permutation, TensorId
from ...kernels.views import Dense, Picture, Quantized, Sampled, Sliced, Strided
from ..lower.launches import LabelledLaunch, Lowered
from ..transform.graph import Graph
from .binding import BoundView, Frames
from .dense_outputs import Ranges, dense_ranges
from .placement import direct_view

_SAME: Permutation = (0, 1, 2, 3)
_OPPOSITE = {_SAME: _SAME, TO_CHANNELS_LAST: TO_CHANNELS_FIRST, TO_CHANNELS_FIRST: TO_CHANNELS_LAST}
"""The permutation that undoes another."""


def add_conversions(
    graph: Graph, lowered: Lowered, views: Mapping[int, BoundView], transposed: Mapping[int, Permutation]
) -> tuple[list[LabelledLaunch], Ranges]:
    """The launches, with copies from pictures and integers before, and copies to objects that no kernel writes after.

    ``views`` are those of the objects bound to the graph's inputs and outputs, and ``transposed`` has the order of
    dimensions in objects that differs from the tensor's. Frames that are bound one by one have one copy each, which run
    side by side. Also returns the tensors that kernels write into a bound buffer without padding (see
    ``dense_ranges``).
    """
    outputs = [i for i in graph.outputs if isinstance(direct_view(views[i]), Dense)]
    dense, launches = dense_ranges(lowered, outputs, graph.outputs)
    direct = {output for output, _ in dense.values()}
    copies = replace(lowered, launches=[], shapes=dict(lowered.shapes))
    for tensor in graph.inputs:
        order = transposed.get(tensor, _SAME)
        if (order != _SAME and _is_read(tensor, lowered)) or _is_copied_in(tensor, views[tensor], lowered):
            for bound, inside in _parts(tensor, views[tensor], order):
                _add_copy(copies, bound, inside, _OPPOSITE[order])
    copies.launches += launches
    for tensor in graph.outputs:
        order = transposed.get(tensor, _SAME)
        if tensor not in direct and (order != _SAME or _is_copied_out(tensor, views[tensor], lowered)):
            for bound, inside in _parts(tensor, views[tensor], order):
                _add_copy(copies, inside, bound, order, stored=isinstance(views[tensor], Quantized))
    return copies.launches, dense


def _parts(tensor: int, view: BoundView, order: Permutation) -> list[tuple[BoundObject, TensorId]]:
    """The objects that are bound to a tensor, each with the part of the tensor that it holds."""
    if not isinstance(view, Frames):
        return [(BoundObject(tensor, permutation=order), tensor)]
    frames = [Frame(tensor, number, len(view.views)) for number in range(len(view.views))]
    return [(BoundObject(tensor, frame, order), frame) for frame in frames]


def _is_copied_in(tensor: int, view: BoundView, lowered: Lowered) -> bool:
    """Whether an input is copied before it is read: integers and frames always, a picture unless it is read once.

    A picture is sampled: it is copied once instead of sampled by every kernel.
    """
    if not _is_read(tensor, lowered):
        return False
    return isinstance(view, Quantized | Frames) or (isinstance(view, Sampled) and not _is_read_once(lowered, tensor))


def _is_copied_out(tensor: int, view: BoundView, lowered: Lowered) -> bool:
    """Whether an output is copied to the bound object instead of written there by a kernel.

    This holds for integers, frames, outputs that no kernel writes, pictures, halves and numbers of int32 that are read
    again, and outputs that are written in parts, unless the object has slices of floats.
    """
    written = {lowered.parent(i) for entry in lowered.launches for i in entry.launch.writes.values()}
    in_parts = any(alias.parent == tensor for alias in lowered.aliases.values())
    return (
        isinstance(view, Quantized | Frames)
        or tensor not in written
        or ((isinstance(view, Picture) or _rounds(tensor, view, lowered)) and _is_read(tensor, lowered))
        or (in_parts and (_has_halves(view) or not isinstance(direct_view(view), Sliced)))
    )


def _rounds(tensor: int, view: BoundView, lowered: Lowered) -> bool:
    """Whether the object does not hold all numbers of the tensor: halves, or floats for integers of 32 bits."""
    return _has_halves(view) or lowered.parent(tensor) in lowered.integers


def _has_halves(view: BoundView) -> bool:
    """Whether a user's array holds float16: the model's own kernels should read values that are not rounded."""
    return (isinstance(view, Strided) and view.dtype == "float16") or (
        isinstance(view, Sliced) and view.storage == "f16"
    )


def _is_read(tensor: int, lowered: Lowered) -> bool:
    """Whether a launch reads the tensor, or one that lies in its memory."""
    return any(lowered.parent(i) == tensor for entry in lowered.launches for i in entry.reads)


def _is_read_once(lowered: Lowered, tensor: int) -> bool:
    """Whether only one launch reads the tensor, each pixel once, and no other tensor lies in its memory."""
    readers = [entry for entry in lowered.launches if tensor in map(lowered.parent, entry.reads)]
    if len(readers) != 1 or readers[0].reads.count(tensor) != 1:
        return False
    (reader,) = readers
    sampled = reader.launch.fusion.single_pass_read and reader.launch.reads.get("src") == tensor
    return sampled and not reader.input_ops and not reader.integers


def _add_copy(
    copies: Lowered, source: TensorId, destination: TensorId, order: Permutation, *, stored: bool = False
) -> None:
    """Append a copy: dimension i of the destination is dimension ``order[i]`` of the source. With ``stored``, it writes
    the integers of a quantized tensor instead of numbers.
    """
    name, operation = ("STORE", Store()) if stored else ("COPY", Elementwise())
    if order != _SAME:
        name, operation = "TRANSPOSE", Transpose(order)
    lowering = Lowering((source,), (destination,), copies.shape, copies.scratch, copies.target)
    integers = any(copies.parent(tensor) in copies.integers for tensor in (source, destination))
    for launch in operation.lower(lowering):
        copies.add(launch, f"{name} ", integers=integers)
