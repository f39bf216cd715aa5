"""Steps recorded once: kernel objects with their arguments set, and the calls that submit them, run many times."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import pyopencl as cl

from ....kernels.codegen.source import PICTURE_PARAMETERS, Argument
from ...device import Resource, Slot, Step, Traits
from ...errors import BindingError
from ...record.checks import SlotUse, check_resource, check_slot, check_steps, check_view
from ..api import check, loader
from ..context import ClContext, wait_for_all
from ..objects import ClBuffer, ClImage, Partner, Use
from .recording import ClKernel, Recording, set_parameters

Record = Callable[[Sequence[Step]], Recording]


class ClCommandList:
    """Implements interop.device.CommandList on the queue of a ClContext.

    ``record`` makes the calls of the checked steps: one dispatch each (recording.py), or one for all
    (one_dispatch.py). ``instead`` makes them where the barrier of the latter has failed.
    """

    def __init__(
        self,
        context: ClContext,
        traits: Traits,
        steps: Sequence[Step],
        record: Record,
        instead: Record | None = None,
    ) -> None:
        self.steps = tuple(steps)
        self._context, self._traits, self._instead, self._released = context, traits, instead, False
        self._slots: dict[str, SlotUse] = {}
        self._fixed: dict[int, ClBuffer | ClImage] = {}
        self._check_steps()
        self._parameters: list[dict[str, Sequence[float]]] = [dict(step.parameters) for step in self.steps]
        self._record(record)
        self._slot_uses, self._fixed_resources = tuple(self._slots.values()), tuple(self._fixed.values())
        self._partners: tuple[tuple[Partner, list[Use]], ...] = ()
        self._find_partners()

    @property
    def dispatches(self) -> int:
        """How many dispatches a run is."""
        return len(self._recording.dispatches)

    @property
    def calls_per_run(self) -> int:
        """How many OpenCL calls one run issues."""
        return len(self._calls)

    @property
    def barriers(self) -> int:
        """None between separate dispatches, as the queue is in order; between the steps of one, what they need."""
        return self._recording.barriers

    def _record(self, record: Record) -> None:
        """Make the calls, with the slots and the parameters as they are now."""
        self._recording = record(self.steps)
        self._calls = tuple(self._recording.calls)
        for (step, argument), place in self._recording.parameters.items():
            set_parameters(place, self._parameters[step][argument])
        for use in self._slots.values():
            if use.resource is not None:
                self._fill(use)

    def _fill(self, use: SlotUse) -> None:
        assert isinstance(use.resource, ClBuffer | ClImage)
        for value, arguments in self._recording.slots[use.name]:
            value.value = use.resource.int_ptr
            status = loader().clSetKernelArg(*arguments)
            if status:
                check(status, f"giving a kernel {use.resource.label}")

    # Checks ----------------------------------------------------------------------------------------------------------

    def _check_steps(self) -> None:
        """Every check that can be made before recording; fills the slots' lists of uses."""
        for step in self.steps:
            if not isinstance(step.kernel, ClKernel) or step.kernel.context is not self._context:
                raise BindingError(f"step '{step.label}': its kernel was compiled for another device")
        check_steps(self.steps)
        for number, step in enumerate(self.steps):
            for argument in step.kernel.source.arguments:
                operand = step.operands[argument.name]
                where = f"step '{step.label}', argument '{argument.name}'"
                if isinstance(operand.resource, Slot):
                    use = self._slots.setdefault(operand.resource.name, SlotUse(operand.resource.name))
                    use.places.append((number, argument, operand, where))
                else:
                    resource = self._checked(operand.resource, argument, where)
                    self._fixed[id(resource)] = resource

    def _checked(self, resource: Resource, argument: Argument, where: str) -> ClBuffer | ClImage:
        """The resource. Raises BindingError where it is of another context, kind or format than the argument needs."""
        if not isinstance(resource, ClBuffer | ClImage):
            raise BindingError(f"{where}: '{resource.label}' does not belong to {self._context}")
        if resource.released:
            raise BindingError(f"{where}: '{resource.label}' is released")
        if not resource.belongs_to(self._context):
            raise BindingError(f"{where}: '{resource.label}' does not belong to {self._context}")
        check_view(resource, argument, self._traits, where)
        resource.check_access(argument.access, where)
        return resource

    # Running ---------------------------------------------------------------------------------------------------------

    def set_slot(self, name: str, resource: Resource) -> None:
        """Give a slot its resource. Raises BindingError where it is of a wrong kind, format, size or context."""
        use = self._slots.get(name)
        if use is None:
            raise BindingError(f"there is no slot '{name}' in this command list, only {sorted(self._slots)}")
        before = use.resource
        if resource is before and not resource.released:
            return
        if not (isinstance(before, ClBuffer | ClImage) and before.is_like(resource)):
            use.checked = False
            for _, argument, operand, where in use.places:
                self._checked(resource, argument, where)
                if not resource.format:
                    check_resource(resource, operand, where)
        assert isinstance(resource, ClBuffer | ClImage)
        use.resource = resource
        self._fill(use)
        if resource.partner is not None or (isinstance(before, ClBuffer | ClImage) and before.partner is not None):
            self._find_partners()

    def _find_partners(self) -> None:
        """Whom a run must tell that it uses memory of theirs, and which; found anew when a slot changes."""
        uses = [Use(resource, "rw", resource.nbytes) for resource in self._fixed.values() if resource.partner]
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

    def set_parameters(self, step: int, argument: str, values: tuple[float, ...]) -> None:
        """Change the sixteen floats (see layout.picture_parameters) that step number ``step`` passes for a picture."""
        if argument not in self._parameters[step] or len(values) != PICTURE_PARAMETERS:
            raise BindingError(
                f"step '{self.steps[step].label}': '{argument}' is no picture, or was given {len(values)} values "
                f"instead of {PICTURE_PARAMETERS}"
            )
        self._context.check()
        self._parameters[step][argument] = values
        set_parameters(self._recording.parameters[step, argument], values)
        for use in self._slot_uses:
            use.checked = False

    def run(self) -> None:
        """Submit all steps. Raises BindingError for an empty or released slot, DeviceError for a closed context."""
        self._prepare()
        if self._partners:
            with self._partners_told():
                self._submit()
        else:
            self._submit()

    def _submit(self) -> None:
        for function, arguments in self._calls:
            status = function(*arguments)
            if status:
                check(status, f"running on {self._context}")

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

    def _prepare(self) -> None:
        self._context.check()
        if self._released:
            raise BindingError("this command list is released: record the steps again")
        barrier = self._recording.barrier
        if barrier is not None:
            barrier.watch.submitted()
            if barrier.watch.failed and self._instead is not None:
                self._recording.release()
                self._record(self._instead)
        for use in self._slot_uses:
            if not use.checked or use.resource is None or use.resource.released:
                check_slot(use, self._parameters)
        # A kernel argument keeps no memory alive: running on freed memory would crash the process.
        for resource in self._fixed_resources:
            if resource.released:
                raise BindingError(f"'{resource.label}' is released: record the steps again with another one")

    def timings(self) -> list[tuple[str, int]]:
        """Run once and return (label, nanoseconds on the device) of each dispatch. For measurements: it waits."""
        self._prepare()
        with self._partners_told():
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
        """Let go of the steps' resources. More than once."""
        self._released = True
        self._recording.release()
        self.steps, self._calls, self._slot_uses, self._fixed_resources, self._partners = (), (), (), (), ()
        for held in (self._parameters, self._slots, self._fixed):
            held.clear()
