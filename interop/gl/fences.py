"""Fences: GL sync objects, for code that keeps many of them, and those that another process can wait for."""

from __future__ import annotations

from ..errors import DeviceError
from .context import GlContext
from .egl import Egl, pointer_attributes
from .khronos import EGL, GL

FENCE_EXTENSION = "EGL_ANDROID_native_fence_sync"


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


def export_fence(context: GlContext, display: int, egl: Egl) -> int:
    """A file descriptor that is readable once the GPU has done all work that the context has issued by now. Linux.

    It is the caller's, and any process may wait for it. The display, which is the context's, has FENCE_EXTENSION.
    """
    sync = egl.eglCreateSync(display, EGL.SYNC_NATIVE_FENCE_ANDROID, pointer_attributes())
    if not sync:
        raise egl.failed("making a fence for another process")
    try:
        context.gl.glFlush()  # the fence has no descriptor before it is sent to the GPU
        descriptor = egl.eglDupNativeFenceFDANDROID(display, sync)
        if descriptor < 0:
            raise egl.failed("exporting a fence")
        return descriptor
    finally:
        egl.eglDestroySync(display, sync)
