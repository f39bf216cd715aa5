"""DMA-BUFs as textures: memory of cameras, decoders and compositors that EGL imports by file descriptors. Linux.

EGL_EXT_image_dma_buf_import (and _modifiers) makes an EGLImage of the descriptors, and GL_EXT_EGL_image_storage a
texture of it. The specifications in the Khronos registry are the source of names and attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import BindingError, DeviceError
from . import egl as gl_egl
from .context import GlContext
from .khronos import EGL, GL
from .platform import egl_library
from .query import checked, has_extension
from .state import kept
from .state import texture as bound_texture

_PLANES = 4
_PLANE_ATTRIBUTES = (
    (0x3272, 0x3273, 0x3274, 0x3443, 0x3444), (0x3275, 0x3276, 0x3277, 0x3445, 0x3446),
    (0x3278, 0x3279, 0x327A, 0x3447, 0x3448), (0x3440, 0x3441, 0x3442, 0x3449, 0x344A),
)  # fmt: skip
"""EGL_DMA_BUF_PLANEn_FD_EXT, _OFFSET_EXT, _PITCH_EXT, _MODIFIER_LO_EXT and _MODIFIER_HI_EXT, by plane. PyOpenGL 3.1
has not all of them.
"""
_IMAGE_STORAGE = "GL_EXT_EGL_image_storage"
_IMPORT, _MODIFIERS = "EGL_EXT_image_dma_buf_import", "EGL_EXT_image_dma_buf_import_modifiers"
_FOURCC = 4


def import_dma_buf(
    context: GlContext,
    texture: int,
    size: tuple[int, int],
    fourcc: str,
    planes: Sequence[tuple[int, int, int]],
    modifier: int | None,
    egl: gl_egl.Egl,
) -> None:
    """Give the memory of a DMA-BUF picture to the GL texture of that name, which has no storage yet.

    A plane is a file descriptor, its first byte, and the bytes from row to row.

    EGL duplicates the descriptors: they stay the caller's. Raises BindingError for arguments that describe no picture,
    and DeviceError if EGL or GL cannot or will not import them.
    """
    attributes = _attributes(size, fourcc, planes, modifier)
    display = _display(context, modifier, egl)
    image = egl.eglCreateImage(display, None, EGL.LINUX_DMA_BUF_EXT, None, attributes)
    if not image:
        raise egl.failed(f"importing a DMA-BUF of {size[0]}x{size[1]} '{fourcc}'")
    try:
        with kept(context, bound_texture), checked(context, f"making a texture of a DMA-BUF '{fourcc}'"):
            context.gl.glBindTexture(GL.TEXTURE_2D, texture)
            context.gl.glEGLImageTargetTexStorageEXT(GL.TEXTURE_2D, image, None)
    finally:
        egl.eglDestroyImage(display, image)  # the texture keeps the memory


def find_egl(context: GlContext) -> gl_egl.Egl:
    """EGL's functions. Raises DeviceError if there is no EGL."""
    library = egl_library()
    if library is None:
        raise _not_egl_s(context)
    return gl_egl.Egl(library)


def _not_egl_s(context: GlContext) -> DeviceError:
    return DeviceError(f"{context} is no context of EGL, which imports DMA-BUFs: make one with EGL")


def _display(context: GlContext, modifier: int | None, egl: gl_egl.Egl) -> int:
    """The display of the current context. Raises DeviceError if it cannot import."""
    display = egl.eglGetCurrentDisplay()
    if not display:
        raise _not_egl_s(context)
    extensions = (egl.eglQueryString(display, EGL.EXTENSIONS) or b"").decode().split()
    needed = [_IMPORT] if modifier is None else [_IMPORT, _MODIFIERS]
    missing = [name for name in needed if name not in extensions]
    if not has_extension(context, _IMAGE_STORAGE):
        missing.append(_IMAGE_STORAGE)
    if missing:
        raise DeviceError(f"{context} has no {' and no '.join(missing)}: DMA-BUFs cannot be imported here")
    return display


def _attributes(
    size: tuple[int, int], fourcc: str, planes: Sequence[tuple[int, int, int]], modifier: int | None
) -> Any:
    """The attributes of eglCreateImage, ended by EGL_NONE."""
    code = fourcc.encode("ascii", "replace")
    if len(code) != _FOURCC or not 1 <= len(planes) <= _PLANES:
        raise BindingError(
            f"a DMA-BUF has a format of four letters of drm_fourcc.h, such as 'AB24', and 1 to {_PLANES} planes; given "
            f"are {fourcc!r} and {len(planes)}"
        )
    if min(size) <= 0 or any(min(plane) < 0 or plane[2] == 0 for plane in planes):
        raise BindingError(f"a DMA-BUF of {size[0]}x{size[1]} with planes {list(planes)} is impossible")
    values = [
        EGL.WIDTH, size[0], EGL.HEIGHT, size[1], EGL.LINUX_DRM_FOURCC_EXT, int.from_bytes(code, "little"),
    ]  # fmt: skip
    for names, plane in zip(_PLANE_ATTRIBUTES, planes, strict=False):
        given = [*plane] if modifier is None else [*plane, modifier & 0xFFFFFFFF, modifier >> 32]
        values += [value for pair in zip(names, given, strict=False) for value in pair]
    return gl_egl.pointer_attributes(*values)
