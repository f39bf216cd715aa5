"""The contract of a device. The OpenGL, OpenCL, CUDA and null devices implement it; nothing above interop asks which
one it is.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeGuard

import numpy as np

from ..kernels.codegen.source import KernelSource
from ..kernels.target import Target
from ..kernels.views import Picture
from .arrays import ArrayLayout
from .binaries import BinaryStore


@dataclass(frozen=True)
class Traits:
    """Facts about a device, for code that chooses kernels and plans memory. No code branches on ``api``."""

    name: str
    """The GPU and driver, as the driver names them."""
    api: str
    """The API, for messages only: "opengl", "opengl es", "opencl", "cuda" or "null"."""
    driver: str
    group_size: int
    """The work-group size of a program's kernels, unless another one was measured to be faster."""
    max_group_size: int
    """The largest work-group."""
    invocations: int
    """Invocations that keep the device busy at once: with fewer, kernels split their work further."""
    local_bytes: int
    """Local (shared) memory a work-group may use."""
    max_buffer_bytes: int
    """The largest buffer that a kernel can address."""
    offset_alignment: int
    """Bytes to which the offset of anything inside a buffer must be aligned."""
    max_memories: int
    """The number of different buffers that one kernel may use."""
    software: bool
    """True if the "GPU" is the CPU (llvmpipe, PoCL): the CPU interpreter is then the faster choice."""
    write_formats: frozenset[str] = frozenset()
    """The texture formats that kernels can write."""
    max_textures: int = 8
    """The number of textures that one kernel may use."""
    memories_per_float4: int = 0
    """The number of buffers whose room a float4 by value takes; 0 if such values have room of their own."""
    word_bytes: int = 1
    """Bytes of the words in which kernels read a picture's bytes: a buffer of a user's has whole words."""
    matrix_units: bool = False
    """True if kernels can multiply fragments of matrices: MULTIPLY_FRAGMENTS in kernels/codegen/prelude.fragments."""
    warpgroup_bytes: int = 0
    """The most local memory of a work-group whose warpgroups multiply matrices in it (kernels/codegen/warpgroups.py); 0
    if the device has none.
    """
    warpgroup_invocations: int = 0
    """The most invocations per compute unit, on average, of steps of which few use warpgroups: they are one dispatch,
    which has less local memory.
    """
    early_launches: bool = False
    """True if kernels start before the end of the one before them: AWAIT_INPUTS in kernels/codegen/texts.py."""
    lowers_clock: bool = False
    """The driver lowers the GPU's clock while nothing runs on it, although a context is open."""

    @property
    def target(self) -> Target:
        """The device as the lowering of operators sees it."""
        return Target(
            self.group_size, self.invocations, self.matrix_units, max_group_size=self.max_group_size, name=self.name,
            local_bytes=self.local_bytes, max_buffer_bytes=self.max_buffer_bytes, max_memories=self.max_memories,
            early_launches=self.early_launches, warpgroup_bytes=self.warpgroup_bytes,
            warpgroup_invocations=self.warpgroup_invocations,
        )  # fmt: skip


class Resource(Protocol):
    """A buffer or texture of a device, owned (freed with it) or borrowed (never freed)."""

    handle: Hashable
    """Identity of the API's object: two live resources with equal handles are the same memory."""

    @property
    def label(self) -> str: ...
    @property
    def nbytes(self) -> int:
        """The size of a buffer; 0 for a texture."""
        ...

    @property
    def offset(self) -> int:
        """The first byte of a buffer inside the API's object. Parts of one object have the same handle."""
        ...

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of a texture in texels; (0, 0) for a buffer."""
        ...

    @property
    def format(self) -> str:
        """A key of TEXTURE_CHANNELS (kernels/views.py); "" for a buffer."""
        ...

    @property
    def layout(self) -> ArrayLayout | None:
        """The array that a buffer holds; None for a texture, and for a buffer of bytes whose layout is not known."""
        ...

    @property
    def compatibility_key(self) -> Hashable:
        """A key that is equal for two resources if they differ in their content only: one may then replace the other in
        a slot without checks. None if the resource has to be checked each time.
        """
        ...

    @property
    def released(self) -> bool: ...
    def release(self) -> None:
        """Free it, or let go of it if it is borrowed. May be called from any thread and more than once."""
        ...


class StagedTexture(Resource, Protocol):
    """A texture that kernels of the device cannot address. They read or write a staging buffer instead."""

    write_formats: frozenset[str]
    """The formats in which such a texture can be written."""

    def stage(
        self, view: Picture, parameters: tuple[float, ...], *, write: bool, previous: Resource | None
    ) -> Resource:
        """The staging buffer: the tensor's values, float32 BHWC without padding. Each run fills it from the texture, or
        copies it to the texture if ``write``. ``parameters`` are those of kernels/views.py: picture_parameters.
        ``previous`` is the buffer that the tensor had before. It is used again if it fits, and then nothing is
        allocated.
        """
        ...


def is_staged(resource: Resource) -> TypeGuard[StagedTexture]:
    """Whether kernels use a staging buffer for a resource.

    isinstance with a protocol would take as long as the rest of a binding.
    """
    return hasattr(resource, "stage")


@dataclass(frozen=True)
class Slot:
    """A place in a command list whose resource is given, and may be changed, after recording (a bound tensor)."""

    name: str


@dataclass(frozen=True)
class Operand:
    """The memory of a kernel's argument: a range of bytes of a buffer, or a texture; fixed, or in a slot."""

    resource: Resource | Slot
    offset: int = 0
    nbytes: int = 0


