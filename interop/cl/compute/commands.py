"""The OpenCL command list: submits a recording's calls, and times them. Partners whose memory a run uses are told."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pyopencl as cl

from ....kernels.codegen.source import Argument
from ...device import Kernel, Resource, Step, Traits
from ...errors import BindingError
from ...record.checks import check_view
from ...record.command_list import BaseCommandList, Record
from ..api import check, own_errors
from ..context import ClContext, wait_for_all
from ..objects import ClBuffer, ClImage, Partner, Use
from .kernel import ClKernel
from .recording import Recording


class ClCommandList(BaseCommandList[Recording]):
    """Implements interop.device.CommandList on the queue of a ClContext.

    Separate dispatches have no barriers between them: the queue is in order.
    """

    def __init__(
        self,
        context: ClContext,
        traits: Traits,
        steps: Sequence[Step],
        record: Record[Recording],
        instead: Record[Recording] | None = None,
    ) -> None:
        self._context = context
        super().__init__(context, traits, steps, record, instead)
        self._partners: tuple[tuple[Partner, list[Use]], ...] = ()
        self._find_partners()

    def _owns(self, kernel: Kernel) -> bool:
        return isinstance(kernel, ClKernel) and kernel.context is self._context

    def _check(self, resource: Resource, argument: Argument, where: str) -> None:
        if not isinstance(resource, ClBuffer | ClImage):
            raise BindingError(f"{where}: '{resource.label}' does not belong to {self._context}")
        if resource.released:
            raise BindingError(f"{where}: '{resource.label}' is released")
        if not resource.belongs_to(self._context):
            raise BindingError(f"{where}: '{resource.label}' does not belong to {self._context}")
        check_view(resource, argument, self._traits, where)
        resource.check_access(argument.access, where)

    # Partners ---------------------------------------------------------------------------------------------------------

    def _slot_changed(self, before: Resource | None, resource: Resource) -> None:
        if self._partners or (isinstance(resource, ClBuffer | ClImage) and resource.partner is not None):
            self._find_partners()

    def _find_partners(self) -> None:
        """List the partners that a run must tell, each with its memory that the run uses."""
        fixed = [each for each in self._fixed_resources if isinstance(each, ClBuffer | ClImage)]
        uses = [Use(resource, "rw", resource.nbytes) for resource in fixed if resource.partner]
        for slot in self._slots.values():
            resource = slot.resource
            if isinstance(resource, ClBuffer | ClImage) and resource.partner is not None:
                access = "".join(argument.access for _, argument, _, _ in slot.places)
                nbytes = max(operand.offset + operand.nbytes for _, _, operand, _ in slot.places)
                uses.append(Use(resource, access, nbytes))
        partners = {use.resource.partner for use in uses}
        self._partners = tuple(
            (partner, [use for use in uses if use.resource.partner is partner])
            for partner in partners
            if partner is not None
        )

    @contextlib.contextmanager
    def _partners_told(self) -> Iterator[None]:
        told: list[tuple[Partner, list[Use]]] = []
        try:
            for partner, uses in self._partners:
                partner.before_run(uses)
                told.append((partner, uses))
            yield
        finally:
            for partner, uses in told:
                partner.after_run(uses)

    # Runs -------------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Submit all steps. Raises BindingError for an empty or released slot, DeviceError for a closed context."""
        self._prepare()
        if self._partners:
            with self._partners_told():
                status = self._recording.submit()
        else:
            status = self._recording.submit()
        if status:
            check(status, f"running on {self._context}")

    def timings(self) -> list[tuple[str, int]]:
        """Run once and return (label, nanoseconds on the device) of each dispatch. For measurements: it waits."""
        self._prepare()
        with self._partners_told(), own_errors(f"timing on {self._context}"):
            self._context.finish()
            return self._timed()

    def _timed(self) -> list[tuple[str, int]]:
        context, profiling = self._context, cl.command_queue_properties.PROFILING_ENABLE
        queue = cl.CommandQueue(context.context, context.device, profiling)
        events = [
            cl.enqueue_nd_range_kernel(queue, kernel, tuple(global_size), tuple(local_size))
            for _, (kernel, global_size, local_size) in self._recording.dispatches
        ]
        wait_for_all(queue)
        labels = [label for label, _ in self._recording.dispatches]
        return [(label, e.profile.end - e.profile.start) for label, e in zip(labels, events, strict=True)]

    def release(self) -> None:
        """Let go of the steps' resources. May be called more than once."""
        super().release()
        self._partners = ()
