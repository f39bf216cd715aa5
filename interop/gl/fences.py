"""GL sync objects, for code that keeps many of them: made, polled, waited for."""

from __future__ import annotations

from ..errors import DeviceError
from .context import GlContext
from .khronos import GL


def make_fence(context: GlContext) -> int:
    """Make a GL sync object at this point of the context's work, counted among its live objects."""
    context.objects.live["sync"] += 1
    return context.gl.glFenceSync(GL.SYNC_GPU_COMMANDS_COMPLETE, 0)


def is_passed(context: GlContext, fence: int) -> bool:
    """Whether the GPU has passed a GL sync object. Does not wait, and sends what was not sent to the GPU yet."""
    return context.gl.glClientWaitSync(fence, GL.SYNC_FLUSH_COMMANDS_BIT, 0) != GL.TIMEOUT_EXPIRED


def wait_and_delete(context: GlContext, fence: int) -> None:
    """Block until the GPU has passed a GL sync object, then delete it."""
    result = context.gl.glClientWaitSync(fence, GL.SYNC_FLUSH_COMMANDS_BIT, GL.TIMEOUT_IGNORED)
    context.gl.glDeleteSync(fence)
    context.objects.live["sync"] -= 1
    if result == GL.WAIT_FAILED:
        raise DeviceError(f"{context} does not finish its work: the GPU was reset or the context lost. Make a new one")
