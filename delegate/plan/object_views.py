"""Bound objects as a program's kernels use them.

The object of a model's tensor has the layout of that tensor, or is a picture with channels last. The program's tensor
may have channels last, too, or first. If the two differ, memory is read and written by other strides, and a picture is
copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...kernels.tensor import TO_CHANNELS_FIRST, TO_CHANNELS_LAST, Permutation, permuted
from ...kernels.views import Picture, PlanePicture, Quantized, Sliced, Strided
from ..transform.graph import Graph
from .binding import Binding, BoundView, Frames, FrameView


def object_views(graph: Graph, bindings: Mapping[int, Binding]) -> tuple[dict[int, Binding], dict[int, Permutation]]:
    """The binding of each input and output of the graph, with the view by which kernels use the object; and the order
    of the tensor's dimensions in those objects that a copy must transpose.

    ``bindings`` are those of the model's tensors.
    """
    found, transposed = dict[int, Binding](), dict[int, Permutation]()
    for tensor in (*graph.inputs, *graph.outputs):
        binding = found[tensor] = bindings[graph.model_tensor(tensor)]
        is_last = tensor in graph.channels_last
        if binding.channels_last == is_last:
            continue
        view = _turned(binding.view, TO_CHANNELS_LAST if is_last else TO_CHANNELS_FIRST)
        if view is None:
            transposed[tensor] = TO_CHANNELS_FIRST if is_last else TO_CHANNELS_LAST
        else:
            frames = tuple([_with_view(each, one) for each, one in zip(binding.frames, view.views, strict=True)]
                           if isinstance(view, Frames) else ())  # fmt: skip
            found[tensor] = replace(binding, view=view, frames=frames)
    return found, transposed


def _with_view(binding: Binding, view: FrameView) -> Binding:
    return replace(binding, view=view)


def _turned(view: BoundView, permutation: Permutation) -> BoundView | None:
    """The view of the same memory with the dimensions in another order; None of a picture."""
    if isinstance(view, Frames):
        views = [_strided(each, permutation) for each in view.views]
        kept = tuple([each for each in views if each is not None])
        return Frames(permuted(view.shape, permutation), kept) if len(kept) == len(views) else None
    return _strided(view, permutation)


def _strided(view: FrameView | Quantized, permutation: Permutation) -> Strided | None:
    if isinstance(view, Picture | PlanePicture):
        return None
    assert not isinstance(view, Quantized), "the pass over the graph leaves tensors of integers as they are"
    _, height, width, channels = view.shape
    strides = (height * width * channels, width * channels, channels, 1)
    dtype = "float32"
    if isinstance(view, Strided):
        strides, dtype = view.strides, view.dtype
    elif isinstance(view, Sliced):  # an array of halves: a user's floats without padding are Dense
        dtype = "float16"
    return Strided(permuted(view.shape, permutation), dtype, permuted(strides, permutation))
