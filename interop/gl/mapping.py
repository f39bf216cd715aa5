"""Mapping of GL buffers to the CPU's memory, in a way that survives exceptions of signal handlers.

Such an exception may fall between a call and the assignment of its result. So a buffer is noted as mapped before GL
maps it, until after GL has unmapped it: whoever uses the buffer next unmaps what was left.
"""

from __future__ import annotations

from .context import GlContext


def map_buffer(context: GlContext, target: int, buffer: int, nbytes: int, access: int) -> int:
    """Map the first ``nbytes`` of a buffer, which is bound to ``target``; returns the address, 0 if GL cannot."""
    unmap_buffer(context, target, buffer)
    mapped = context.objects.mapped
    mapped.add(buffer)
    address = context.gl.glMapBufferRange(target, 0, nbytes, access)
    if not address:
        mapped.discard(buffer)
    return address or 0


def unmap_buffer(context: GlContext, target: int, buffer: int) -> bool:
    """Unmap a buffer, which is bound to ``target``, if it may be mapped. Returns False if GL has lost what it held."""
    mapped = context.objects.mapped
    if buffer not in mapped:
        return True
    has_content = bool(context.gl.glUnmapBuffer(target))
    if not has_content:
        context.gl.clear_errors()  # of a call that was interrupted, and did not map it or had unmapped it
    mapped.discard(buffer)
    return has_content
