"""The barrier of all work-groups of one dispatch on a GL device: whether it works there, and what went wrong."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable

import numpy as np

from ....kernels.codegen.one_dispatch_glsl import render_glsl_barrier_test
from ...binaries import BinaryStore
from ...errors import KernelError
from ...record.one_dispatch import (
    GROUPS_PER_UNIT,
    MAX_SPINS,
    TEST_PATIENCE,
    TEST_ROUNDS,
    BarrierWatch,
    groups_to_try,
    keep_groups,
)
from ..context import GlContext
from ..khronos import GL
from ..objects import GlBuffer
from ..program import build_program
from ..query import has_extension
from ..state import buffers, kept, storage_buffers
from ..state import program as program_in_use

log = logging.getLogger("framebind")

_COUNTS_UNITS = "GL_NV_shader_thread_group"
_FLAG = "flag of the barrier between work-groups"


class GlBarrier:
    """The state of the barrier, for everything that runs in one context: a count, and the flag of a failure."""

    def __init__(self, context: GlContext) -> None:
        self._context = context
        known = not context.software and has_extension(context, _COUNTS_UNITS)
        self.units: int = context.gl.integer(GL.SM_COUNT_NV) if known else 1
        self.per_unit = GROUPS_PER_UNIT if known else (1,)
        """How many groups a compute unit is tried with. Where GL does not tell how many units there are, it is one."""
        self.max_spins = MAX_SPINS
        self._why_unusable: str | None = None
        self.watch = BarrierWatch(str(context), self._take_flag, context.software)

    @functools.cached_property
    def state(self) -> GlBuffer:
        with kept(self._context, buffers, program_in_use, storage_buffers(1)):
            return GlBuffer(8, label="state of the barrier")

    @property
    def version(self) -> str:
        """Of the shading language."""
        return "310 es" if self._context.is_es else "430 core"

    def why_unusable(self, store: BinaryStore | None) -> str:
        """What is wrong with the barrier on this device, tested once; "" if nothing is."""
        if self._why_unusable is None:
            self._why_unusable = self._test(store)
        return self._why_unusable

    def _test(self, store: BinaryStore | None) -> str:
        """What is wrong with the barrier on this device, found by a bounded test; "" where nothing is.

        Every group writes a number, waits, and must then read its neighbour's, which it has read in the round before.
        """
        context, gl = self._context, self._context.gl
        try:
            text = render_glsl_barrier_test(64, self.version)
            program = build_program(context, "barrier_test", {GL.COMPUTE_SHADER: text}, store)
        except KernelError as error:
            return f"the barrier does not compile: {error}"
        weakref.finalize(self, context.defer_delete, "program", program).atexit = False
        most = self.units * self.per_unit[0]
        with kept(context, buffers, program_in_use, storage_buffers(1)):
            cells, stale_reads = GlBuffer(4 * most, label="cells"), GlBuffer(4, label="stale_reads")

        def dispatch(groups: int) -> None:
            gl.glUseProgram(program)
            for binding, buffer in enumerate((cells, stale_reads, self.state)):
                gl.glBindBufferBase(GL.SHADER_STORAGE_BUFFER, binding, buffer.id)
            for location, value in enumerate((TEST_ROUNDS, groups, TEST_PATIENCE)):
                gl.glUniform1i(location, value)
            gl.glDispatchCompute(groups, 1, 1)

        with kept(context, program_in_use, buffers, storage_buffers(3)):
            groups = self.resident_groups(dispatch, most, text, store)
        if groups == 0:
            return "its work-groups do not wait for one another"
        wrong = self._word(stale_reads, 0)
        log.debug(f"{context}: {groups} groups wait for one another")
        return f"{wrong} times what one group wrote was not seen by another" if wrong else ""

    def resident_groups(self, dispatch: Callable[[int], None], most: int, text: str, store: BinaryStore | None) -> int:
        """The largest number of groups, ``most`` at most, with which ``dispatch(groups)`` gets through; 0: none.

        ``text`` is that of the program, so that the next start tries first what this one finds.
        """
        for groups in groups_to_try(self.units, self.per_unit, most, text, store):
            dispatch(groups)
            self._context.gl.glMemoryBarrier(GL.ALL_BARRIER_BITS)
            self._context.gl.glFinish()
            if not self._take_flag():
                keep_groups(groups, most, text, store)
                return groups
        return 0

    def _take_flag(self) -> bool:
        """Whether a group has waited in vain; if so, everything is as it was in the beginning."""
        failed = bool(self._word(self.state, 4))
        if failed:
            with kept(self._context, buffers):
                self.state.write(np.zeros(2, np.uint32), _FLAG)
        return failed

    def _word(self, buffer: GlBuffer, offset: int) -> int:
        word = np.zeros(1, np.uint32)
        with kept(self._context, buffers):
            buffer.read_into(word, _FLAG, offset)
        return int(word[0])
