"""Sharing by OpenCL objects made of GL objects (cl_khr_gl_sharing)."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Sequence

import pyopencl

from ...errors import BindingError, DeviceError
from ...gl.buffer import GlBuffer
from ...gl.context import GlContext
from ...gl.texture import GlTexture
from .. import gl_sharing
from ..context import ClContext
from ..objects import ClBuffer, ClImage, Use
from .channel import Channel, SharedBuffer

log = logging.getLogger("framebind")


class GlObjects(Channel):
    """The user's GL objects themselves, as OpenCL objects. With cl_khr_gl_event the drivers order the work."""

    name = "GL objects (cl_khr_gl_sharing)"

    def __init__(self, gl: GlContext, cl: ClContext) -> None:
        super().__init__(gl, cl)
        self._ordered = "cl_khr_gl_event" in cl.device.extensions.split()
        self._memories: weakref.WeakKeyDictionary[GlBuffer | GlTexture, pyopencl.MemoryObjectHolder]
        self._memories = weakref.WeakKeyDictionary()

    @staticmethod
    def why_not(gl: GlContext, cl: ClContext) -> str | None:
        return gl_sharing.why_not(cl.context, cl.device)

    def wrap(self, native: GlBuffer | GlTexture) -> ClBuffer | ClImage | None:
        memory = self._memories.get(native)
        try:
            if isinstance(native, GlBuffer):
                memory = memory or gl_sharing.from_gl_buffer(self.cl.context, native.id)
                shared = SharedBuffer(memory, native.nbytes, native.label, native)
            else:
                memory = memory or gl_sharing.from_gl_texture(self.cl.context, native.id)
                shared = ClImage(memory, native.label, keep=native)
        except (DeviceError, BindingError) as error:
            log.info(f"{native.label} is copied on the GPU: it cannot be an OpenCL object itself: {error}")
            return None
        self._memories[native] = memory
        return shared

    def buffer(self, nbytes: int, label: str) -> SharedBuffer:
        gl = GlBuffer(nbytes, label=label)
        return SharedBuffer(gl_sharing.from_gl_buffer(self.cl.context, gl.id), nbytes, label, gl)

    def to_cl(self, uses: Sequence[Use]) -> None:
        if not self._ordered:
            self.wait_for_gl()
        gl_sharing.acquire(self.cl.queue, [use.resource.int_ptr for use in uses])

    def to_gl(self, uses: Sequence[Use]) -> None:
        gl_sharing.release(self.cl.queue, [use.resource.int_ptr for use in uses])
        if not self._ordered:
            self.wait_for_cl()
