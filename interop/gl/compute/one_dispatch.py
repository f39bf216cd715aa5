"""Steps recorded as few GL dispatches, each a program whose work-groups stay resident and wait for one another."""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from collections.abc import Callable, Sequence

import numpy as np

from ....kernels.codegen.glsl import UNIFORMS
from ....kernels.codegen.render import render_program
from ...binaries import BinaryStore
from ...device import Slot, Step
from ...errors import DeviceError, FramebindError, KernelError
from ...record.barrier import TEST_SPINS
from ...record.one_dispatch import Merged, even_parts, merge, table, waiting_table, wanted_groups
from ..buffer import GlBuffer
from ..context import GlContext
from ..khronos import GL
from ..program import begin_program
from ..state import kept, program, storage_buffers, uniform_buffers
from .barrier import GlBarrier
from .kernel import compile_kernels, dialect_of
from .recording import GlRecording, ParametersPlace, Recorder

STEPS_OF_A_PART = 10
"""The most steps of a dispatch by rule. NVIDIA's compiler takes more than twice as long for twice the steps; parts are
compiled side by side. See docs/internals/one-dispatch.md.
"""
BETWEEN_PARTS = GL.SHADER_STORAGE_BARRIER_BIT | GL.TEXTURE_FETCH_BARRIER_BIT | GL.SHADER_IMAGE_ACCESS_BARRIER_BIT


class GlProgram:
    """A program of steps, and the buffer of its table. Implements kernel.Linkable."""

    def __init__(self, context: GlContext, barrier: GlBarrier, merged: Merged) -> None:
        self.context, self.barrier, self.merged = context, barrier, merged
        self.text = render_program(merged.source, dialect_of(context))
        self.id = 0
        self.table = GlBuffer(4 * merged.source.steps * merged.source.row, label="steps of a program")
        self._finish: Callable[[], int] | None = None
        self._free: weakref.finalize[..., GlProgram] | None = None

    def begin(self, store: BinaryStore | None) -> None:
        """Let the driver begin to link it."""
        self._finish = begin_program(self.context, "program", {GL.COMPUTE_SHADER: self.text}, store)

    def compile(self, store: BinaryStore | None) -> None:
        """Wait until it is linked. Raises KernelError with log and text."""
        assert self._finish is not None
        finish, self._finish = self._finish, None
        self.id = finish()
        self._free = weakref.finalize(self, self.context.objects.defer_delete, "program", self.id)
        self._free.atexit = False

    def prepare(self, rows: np.ndarray, groups: int, max_spins: int) -> None:
        """Upload its table, and set its uniforms."""
        self.table.write(rows, reason="steps of a program")
        gl = self.context.gl
        with kept(self.context, program):
            gl.glUseProgram(self.id)
            for location, value in enumerate((len(rows), groups, max_spins)):
                gl.glUniform1i(location, value)

    def dispatch_waiting(self, groups: int) -> None:
        """Dispatch rows that only wait at the barrier. They access no buffer of the steps, so any buffer may stand in
        for an empty slot.
        """
        gl, memories = self.context.gl, [*self.merged.memories, self.barrier.state]
        self.prepare(waiting_table(self.merged), groups, TEST_SPINS)
        with kept(self.context, program, storage_buffers(len(memories)), uniform_buffers(1)):
            gl.glUseProgram(self.id)
            for binding, resource in enumerate(memories):
                bound = self.barrier.state if isinstance(resource, Slot) else resource
                assert isinstance(bound, GlBuffer)
                gl.glBindBufferBase(GL.SHADER_STORAGE_BUFFER, binding, bound.id)
            gl.glBindBufferBase(GL.UNIFORM_BUFFER, 0, self.table.id)
            gl.glDispatchCompute(groups, 1, 1)

    def release(self) -> None:
        """Delete the program, also one that the driver still links, and its table."""
        if self._finish is not None:
            with contextlib.suppress(KernelError):
                self.compile(None)
        if self._free is not None:
            self._free()
        self.table.release()


def record_parts(
    context: GlContext,
    barrier: GlBarrier,
    local_bytes: int,
    groups_per_unit: int,
    most_steps: int,
    steps: Sequence[Step],
    store: BinaryStore | None,
) -> GlRecording:
    """Record a dispatch for each ``most_steps`` steps, with as many groups as the device keeps resident of its program.

    ``groups_per_unit``: the largest number of groups per compute unit; 0 leaves it to a rule. Raises DeviceError if the
    groups of a program do not wait for one another.
    """
    parts = even_parts(steps, most_steps)
    recording = GlRecording(context, watch=barrier.watch)
    programs = [GlProgram(context, barrier, merge(part, local_bytes)) for part in parts]
    recording.on_release += [made.release for made in programs]
    try:
        compile_kernels(context, programs, store)
        _record_programs(recording, parts, programs, groups_per_unit, store)
    except FramebindError:
        recording.release()
        raise
    return recording


def _record_programs(
    recording: GlRecording,
    parts: Sequence[Sequence[Step]],
    programs: Sequence[GlProgram],
    groups_per_unit: int,
    store: BinaryStore | None,
) -> None:
    recorder, first = Recorder(recording), 0
    for part, made in zip(parts, programs, strict=True):
        barrier = made.barrier
        _set_parameters(recording, made, part, first)
        groups = _resident_groups(made, wanted_groups(part, barrier.units, groups_per_unit), store)
        rows = table(part, made.merged, groups)
        made.prepare(rows, groups, barrier.max_spins)
        if first:  # also if no step needs it: all programs count in the same state
            recorder.call("glMemoryBarrier", BETWEEN_PARTS)
        _record_calls(recorder, made, groups)
        if not first and len(parts) > 1:  # else the GPU begins when the driver has got all parts, or is told to
            recorder.call("glFlush")
        recording.barriers += int(rows[:, 3].sum()) + bool(first)
        recording.dispatches.append((f"{len(part)} steps on {groups} groups", len(recording.calls)))
        first += len(part)
    recorder.finish()


def _set_parameters(recording: GlRecording, made: GlProgram, part: Sequence[Step], first: int) -> None:
    location = len(UNIFORMS)
    for number, argument in made.merged.pictures:
        array, step = (ctypes.c_float * (4 * argument.quads))(), first + number
        recording.parameters[step, argument.name] = ParametersPlace(array, made.id, location)
        recording.set_parameters(step, argument.name, part[number].parameters[argument.name])
        location += argument.quads


def _record_calls(recorder: Recorder, made: GlProgram, groups: int) -> None:
    memories = made.merged.memories
    recorder.use(made.id)
    for binding, resource in enumerate(memories):
        recorder.buffer(binding, resource)
    recorder.buffer(len(memories), made.barrier.state)
    recorder.constants(made.table)
    for unit, (argument, resource) in enumerate(made.merged.textures):
        recorder.texture(unit, argument, resource)
    recorder.call("glDispatchCompute", groups, 1, 1)


def _resident_groups(made: GlProgram, most: int, store: BinaryStore | None) -> int:
    """The number of groups that wait for one another when the program does nothing but wait: its registers decide."""
    if made.context.software:
        return 1
    groups = made.barrier.resident_groups(made.dispatch_waiting, most, made.text, store)
    if not groups:
        raise DeviceError(f"the work-groups of a program of steps do not wait for one another on {made.context}")
    return groups
