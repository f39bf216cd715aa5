"""Small steps in a row as one launch of one work-group.

It goes from step to step sooner than the GPU from kernel to kernel, and a graph of fewer launches is submitted sooner:
docs/internals/one-dispatch.md. ``python benchmarks/mediapipe_chain.py --profile`` times models of such steps.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from ....kernels.codegen.c_family import dynamic_bytes
from ...device import Step, Traits
from ...record.one_dispatch import Merged, even_parts, table, why_not_one
from ..arrays import new_array
from ..build import Function
from ..context import CudaContext
from .recording import Recording

FEWEST, MOST = 3, 24
"""Small steps are merged if at least FEWEST of them follow one another; at most MOST are one launch, because a text of
more compiles longer.
"""
MOST_GROUPS, MOST_BYTES = 4, 1 << 16
"""A step is small if it has at most MOST_GROUPS work-groups, which run one after the other in a merged one, and reads
and writes at most MOST_BYTES: a compute unit alone reads weights slower than several do. Chosen on an H200, where twice
as many groups, and steps of more bytes, made frames longer.
"""


def units_of(steps: Sequence[Step], traits: Traits) -> list[range]:
    """The numbers of the steps of each launch, in order: rows of small steps, and each other step alone."""
    found, first = list[range](), 0
    while first < len(steps):
        end = first
        while end < len(steps) and _is_small(steps[end], steps[first]):
            end += 1
        parts = even_parts(steps[first:end], MOST) if end - first >= FEWEST else []
        if parts and not any(why_not_one(part, traits) for part in parts):
            for part in parts:
                found.append(range(first, first + len(part)))
                first += len(part)
        else:
            found += [range(number, number + 1) for number in range(first, max(end, first + 1))]
            first = max(end, first + 1)
    return found


def _is_small(step: Step, first: Step) -> bool:
    source = step.kernel.source
    return (
        step.group_count <= MOST_GROUPS
        and source.group_size == first.kernel.source.group_size
        and not dynamic_bytes(source)
        and sum(operand.nbytes for operand in step.operands.values()) <= MOST_BYTES
    )


def record_merged(
    recording: Recording, context: CudaContext, merged: Merged, function: Function, steps: Sequence[Step], first: int
) -> None:
    """Add the launch of merged steps, which are those from number ``first`` on."""
    places = [recording.memory(resource) for resource in merged.memories]
    places += [recording.memory(resource) for _, resource in merged.textures]
    for number, argument in merged.pictures:
        places += recording.floats(first + number, argument.name, steps[number].parameters[argument.name])
    rows = np.ascontiguousarray(table(steps, merged, 1))
    uploaded = new_array(context, rows.shape, rows.dtype, "steps of a program")
    uploaded.upload(context, rows, "steps of a program")
    places += [ctypes.c_uint64(uploaded.pointer), ctypes.c_int(len(rows)), ctypes.c_uint64(0), ctypes.c_int(1)]
    call = recording.launch(context, function, places, 1, merged.source.group_size)
    recording.kept.append(uploaded)
    recording.dispatches.append((f"{len(steps)} steps on 1 group", call))
    recording.calls.append((context.call, (call[0], *call[1])))
