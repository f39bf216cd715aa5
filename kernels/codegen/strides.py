"""Kernels that differ only in the strides of their tensors, as one kernel that takes these strides as parameters.

A convolution of a model occurs several times: once its result is a tensor of its own, once a part of a concatenation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace

from ..views import Sliced
from .source import Argument, KernelSource


def sharing_kernels(sources: Sequence[KernelSource]) -> list[KernelSource]:
    """The sources, of which those that differ only in strides of pixels are replaced by one that takes as parameters
    the strides that differ.
    """
    counts, alike = Counter(map(_outline, sources)), dict[KernelSource, list[KernelSource]]()
    wholes = [_without_strides(source) if counts[_outline(source)] > 1 else source for source in sources]
    for whole, source in zip(wholes, sources, strict=True):
        alike.setdefault(whole, []).append(source)
    return [_common(source, alike[whole]) for whole, source in zip(wholes, sources, strict=True)]


def stride_values(common: KernelSource, source: KernelSource) -> tuple[int, ...]:
    """The strides, in slices, that the common kernel takes after its offsets to do what ``source`` does."""
    pairs = zip(common.buffers, source.buffers, strict=True)
    return tuple(_stride(argument) for taking, argument in pairs if taking.takes_stride)


def _outline(source: KernelSource) -> Hashable:
    """Parts of a source that are compared soon, and that kernels have in common if they differ only in strides."""
    return source.name, source.group_count, source.constants


def _without_strides(source: KernelSource) -> KernelSource:
    return replace(source, arguments=tuple(map(_without_stride, source.arguments)))


def _without_stride(argument: Argument) -> Argument:
    view = argument.view
    return replace(argument, view=replace(view, pixel_stride=0)) if isinstance(view, Sliced) else argument


def _common(source: KernelSource, alike: Sequence[KernelSource]) -> KernelSource:
    """The kernel that a source shares with those that are alike; the source itself if all strides are the same."""
    if len(alike) == 1:
        return source
    arguments = list(source.arguments)
    for number, argument in enumerate(arguments):
        if len({_stride(other.arguments[number]) for other in alike}) > 1:
            arguments[number] = replace(_without_stride(argument), takes_stride=True)
    return replace(source, arguments=tuple(arguments))


def _stride(argument: Argument) -> int:
    return argument.view.stride if isinstance(argument.view, Sliced) else 0
