"""The GL command list: submits a recording's calls, and times them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from ....kernels.codegen.source import Argument
from ...device import Kernel, Resource, Step, Traits
from ...errors import BindingError
from ...record.checks import check_view
from ...record.command_list import BaseCommandList, Record
from ..buffer import GlBuffer
from ..context import GlContext
from ..khronos import GL
from ..state import kept
from ..texture import GlTexture
from .kernel import GlKernel
from .recording import GlRecording


class GlCommandList(BaseCommandList[GlRecording]):
    """Implements interop.device.CommandList on one GL context. GlDevice says which GL state a run changes."""

    def __init__(
        self,
        context: GlContext,
        traits: Traits,
        steps: Sequence[Step],
        record: Record[GlRecording],
        instead: Record[GlRecording] | None = None,
    ) -> None:
        self._context = context
        self._not_ours: tuple[GlBuffer | GlTexture, ...] = ()
        """The resources of other libraries. Each run checks that they are unchanged."""
        self._just_checked: list[Resource] = []
        """Resources that were put into slots, and checked there, since the last run."""
        super().__init__(context, traits, steps, record, instead)
        self._fixed_resources = ()  # calls have names, and GL refuses those of what is deleted
        self._find_not_ours()

    def _owns(self, kernel: Kernel) -> bool:
        return isinstance(kernel, GlKernel) and kernel.context is self._context

    def _check(self, resource: Resource, argument: Argument, where: str) -> None:
        if not isinstance(resource, GlBuffer | GlTexture) or resource.context is not self._context:
            raise BindingError(f"{where}: '{resource.label}' does not belong to {self._context}")
        if resource.released:
            raise BindingError(f"{where}: '{resource.label}' is released")
        check_view(resource, argument, self._traits, where)
        if isinstance(resource, GlTexture) and argument.access != "r":
            resource.check(write=True)

    def _slot_changed(self, before: Resource | None, resource: Resource) -> None:
        if self._not_ours or not (isinstance(resource, GlBuffer | GlTexture) and resource.is_owned):
            self._find_not_ours()
            self._just_checked.append(resource)

    def _find_not_ours(self) -> None:
        used = [*self._fixed.values(), *(use.resource for use in self._slots.values())]
        self._not_ours = tuple(r for r in used if isinstance(r, GlBuffer | GlTexture) and not r.is_owned)

    def run(self) -> None:
        """Submit all steps. Raises DeviceError off thread or context.

        Raises BindingError for an empty slot, and for a resource that was released, deleted or changed by its owner.
        """
        self._prepare()
        if self._recording.changed:
            with kept(self._context, *self._recording.changed):
                self._submit()
        else:
            self._submit()

    def _prepare(self) -> None:
        self._context.check()
        super()._prepare()
        if self._context.is_foreign:
            self._context.check_exists()
        if self._not_ours:
            for resource in self._not_ours:
                if isinstance(resource, GlTexture) and resource in self._just_checked:
                    resource.check_exists()  # one call in place of three
                else:
                    resource.check_unchanged()
            self._just_checked.clear()
        if self._context.objects.deletions:
            self._context.objects.drain()

    def release(self) -> None:
        """Let go of the steps' resources. May be called more than once."""
        super().release()
        self._not_ours = ()
        self._just_checked.clear()

    def _submit(self) -> None:
        for function, arguments in self._calls:
            function(*arguments)

    def timings(self) -> list[tuple[str, int]]:
        """Run once and return (label, nanoseconds on the GPU) of each dispatch. For measurements: it waits for the GPU.

        Raises DeviceError on OpenGL ES drivers without GL_EXT_disjoint_timer_query.
        """
        self._prepare()
        gl, suffix = self._context.gl, "EXT" if self._context.is_es else ""
        stamp, result = getattr(gl, f"glQueryCounter{suffix}"), getattr(gl, f"glGetQueryObjectui64v{suffix}")
        dispatches = self._recording.dispatches
        queries = [self._context.objects.generate("query") for _ in range(len(dispatches) + 1)]
        times, value, done = [], ctypes.c_uint64(), 0
        with kept(self._context, *self._recording.changed):
            stamp(queries[0], GL.TIMESTAMP)
            for query, (_, end) in zip(queries[1:], dispatches, strict=True):
                for function, arguments in self._calls[done:end]:
                    function(*arguments)
                gl.glMemoryBarrier(GL.SHADER_STORAGE_BARRIER_BIT)
                stamp(query, GL.TIMESTAMP)
                done = end
            for function, arguments in self._calls[done:]:
                function(*arguments)
        for query in queries:
            result(query, GL.QUERY_RESULT, ctypes.byref(value))
            times.append(value.value)
            self._context.objects.defer_delete("query", query)
        self._context.objects.drain()
        return [(label, times[i + 1] - times[i]) for i, (label, _) in enumerate(dispatches)]
