"""Sharing by copies through the CPU, which are counted: the strategy that always works."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import numpy as np
import pyopencl

from ...gl.buffer import GlBuffer
from ...gl.context import GlContext
from ..api import own_errors
from ..context import ClContext
from ..objects import Use
from .channel import Channel, SharedBuffer


class Copies(Channel):
    """Two buffers, and copies between them through the CPU, each counted. Only if the user allowed it."""

    name = "copies through the CPU"

    def __init__(self, gl: GlContext, cl: ClContext) -> None:
        super().__init__(gl, cl)
        self._arrays: weakref.WeakKeyDictionary[GlBuffer, np.ndarray] = weakref.WeakKeyDictionary()

    @staticmethod
    def why_not(gl: GlContext, cl: ClContext) -> str | None:
        return None if cl.copies_allowed else "not allowed: ClContext(copies_allowed=True) allows it"

    def buffer(self, nbytes: int, label: str) -> SharedBuffer:
        gl = GlBuffer(nbytes, label=label)
        self._arrays[gl] = np.zeros(nbytes, np.uint8)
        with own_errors(f"making '{label}' of {nbytes} bytes in {self.cl}"):
            memory = pyopencl.Buffer(self.cl.context, pyopencl.mem_flags.READ_WRITE, nbytes)
        return SharedBuffer(memory, nbytes, label, gl)

    def to_cl(self, uses: Sequence[Use]) -> None:
        for use in uses:
            buffer, reason = use.resource, f"no shared memory: {use.resource.label} from OpenGL to OpenCL"
            if "r" in use.access and isinstance(buffer, SharedBuffer):
                self.host_waits += 1
                array = self._arrays[buffer.gl]
                buffer.gl.read(array, reason=reason)
                buffer.upload(self.cl, array, reason)

    def to_gl(self, uses: Sequence[Use]) -> None:
        for use in uses:
            buffer, reason = use.resource, f"no shared memory: {use.resource.label} from OpenCL to OpenGL"
            if "w" in use.access and isinstance(buffer, SharedBuffer):
                self.host_waits += 1
                array = self._arrays[buffer.gl]
                buffer.download(self.cl, array, reason)
                buffer.gl.write(array, reason=reason)
