"""Steps as one dispatch, for every API: the merged program, its table, and the rule that decides for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np

from ...kernels.codegen.one_dispatch import HEAD, NOTHING, ProgramSource
from ...kernels.codegen.source import Argument, KernelSource
from ..device import Resource, Slot, Step, Traits
from .hazards import hazards

FEWEST_STEPS, MOST_INVOCATIONS = 8, 900
"""One dispatch is preferred for at least FEWEST_STEPS steps with at most MOST_INVOCATIONS invocations per compute unit
on average. Measured on an H200: docs/internals/one-dispatch.md, and the most on 2026-11-22 with ``benchmarks/batch.py
--backend cl --dispatches one,separate --batch 1,8,32``.
"""
T = TypeVar("T")
"""A step, or its number."""


@dataclass
class Merged:
    """Steps whose kernels are one program."""

    source: ProgramSource
    numbers: list[int]
    """The number of each step's kernel in the program."""
    memories: list[Resource | Slot] = field(default_factory=list)
    """The program's buffers, in its order."""
    textures: list[tuple[Argument, Resource | Slot]] = field(default_factory=list)
    """The program's textures, in its order."""
    pictures: list[tuple[int, Argument]] = field(default_factory=list)
    """The arguments with parameters, in the program's order, each with the number of its step."""


def merge(steps: Sequence[Step], local_bytes: int) -> Merged:
    """Give buffers and pictures names in the whole program. Kernels that are equal then are merged.

    ``local_bytes``: see ProgramSource.
    """
    names: dict[int | Slot, str] = {}
    resources: dict[str, Resource | Slot] = {}
    kernels: dict[KernelSource, int] = {}
    textures: list[tuple[Argument, Resource | Slot]] = []
    pictures: list[tuple[int, Argument]] = []
    numbers: list[int] = []
    for number, step in enumerate(steps):
        arguments: list[Argument] = []
        for argument in step.kernel.source.arguments:
            name = f"picture_{len(pictures)}"
            if argument.quads:  # parameters of its own, so never shared by two steps
                pictures.append((number, argument))
            resource = step.operands[argument.name].resource if argument.has_memory else None
            if argument.is_texture and resource is not None:
                name = name if argument.quads else f"plane_{len(textures)}"
                textures.append((argument, resource))
            elif resource is not None:
                key = resource if isinstance(resource, Slot) else id(resource)
                name = names.setdefault(key, f"memory_{len(names)}")
                resources[name] = resource
            arguments.append(replace(argument, memory=name))
        source = replace(step.kernel.source, arguments=tuple(arguments), group_count=0)
        numbers.append(kernels.setdefault(source, len(kernels)))
    source = ProgramSource(tuple(kernels), steps[0].kernel.source.group_size, len(steps), local_bytes)
    return Merged(source, numbers, [resources[name] for name in source.memories], textures, pictures)


def table(steps: Sequence[Step], merged: Merged, groups: int) -> np.ndarray:
    """The rows of the program's table, int32: see kernels/codegen/one_dispatch.py."""
    rows = np.zeros((len(steps), merged.source.row), np.int32)
    waits, first = set(hazards(steps)), 0
    for number, step in enumerate(steps):
        first = 0 if number in waits else first
        # Steps that do not wait for one another begin on different groups, so that they run side by side.
        rows[number, :HEAD] = merged.numbers[number], step.group_count, first % groups, number in waits
        for i, argument in enumerate(step.kernel.source.buffers):
            rows[number, HEAD + i] = step.operands[argument.name].offset // argument.unit
        first += step.group_count
    return rows


def waiting_table(merged: Merged) -> np.ndarray:
    """A table of the same size whose rows only wait. If a run of it ends, all groups were resident."""
    rows = np.zeros((merged.source.steps, merged.source.row), np.int32)
    rows[:, 0], rows[:, 3] = NOTHING, 1
    return rows


def wanted_groups(steps: Sequence[Step], units: int, per_unit: int = 0) -> int:
    """The number of groups with which the steps run best. With more groups barriers take longer; with fewer the device
    is partly idle.
    """
    mean = sum(step.group_count for step in steps) / len(steps)
    most = per_unit or math.ceil(2 * mean / units)
    return min(most * units, max(step.group_count for step in steps))


def prefers_one(steps: Sequence[Step], *, software: bool, units: int, most: int = MOST_INVOCATIONS) -> bool:
    """Whether one dispatch is likely to be the faster way: on a GPU, for many steps that are small.

    Large steps fill the GPU better as separate dispatches: a program needs the registers of its largest kernel, so
    fewer groups run at once. A CPU runs the groups one after the other.
    """
    if software or len(steps) < FEWEST_STEPS:
        return False
    invocations = sum(step.group_count * step.kernel.source.group_size for step in steps)
    return invocations / len(steps) <= most * units


def even_parts(steps: Sequence[T], most: int) -> list[Sequence[T]]:
    """The steps in order, divided into the fewest parts of at most ``most`` steps. The sizes of the parts differ by at
    most one.
    """
    count = math.ceil(len(steps) / most)
    cuts = [len(steps) * number // count for number in range(count + 1)]
    return [steps[begin:end] for begin, end in pairwise(cuts)]


def why_not_one(steps: Sequence[Step], traits: Traits) -> str:
    """Give the reason why these steps cannot be one dispatch on a device of these traits; "" if they can."""
    if not steps:
        return "there are no steps"
    groups = {step.kernel.source.group_size for step in steps}
    if len(groups) > 1:
        return f"its kernels have different work-group sizes, {sorted(groups)}"
    merged = merge(steps, traits.local_bytes)
    too_many = _why_too_many(merged, traits)
    if too_many:
        return too_many
    if merged.source.nbytes > traits.local_bytes:
        return f"it needs {merged.source.nbytes} bytes of local memory, and a work-group has {traits.local_bytes}"
    sampled = [resource for argument, resource in merged.textures if argument.access == "r"]
    for argument, resource in merged.textures:
        if argument.access != "r" and any(other is resource or other == resource for other in sampled):
            return "a texture that one step writes is sampled by another"
    return ""


def _why_too_many(merged: Merged, traits: Traits) -> str:
    """Give the reason why one kernel cannot take all buffers, textures and parameters of merged steps, or ""."""
    buffers, textures, room = len(merged.memories), len(merged.textures), traits.max_memories - 2
    if textures > traits.max_textures:
        return f"it uses {textures} textures, and one kernel takes {traits.max_textures} at most"
    needed = buffers
    if traits.memories_per_float4:
        needed += textures + traits.memories_per_float4 * sum(argument.quads for _, argument in merged.pictures)
    if needed > room:
        return f"it uses {buffers} buffers and {textures} textures, and one kernel has room for {room} buffers"
    return ""
