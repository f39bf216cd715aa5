"""Steps recorded as a few dispatches: small steps in a row as one, whose work-groups wait for one another, and each
large step by itself. So run programs that cannot be one dispatch.

On NVIDIA's OpenCL a launch takes the GPU hardly longer than the barrier that it replaces, but the CPU 6 to 9 us: fifty
launches are as slow as the CPU (docs/internals/one-dispatch.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...binaries import BinaryStore
from ...device import Step
from ...record.one_dispatch import even_parts, merge, wanted_groups
from ..context import ClContext
from .barrier import ClBarrier
from .kernel import ClKernel, build_kernels
from .one_dispatch import ClProgram, add_program
from .recording import Recording, dispatch_of, enqueue, flush

FEWEST_STEPS, MOST_STEPS = 3, 12
"""The fewest and the most steps of a dispatch. Two are not worth a text of their own. NVIDIA's compiler takes more than
twice as long for twice the text, and all steps of a dispatch take the registers of its largest kernel.
"""
MOST_INVOCATIONS = 2000
"""The most invocations per compute unit of a small step. With 900 deeplab_mnv2_513 is 26 dispatches, which the CPU
submits too slowly, and not 16 (docs/internals/one-dispatch.md).
"""
Part = Sequence[int]
"""Numbers of steps that follow one another."""


def is_large(step: Step, units: int) -> bool:
    """Whether a step fills so many compute units, or multiplies by warpgroups, which take most of the local memory."""
    source = step.kernel.source
    return step.group_count * source.group_size > MOST_INVOCATIONS * units or source.name == "warpgroup_conv"


def parts_of(large: Sequence[bool]) -> list[Part]:
    """The steps of each dispatch: a large one, or MOST_STEPS others in a row at most."""
    runs: list[range] = []
    for number, alone in enumerate(large):
        if runs and not alone and not large[number - 1]:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
    return [part for run in runs for part in even_parts(run, MOST_STEPS if len(run) >= FEWEST_STEPS else 1)]


def record_parts(
    context: ClContext,
    barrier: ClBarrier,
    local_bytes: int,
    parts: Sequence[Part],
    steps: Sequence[Step],
    store: BinaryStore | None,
) -> Recording:
    """Record each part as a dispatch. NVIDIA's driver compiles one text after the other, also for several threads."""
    recording = Recording(watch=barrier.watch)
    alone = [steps[part[0]].kernel for part in parts if len(part) == 1]
    build_kernels(context, [kernel for kernel in alone if isinstance(kernel, ClKernel)], store)
    for part in parts:
        some = [steps[number] for number in part]
        if len(some) == 1:
            recording.dispatches.append((some[0].label, dispatch_of(recording, part[0], some[0])))
        else:
            merged = merge(some, local_bytes)
            program = ClProgram(context, barrier, merged.source, store)
            add_program(recording, program, merged, some, wanted_groups(some, barrier.units), store, first=part[0])
        recording.calls.append(enqueue(context, recording.dispatches[-1][1]))
    recording.calls.append(flush(context))
    return recording
