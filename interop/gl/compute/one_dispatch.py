"""Steps recorded as one GL dispatch: one program, whose work-groups stay resident and wait for one another."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence

import numpy as np

from ....kernels.codegen.glsl import UNIFORMS
from ....kernels.codegen.render import render_program
from ...binaries import BinaryStore
from ...device import Slot, Step
from ...record.barrier import TEST_SPINS
from ...record.one_dispatch import Merged, merge, table, waiting_table, wanted_groups
from ..buffer import GlBuffer
from ..context import GlContext
from ..khronos import GL
from ..program import build_program
from ..state import kept, program, storage_buffers, uniform_buffers
from .barrier import GlBarrier
from .kernel import dialect_of
from .recording import GlRecording, ParametersPlace, Recorder


class GlProgram:
    """A linked program of steps, and the buffer of its table."""

    def __init__(self, context: GlContext, barrier: GlBarrier, merged: Merged, store: BinaryStore | None) -> None:
        self.context, self.barrier, self.merged = context, barrier, merged
        self.text = render_program(merged.source, dialect_of(context))
        self.id = build_program(context, "program", {GL.COMPUTE_SHADER: self.text}, store)
        self.free = weakref.finalize(self, context.objects.defer_delete, "program", self.id)
        self.free.atexit = False
        self.table = GlBuffer(4 * merged.source.steps * merged.source.row, label="steps of a program")

    def prepare(self, rows: np.ndarray, groups: int, max_spins: int) -> None:
        """Give it its table and its numbers."""
        self.table.write(rows, "steps of a program")
        gl = self.context.gl
        with kept(self.context, program):
            gl.glUseProgram(self.id)
            for location, value in enumerate((len(rows), groups, max_spins)):
                gl.glUniform1i(location, value)

    def dispatch_waiting(self, groups: int) -> None:
        """Dispatch steps that do nothing but wait. They touch no buffer: an empty slot is replaced by any buffer."""
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
        """Delete the program and its table."""
        self.free()
        self.table.release()


def record_as_one(
    context: GlContext,
    barrier: GlBarrier,
    local_bytes: int,
    groups_per_unit: int,
    steps: Sequence[Step],
    store: BinaryStore | None,
) -> GlRecording:
    """One dispatch for all steps, with as many groups as the device keeps resident of this very program.

    ``groups_per_unit``: the largest number of groups per compute unit; 0 leaves it to a rule.
    """
    merged = merge(steps, local_bytes)
    recording = GlRecording(context, watch=barrier.watch)
    made = GlProgram(context, barrier, merged, store)
    recording.on_release.append(made.release)
    _set_parameters(recording, made, steps)
    groups = _resident_groups(made, wanted_groups(steps, barrier.units, groups_per_unit), store)
    rows = table(steps, merged, groups)
    made.prepare(rows, groups, barrier.max_spins)
    recorder = _record_calls(recording, made, groups)
    recording.barriers = int(rows[:, 3].sum())
    recording.dispatches.append((f"{len(steps)} steps on {groups} groups", len(recording.calls)))
    recorder.finish()
    return recording


def _set_parameters(recording: GlRecording, made: GlProgram, steps: Sequence[Step]) -> None:
    location = len(UNIFORMS)
    for number, argument in made.merged.pictures:
        array = (ctypes.c_float * (4 * argument.quads))()
        recording.parameters[number, argument.name] = ParametersPlace(array, made.id, location)
        recording.set_parameters(number, argument.name, steps[number].parameters[argument.name])
        location += argument.quads


def _record_calls(recording: GlRecording, made: GlProgram, groups: int) -> Recorder:
    recorder, memories = Recorder(recording), made.merged.memories
    recorder.use(made.id)
    for binding, resource in enumerate(memories):
        recorder.buffer(binding, resource)
    recorder.buffer(len(memories), made.barrier.state)
    recorder.constants(made.table)
    for unit, (argument, resource) in enumerate(made.merged.textures):
        recorder.texture(unit, argument, resource)
    recorder.call("glDispatchCompute", groups, 1, 1)
    return recorder


def _resident_groups(made: GlProgram, most: int, store: BinaryStore | None) -> int:
    """The number of groups that wait for one another when the program does nothing but wait: its registers decide."""
    if made.context.software:
        return 1
    return made.barrier.resident_groups(made.dispatch_waiting, most, made.text, store)
