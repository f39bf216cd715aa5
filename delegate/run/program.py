"""A compiled program on a device: constants uploaded once, commands recorded for the bound objects, run many times."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from ...interop.binaries import BinaryStore
from ...interop.device import CommandList, Device, Kernel, Resource, Slot, Step
from ...interop.errors import BindingError, ModelError
from ...kernels.codegen.source import KernelSource
from ...kernels.target import TuningChoice
from ..cache.stopwatch import Stopwatch
from ..compiler import CompiledProgram
from ..lower.tuning import choices_by_key
from ..plan.binding import Binding
from ..plan.conversions import add_conversions
from ..plan.levels import orders_in_levels
from ..plan.object_views import object_views
from ..plan.placement import Layout, plan_layout, slot_name
from ..plan.steps import build_steps, picture_slots
from .bindings import refuse_written

log = logging.getLogger("framebind")


class RecordedSteps:
    """The commands of a program's steps, and the slots by which objects of the same views are exchanged in them.

    ``choices`` has the decision that each step follows, if there is one; ``layout`` the places of the tensors.
    """

    def __init__(
        self,
        commands: CommandList,
        steps: Sequence[Step],
        choices: tuple[TuningChoice[Any] | None, ...],
        layout: Layout,
        tensors: Iterable[int],
    ) -> None:
        self.commands, self.choices, self.layout = commands, choices, layout
        self.steps = commands.steps
        self.has_run = False
        """Whether the partition ran the commands."""
        operands = [operand.resource for step in steps for operand in step.operands.values()]
        self._slots = frozenset(resource.name for resource in operands if isinstance(resource, Slot))
        self.slot_names = {tensor: slot_name(tensor) for tensor in tensors if slot_name(tensor) in self._slots}
        """The (first) slot of each tensor that has one."""
        self._pictures = picture_slots(steps)
        """The steps and their arguments that read or write a picture, by the name of its (first) slot."""

    def show_all(self, commands: CommandList, bindings: Mapping[int, Binding]) -> None:
        """Put bindings into commands of these steps."""
        for tensor, binding in bindings.items():
            self.show(commands, tensor, binding)

    def show(self, commands: CommandList, tensor: int, binding: Binding, before: Binding | None = None) -> None:
        """Put a tensor's binding into the commands, in place of ``before``, which has the same view."""
        if not binding.frames:
            self._fill(commands, slot_name(tensor), binding, before)
        for frame, part in enumerate(binding.frames):
            self._fill(commands, slot_name(tensor, frame=frame), part, before.frames[frame] if before else None)

    def _fill(self, commands: CommandList, name: str, binding: Binding, before: Binding | None) -> None:
        """Put objects into their slots, the first into slot ``name``, and pass the parameters if they have changed."""
        if name in self._slots:
            commands.set_slot(name, binding.resource)
        if binding.others:
            for number, resource in enumerate(binding.others, 1):
                if f"{name}_{number}" in self._slots:
                    commands.set_slot(f"{name}_{number}", resource)
        if before is None or (before.parameters is not binding.parameters and before.parameters != binding.parameters):
            for step, argument in self._pictures.get(name, ()):
                commands.set_parameters(step, argument, binding.parameters)


