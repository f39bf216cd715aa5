"""A partition's graph as a program of one device: constants uploaded and steps recorded once, run many times."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ...interop.device import CommandList, Device, Kernel, Resource, Slot, Step
from ...interop.errors import BindingError, ModelError
from ...kernels.codegen.source import KernelSource
from ...kernels.target import TuningChoice
from ...kernels.views import Storage
from ..cache.build import BuildContext
from ..lower.merge import merge
from ..lower.pack import list_constants, pack_constants
from ..lower.precision import choose_storage
from ..lower.tuning import Tuning, choices_by_key, encode, lower_tuned, target_for
from ..plan.binding import Binding
from ..plan.placement import Layout, plan_arena, slot_name
from ..plan.steps import build_steps, with_conversions
from ..transform.graph import Graph
from ..transform.pipeline import transform

log = logging.getLogger("framebind")


class Program:
    """Runs a graph on a device. Bind every input and output of the graph, then ``run()`` as often as you like.

    ``storage`` is how intermediates and constants are kept: "f32", or "f16" for 16 bits where precision.py allows them;
    arithmetic is f32. Binding an object of the
    same view as the one before neither compiles nor allocates; another view records the steps anew.
    """

    def __init__(
        self,
        device: Device,
        graph: Graph,
        storage: Storage,
        initialization: BuildContext | None = None,
        name: str = "",
        tuning: Tuning | None = None,
    ) -> None:
        """``name`` tells what is kept of this graph in these shapes from what is of the model's other ones.

        ``tuning``: what was measured, for what goes by rule otherwise. Raises TuningError where it does not fit.
        """
        self._device = device
        self._initialization = initialization or BuildContext()
        self._bindings: dict[int, Binding] = {}
        self._commands: CommandList | None = None
        self._arena: Resource | None = None
        self._pictures: dict[str, list[tuple[int, str]]] = {}
        self._slots: set[str] = set()
        self.tuning = tuning or Tuning()
        self.target = target_for(device.traits, storage)
        """The device as its operators are lowered for it, if nothing is tuned."""
        with self._initialization.phase("transform"):
            self.graph = transform(graph)
        with self._initialization.phase("lower"):
            lowered = merge(lower_tuned(self.graph, self.target, self.tuning))
            storages = choose_storage(lowered, storage)
        with self._initialization.phase("pack"):
            alignment = device.traits.offset_alignment
            wanted = list_constants(lowered, self.graph)
            block, constants = self._initialization.constants(
                f"{name} {encode(self.tuning)}", wanted.fits, lambda: pack_constants(wanted, storage, alignment)
            )
        with self._initialization.phase("upload"):
            self._weights = self._buffer("constants", block.nbytes)
            if block.nbytes:
                device.write(self._weights, block, "constants of the model")
        self._layout = Layout(lowered, self.graph.tensors, self._bindings, constants, self._weights, storages)

    def _buffer(self, what: str, nbytes: int) -> Resource:
        traits = self._device.traits
        if nbytes > traits.max_buffer_bytes:
            raise ModelError(
                f"the model's {what} take {nbytes} bytes; a buffer of {traits.name} holds {traits.max_buffer_bytes}"
            )
        return self._device.buffer(max(nbytes, 16), what)

    @property
    def commands(self) -> CommandList:
        """The recorded steps, for counts and timings. Recorded now if they were not."""
        if self._commands is None:
            with self._initialization.phase("plan"):
                self._commands = self._record()
            self._has_run = False
        return self._commands

    @property
    def steps(self) -> tuple[Step, ...]:
        """The dispatches of a run, in order."""
        return self.commands.steps

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
        """The different decisions that the kernels follow, by question."""
        return choices_by_key(self._layout.lowered.launches)

    @property
    def step_choices(self) -> tuple[TuningChoice[Any] | None, ...]:
        """The decision that each step follows, where there is one, in the order of ``steps``."""
        self.commands  # noqa: B018 - which finds the steps
        return self._step_choices

    def bind_like(self, other: Program) -> None:
        """Bind what is bound to another program of the same graph."""
        for tensor, binding in other._bindings.items():
            self.bind(tensor, binding)

    def bind(self, tensor: int, binding: Binding) -> None:
        """Let input or output ``tensor`` be this object from now on. Raises BindingError for any other tensor."""
        if tensor not in self.graph.inputs and tensor not in self.graph.outputs:
            raise BindingError(f"tensor {tensor} is neither an input nor an output of this partition")
        before = self._bindings.get(tensor)
        self._bindings[tensor] = binding
        if self._commands is None:
            return
        if before is None or (before.view is not binding.view and before.view != binding.view):
            self._commands.release()
            self._commands = None
            return
        name = slot_name(tensor)
        if name in self._slots:
            self._commands.set_slot(name, binding.resource)
        if before.parameters != binding.parameters:
            for step, argument in self._pictures.get(name, ()):
                self._commands.set_parameters(step, argument, binding.parameters)

    def run(self) -> None:
        """Submit all steps. Outputs are ready for the GPU's next work; the CPU waits for nothing."""
        (self._commands or self.commands).run()

    def timings(self) -> list[tuple[str, int]]:
        """Run once, each step as a dispatch of its own, also where ``run`` is one for all; labels and nanoseconds."""
        if self.commands.dispatches == len(self.steps):
            return self.commands.timings()
        separate = self._device.record(self.steps, "separate")
        try:
            self._show_bindings(separate)
            return separate.timings()
        finally:
            separate.release()

    def release(self) -> None:
        """Free the program's GPU memory. Bound objects are not touched."""
        for resource in (self._commands, self._arena, self._weights):
            if resource is not None:
                resource.release()
        self._commands = self._arena = None
        self._bindings.clear()

    def _kernel(self, source: KernelSource) -> Kernel:
        with self._initialization.phase("compile"):
            return self._device.kernel(source)

    def _record(self) -> CommandList:
        missing = [t for t in (*self.graph.inputs, *self.graph.outputs) if t not in self._bindings]
        if missing:
            raise BindingError(f"tensors {missing} are not bound")
        device, layout = self._device, self._layout
        entries = with_conversions(self.graph, layout)
        self._step_choices = tuple(entry.launch.choice for entry in entries)
        plan = plan_arena(entries, layout, device.traits.offset_alignment)
        if self._arena is None or self._arena.nbytes < plan.nbytes:
            if self._arena is not None:
                self._arena.release()
            with self._initialization.phase("upload"):
                self._arena = self._buffer("intermediate tensors", plan.nbytes)
        steps = build_steps(entries, layout, plan, self._arena, self._kernel)
        self._pictures.clear()
        for number, step in enumerate(steps):
            for argument in step.kernel.source.pictures:
                self._pictures.setdefault(argument.memory, []).append((number, argument.name))
        with self._initialization.phase("compile"):
            device.compile(steps, self.tuning.dispatches, self._initialization.cache)
        with self._initialization.phase("record"):
            commands = self._record_steps(steps)
        operands = [operand.resource for step in steps for operand in step.operands.values()]
        self._slots = {resource.name for resource in operands if isinstance(resource, Slot)}
        self._show_bindings(commands)
        return commands

    def _record_steps(self, steps: list[Step]) -> CommandList:
        """As it was measured to be the fastest; by rule, where what is bound now does not allow that."""
        tuning, store = self.tuning, self._initialization.cache
        if tuning.dispatches is not None:
            try:
                return self._device.record(steps, tuning.dispatches, tuning.groups_per_unit, store)
            except BindingError as reason:
                log.info(str(reason))
        return self._device.record(steps, store=store)

    def _show_bindings(self, commands: CommandList) -> None:
        """Give a command list of the steps what is bound now."""
        for tensor, binding in self._bindings.items():
            name = slot_name(tensor)
            if name in self._slots:
                commands.set_slot(name, binding.resource)
            for step, argument in self._pictures.get(name, ()):
                commands.set_parameters(step, argument, binding.parameters)
