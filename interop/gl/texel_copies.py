"""Copies on the GPU between a texture's texels and a buffer, in rows without gaps, row 0 first."""

from __future__ import annotations

from ..errors import BindingError
from .context import GlContext
from .khronos import GL
from .query import FORMATS, PixelFormat
from .state import kept, pixel_reads, pixel_uploads, read_framebuffer, restored
from .state import texture as bound_texture
from .texture import GlTexture

_WRITTEN_BARRIER = GL.FRAMEBUFFER_BARRIER_BIT | GL.PIXEL_BUFFER_BARRIER_BIT
_PACK = (
    (GL.PACK_ROW_LENGTH, 0), (GL.PACK_SKIP_ROWS, 0), (GL.PACK_SKIP_PIXELS, 0), (GL.PACK_ALIGNMENT, 1),
    (GL.PACK_SWAP_BYTES, 0),
)  # fmt: skip
_UNPACK = (
    (GL.UNPACK_ROW_LENGTH, 0), (GL.UNPACK_SKIP_ROWS, 0), (GL.UNPACK_SKIP_PIXELS, 0), (GL.UNPACK_ALIGNMENT, 1),
    (GL.UNPACK_SWAP_BYTES, 0),
)  # fmt: skip
_IN_ES = slice(4)
"""The settings that OpenGL ES has too."""
_ES_FORMATS = ("rgba8", "rgba32f")
"""The formats whose texels every OpenGL ES driver reads as they are."""


def texel_nbytes(context: GlContext, format: str) -> int:
    """Bytes of a texel in such a buffer. Raises BindingError if the format is not copied."""
    pixels = _pixels(context, format)
    return pixels.channels * pixels.dtype().itemsize


def copy_to_buffer(texture: GlTexture, buffer: int) -> None:
    """Copy all texels to the GL buffer of that name, from its first byte on."""
    context, gl = texture.context, texture.context.gl
    pixels = _pixels(context, texture.format)
    gl.glMemoryBarrier(_WRITTEN_BARRIER)
    source = texture.framebuffer()
    with restored(context, read_framebuffer), kept(context, pixel_reads):
        gl.glBindFramebuffer(GL.READ_FRAMEBUFFER, source)
        for name, value in _PACK[_IN_ES] if context.is_es else _PACK:
            gl.glPixelStorei(name, value)
        gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, buffer)
        gl.glReadPixels(0, 0, *texture.size, pixels.external, pixels.type, None)
        gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, 0)
        gl.glPixelStorei(GL.PACK_ALIGNMENT, 4)


def copy_from_buffer(texture: GlTexture, buffer: int) -> None:
    """Replace all texels by those in the GL buffer of that name, from its first byte on."""
    context, gl = texture.context, texture.context.gl
    pixels = _pixels(context, texture.format)
    with kept(context, bound_texture, pixel_uploads):
        gl.glBindTexture(GL.TEXTURE_2D, texture.id)
        for name, value in _UNPACK[_IN_ES] if context.is_es else _UNPACK:
            gl.glPixelStorei(name, value)
        gl.glBindBuffer(GL.PIXEL_UNPACK_BUFFER, buffer)
        gl.glTexSubImage2D(GL.TEXTURE_2D, 0, 0, 0, *texture.size, pixels.external, pixels.type, None)
        gl.glBindBuffer(GL.PIXEL_UNPACK_BUFFER, 0)
        gl.glPixelStorei(GL.UNPACK_ALIGNMENT, 4)


def _pixels(context: GlContext, format: str) -> PixelFormat:
    formats = _ES_FORMATS if context.is_es else tuple(FORMATS)
    if format not in formats:
        raise BindingError(
            f"textures of {format} are not copied to buffers in {context}: draw it into one of {', '.join(formats)}"
        )
    return FORMATS[format]
