"""Steps recorded once as a flat list of prebound GL calls, run many times."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....kernels.codegen.source import PICTURE_PARAMETERS, Argument
from ....kernels.views import Picture
from ...binaries import BinaryStore
from ...device import Resource, Slot, Step, Traits
from ...errors import BindingError
from ...record.checks import SlotUse, check_resource, check_slot, check_steps, check_view
from ...record.hazards import hazards
from ..context import GlContext
from ..khronos import GL
from ..objects import GlBuffer, GlTexture
from ..query import FORMATS
from ..state import Part, image_units, kept, program, storage_buffers, texture_units, uniform_buffers
from .kernel import GlKernel, UniformValues, uniform_calls

_ALL_BARRIERS = ctypes.c_uint(GL.ALL_BARRIER_BITS)
MAX_GROUPS = 65535
"""Work-groups that every driver takes in one dimension of a dispatch."""

Call = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass
class _SlotUse(SlotUse):
    """A slot with the ctypes object that stands for its GL name in the recorded calls."""

    id: ctypes.c_uint = field(default_factory=ctypes.c_uint)


class GlCommandList:
    """Implements interop.device.CommandList on one GL context. GlDevice says which GL state a run changes."""

    def __init__(self, context: GlContext, traits: Traits, steps: Sequence[Step], store: BinaryStore | None) -> None:
        self.steps = tuple(steps)
        self._context, self._traits, self._released = context, traits, False
        self._slots: dict[str, _SlotUse] = {}
        self._values = [UniformValues.of(step) for step in self._checked_steps()]
        self._owned: list[GlKernel] = []
        self.marks: list[int] = []
        self.labels = [step.label for step in self.steps]
        """For timings: what is timed, and the number of calls recorded up to and with each one's dispatch."""
        self._record(store)
        self._slot_uses = tuple(self._slots.values())

    def _record(self, store: BinaryStore | None) -> None:
        """One dispatch a step, with barriers where the hazards are."""
        before = hazards(self.steps)
        self.barriers = len(before)
        for number in range(len(self.steps)):
            self._kernel(number).compile(store)
        recorder = Recorder(self._context, self._slots)
        restored = self._claim_kernels()
        barrier_bits = GL.SHADER_STORAGE_BARRIER_BIT
        if any(step.kernel.source.pictures for step in self.steps):
            barrier_bits |= GL.TEXTURE_FETCH_BARRIER_BIT | GL.SHADER_IMAGE_ACCESS_BARRIER_BIT
        for number, step in enumerate(self.steps):
            if number in before:
                recorder.call("glMemoryBarrier", barrier_bits)
            claimed = self._kernel(number) in self._owned
            recorder.step(step, self._kernel(number), None if claimed else self._values[number])
            self.marks.append(len(recorder.calls))
        recorder.finish(restored)
        self._use(recorder)

    def _use(self, recorder: Recorder) -> None:
        self._calls = recorder.calls
        self._changed = recorder.changed() if self._context.is_foreign else ()

    def _kernel(self, number: int) -> GlKernel:
        kernel = self.steps[number].kernel
        assert isinstance(kernel, GlKernel)
        return kernel

    @property
    def dispatches(self) -> int:
        """How many dispatches a run is."""
        return len(self.marks)

    @property
    def calls_per_run(self) -> int:
        """How many GL calls one run issues."""
        return len(self._calls)

    # Checks ----------------------------------------------------------------------------------------------------------

    def _checked_steps(self) -> tuple[Step, ...]:
        """The steps, after every check that can be made before recording; fills the slots' lists of uses."""
        for step in self.steps:
            if not isinstance(step.kernel, GlKernel):
                raise BindingError(f"step '{step.label}': its kernel was compiled for another device")
        check_steps(self.steps)
        for number, step in enumerate(self.steps):
            for argument in step.kernel.source.arguments:
                operand = step.operands[argument.name]
                where = f"step '{step.label}', argument '{argument.name}'"
                if isinstance(operand.resource, Slot):
                    use = self._slots.setdefault(operand.resource.name, _SlotUse(operand.resource.name))
                    use.places.append((number, argument, operand, where))
                else:
                    self._check_kind(operand.resource, argument, where)
        return self.steps

    def _check_kind(self, resource: Resource, argument: Argument, where: str) -> None:
        """Raise BindingError where the resource is of another context, kind or format than the argument needs."""
        if not isinstance(resource, GlBuffer | GlTexture) or resource.context is not self._context:
            raise BindingError(f"{where}: '{resource.label}' does not belong to {self._context}")
        if resource.released:
            raise BindingError(f"{where}: '{resource.label}' is released")
        check_view(resource, argument, self._traits, where)
        if isinstance(resource, GlTexture) and argument.access != "r":
            resource.check(write=True)

    # Uniforms --------------------------------------------------------------------------------------------------------

    def _claim_kernels(self) -> list[GlKernel]:
        """Become the owner of kernels that need one set of values only; returns those to put back after a run."""
        uses: dict[GlKernel, list[int]] = {}
        for number in range(len(self.steps)):
            uses.setdefault(self._kernel(number), []).append(number)
        restored = []
        for kernel, numbers in uses.items():
            values = [self._values[number] for number in numbers]
            alike = len(values) == 1 or (
                not kernel.source.pictures and all(v.offsets[:] == values[0].offsets[:] for v in values)
            )
            if kernel.owner_alive():
                restored.append(kernel)
            elif alike and not kernel.visitors:
                kernel.owner = weakref.ref(self)
                kernel.resident.copy_from(values[0])
                for number in numbers:
                    self._values[number] = kernel.resident
                self._owned.append(kernel)
                self._store(kernel)
            else:
                kernel.visitors.add(self)
        return restored

    def _store(self, kernel: GlKernel) -> None:
        """Put the resident values into the program now."""
        gl = self._context.gl
        with kept(self._context, program):
            gl.glUseProgram(kernel.program)
            for name, arguments in uniform_calls(kernel, kernel.resident):
                getattr(gl, name)(*arguments)

    # Running ---------------------------------------------------------------------------------------------------------

    def set_slot(self, name: str, resource: Resource) -> None:
        """Give a slot its resource. Raises BindingError where it is of a wrong kind, format, size or context."""
        use = self._slots.get(name)
        if use is None:
            raise BindingError(f"there is no slot '{name}' in this command list, only {sorted(self._slots)}")
        if resource is use.resource and not resource.released:
            return
        for _, argument, operand, where in use.places:
            self._check_kind(resource, argument, where)
            if not isinstance(argument.view, Picture):
                check_resource(resource, operand, where)
        assert isinstance(resource, GlBuffer | GlTexture)
        use.resource, use.checked = resource, False
        use.id.value = resource.id

    def set_parameters(self, step: int, argument: str, values: tuple[float, ...]) -> None:
        """Change the sixteen floats (see layout.picture_parameters) that step number ``step`` passes for a picture."""
        parameters = self._values[step].parameters.get(argument)
        if parameters is None or len(values) != PICTURE_PARAMETERS:
            raise BindingError(
                f"step '{self.steps[step].label}': '{argument}' is no picture, or was given {len(values)} values "
                f"instead of {PICTURE_PARAMETERS}"
            )
        self._context.check()
        parameters[:] = values
        for use in self._slot_uses:
            use.checked = False
        self._parameters_changed(step, argument)

    def _parameters_changed(self, step: int, argument: str) -> None:
        if self._kernel(step) in self._owned:
            self._store(self._kernel(step))

    def run(self) -> None:
        """Submit all steps. Raises BindingError for an empty or released slot, DeviceError off thread or context."""
        self._prepare()
        if self._changed:
            with kept(self._context, *self._changed):
                self._submit()
        else:
            self._submit()

    def _submit(self) -> None:
        for function, arguments in self._calls:
            function(*arguments)

    def _prepare(self) -> None:
        self._context.check()
        if self._released:
            raise BindingError("this command list is released: record the steps again")
        for use in self._slot_uses:
            if not use.checked or use.resource is None or use.resource.released:
                check_slot(use, [values.parameters for values in self._values])
        self._context.drain()

    def timings(self) -> list[tuple[str, int]]:
        """Run once and return (label, nanoseconds on the GPU) of each dispatch. For measurements: it waits for the GPU.

        Raises DeviceError on OpenGL ES drivers without GL_EXT_disjoint_timer_query.
        """
        self._prepare()
        gl, suffix = self._context.gl, "EXT" if self._context.is_es else ""
        stamp, result = getattr(gl, f"glQueryCounter{suffix}"), getattr(gl, f"glGetQueryObjectui64v{suffix}")
        queries = [self._context.generate("query") for _ in range(len(self.marks) + 1)]
        times, value, done = [], ctypes.c_uint64(), 0
        with kept(self._context, *self._changed):
            stamp(queries[0], GL.TIMESTAMP)
            for query, mark in zip(queries[1:], self.marks, strict=True):
                for function, arguments in self._calls[done:mark]:
                    function(*arguments)
                gl.glMemoryBarrier(GL.SHADER_STORAGE_BARRIER_BIT)
                stamp(query, GL.TIMESTAMP)
                done = mark
            for function, arguments in self._calls[done:]:
                function(*arguments)
        for query in queries:
            result(query, GL.QUERY_RESULT, ctypes.byref(value))
            times.append(value.value)
            self._context.defer_delete("query", query)
        self._context.drain()
        return [(label, times[i + 1] - times[i]) for i, label in enumerate(self.labels)]

    def release(self) -> None:
        """Let go of the steps' resources. More than once."""
        self._released = True
        for kernel in self._owned:
            kernel.owner = None
        for number in range(len(self.steps)):
            self._kernel(number).visitors.discard(self)
        self._owned, self.steps, self._calls, self._slot_uses, self._values = [], (), [], (), []
        self._slots.clear()


