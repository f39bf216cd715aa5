"""Steps as a flat list of prebound GL calls, one dispatch per step."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ....kernels.codegen.source import Argument
from ....kernels.views import Picture, Plane
from ...binaries import BinaryStore
from ...device import Resource, Slot, Step
from ...record.barrier import BarrierWatch
from ...record.hazards import hazards
from ..buffer import GlBuffer
from ..context import GlContext
from ..khronos import GL
from ..query import FORMATS
from ..state import Part, image_units, kept, program, storage_buffers, texture_units, uniform_buffers
from ..texture import GlTexture, nearest_sampler
from .kernel import GlKernel, UniformValues, uniform_calls

_ALL_BARRIERS = ctypes.c_uint(GL.ALL_BARRIER_BITS)
MAX_GROUPS = 65535
"""Work-groups that every driver takes in one dimension of a dispatch."""

Call = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class ParametersPlace:
    """A picture's floats as GL reads them, and the program and uniform location that keep them between runs.

    ``program`` is 0 if each run passes the floats itself.
    """

    values: ctypes.Array[ctypes.c_float]
    program: int = 0
    location: int = -1


class SlotPlace(NamedTuple):
    """The GL name of a slot's resource, and which bytes of a buffer it is, as the calls read them."""

    name: ctypes.c_uint
    offset: ctypes.c_ssize_t
    nbytes: ctypes.c_ssize_t


