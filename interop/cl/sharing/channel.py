"""The contract of a strategy that shares memory between a GL and a CL context. sharing.py lists the strategies and
picks one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl

from ...gl.buffer import GlBuffer
from ...gl.context import GlContext
from ...gl.gl_backed import GlBacked
from ...gl.khronos import GL
from ...gl.texture import GlTexture
from ..api import own_errors
from ..context import ClContext
from ..objects import ClBuffer, ClImage, Use


class SharedBuffer(GlBacked, ClBuffer):
    """A buffer that both APIs address. ``gl`` is the GL buffer, which it keeps alive."""

    def __init__(self, memory: Any, nbytes: int, label: str, gl: GlBuffer) -> None:
        super().__init__(memory, nbytes, label)
        self.gl = gl
        self.gl_objects = (gl,)


class Channel:
    """Memory that one GL context and one CL context both address, and the order of their work on it.

    This class orders the work by waiting on the CPU, which works with every driver. Subclasses have better ways.
    """

    name = ""

    def __init__(self, gl: GlContext, cl: ClContext) -> None:
        self.gl, self.cl = gl, cl
        self.host_waits = 0
        """The number of times that the CPU waited for one API before the other could continue."""

    @staticmethod
    def why_not(gl: GlContext, cl: ClContext) -> str | None:
        """Give the reason why the two contexts cannot share memory in this way, or None. ``gl`` is current."""
        raise NotImplementedError

    def wrap(self, native: GlBuffer | GlTexture) -> ClBuffer | ClImage | None:
        """The user's own GL object as an OpenCL one; None if only memory made by ``buffer`` can be shared."""
        return None

    def buffer(self, nbytes: int, label: str) -> SharedBuffer:
        """A new buffer of zeros."""
        raise NotImplementedError

    def to_cl(self, uses: Sequence[Use]) -> None:
        """Let CL work submitted from now on see what GL has been told to do so far."""
        self.wait_for_gl()

    def to_gl(self, uses: Sequence[Use]) -> None:
        """Let GL work issued from now on see what CL has been told to do so far."""
        self.wait_for_cl()

    def wait_for_gl(self) -> None:
        """Wait on the CPU until GL has done what it has been told so far, and count the wait."""
        self.host_waits += 1
        self.gl.gl.glMemoryBarrier(GL.ALL_BARRIER_BITS)
        self.gl.gl.glFinish()

    def wait_for_cl(self) -> None:
        """Wait on the CPU until OpenCL has done what it has been told so far, and count the wait."""
        self.host_waits += 1
        # Not clFinish: rusticl 22.3 does not wait there for what was flushed before.
        with own_errors(f"waiting for {self.cl}"):
            pyopencl.enqueue_marker(self.cl.queue).wait()
