"""A kernel as a GL program, and the values that its uniforms hold."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import weakref
from collections.abc import Callable, Collection, Iterator
from typing import Any, Protocol

from ....kernels.codegen.glsl import GLSL, GLSL_ES, Glsl
from ....kernels.codegen.render import render
from ....kernels.codegen.source import KernelSource
from ...binaries import BinaryStore
from ...device import Step
from ...errors import KernelError
from ..context import GlContext
from ..khronos import GL
from ..program import COMPILING, begin_program, offer
from ..query import has_extension
from ..state import compiler_threads, restored


def dialect_of(context: GlContext) -> Glsl:
    """The dialect that a context's compiler takes."""
    return GLSL_ES if context.is_es else GLSL


class GlKernel:
    """A kernel's program, linked when it is first recorded by itself: steps that are one dispatch never need it.

    Uniforms live in the program. A recording that needs one set of values only stores them there once and becomes the
    ``owner``. Other recordings are ``visitors``: they set their values before each use, and afterwards restore those of
    the owner at that time, unless theirs were the same. Nobody becomes the owner while visitors live: they would not
    restore a later owner's values. So most steps pass no values in a run. A uniform buffer per command list would need
    a glBindBufferRange per step instead.
    """

    def __init__(self, context: GlContext, source: KernelSource) -> None:
        self.context, self.source = context, source
        self.resident = UniformValues(source)
        self.owner: weakref.ref[Any] | None = None
        self.visitors: weakref.WeakSet[Any] = weakref.WeakSet()
        self.program = 0
        """The GL name of the program once it is linked; 0 before."""
        self.locations: dict[str, int] = {}
        """Uniform location by picture argument ("" is the offsets); -1 if the compiler found the uniform unused."""
        self._free: weakref.finalize[..., GlKernel] | None = None
        self._finish: Callable[[], int] | None = None
        """Waits for the program, if the driver has begun to build it."""

    @functools.cached_property
    def _text(self) -> str:
        return render(self.source, dialect_of(self.context))

    def begin(self, store: BinaryStore | None) -> None:
        """Let the driver begin to link it, unless it did."""
        if not self.program and self._finish is None:
            self._finish = begin_program(self.context, self.source.name, {GL.COMPUTE_SHADER: self._text}, store)

    def compile(self, store: BinaryStore | None) -> None:
        """Link it, unless it is linked, and offer it to the store. Raises KernelError with log and text."""
        if self.program:
            offer(self.context, self.program, self._text, store)
            return
        self.begin(store)
        assert self._finish is not None
        finish, self._finish = self._finish, None
        self.program = finish()
        names = {"": "offsets", **{a.name: f"{a.name}_parameters" for a in self.source.pictures}}
        locate = self.context.gl.glGetUniformLocation
        self.locations = {key: locate(self.program, name.encode()) for key, name in names.items()}
        self._free = weakref.finalize(self, self.context.objects.defer_delete, "program", self.program)
        self._free.atexit = False

    def release(self) -> None:
        """Delete the program, if there is one."""
        if self._finish is not None:
            with contextlib.suppress(KernelError):
                self.compile(None)
        if self._free is not None:
            self._free()

    def owner_alive(self) -> bool:
        return self.owner is not None and self.owner() is not None


class Linkable(Protocol):
    """Something that the driver links: begun first, waited for afterwards."""

    def begin(self, store: BinaryStore | None) -> None: ...
    def compile(self, store: BinaryStore | None) -> None: ...


def compile_kernels(context: GlContext, kernels: Collection[Linkable], store: BinaryStore | None) -> None:
    """Link those kernels that are not linked yet. The driver works on all at once if it can.

    Raises KernelError with log and text.
    """
    with COMPILING, _compiler_threads(context):
        for kernel in kernels:
            kernel.begin(store)
        for kernel in kernels:
            kernel.compile(store)


@contextlib.contextmanager
def _compiler_threads(context: GlContext) -> Iterator[None]:
    """Within the block the driver may compile on all CPU cores. NVIDIA's does so only if it is told their number."""
    if not has_extension(context, "GL_KHR_parallel_shader_compile"):
        yield
        return
    with restored(context, compiler_threads):
        context.gl.glMaxShaderCompilerThreadsKHR(os.cpu_count() or 1)
        yield


class UniformValues:
    """The values that a kernel takes, as GL reads them: an int per buffer argument, and the floats of each picture."""

    def __init__(self, source: KernelSource) -> None:
        self.offsets = (ctypes.c_int * max(len(source.buffers), 1))()
        self.parameters = {a.name: (ctypes.c_float * (4 * a.quads))() for a in source.pictures}

    @staticmethod
    def of(step: Step) -> UniformValues:
        source = step.kernel.source
        values = UniformValues(source)
        for i, argument in enumerate(source.buffers):
            values.offsets[i] = step.operands[argument.name].offset // argument.unit
        for name, array in values.parameters.items():
            array[:] = step.parameters[name]
        return values

    def copy_from(self, other: UniformValues) -> None:
        self.offsets[:] = other.offsets[:]
        for name, array in self.parameters.items():
            array[:] = other.parameters[name][:]


def uniform_calls(kernel: GlKernel, values: UniformValues) -> list[tuple[str, tuple[Any, ...]]]:
    """Names and arguments of the GL calls that give the values to the program in use."""
    calls: list[tuple[str, tuple[Any, ...]]] = []
    if kernel.locations[""] >= 0:
        calls.append(("glUniform1iv", (kernel.locations[""], len(values.offsets), values.offsets)))
    for name, array in values.parameters.items():
        if kernel.locations[name] >= 0:
            calls.append(("glUniform4fv", (kernel.locations[name], len(array) // 4, array)))
    return calls
