"""A partition's graph as a program of one device: constants uploaded and steps recorded once, run many times."""

from __future__ import annotations

from collections.abc import Sequence

from ..interop.device import CommandList, Device, Kernel, Resource, Slot, Step
from ..interop.errors import BindingError, ModelError
from ..kernels.dialect import KernelSource
from ..kernels.layout import Storage
from .bindings import Binding
from .graph import Graph
from .initialization import Initialization
from .lower import lower
from .passes import transform
from .precision import assign_storages
from .steps import Layout, build_steps, plan_arena, slot_name, with_conversions
from .tune import WAYS, fastest, ways_to_run
from .weights import list_constants, pack_constants


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
        initialization: Initialization | None = None,
        name: str = "",
    ) -> None:
        """``name`` tells what is kept of this graph in these shapes from what is of the model's other ones."""
        self._device = device
        self._initialization = initialization or Initialization()
        self._bindings: dict[int, Binding] = {}
        self._commands: CommandList | None = None
        self._arena: Resource | None = None
        self._pictures: dict[int, list[tuple[int, str]]] = {}
        self._slots: set[str] = set()
        self._has_run, self._name = False, name
        with self._initialization.phase("transform"):
            self.graph = transform(graph)
        with self._initialization.phase("lower"):
            lowered = lower(self.graph, device.traits.grid)
            storages = assign_storages(lowered, storage)
        with self._initialization.phase("pack"):
            alignment = device.traits.offset_alignment
            wanted = list_constants(lowered, self.graph)
            block, constants = self._initialization.constants(
                name, wanted.fits, lambda: pack_constants(wanted, storage, alignment)
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
            for step, argument in self._pictures.get(tensor, ()):
                self._commands.set_parameters(step, argument, binding.parameters)

    def run(self) -> None:
        """Submit all steps. Outputs are ready for the GPU's next work; the CPU waits for nothing."""
        (self._commands or self.commands).run()
        if not self._has_run:
            self._has_run = True
            self._initialization.ready()

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
        entries = with_conversions(self.graph, layout, device.traits.grid)
        plan = plan_arena(entries, layout, device.traits.offset_alignment)
        if self._arena is None or self._arena.nbytes < plan.nbytes:
            if self._arena is not None:
                self._arena.release()
            with self._initialization.phase("upload"):
                self._arena = self._buffer("intermediate tensors", plan.nbytes)
        steps = build_steps(entries, layout, plan, self._arena, device.traits.group, self._kernel)
        self._pictures.clear()
        for number, step in enumerate(steps):
            for argument in step.kernel.source.pictures:
                self._pictures.setdefault(int(argument.memory.removeprefix("tensor_")), []).append(
                    (number, argument.name)
                )
        with self._initialization.phase("compile"):
            device.compile(steps)
        with self._initialization.phase("record"):
            stateful = any(layout.tensors[i].variable for i in self.graph.inputs)  # each run moves its state on
            tuned = self._initialization.tuned and not stateful
            known = self._initialization.known_way(self._way_name(steps)) if tuned else None
            lists = ways_to_run(device, steps, known) if tuned else [device.record(steps)]
        operands = [operand.resource for step in steps for operand in step.operands.values()]
        self._slots = {resource.name for resource in operands if isinstance(resource, Slot)}
        for commands in lists:
            self._show_bindings(commands)
        best = fastest(device, lists)
        if len(lists) > 1:
            self._initialization.keep_way(self._way_name(steps), WAYS[lists.index(best)])
        return best

    def _way_name(self, steps: Sequence[Step]) -> str:
        """What a measured way to run these steps is kept as: other bound objects may be more steps."""
        return f"{self._name}, {len(steps)} steps"

    def _show_bindings(self, commands: CommandList) -> None:
        """Give a command list of the steps what is bound now."""
        for tensor, binding in self._bindings.items():
            if slot_name(tensor) in self._slots:
                commands.set_slot(slot_name(tensor), binding.resource)
            for step, argument in self._pictures.get(tensor, ()):
                commands.set_parameters(step, argument, binding.parameters)
