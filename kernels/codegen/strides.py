"""Kernels that differ only in the strides of their tensors, as one kernel that takes these strides as parameters.

A convolution of a model occurs several times: once its result is a tensor of its own, once a part of a concatenation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..views import Sliced
from .source import Argument, KernelSource


def sharing_kernels(sources: Sequence[KernelSource]) -> list[KernelSource]:
    """The sources, of which those that differ only in strides of pixels are replaced by one that takes as parameters
    the strides that differ.
    """
    alike: dict[KernelSource, list[KernelSource]] = {}
    for source in sources:
        alike.setdefault(_without_strides(source), []).append(source)
    return [_common(source, alike[_without_strides(source)]) for source in sources]


def stride_values(common: KernelSource, source: KernelSource) -> tuple[int, ...]:
    """The strides, in slices, that the common kernel takes after its offsets to do what ``source`` does."""
    pairs = zip(common.buffers, source.buffers, strict=True)
    return tuple(_stride(argument) for taking, argument in pairs if taking.takes_stride)


def _without_strides(source: KernelSource) -> KernelSource:
    return replace(source, arguments=tuple(map(_without_stride, source.arguments)))


def _without_stride(argument: Argument) -> Argument:
    view = argument.view
    return replace(argument, view=replace(view, pixel_stride=0)) if isinstance(view, Sliced) else argument


def _common(source: KernelSource, alike: Sequence[KernelSource]) -> KernelSource:
    """The kernel that a source shares with those that are alike; the source itself if all strides are the same."""
    arguments = list(source.arguments)
    for number, argument in enumerate(arguments):
        if len({_stride(other.arguments[number]) for other in alike}) > 1:
            arguments[number] = replace(_without_stride(argument), takes_stride=True)
    return replace(source, arguments=tuple(arguments))


def _stride(argument: Argument) -> int:
    return argument.view.stride if isinstance(argument.view, Sliced) else 0