class Kernel(Protocol):
    """A kernel of a device."""

    @property
    def source(self) -> KernelSource: ...


@dataclass(frozen=True)
class Step:
    """One dispatch: a kernel, an operand for each argument of its source, the number of work-groups, and a label for
    people.

    ``parameters`` gives, per argument name, float values passed by value (see KernelSource); they can be changed later.
    """

    kernel: Kernel
    operands: Mapping[str, Operand]
    group_count: int
    label: str
    parameters: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


Dispatches = Literal["auto", "separate", "parts", "one"]
"""Ways to run steps. "separate" is one dispatch per step. "one" is one dispatch for all steps, with barriers of the
whole device in between. "parts" is a few such dispatches if the API's compiler takes too long for one, else the same as
"one". "auto" lets a rule choose "parts" or "separate", or a mixture of both.
"""


class CommandList(Protocol):
    """Steps checked, ordered by barriers and bound once, to be run many times."""

    @property
    def steps(self) -> tuple[Step, ...]: ...
    @property
    def dispatches(self) -> int:
        """The number of dispatches of a run: one per step, one for all, or one for each part of the steps."""
        ...

    @property
    def barriers(self) -> int:
        """The number of barriers that a run issues between steps."""
        ...

    @property
    def calls_per_run(self) -> int:
        """The number of the API's calls in one run."""
        ...

    def set_slot(self, name: str, resource: Resource) -> None:
        """Give a slot its resource (of the same kind and format as before, if there was one). Allocates nothing."""
        ...

    def set_parameters(self, step: int, argument: str, values: tuple[float, ...]) -> None:
        """Change the values that step number ``step`` passes for ``argument``."""
        ...

    def run(self) -> None:
        """Submit all steps. Raises BindingError if a slot is empty, DeviceError on the wrong thread or context."""
        ...

    def timings(self) -> list[tuple[str, int]]:
        """Run once, waiting, and return each dispatch's label and nanoseconds on the GPU. For measurements."""
        ...

    def release(self) -> None: ...


class Fence(Protocol):
    """A point in a device's work."""

    @property
    def handle(self) -> Any:
        """The API's event, for other libraries, as long as this object lives: the address of a GLsync or a CUevent, or
        a pyopencl.Event. None if the API has none.
        """
        ...

    @property
    def done(self) -> bool: ...
    def wait(self) -> None:
        """Block the calling thread until the device has passed this point."""
        ...


class Device(Protocol):
    """A GPU, ready for use on the thread that owns it."""

    dispatches: Dispatches
    """The default of ``record``: "auto" except in tests and benchmarks."""

    @property
    def traits(self) -> Traits: ...
    def buffer(self, nbytes: int, label: str) -> Resource:
        """A buffer of zeros."""
        ...

    def texture(self, width: int, height: int, format: str, label: str) -> Resource: ...
    def borrow(self, native: Any) -> Resource:
        """A user's own object (or a library wrapper around one) as a resource of this device; BindingError if it
        cannot be.
        """
        ...

    def kernel(self, source: KernelSource) -> Kernel:
        """Make the kernel of a source, or find it among those made before. It is compiled now, or when it is recorded,
        which may raise KernelError.
        """
        ...

    def compile(
        self, steps: Sequence[Step], dispatches: Dispatches | None = None, store: BinaryStore | None = None
    ) -> None:
        """Compile now what ``record`` would otherwise compile for these steps. Raises KernelError.

        ``store``: take compiled programs from it, and offer it those that are new.
        """
        ...

    def record(
        self,
        steps: Sequence[Step],
        dispatches: Dispatches | None = None,
        groups_per_unit: int = 0,
        store: BinaryStore | None = None,
    ) -> CommandList:
        """Check operands against arguments (raising BindingError with names), find hazards, and bind everything once.
        ``dispatches``: the device's own if it is None. Raises BindingError for "one" and "parts" if the device or the
        steps do not allow it. ``groups_per_unit``: the most work-groups per compute unit that run the steps of one
        dispatch; 0 leaves it to a rule. ``store``: see ``compile``.
        """
        ...

    def write(self, resource: Resource, array: np.ndarray, reason: str, offset: int = 0) -> None:
        """Host to GPU, counted."""
        ...

    def read(self, resource: Resource, array: np.ndarray, reason: str, offset: int = 0) -> None:
        """GPU to host, into a C-contiguous array, counted. Waits for the work that writes the resource."""
        ...

    def fence(self) -> Fence: ...
    def wait_for(self, events: Sequence[Any]) -> None:
        """Let work submitted from now on begin after these events of the device's API, without waiting on the CPU.

        Raises BindingError for an object that is no such event, and for any event if the API has none.
        """
        ...

    def event(self) -> Any:
        """An event of the API that completes when everything submitted so far has; None if the API has none."""
        ...

    @property
    def needs_entering(self) -> bool:
        """Whether the device has a context of its own that may not be current: use it inside ``with entered()``."""
        ...

    def entered(self) -> AbstractContextManager[None]:
        """Make the device's own context current for a block. Afterwards the one before is current again."""
        ...

    def check(self) -> None:
        """Raise DeviceError unless the calling thread may use this device now (its context alive and current)."""
        ...

    def finish(self) -> None:
        """Wait until the device has done everything submitted."""
        ...

    def close(self) -> None: ...
