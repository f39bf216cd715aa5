"""The GL device: desktop OpenGL 4.3 or newer and OpenGL ES 3.1 or newer, on one GlContext."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ....kernels.codegen.source import KernelSource
from ...binaries import BinaryStore
from ...device import Kernel, Resource, Step, Traits
from ...errors import BindingError, DeviceError
from ...record.base_device import BaseDevice
from ...record.one_dispatch import prefers_one
from ..buffer import GlBuffer
from ..context import GlContext
from ..khronos import GL
from ..texture import GlTexture
from ..user_objects import as_gl_object
from .barrier import GlBarrier
from .commands import GlCommandList
from .fence import GlFence
from .kernel import GlKernel, compile_kernels
from .one_dispatch import STEPS_OF_A_PART, record_parts
from .recording import record_separately

_OBJECTS = GlBuffer, GlTexture
MOST_INVOCATIONS = 500
"""Invocations per compute unit, on average, up to which steps are run in parts: fewer than on OpenCL. On an H200 on
2026-11-22 eight frames of selfie_segmentation took 1.17 ms in parts, 32 in separate dispatches 0.87
(``benchmarks/batch.py --backend gl``). unet_512, with 630 of them, takes 3.22 ms in parts and 1.98 in separate
dispatches. See docs/internals/one-dispatch.md.
"""

log = logging.getLogger("framebind")


class GlDevice(BaseDevice[GlKernel, GlCommandList, GlBarrier]):
    """Implements interop.device.Device on a GL context, on the thread where that context is current.

    In a foreign context all GL state is after each call as it was before (see state.py). In one of ours a run leaves
    changed: the program in use, the shader storage buffer bindings 0 and up, the uniform buffer binding 0, the texture
    bound to GL_TEXTURE_2D on unit 0 and up, and the image units 0 and up; samplers and the active texture unit are put
    back to 0.
    ``owns_context``: close the context with the device.
    """

    def __init__(self, context: GlContext, *, owns_context: bool = False) -> None:
        super().__init__(context, GlBarrier(context), owns_context=owns_context)
        self.context = context
        context.is_private = self.needs_entering = owns_context
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
            max_textures=min(map(gl.integer, (GL.MAX_COMPUTE_TEXTURE_IMAGE_UNITS, GL.MAX_COMPUTE_IMAGE_UNIFORMS))),
            word_bytes=4,
            lowers_clock="NVIDIA" in context.gl.version,  # a CUDA context keeps it up, one of OpenGL does not
        )

    def buffer(self, nbytes: int, label: str) -> GlBuffer:
        self.check()
        self._check_size(nbytes, label)
        return GlBuffer(nbytes, label=label)

    def texture(self, width: int, height: int, format: str, label: str) -> GlTexture:
        self.check()
        return GlTexture(width, height, format, label=label)

    def borrow(self, native: Any) -> GlTexture | GlBuffer:
        """A GlTexture or GlBuffer of this context as it is, or a moderngl texture or buffer wrapped."""
        self.check()
        if isinstance(native, _OBJECTS) and native.is_owned:  # GL need not be asked about it
            resource = native
            if resource.context is not self.context or resource.released:
                resource.check()
        else:
            resource = as_gl_object(native)
        if resource.context is not self.context:
            raise BindingError(f"{resource.label} belongs to {resource.context}, and this device to another context")
        return resource

    def _make_kernel(self, source: KernelSource) -> GlKernel:
        return GlKernel(self.context, source)

    def _compile(self, kernels: Collection[Kernel], store: BinaryStore | None) -> None:
        compile_kernels(self.context, [kernel for kernel in kernels if isinstance(kernel, GlKernel)], store)

    def _prefers_one(self, steps: Sequence[Step]) -> bool:
        """Apply the rule of record/one_dispatch.py. Answer no if GL does not tell the number of compute units."""
        units = self._barrier.units
        return units > 1 and prefers_one(steps, software=self.context.software, units=units, most=MOST_INVOCATIONS)

    def _record_separately(self, steps: Sequence[Step], store: BinaryStore | None) -> GlCommandList:
        separately = functools.partial(record_separately, self.context, store=store)
        return GlCommandList(self.context, self.traits, steps, separately)

    def _record_as_one(self, steps: Sequence[Step], groups_per_unit: int, store: BinaryStore | None) -> GlCommandList:
        return self._record_few(steps, len(steps), groups_per_unit, store)

    def _record_parts(self, steps: Sequence[Step], groups_per_unit: int, store: BinaryStore | None) -> GlCommandList:
        try:
            return self._record_few(steps, STEPS_OF_A_PART, groups_per_unit, store)
        except DeviceError as reason:
            log.warning(f"{reason}: each step is a dispatch of its own")
            return self._record_separately(steps, store)

    def _record_few(
        self, steps: Sequence[Step], most_steps: int, groups_per_unit: int, store: BinaryStore | None
    ) -> GlCommandList:
        together = functools.partial(
            record_parts,
            self.context, self._barrier, self.traits.local_bytes, groups_per_unit, most_steps, store=store,
        )  # fmt: skip
        separately = functools.partial(record_separately, self.context, store=None)
        return GlCommandList(self.context, self.traits, steps, together, separately)

    def write(self, resource: Resource, array: np.ndarray, reason: str, offset: int = 0) -> None:
        self._check_before_copy()
        _memory(resource).upload(self.context, array, reason, offset)

    def read(self, resource: Resource, array: np.ndarray, reason: str, offset: int = 0) -> None:
        self._check_before_copy()
        _memory(resource).download(self.context, array, reason, offset)
        self._barrier.watch.waited()

    def _check_before_copy(self) -> None:
        """Check that the context is current, and that it exists if another library made it.

        A new context may have the handle of a destroyed one, and objects of the same names.
        """
        self.check()
        if self.context.is_foreign:
            self.context.check_exists()

    def fence(self) -> GlFence:
        self.check()
        return GlFence(self.context, self._barrier.watch)

    def wait_for(self, events: Sequence[Any]) -> None:
        """Check that the events are fences of this context: its commands run in the order in which they are issued.

        Raises BindingError for any other event: GL has none.
        """
        if not all(isinstance(event, GlFence) and event.context is self.context for event in events):
            raise BindingError(
                "the model runs on OpenGL, which has no events to wait for: leave wait_for out (commands run "
                "in the order in which they are issued), or use the backend 'opencl'"
            )

    def event(self) -> None:
        return None

    def entered(self) -> contextlib.AbstractContextManager[None]:
        return self.context.made_current() if self.context.is_private else contextlib.nullcontext()

    def finish(self) -> None:
        self.check()
        self.context.gl.glFinish()
        self._barrier.watch.waited()

    def _free(self) -> None:
        with contextlib.suppress(DeviceError):
            self.check()  # in another context these names are other objects, and in none the programs go with theirs
            for kernel in self._kernels.values():
                kernel.release()


def _memory(resource: Resource) -> GlBuffer | GlTexture:
    if not isinstance(resource, _OBJECTS):
        raise BindingError(f"'{resource.label}' is no GL object")
    resource.check()
    return resource
