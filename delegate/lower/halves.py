"""Launches that take the place of others, because what they read is kept as halves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...kernels.operation import Launch
from ...kernels.tensor import TensorId, slices
from ...kernels.views import Storage
from .launches import LabelledLaunch, Lowered


def take_halves(lowered: Lowered, storages: Mapping[TensorId, Storage]) -> Lowered:
    """Replace each launch whose "src" and weights are kept as halves by its ``halves``, unless something is fused into
    its reads.
    """
    if not lowered.target.halves:
        return lowered
    for i, entry in enumerate(lowered.launches):
        halves = entry.launch.halves
        if halves is not None and storages.get(entry.launch.reads["src"]) == "f16" and _is_plain(entry):
            lowered.launches[i] = replace(entry, launch=_with_tensors(halves, entry.launch, lowered))
    return lowered


def _is_plain(entry: LabelledLaunch) -> bool:
    fused = entry.input_ops or entry.prologue or entry.partial_sums is not None or entry.launch.resize
    return not (fused or entry.exact or entry.rounds or entry.integers)


def _with_tensors(halves: Launch, launch: Launch, lowered: Lowered) -> Launch:
    """The launch for what the other one reads and writes. OCTETS: two slices of a pixel are 16 bytes at a multiple of
    16.
    """
    source = launch.reads["src"]
    alias = lowered.alias(source)
    offset, stride = (0, slices(lowered.shape(source)[3])) if alias is None else (alias.start, alias.pixel_stride)
    octets = int(offset % 2 == stride % 2 == slices(lowered.shape(source)[3]) % 2 == 0)
    return replace(
        halves, reads=launch.reads, writes=launch.writes, epilogue=launch.epilogue,
        constants=halves.constants | {"OCTETS": octets},
    )  # fmt: skip
