"""Launches that take the place of others, because what they read is kept as halves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ...kernels.operation import Launch
from ...kernels.ops.convolution.heuristics import UNIT_INVOCATIONS, WARPGROUP_APART, WARPGROUPS_APART
from ...kernels.tensor import TensorId, slices
from ...kernels.views import Storage
from .launches import LabelledLaunch, Lowered


def take_halves(lowered: Lowered, storages: Mapping[TensorId, Storage]) -> Lowered:
    """Replace each launch whose "src" and weights are kept as halves by its ``halves``, unless something is fused into
    its reads.
    """
    able = [
        entry
        for entry in lowered.launches
        if entry.launch.halves and storages.get(entry.launch.reads["src"]) == "f16" and _is_plain(entry)
    ]
    for entry in _worth_it(able, lowered) if lowered.target.halves else ():
        at = lowered.launches.index(entry)
        lowered.launches = [*lowered.launches[:at], *_of_halves(entry, lowered), *lowered.launches[at + 1 :]]
    return lowered


def _worth_it(able: Sequence[LabelledLaunch], lowered: Lowered) -> Sequence[LabelledLaunch]:
    """The launches whose halves are likely to be faster. If all launches are so small that the device runs them as one
    dispatch, warpgroups break it up, which only large launches are worth, and only together.
    """
    if not _are_small(lowered):
        return able
    others = [entry for entry in able if entry.launch.halves[0].kernel != "warpgroup_conv"]
    products = {entry: _products(entry, lowered) for entry in able if entry not in others}
    large = [entry for entry, count in products.items() if count >= WARPGROUP_APART]
    worth = sum(products[entry] for entry in large) >= WARPGROUPS_APART
    return [*others, *large] if worth else others


def _products(entry: LabelledLaunch, lowered: Lowered) -> float:
    """The multiply-adds of a launch by warpgroups."""
    numbers, (batch, _, _, channels) = entry.launch.halves[0].constants, lowered.shape(entry.launch.reads["src"])
    sizes = ("OUT_H", "OUT_W", "SLICES", "KERNEL_H", "KERNEL_W")
    return 4 * batch * channels * math.prod(numbers[name] for name in sizes)


def _are_small(lowered: Lowered) -> bool:
    target, groups = lowered.target, sum(entry.launch.group_count for entry in lowered.launches)
    if "warpgroup_conv" in target.fixed:
        return False
    units = max(target.invocations // UNIT_INVOCATIONS, 1)
    return groups * target.group_size <= target.warpgroup_invocations * units * len(lowered.launches)


def _is_plain(entry: LabelledLaunch) -> bool:
    fused = entry.input_ops or entry.prologue or entry.partial_sums is not None or entry.launch.resize
    return not (fused or entry.exact or entry.rounds or entry.integers)


def _of_halves(entry: LabelledLaunch, lowered: Lowered) -> Iterator[LabelledLaunch]:
    """The launches in the place of one, for what that reads and writes. The last one has its epilogue."""
    old, (first, *others) = entry.launch, entry.launch.halves
    first = replace(first, reads=old.reads, constants=first.constants | {"OCTETS": _octets(old, lowered)})
    if not others:
        yield replace(entry, launch=replace(first, writes=old.writes, epilogue=old.epilogue))
        return
    yield replace(entry, launch=first, epilogue=())
    (last,) = others
    last = replace(last, writes=old.writes, epilogue=old.epilogue)
    yield replace(entry, launch=last, number=lowered.count)
    lowered.count += 1


def _octets(launch: Launch, lowered: Lowered) -> int:
    """1 if two slices of a pixel of "src" are 16 bytes at a multiple of 16, else 0."""
    source = launch.reads["src"]
    alias = lowered.alias(source)
    offset, stride = (0, slices(lowered.shape(source)[3])) if alias is None else (alias.start, alias.pixel_stride)
    return int(offset % 2 == stride % 2 == slices(lowered.shape(source)[3]) % 2 == 0)