class Program:
    """Runs a compiled program on a device. Bind every input and output of its graph, then ``run()`` as often as needed.

    Binding an object of the same view as the one before neither compiles nor allocates; another view records the
    commands anew. ``store`` has compiled kernels of earlier processes, and keeps those of this one; the ``stopwatch``
    counts the phases.
    """

    def __init__(
        self,
        device: Device,
        compiled: CompiledProgram,
        *,
        stopwatch: Stopwatch | None = None,
        store: BinaryStore | None = None,
    ) -> None:
        self.compiled, self.graph, self.tuning = compiled, compiled.graph, compiled.tuning
        self._device, self._store, self._stopwatch = device, store, stopwatch or Stopwatch()
        graph = compiled.graph
        self.inputs = tuple(map(graph.model_tensor, graph.inputs))
        """The inputs, and ``outputs``, as the model numbers them: objects are bound to these."""
        self.outputs = tuple(map(graph.model_tensor, graph.outputs))
        self.bindings: dict[int, Binding] = {}
        """The binding of each input and output."""
        self.needs_check = False
        """An object may have been bound twice since this flag was cleared."""
        self._written: set[Hashable] = set()
        """The handles of the objects that are bound to outputs."""
        self.recorded: RecordedSteps | None = None
        """The commands of a run; None before ``record``, and after an object of another view was bound."""
        self._arena: Resource | None = None
        with self._stopwatch.phase("upload"):
            self._weights = self._buffer("constants", compiled.block.nbytes)
            if compiled.block.nbytes:
                device.write(self._weights, compiled.block, "constants of the model")

    @property
    def steps(self) -> tuple[Step, ...]:
        """The dispatches of a run, in order; none before ``record``."""
        return self.recorded.steps if self.recorded is not None else ()

    @property
    def step_choices(self) -> tuple[TuningChoice[Any] | None, ...]:
        """The decision that each of ``steps`` follows, if there is one."""
        return self.recorded.choices if self.recorded is not None else ()

    @property
    def layout(self) -> Layout | None:
        """The places of the tensors of ``steps``; None before ``record``."""
        return self.recorded.layout if self.recorded is not None else None

    @property
    def arena_nbytes(self) -> int:
        """Bytes of GPU memory that hold the intermediate tensors; 0 before the first recording."""
        return self._arena.nbytes if self._arena else 0

    @property
    def weights_nbytes(self) -> int:
        """Bytes of GPU memory that hold the constants."""
        return self._weights.nbytes

    @property
    def choices(self) -> Mapping[str, TuningChoice[Any]]:
        """The different decisions that the kernels follow, by key."""
        return choices_by_key(self.compiled.lowered.launches)

    def bind_like(self, other: Program) -> None:
        """Bind all objects that are bound to another program of the same graph."""
        for tensor, binding in other.bindings.items():
            self.bind(tensor, binding)

    def bind(self, tensor: int, binding: Binding) -> None:
        """Let input or output ``tensor`` be this object from now on. Raises BindingError for any other tensor."""
        before = self.bindings.get(tensor)
        if before is None and tensor not in self.inputs and tensor not in self.outputs:
            raise BindingError(f"tensor {tensor} is neither an input nor an output of this partition")
        self.bindings[tensor] = binding
        if tensor in self.outputs:
            outputs = [self.bindings[output] for output in self.outputs if output in self.bindings]
            self._written = {resource.handle for output in outputs for resource in output.resources}
            self.needs_check = True
        elif binding.resource.handle in self._written or (
            (binding.others or binding.frames) and any([each.handle in self._written for each in binding.resources])
        ):
            self.needs_check = True
        recorded = self.recorded
        if recorded is None:
            return
        if before is None or before.channels_last is not binding.channels_last:
            self._forget_commands()
        elif before.view is not binding.view and before.view != binding.view:
            self._forget_commands()
        elif before.parameters is not binding.parameters or binding.others or binding.frames:
            recorded.show(recorded.commands, tensor, binding, before)
        elif tensor in recorded.slot_names:
            recorded.commands.set_slot(recorded.slot_names[tensor], binding.resource)

    def has_state_last(self, tensor: int) -> bool:
        """Whether an input or output is a state with channels last in memory: both its ends are then."""
        last = self.graph.channels_last.values()
        return any(tensor in pair and all(end in last for end in pair) for pair in self.graph.states)

    def exchange(self, tensor: int, binding: Binding) -> None:
        """Let a tensor be the other one of two buffers, which no other tensor ever has: see State."""
        if tensor not in self.bindings:
            return
        self.bindings[tensor], recorded = binding, self.recorded
        if recorded is not None and tensor in recorded.slot_names:
            recorded.commands.set_slot(recorded.slot_names[tensor], binding.resource)

    def check_bindings(self) -> None:
        """Refuse an object that is written and read (or written twice) in one run, whose order only the model decides.

        Raises BindingError.
        """
        written, read = list[Hashable](), list[Hashable]()
        for tensor, binding in self.bindings.items():
            (written if tensor in self.outputs else read).extend([each.handle for each in binding.resources])
        if len(self._written) < len(written) or not self._written.isdisjoint(read):
            refuse_written(self.bindings, self.outputs, self.graph.tensors)
        self.needs_check = False

    def record(self) -> CommandList:
        """The commands of a run: see ``record_steps``."""
        return self.record_steps().commands

    def record_steps(self) -> RecordedSteps:
        """The steps and their commands. They are planned, compiled and recorded now, unless no view has changed since
        the last time.
        """
        if self.recorded is None:
            with self._stopwatch.phase("plan"):
                self.recorded = self._record(*self._plan())
        return self.recorded

    def run(self) -> None:
        """Submit all steps. Outputs are ready for the GPU's next work; the CPU waits for nothing."""
        self.record().run()

    def timings(self) -> list[tuple[str, int]]:
        """Run once, each step as a dispatch of its own, also if ``run`` is one for all; labels and nanoseconds."""
        recorded = self.record_steps()
        if recorded.commands.dispatches == len(recorded.steps):
            return recorded.commands.timings()
        separate = self._device.record(recorded.steps, "separate")
        try:
            recorded.show_all(separate, self.bindings)
            return separate.timings()
        finally:
            separate.release()

    def release(self) -> None:
        """Free the program's GPU memory. Bound objects are not touched."""
        self._forget_commands()
        for resource in (self._arena, self._weights):
            if resource is not None:
                resource.release()
        self._arena = None
        self.bindings.clear()

    def _forget_commands(self) -> None:
        if self.recorded is not None:
            self.recorded.commands.release()
            self.recorded = None

    def _buffer(self, what: str, nbytes: int) -> Resource:
        traits = self._device.traits
        if nbytes > traits.max_buffer_bytes:
            raise ModelError(
                f"the model's {what} take {nbytes} bytes; a buffer of {traits.name} holds {traits.max_buffer_bytes}"
            )
        return self._device.buffer(max(nbytes, 16), what)

    def _plan(self) -> tuple[list[Step], tuple[TuningChoice[Any] | None, ...], Layout]:
        """The steps for the objects that are bound now, the decisions that they follow, and the tensors' places."""
        missing = [t for t in (*self.inputs, *self.outputs) if t not in self.bindings]
        if missing:
            raise BindingError(f"tensors {missing} are not bound")
        compiled = self.compiled
        bindings, transposed = object_views(self.graph, self.bindings)
        views = {tensor: binding.view for tensor, binding in bindings.items()}
        launches, dense = add_conversions(self.graph, compiled.lowered, views, transposed)
        alignment = self._device.traits.offset_alignment
        orders = orders_in_levels(launches, compiled.lowered)
        layouts = [plan_layout(compiled, bindings, levels, dense, alignment) for levels in orders]
        layout = min(layouts, key=lambda each: each.arena.nbytes)
        choices = tuple(entry.launch.choice for entry in layout.launches)
        arena = self._grown_arena(layout.arena.nbytes)
        memories = {"weights": self._weights, "arena": arena}
        return build_steps(layout, memories, self._kernel), choices, layout

    def _grown_arena(self, nbytes: int) -> Resource:
        """The buffer of the intermediate tensors, replaced if it is too small."""
        if self._arena is None or self._arena.nbytes < nbytes:
            before, self._arena = self._arena, None  # if there is no room for the new one, there is none
            if before is not None:
                before.release()
            with self._stopwatch.phase("upload"):
                self._arena = self._buffer("intermediate tensors", nbytes)
        return self._arena

    def _kernel(self, source: KernelSource) -> Kernel:
        with self._stopwatch.phase("compile"):
            return self._device.kernel(source)

    def _record(
        self, steps: list[Step], choices: tuple[TuningChoice[Any] | None, ...], layout: Layout
    ) -> RecordedSteps:
        with self._stopwatch.phase("compile"):
            self._device.compile(steps, self.tuning.dispatches, self._store)
        with self._stopwatch.phase("record"):
            commands = self._commands_of(steps)
        recorded = RecordedSteps(commands, steps, choices, layout, self.bindings)
        recorded.show_all(commands, self.bindings)
        return recorded

    def _commands_of(self, steps: list[Step]) -> CommandList:
        """The commands with the tuned way to run steps; by rule if the current bindings do not allow it."""
        tuning = self.tuning
        if tuning.dispatches is not None:
            try:
                return self._device.record(steps, tuning.dispatches, tuning.groups_per_unit, self._store)
            except BindingError as reason:
                log.info(str(reason))
        return self._device.record(steps, store=self._store)