@dataclass(eq=False)
class GlRecording:
    """The calls of a run, and what changes in them: implements record.command_list.Recording."""

    context: GlContext
    calls: list[Call] = field(default_factory=list)
    dispatches: list[tuple[str, int]] = field(default_factory=list)
    """Label of each dispatch, and the number of calls up to and with it."""
    slots: dict[str, SlotPlace] = field(default_factory=dict)
    parameters: dict[tuple[int, str], ParametersPlace] = field(default_factory=dict)
    """The floats of pictures, by step number and argument."""
    owned: list[GlKernel] = field(default_factory=list)
    """Kernels whose uniforms hold the values of this recording between runs."""
    visited: list[GlKernel] = field(default_factory=list)
    """Kernels whose uniforms this recording sets in each run."""
    changed: tuple[Part, ...] = ()
    """The parts of the GL state that a run changes and must put back: none in a context of ours."""
    barriers: int = 0
    watch: BarrierWatch | None = None
    on_release: list[Callable[[], Any]] = field(default_factory=list)

    def fill(self, slot: str, resource: GlBuffer | GlTexture) -> None:
        """Put a resource into the calls of a slot."""
        place = self.slots[slot]
        place.name.value = resource.id
        place.offset.value, place.nbytes.value = resource.offset, resource.bound_nbytes

    def set_parameters(self, step: int, argument: str, values: Sequence[float]) -> None:
        """Change the floats that a step passes for a picture."""
        place = self.parameters[step, argument]
        place.values[:] = values
        if place.program and place.location >= 0:
            gl = self.context.gl
            with kept(self.context, program):
                gl.glUseProgram(place.program)
                gl.glUniform4fv(place.location, len(place.values) // 4, place.values)

    def release(self) -> None:
        """Let go of kernels and memory."""
        for kernel in self.owned:
            kernel.owner = None
        for kernel in self.visited:
            kernel.visitors.discard(self)
        for free in self.on_release:
            free()
        for held in (self.calls, self.dispatches, self.slots, self.parameters, self.owned, self.visited):
            held.clear()
        self.on_release.clear()


def record_separately(context: GlContext, steps: Sequence[Step], store: BinaryStore | None) -> GlRecording:
    """Record one dispatch per step, with barriers at the hazards."""
    recording, before = GlRecording(context), hazards(steps)
    recording.barriers = len(before)
    values = [UniformValues.of(step) for step in steps]
    for step in steps:
        kernel_of(step).compile(store)
    restored = _claim_kernels(recording, steps, values)
    for number, step in enumerate(steps):
        for argument, array in values[number].parameters.items():
            recording.parameters[number, argument] = _place(recording, kernel_of(step), argument, array)
    barrier_bits = GL.SHADER_STORAGE_BARRIER_BIT
    if any(step.kernel.source.textures for step in steps):
        barrier_bits |= GL.TEXTURE_FETCH_BARRIER_BIT | GL.SHADER_IMAGE_ACCESS_BARRIER_BIT
    recorder = Recorder(recording)
    for number, step in enumerate(steps):
        if number in before:
            recorder.call("glMemoryBarrier", barrier_bits)
        kernel = kernel_of(step)
        recorder.step(step, kernel, None if kernel in recording.owned else values[number])
        recording.dispatches.append((step.label, len(recording.calls)))
    recorder.finish(restored)
    return recording


def kernel_of(step: Step) -> GlKernel:
    assert isinstance(step.kernel, GlKernel)
    return step.kernel


def _place(
    recording: GlRecording, kernel: GlKernel, argument: str, array: ctypes.Array[ctypes.c_float]
) -> ParametersPlace:
    if kernel in recording.owned:
        return ParametersPlace(array, kernel.program, kernel.locations[argument])
    return ParametersPlace(array)


# Uniforms -------------------------------------------------------------------------------------------------------------


def _claim_kernels(recording: GlRecording, steps: Sequence[Step], values: list[UniformValues]) -> list[GlKernel]:
    """Let the recording own the kernels that need only one set of values. Their entries in ``values`` are replaced by
    the kernel's resident ones.

    Returns the kernels that another recording owns: their values must be restored after a run.
    """
    uses: dict[GlKernel, list[int]] = {}
    for number, step in enumerate(steps):
        uses.setdefault(kernel_of(step), []).append(number)
    restored = []
    for kernel, numbers in uses.items():
        needed = [values[number] for number in numbers]
        alike = len(needed) == 1 or (
            not kernel.source.pictures and all(v.offsets[:] == needed[0].offsets[:] for v in needed)
        )
        if alike and not kernel.visitors and not kernel.owner_alive():
            kernel.owner = weakref.ref(recording)
            kernel.resident.copy_from(needed[0])
            for number in numbers:
                values[number] = kernel.resident
            recording.owned.append(kernel)
            _store(recording.context, kernel)
            continue
        if kernel.owner_alive():
            restored.append(kernel)
        kernel.visitors.add(recording)
        recording.visited.append(kernel)
    return restored


def _store(context: GlContext, kernel: GlKernel) -> None:
    """Set the program's uniforms to the resident values."""
    gl = context.gl
    with kept(context, program):
        gl.glUseProgram(kernel.program)
        for name, arguments in uniform_calls(kernel, kernel.resident):
            getattr(gl, name)(*arguments)


class Recorder:
    """Appends calls to a recording, leaving out those that would set a state to what it already is."""

    def __init__(self, recording: GlRecording) -> None:
        self._context, self._recording = recording.context, recording
        self._state: dict[tuple[str, int], Any] = {}

    def call(self, name: str, *arguments: Any) -> None:
        self._recording.calls.append((self._context.gl.prebound(name), arguments))

    def _set(self, what: str, unit: int, value: Any, name: str, *arguments: Any) -> None:
        if self._state.get((what, unit)) != value:
            self._state[what, unit] = value
            self.call(name, *arguments)

    def use(self, program: int) -> None:
        self._set("program", 0, program, "glUseProgram", program)

    def step(self, step: Step, kernel: GlKernel, values: UniformValues | None) -> None:
        """Bind, set uniforms, dispatch. ``values`` is None if the program holds them already."""
        source = kernel.source
        self.use(kernel.program)
        for binding, arguments in enumerate(source.memories.values()):
            self.buffer(binding, step.operands[arguments[0].name].resource)
        for unit, argument in enumerate(source.textures):
            self.texture(unit, argument, step.operands[argument.name].resource)
        if values is not None:
            self._uniforms(kernel, values)
        rows = -(-step.group_count // MAX_GROUPS)
        self.call("glDispatchCompute", -(-step.group_count // rows), rows, 1)

    def buffer(self, binding: int, resource: Resource | Slot) -> None:
        place = GL.SHADER_STORAGE_BUFFER, binding
        if isinstance(resource, Slot):
            self._set("buffer", binding, resource, "glBindBufferRange", *place, *self._slot(resource))
        else:
            self._set("buffer", binding, resource, "glBindBufferBase", *place, self._name(resource))

    def constants(self, buffer: GlBuffer) -> None:
        self._set("constants", 0, buffer, "glBindBufferBase", GL.UNIFORM_BUFFER, 0, buffer.id)

    def _name(self, resource: Resource | Slot) -> Any:
        if isinstance(resource, Slot):
            return self._slot(resource).name
        assert isinstance(resource, GlBuffer | GlTexture)
        return resource.id

    def _slot(self, slot: Slot) -> SlotPlace:
        empty = SlotPlace(ctypes.c_uint(), ctypes.c_ssize_t(), ctypes.c_ssize_t())
        return self._recording.slots.setdefault(slot.name, empty)

    def texture(self, unit: int, argument: Argument, resource: Resource | Slot) -> None:
        assert isinstance(argument.view, Picture | Plane)
        name = self._name(resource)
        if argument.access == "r":
            if self._state.get(("texture", unit)) != resource:
                self._set("active", 0, unit, "glActiveTexture", GL.TEXTURE0 + unit)
            self._set("texture", unit, resource, "glBindTexture", GL.TEXTURE_2D, name)
            sampler = nearest_sampler(self._context)
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

    def finish(self, restored: Sequence[GlKernel] = ()) -> None:
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
        self._recording.changed = self._changed() if self._context.is_foreign else ()

    def _changed(self) -> tuple[Part, ...]:
        """The parts of the state that the calls change."""
        counts = dict.fromkeys(("buffer", "sampler", "image", "constants"), 0)
        for what, unit in self._state:
            if what in counts:
                counts[what] = max(counts[what], unit + 1)
        return (
            program, storage_buffers(counts["buffer"]), texture_units(counts["sampler"]), image_units(counts["image"]),
            uniform_buffers(counts["constants"]),
        )  # fmt: skip