class Recorder:
    """Turns steps into calls, leaving out whatever would set a state to what it already is."""

    def __init__(self, context: GlContext, slots: dict[str, _SlotUse]) -> None:
        self._context, self._slots = context, slots
        self._state: dict[tuple[str, int], Any] = {}
        self.calls: list[Call] = []

    def call(self, name: str, *arguments: Any) -> None:
        self.calls.append((self._context.gl.prebound(name), arguments))

    def _set(self, what: str, unit: int, value: Any, name: str, *arguments: Any) -> None:
        if self._state.get((what, unit)) != value:
            self._state[what, unit] = value
            self.call(name, *arguments)

    def use(self, program: int) -> None:
        self._set("program", 0, program, "glUseProgram", program)

    def step(self, step: Step, kernel: GlKernel, values: UniformValues | None) -> None:
        """Bind, set uniforms (``values`` None: the program holds them already), dispatch."""
        source = kernel.source
        self.use(kernel.program)
        for binding, arguments in enumerate(source.memories.values()):
            self.buffer(binding, step.operands[arguments[0].name].resource)
        for unit, argument in enumerate(source.pictures):
            self.picture(unit, argument, step.operands[argument.name].resource)
        if values is not None:
            self._uniforms(kernel, values)
        rows = -(-step.group_count // MAX_GROUPS)
        self.call("glDispatchCompute", -(-step.group_count // rows), rows, 1)

    def buffer(self, binding: int, resource: Resource | Slot) -> None:
        name = self._name(resource)
        self._set("buffer", binding, resource, "glBindBufferBase", GL.SHADER_STORAGE_BUFFER, binding, name)

    def constants(self, buffer: GlBuffer) -> None:
        self._set("constants", 0, buffer, "glBindBufferBase", GL.UNIFORM_BUFFER, 0, buffer.id)

    def _name(self, resource: Resource | Slot) -> Any:
        if isinstance(resource, Slot):
            return self._slots[resource.name].id
        assert isinstance(resource, GlBuffer | GlTexture)
        return resource.id

    def picture(self, unit: int, argument: Argument, resource: Resource | Slot) -> None:
        assert isinstance(argument.view, Picture)
        name = self._name(resource)
        if argument.access == "r":
            if self._state.get(("texture", unit)) != resource:
                self._set("active", 0, unit, "glActiveTexture", GL.TEXTURE0 + unit)
            self._set("texture", unit, resource, "glBindTexture", GL.TEXTURE_2D, name)
            sampler = self._context.nearest_sampler()
            self._set("sampler", unit, sampler, "glBindSampler", unit, sampler)
            return
        internal = FORMATS[argument.view.format].internal
        self._set("image", unit, resource, "glBindImageTexture", unit, name, 0, 0, 0, GL.WRITE_ONLY, internal)

    def _uniforms(self, kernel: GlKernel, values: UniformValues) -> None:
        for name, arguments in uniform_calls(kernel, values):
            # The same array holds the same values; arrays of two steps may be changed apart, but offsets never are.
            key = (f"{name} {arguments[0]}", kernel.program)
            current = self._state.get(key)
            if current is arguments[2] or (name == "glUniform1iv" and current and current[:] == arguments[2][:]):
                continue
            self._state[key] = arguments[2]
            self.call(name, *arguments)

    def changed(self) -> tuple[Part, ...]:
        """The parts of the state that the calls recorded so far change."""
        counts = dict.fromkeys(("buffer", "sampler", "image", "constants"), 0)
        for what, unit in self._state:
            if what in counts:
                counts[what] = max(counts[what], unit + 1)
        return (
            program, storage_buffers(counts["buffer"]), texture_units(counts["sampler"]), image_units(counts["image"]),
            uniform_buffers(counts["constants"]),
        )  # fmt: skip

    def finish(self, restored: list[GlKernel]) -> None:
        """Make all writes visible to whatever comes next, and undo what would disturb the user's own drawing."""
        self.call("glMemoryBarrier", _ALL_BARRIERS)
        for kernel in restored:
            self.use(kernel.program)
            self._uniforms(kernel, kernel.resident)
        for what, unit in list(self._state):
            if what == "sampler":
                self.call("glBindSampler", unit, 0)
        if self._state.get(("active", 0), 0) != 0:
            self.call("glActiveTexture", GL.TEXTURE0)
