"""The GL device: desktop OpenGL 4.3 or newer and OpenGL ES 3.1 or newer, on one GlContext."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....kernels.codegen.source import KernelSource
from ...binaries import BinaryStore
from ...device import Dispatches, Resource, Step, Traits
from ...errors import BindingError, DeviceError
from ...record.checks import check_formats
from ...record.one_dispatch import why_not_one
from ..context import GlContext
from ..khronos import GL
from ..objects import GlBuffer, GlTexture, as_gl_object
from ..state import buffers, kept, pixel_storage, program, storage_buffers, texture
from .barrier import GlBarrier
from .commands import GlCommandList
from .fence import GlFence
from .kernel import GlKernel, compile_kernels
from .one_dispatch import GlOneDispatch

_OBJECTS = (program, buffers, pixel_storage, texture, storage_buffers(1))
"""The state that making, filling and reading buffers and textures changes."""


class GlDevice:
    """Implements interop.device.Device on a GL context, on the thread where that context is current.

    In a foreign context all GL state is after each call as it was before (see state.py). In one of ours a run leaves
    changed: the program in use, the shader storage buffer bindings 0 and up, the uniform buffer binding 0, the texture
    bound to GL_TEXTURE_2D on unit 0 and up, and the image units 0 and up; samplers and the active texture unit are put
    back to 0.
    ``owns_context``: close the context with the device.
    """

    def __init__(self, context: GlContext, owns_context: bool = False) -> None:
        self.context, self._owns_context = context, owns_context
        self._kernels: dict[KernelSource, GlKernel] = {}
        self.dispatches: Dispatches = "auto"
        self.users = 0
        """How many have opened it (see devices.open_device); the last one to close it closes it."""
        self.closed = False
        self._barrier = GlBarrier(context)
        gl = context.gl
        writable = {"rgba8", "rgba16f", "rgba32f", "r32f"} | (set() if context.is_es else {"r8"})
        self.traits = Traits(
            name=context.renderer,
            api="opengl es" if context.is_es else "opengl",
            driver=context.gl.version,
            # llvmpipe runs a group's invocations in turn; GPUs want a few warps to hide memory latency.
            group_size=64 if context.software else 128,
            max_group_size=gl.integer(GL.MAX_COMPUTE_WORK_GROUP_INVOCATIONS),
            # GL does not tell how wide a GPU is: this is a large desktop GPU, and a small one loses little by it.
            invocations=1 if context.software else 1 << (16 if context.is_es else 18),
            local_bytes=gl.integer(GL.MAX_COMPUTE_SHARED_MEMORY_SIZE),
            max_buffer_bytes=gl.integer(GL.MAX_SHADER_STORAGE_BLOCK_SIZE),
            offset_alignment=16,  # buffers are bound whole, so only the largest element, a vec4, counts
            max_memories=gl.integer(GL.MAX_COMPUTE_SHADER_STORAGE_BLOCKS),
            software=context.software,
            write_formats=frozenset(writable),
        )

    def buffer(self, nbytes: int, label: str) -> GlBuffer:
        self.check()
        if nbytes > self.traits.max_buffer_bytes:
            raise DeviceError(
                f"'{label}' needs {nbytes} bytes, and kernels on {self.traits.name} address at most "
                f"{self.traits.max_buffer_bytes} in one buffer: use a smaller input, or f16 storage"
            )
        with kept(self.context, *_OBJECTS):
            return GlBuffer(nbytes, label=label)

    def texture(self, width: int, height: int, format: str, label: str) -> GlTexture:
        self.check()
        with kept(self.context, *_OBJECTS):
            return GlTexture(width, height, format, label=label)

    def borrow(self, native: Any) -> GlTexture | GlBuffer:
        """A GlTexture or GlBuffer of this context as it is, or a moderngl texture or buffer wrapped."""
        self.check()
        if isinstance(native, GlTexture | GlBuffer) and native.is_owned:  # GL need not be asked about it
            native.check()
            resource = native
        else:
            with kept(self.context, buffers, texture):
                resource = as_gl_object(native)
        if resource.context is not self.context:
            raise BindingError(f"{resource.label} belongs to {resource.context}, and this device to another context")
        return resource

    def kernel(self, source: KernelSource) -> GlKernel:
        kernel = self._kernels.get(source)
        if kernel is None:
            self.check()
            check_formats(source, self.traits)
            kernel = self._kernels[source] = GlKernel(self.context, source)
        return kernel

    def compile(
        self, steps: Sequence[Step], dispatches: Dispatches | None = None, store: BinaryStore | None = None
    ) -> None:
        self.check()
        if self._why_separate(steps, dispatches or self.dispatches, store):
            compile_kernels(self.context, {k for step in steps if isinstance(k := step.kernel, GlKernel)}, store)

    def record(
        self,
        steps: Sequence[Step],
        dispatches: Dispatches | None = None,
        groups_per_unit: int = 0,
        store: BinaryStore | None = None,
    ) -> GlCommandList:
        self.check()
        dispatches = dispatches or self.dispatches
        reason = self._why_separate(steps, dispatches, store)
        if not reason:
            return GlOneDispatch(self.context, self.traits, steps, store, self._barrier, groups_per_unit)
        if dispatches == "one":
            raise BindingError(f"these steps cannot run as one dispatch in {self.context}: {reason}")
        return GlCommandList(self.context, self.traits, steps, store)

    def _why_separate(self, steps: Sequence[Step], dispatches: Dispatches, store: BinaryStore | None) -> str:
        """Why these steps are a dispatch each; "" where they are one.

        "auto" never makes them one: NVIDIA's GLSL compiler takes 4 to 57 s for such a program of the models that were
        tried, and 1 to 2 s for its kernels apart. SUSTAINED_SPEED asks for "one", and keeps it where that is faster.
        """
        if dispatches != "one":
            return "separate dispatches start sooner"
        return why_not_one(steps, self.traits) or self._barrier.why_unusable(store)

    def write(self, resource: Resource, array: np.ndarray, reason: str, offset: int = 0) -> None:
        self.check()
        with kept(self.context, *_OBJECTS):
            if isinstance(resource, GlBuffer):
                resource.write(array, reason, offset)
            else:
                _texture(resource).write(array, reason)

    def read(self, resource: Resource, array: np.ndarray, reason: str, offset: int = 0) -> None:
        self.check()
        with kept(self.context, *_OBJECTS):
            if isinstance(resource, GlBuffer):
                resource.read_into(array, reason, offset)
            else:
                array[...] = _texture(resource).read(reason).reshape(array.shape)
        self._barrier.watch.waited()

    def fence(self) -> GlFence:
        self.check()
        return GlFence(self.context, self._barrier.watch)

    def wait_for(self, events: Sequence[Any]) -> None:
        """GL has no events: its commands run in the order in which they are issued."""
        if events:
            raise BindingError(
                "the model runs on OpenGL, which has no events to wait for: leave wait_for out (commands run "
                "in the order in which they are issued), or use the backend 'opencl'"
            )

    def event(self) -> None:
        return None

    def check(self) -> None:
        self.context.check()

    def finish(self) -> None:
        self.check()
        self.context.gl.glFinish()
        self._barrier.watch.waited()

    def close(self) -> None:
        """Delete the kernels, and the context where the device made it. Of several users the last one does it."""
        self.users -= 1
        if self.users > 0 or self.closed:
            return
        self.closed = True
        for kernel in self._kernels.values():
            kernel.release()
        self._kernels.clear()
        if self._owns_context:
            self.context.close()


def _texture(resource: Resource) -> GlTexture:
    if not isinstance(resource, GlTexture):
        raise BindingError(f"'{resource.label}' is no GL object")
    return resource
