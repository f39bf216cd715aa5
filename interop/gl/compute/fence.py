"""A fence of an OpenGL context."""

from __future__ import annotations

import time

from ...errors import DeviceError
from ...record.barrier import BarrierWatch
from ..context import GlContext
from ..khronos import GL

_SECOND = 1_000_000_000


class GlFence:
    """A point in the context's work. Poll it and wait for it on the context's own thread."""

    def __init__(self, context: GlContext, watch: BarrierWatch) -> None:
        self.context, self._watch, self._made = context, watch, time.perf_counter()
        self._sync: int | None = None
        context.objects.drain()
        self._sync = context.gl.glFenceSync(GL.SYNC_GPU_COMMANDS_COMPLETE, 0)
        context.objects.live["sync"] += 1
        context.gl.glFlush()

    def __del__(self) -> None:
        if self._sync:
            self.context.objects.defer_delete("sync", self._sync)

    @property
    def handle(self) -> int | None:
        """The address of the GLsync, for contexts that share objects with this one."""
        return self._sync

    @property
    def done(self) -> bool:
        """Whether the GPU has passed this point. Never waits."""
        return self._passed(0, 0)

    def wait(self) -> None:
        """Block until the GPU has passed this point. Raises DeviceError if a run before it has failed."""
        while not self._passed(GL.SYNC_FLUSH_COMMANDS_BIT, _SECOND):
            pass
        self._watch.waited(self._made)

    def _passed(self, flags: int, nanoseconds: int) -> bool:
        if self.context.is_private:
            with self.context.made_current():
                status = self.context.gl.glClientWaitSync(self._sync, flags, nanoseconds)
        else:
            self.context.check()
            status = self.context.gl.glClientWaitSync(self._sync, flags, nanoseconds)
        if status == GL.WAIT_FAILED:
            raise DeviceError(
                f"waiting for {self.context} failed: the GPU was reset or the context lost; make a new one"
            )
        return status in (GL.ALREADY_SIGNALED, GL.CONDITION_SATISFIED)
