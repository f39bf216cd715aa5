"""The base of every API's command list: checks, slots, parameters, and the fallback from one dispatch to separate ones.

An API makes a ``Recording`` of checked steps, with the prebound calls of a run. The command list decides whether it may
run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from ...kernels.codegen.source import Argument
from ..contexts import BaseContext
from ..device import Kernel, Resource, Slot, Step, Traits
from ..errors import BindingError
from .barrier import BarrierWatch
from .checks import SlotUse, check_resource, check_slot, check_steps


class Recording(Protocol):
    """The calls that submit steps, made by an API. At first slots are empty, and parameters are those of the steps."""

    @property
    def calls(self) -> Sequence[tuple[Callable[..., Any], tuple[Any, ...]]]:
        """The calls of one run: functions and their arguments."""
        ...

    @property
    def dispatches(self) -> Sequence[Any]: ...
    @property
    def barriers(self) -> int:
        """Barriers that a run issues between steps."""
        ...

    @property
    def watch(self) -> BarrierWatch | None:
        """The watch of the barrier between work-groups if all steps are one dispatch."""
        ...

    def fill(self, slot: str, resource: Any) -> None:
        """Put a resource into the calls of a slot. Allocates nothing."""
        ...

    def set_parameters(self, step: int, argument: str, values: Sequence[float]) -> None:
        """Change the floats that a step passes for a picture."""
        ...

    def release(self) -> None: ...


R = TypeVar("R", bound=Recording)
Record = Callable[[Sequence[Step]], R]
"""Makes the calls of checked steps."""


class BaseCommandList(ABC, Generic[R]):
    """Implements interop.device.CommandList, except ``run`` and ``timings``, which each API implements itself.

    ``record`` makes the calls. ``instead``, if given, makes them anew once the barrier of one dispatch has failed.
    """

    def __init__(
        self, context: BaseContext, traits: Traits, steps: Sequence[Step], record: Record[R], instead: Record[R] | None
    ) -> None:
        self.steps = tuple(steps)
        self._base_context, self._traits, self._instead, self._released = context, traits, instead, False
        self._slots: dict[str, SlotUse] = {}
        self._fixed: dict[int, Resource] = {}
        """The resources that are not in slots, by id(). They are held here, so no other object can get the same id."""
        self._check_steps()
        self._slot_uses, self._fixed_resources = tuple(self._slots.values()), tuple(self._fixed.values())
        self._parameters: list[dict[str, tuple[float, ...]]] = [
            {argument.name: step.parameters[argument.name] for argument in step.kernel.source.pictures}
            for step in self.steps
        ]
        self._recording = record(self.steps)
        self._calls = tuple(self._recording.calls)

    @abstractmethod
    def _owns(self, kernel: Kernel) -> bool:
        """Whether a kernel was made by this list's device."""

    @abstractmethod
    def _check(self, resource: Resource, argument: Argument, where: str) -> None:
        """Raise BindingError if a resource is of another context, kind or format than the argument needs."""

    @property
    def dispatches(self) -> int:
        """The number of dispatches of a run."""
        return len(self._recording.dispatches)

    @property
    def barriers(self) -> int:
        """The number of barriers that a run issues between steps."""
        return self._recording.barriers

    @property
    def calls_per_run(self) -> int:
        """The number of the API's calls in one run."""
        return len(self._calls)

    # Checks ----------------------------------------------------------------------------------------------------------

    def _check_steps(self) -> None:
        """Make every check that is possible before recording, and fill the slots' lists of uses."""
        for step in self.steps:
            if not self._owns(step.kernel):
                raise BindingError(f"step '{step.label}': its kernel was compiled for another device")
        check_steps(self.steps)
        for number, step in enumerate(self.steps):
            for argument in step.kernel.source.arguments:
                if not argument.has_memory:
                    continue
                operand = step.operands[argument.name]
                where = f"step '{step.label}', argument '{argument.name}'"
                if isinstance(operand.resource, Slot):
                    use = self._slots.setdefault(operand.resource.name, SlotUse(operand.resource.name))
                    use.places.append((number, argument, operand, where))
                else:
                    self._check(operand.resource, argument, where)
                    self._fixed[id(operand.resource)] = operand.resource

    # Changes between runs --------------------------------------------------------------------------------------------

    def set_slot(self, name: str, resource: Resource) -> None:
        """Give a slot its resource. Raises BindingError if it is of a wrong kind, format, size or context."""
        use = self._slots.get(name)
        if use is None:
            raise BindingError(f"there is no slot '{name}' in this command list, only {sorted(self._slots)}")
        before = use.resource
        if before is not None and not resource.released:
            if resource is before:
                return
            key = resource.compatibility_key
            if key is not None and key == before.compatibility_key:  # it passes the checks that ``before`` passed
                use.resource = resource
                self._recording.fill(name, resource)
                return
        use.checked = False
        for _, argument, operand, where in use.places:
            self._check(resource, argument, where)
            if not resource.format:
                check_resource(resource, operand, where)
        use.resource = resource
        self._recording.fill(name, resource)
        self._slot_changed(before, resource)

    def _slot_changed(self, before: Resource | None, resource: Resource) -> None:
        """Update what an API keeps about slots. Called when a slot has another resource than before."""

    def set_parameters(self, step: int, argument: str, values: tuple[float, ...]) -> None:
        """Change the floats (see kernels/views.py: parameter_count) that a step passes for a picture."""
        count = len(self._parameters[step].get(argument, ()))
        if not count or len(values) != count:
            raise BindingError(
                f"step '{self.steps[step].label}': '{argument}' is no picture, or was given {len(values)} values "
                f"instead of {count}"
            )
        self._base_context.check()
        self._parameters[step][argument] = values
        for use in self._slot_uses:
            use.checked = False
        self._recording.set_parameters(step, argument, values)

    # Runs ------------------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Check before each run that it may be submitted."""
        if self._base_context.closed:
            self._base_context.check()
        if self._released:
            raise BindingError("this command list is released: record the steps again")
        watch = self._recording.watch
        if watch is not None:
            watch.submitted()
            if watch.failed and self._instead is not None:
                self._record_again(self._instead)
        for use in self._slot_uses:
            resource = use.resource
            if not use.checked or resource is None or resource.released:
                check_slot(use, self._parameters)
        # A kernel argument does not keep memory alive, and running on freed memory would crash the process or the
        # context.
        for resource in self._fixed_resources:
            if resource.released:
                raise BindingError(f"'{resource.label}' is released: record the steps again with another one")

    def _record_again(self, record: Record[R]) -> None:
        """Record the steps again, with the present parameters and slots."""
        self._recording.release()
        self._recording = record(
            [replace(step, parameters=now) for step, now in zip(self.steps, self._parameters, strict=True)]
        )
        self._calls = tuple(self._recording.calls)
        for use in self._slot_uses:
            if use.resource is not None:
                self._recording.fill(use.name, use.resource)

    def release(self) -> None:
        """Let go of the steps' resources. May be called more than once."""
        self._released = True
        self._recording.release()
        self.steps, self._calls, self._slot_uses, self._fixed_resources = (), (), (), ()
        for held in (self._parameters, self._slots, self._fixed):
            held.clear()
