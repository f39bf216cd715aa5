"""The barrier between the work-groups of one dispatch on a GL device."""

from __future__ import annotations

import functools
import weakref

import numpy as np

from ...binaries import BinaryStore
from ...record.barrier import GROUPS_PER_UNIT, TEST_ROUNDS, TEST_SPINS, BarrierTest, BaseBarrier, Dispatch
from ..buffer import GlBuffer
from ..context import GlContext
from ..khronos import GL
from ..program import build_program
from ..query import has_extension
from ..state import kept, storage_buffers
from ..state import program as program_in_use
from .kernel import dialect_of

_COUNTS_UNITS = "GL_NV_shader_thread_group"
_FLAG = "flag of the barrier between work-groups"


class GlBarrier(BaseBarrier):
    """The barrier of everything that runs in one GL context.

    Only NVIDIA's GL tells the number of compute units. Elsewhere the device counts as one unit that takes one group.
    """

    def __init__(self, context: GlContext) -> None:
        self._context = context
        known = not context.software and has_extension(context, _COUNTS_UNITS)
        units = context.gl.integer(GL.SM_COUNT_NV) if known else 1
        super().__init__(context, units, GROUPS_PER_UNIT if known else (1,))

    @functools.cached_property
    def state(self) -> GlBuffer:
        """The count of arrivals and the flag: two words."""
        return GlBuffer(8, label="state of the barrier")

    def _build_test(self, most: int, store: BinaryStore | None) -> BarrierTest:
        context, gl = self._context, self._context.gl
        text = dialect_of(context).barrier_test(64)
        program = build_program(context, "barrier_test", {GL.COMPUTE_SHADER: text}, store)
        weakref.finalize(self, context.objects.defer_delete, "program", program).atexit = False
        cells, stale_reads = GlBuffer(4 * most, label="cells"), GlBuffer(4, label="stale_reads")

        def dispatch(groups: int) -> None:
            with kept(context, program_in_use, storage_buffers(3)):
                gl.glUseProgram(program)
                for binding, buffer in enumerate((cells, stale_reads, self.state)):
                    gl.glBindBufferBase(GL.SHADER_STORAGE_BUFFER, binding, buffer.id)
                for location, value in enumerate((TEST_ROUNDS, groups, TEST_SPINS)):
                    gl.glUniform1i(location, value)
                gl.glDispatchCompute(groups, 1, 1)

        return BarrierTest(text, dispatch, lambda: self._word(stale_reads, 0))

    def _run(self, dispatch: Dispatch, groups: int) -> None:
        dispatch(groups)
        self._context.gl.glMemoryBarrier(GL.ALL_BARRIER_BITS)
        self._context.gl.glFinish()

    def _failed(self) -> bool:
        return bool(self._word(self.state, 4))

    def _reset(self) -> None:
        self.state.write(np.zeros(2, np.uint32), reason=_FLAG)

    def _word(self, buffer: GlBuffer, offset: int) -> int:
        word = np.zeros(1, np.uint32)
        buffer.read(word, offset=offset, reason=_FLAG)
        return int(word[0])
