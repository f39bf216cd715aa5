"""Steps that read memory of the arena in which another tensor lies, or none yet."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from framebind.delegate.plan.conversions import add_conversions
from framebind.delegate.plan.levels import orders_in_levels
from framebind.delegate.plan.object_views import object_views
from framebind.delegate.plan.placement import Layout, Place, plan_layout
from framebind.delegate.run.program import Program
from framebind.kernels.tensor import TensorId, slices
from framebind.kernels.views import SLICE_BYTES, Sliced

WORD = 4
"""Bytes of the smallest slice."""


def stray_reads(program: Program) -> list[str]:
    """The steps of a program that read what no step before them wrote as that tensor, or as a part of it, last."""
    compiled, lowered = program.compiled, program.compiled.lowered
    bindings, transposed = object_views(program.graph, program.bindings)
    views = {tensor: binding.view for tensor, binding in bindings.items()}
    launches, dense = add_conversions(program.graph, lowered, views, transposed)
    layouts = [plan_layout(compiled, bindings, levels, dense, 256) for levels in orders_in_levels(launches, lowered)]
    return [stray for layout in layouts for stray in _stray_reads(layout)]


def _stray_reads(layout: Layout) -> Iterator[str]:
    holders = np.full(layout.arena.nbytes // WORD + 1, -1)
    numbers: dict[TensorId, int] = {}
    for entry in layout.launches:
        for access, tensors in (("r", entry.reads), ("w", (*entry.launch.writes.values(),))):
            for tensor in tensors:
                place = layout.place(tensor, "w" if access == "w" else "r")
                if place.memory != "arena":
                    continue
                number = numbers.setdefault(layout.lowered.parent(tensor), len(numbers))
                if access == "w":
                    holders[_words(place)] = number
                elif (holders[_words(place)] != number).any():
                    yield f"{entry.label} ({entry.launch.kernel}) reads tensor {tensor}"


def _words(place: Place) -> npt.NDArray[np.intp]:
    """The words of a tensor's slices in the arena."""
    view = place.view
    assert isinstance(view, Sliced)
    (batch, height, width, channels), nbytes = view.shape, SLICE_BYTES[view.storage]
    pixels = np.arange(batch * height * width)[:, None, None] * view.stride
    places = (pixels + np.arange(slices(channels))[:, None]) * nbytes + np.arange(0, nbytes, WORD)
    return (place.offset + places.reshape(-1)) // WORD
