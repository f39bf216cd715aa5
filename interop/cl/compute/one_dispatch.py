"""Steps recorded as one dispatch: one kernel object, whose work-groups stay resident and wait for one another."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from ....kernels.codegen.one_dispatch import ProgramSource
from ....kernels.codegen.opencl import OPENCL
from ....kernels.codegen.render import render_program
from ....kernels.views import Picture, Plane
from ...binaries import BinaryStore
from ...device import Slot, Step
from ...errors import KernelError
from ...record.barrier import TEST_SPINS
from ...record.one_dispatch import Merged, merge, table, waiting_table, wanted_groups
from ...transfers import transfers
from ..build import build
from ..context import ClContext
from ..objects import IMAGE_FORMATS
from .barrier import ClBarrier
from .command_buffer import Dispatch
from .recording import Recording, enqueue, flush

_READ_ONLY = cl.mem_flags.READ_ONLY


class ClProgram:
    """A built program of steps, and the indices of its kernel's arguments."""

    def __init__(
        self, context: ClContext, barrier: ClBarrier, source: ProgramSource, store: BinaryStore | None
    ) -> None:
        self.context, self.barrier, self.source = context, barrier, source
        self.text = render_program(source, OPENCL)
        try:
            program = build(context.context, self.text, "program", barrier.options, store)
        except cl.Error as error:
            raise KernelError("program", str(context), str(error), self.text) from error
        self.kernel = cl.Kernel(program, "program")
        self.first_texture = len(source.memories)
        self.first_parameter = self.first_texture + len(source.textures)
        self.first_own = self.first_parameter + sum(argument.quads for argument in source.pictures)
        self.kept: list[Any] = []

    def set_own(self, rows: cl.Buffer, count: int, groups: int, max_spins: int) -> None:
        """Set the arguments behind those of memories, textures and pictures: see kernels/codegen/opencl.py."""
        own = (rows, np.int32(count), self.barrier.state, np.int32(groups), np.uint32(max_spins))
        for i, value in enumerate(own):
            self.kernel.set_arg(self.first_own + i, value)

    def dispatch(self, groups: int) -> Dispatch:
        size = ctypes.c_size_t * 1
        return self.kernel, size(self.source.group_size * groups), size(self.source.group_size)


def record_as_one(
    context: ClContext,
    barrier: ClBarrier,
    local_bytes: int,
    groups_per_unit: int,
    steps: Sequence[Step],
    store: BinaryStore | None,
) -> Recording:
    """Record all steps as one dispatch, with as many groups as the device keeps resident of this very kernel.

    ``groups_per_unit``: the largest number of groups per compute unit; 0 leaves it to a rule. A CPU runs one group.
    """
    merged = merge(steps, local_bytes)
    program = ClProgram(context, barrier, merged.source, store)
    recording = Recording(watch=barrier.watch)
    most = wanted_groups(steps, barrier.units, groups_per_unit)
    add_program(recording, program, merged, steps, most, store)
    recording.calls += [enqueue(context, recording.dispatches[0][1]), flush(context)]
    return recording


def add_program(
    recording: Recording,
    program: ClProgram,
    merged: Merged,
    steps: Sequence[Step],
    most_groups: int,
    store: BinaryStore | None,
    *,
    first: int = 0,
) -> None:
    """Add the dispatch of a program to a recording. Its ``steps`` are numbered from ``first`` on."""
    barrier = program.barrier
    for index, resource in enumerate(merged.memories):
        recording.set_memory((program.kernel, index), resource)
    for i, (_, resource) in enumerate(merged.textures):
        recording.set_memory((program.kernel, program.first_texture + i), resource)
    index = program.first_parameter
    for number, argument in merged.pictures:
        recording.parameters[first + number, argument.name] = (program.kernel, index)
        recording.set_parameters(first + number, argument.name, steps[number].parameters[argument.name])
        index += argument.quads
    groups = _resident_groups(program, merged, most_groups, store)
    rows = table(steps, merged, groups)
    uploaded = _upload(program.context, rows)
    recording.kept.append(uploaded)
    program.set_own(uploaded, len(rows), groups, barrier.max_spins)
    recording.barriers += int(rows[:, 3].sum())
    recording.dispatches.append((f"{len(steps)} steps on {groups} groups", program.dispatch(groups)))


def _fill_slots(program: ClProgram, merged: Merged) -> None:
    """Set the arguments that are slots, so that the kernel can be tried before anything is bound. The trial does not
    access them.
    """
    for index, resource in enumerate(merged.memories):
        if isinstance(resource, Slot):
            program.kernel.set_arg(index, None)
    for i, (argument, resource) in enumerate(merged.textures):
        if isinstance(resource, Slot):
            assert isinstance(argument.view, Picture | Plane)
            order, kind, _ = IMAGE_FORMATS[argument.view.format]
            image = cl.create_image(
                program.context.context, cl.mem_flags.READ_WRITE, cl.ImageFormat(order, kind), (1, 1)
            )
            program.kernel.set_arg(program.first_texture + i, image)
            program.kept.append(image)


def _resident_groups(program: ClProgram, merged: Merged, most: int, store: BinaryStore | None) -> int:
    """The number of groups that wait for one another when the kernel does nothing but wait: its registers decide."""
    barrier = program.barrier
    if program.context.software:
        return 1
    rows = _upload(program.context, waiting_table(merged))
    _fill_slots(program, merged)

    def dispatch(groups: int) -> Dispatch:
        program.set_own(rows, merged.source.steps, groups, TEST_SPINS)
        return program.dispatch(groups)

    return barrier.resident_groups(dispatch, most, program.text, store)


def _upload(context: ClContext, rows: np.ndarray) -> cl.Buffer:
    buffer = cl.Buffer(context.context, _READ_ONLY, rows.nbytes)
    transfers.count("upload", rows.nbytes, "steps of a program")
    cl.enqueue_copy(context.queue, buffer, np.ascontiguousarray(rows), is_blocking=True)
    return buffer
