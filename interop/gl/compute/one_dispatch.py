"""Steps recorded as one dispatch: one program, whose work-groups stay resident and wait for one another."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence

import numpy as np

from ....kernels.codegen.one_dispatch_glsl import UNIFORMS, render_glsl_program
from ....kernels.codegen.source import PICTURE_PARAMETERS
from ...binaries import BinaryStore
from ...device import Slot, Step, Traits
from ...record.one_dispatch import TEST_PATIENCE, merge, table, waiting_table, wanted_groups
from ..context import GlContext
from ..khronos import GL
from ..objects import GlBuffer
from ..program import build_program
from ..state import buffers, kept, program, storage_buffers, uniform_buffers
from .barrier import GlBarrier
from .commands import GlCommandList, Recorder


class GlOneDispatch(GlCommandList):
    """A command list whose run is one dispatch, and separate ones once the barrier has failed."""

    def __init__(
        self,
        context: GlContext,
        traits: Traits,
        steps: Sequence[Step],
        store: BinaryStore | None,
        barrier: GlBarrier,
        per_unit: int,
    ) -> None:
        self._barrier, self._per_unit, self._as_one = barrier, per_unit, True
        super().__init__(context, traits, steps, store)

    def _record(self, store: BinaryStore | None) -> None:
        """Compile the program, store in it all that stays, and record its dispatch."""
        self._merged = merge(self.steps, self._traits.local_bytes)
        self._text = render_glsl_program(self._merged.source, self._barrier.version)
        self._program = build_program(self._context, "program", {GL.COMPUTE_SHADER: self._text}, store)
        self._free = weakref.finalize(self, self._context.defer_delete, "program", self._program)
        self._free.atexit = False
        with kept(self._context, program, buffers, storage_buffers(len(self._merged.memories) + 1), uniform_buffers(1)):
            groups = self._fill_program(store)
        recorder = self._recorder(groups)
        self.marks = [len(recorder.calls)]
        recorder.finish([])
        self._use(recorder)

    def _fill_program(self, store: BinaryStore | None) -> int:
        """Give the program all that stays; returns how many groups run it."""
        self._context.gl.glUseProgram(self._program)
        for i, (number, argument, _) in enumerate(self._merged.pictures):
            self._set_parameters(i, self._values[number].parameters[argument.name])
        self._table = GlBuffer(4 * self._merged.source.steps * self._merged.source.row, label="steps of a program")
        groups = self._resident_groups(wanted_groups(self.steps, self._barrier.units, self._per_unit), store)
        rows = table(self.steps, self._merged, groups)
        self._prepare_run(rows, groups, self._barrier.max_spins)
        self.barriers = int(rows[:, 3].sum())
        self.labels = [f"{len(self.steps)} steps on {groups} groups"]
        return groups

    def _recorder(self, groups: int) -> Recorder:
        recorder = Recorder(self._context, self._slots)
        recorder.use(self._program)
        for binding, resource in enumerate(self._merged.memories):
            recorder.buffer(binding, resource)
        recorder.buffer(len(self._merged.memories), self._barrier.state)
        recorder.constants(self._table)
        for unit, (_, argument, resource) in enumerate(self._merged.pictures):
            recorder.picture(unit, argument, resource)
        recorder.call("glDispatchCompute", groups, 1, 1)
        return recorder

    def _prepare_run(self, rows: np.ndarray, groups: int, max_spins: int) -> None:
        """Put the table and the uniforms where the program finds them."""
        self._table.write(rows, "steps of a program")
        gl = self._context.gl
        gl.glUseProgram(self._program)
        for location, value in enumerate((len(rows), groups, max_spins)):
            gl.glUniform1i(location, value)

    def _resident_groups(self, most: int, store: BinaryStore | None) -> int:
        """How many groups wait for one another when the program does nothing but wait: its registers decide."""
        if self._context.software:
            return 1
        gl, memories = self._context.gl, self._merged.memories
        rows = waiting_table(self._merged)

        def dispatch(groups: int) -> None:
            self._prepare_run(rows, groups, TEST_PATIENCE)
            for binding, resource in enumerate([*memories, self._barrier.state]):
                # It touches none of the buffers: where a slot is still empty, anything will do.
                bound = self._barrier.state if isinstance(resource, Slot) else resource
                assert isinstance(bound, GlBuffer)
                gl.glBindBufferBase(GL.SHADER_STORAGE_BUFFER, binding, bound.id)
            gl.glBindBufferBase(GL.UNIFORM_BUFFER, 0, self._table.id)
            gl.glDispatchCompute(groups, 1, 1)

        return self._barrier.resident_groups(dispatch, most, self._text, store)

    def _set_parameters(self, picture: int, values: ctypes.Array[ctypes.c_float]) -> None:
        self._context.gl.glUniform4fv(len(UNIFORMS) + 4 * picture, PICTURE_PARAMETERS // 4, values)

    def _parameters_changed(self, step: int, argument: str) -> None:
        if not self._as_one:
            super()._parameters_changed(step, argument)
            return
        with kept(self._context, program):
            self._context.gl.glUseProgram(self._program)
            picture = self._merged.picture_of[step, argument]
            self._set_parameters(picture, self._values[step].parameters[argument])

    def _prepare(self) -> None:
        super()._prepare()
        if self._as_one:
            self._barrier.watch.submitted()
            if self._barrier.watch.failed:
                self._run_separately()

    def _run_separately(self) -> None:
        self._as_one, self.marks, self.labels = False, [], [step.label for step in self.steps]
        super()._record(None)

    def release(self) -> None:
        super().release()
        self._free()
        self._table.release()
