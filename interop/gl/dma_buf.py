"""DMA-BUFs as textures, and textures as DMA-BUFs: memory that other programs know by file descriptors. Linux.

EGL_EXT_image_dma_buf_import (and _modifiers) makes an EGLImage of the descriptors, and GL_EXT_EGL_image_storage a
texture of it. EGL_MESA_image_dma_buf_export goes the other way. The specifications in the Khronos registry are the
source of names and attributes.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
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
_EXPORT = "EGL_MESA_image_dma_buf_export"
_FOURCC = 4
_NO_MODIFIER = (1 << 56) - 1
"""DRM_FORMAT_MOD_INVALID of drm_fourcc.h: the driver does not tell the layout."""


@dataclass(frozen=True)
class DmaBuf:
    """A picture in memory that file descriptors stand for.

    ``fourcc`` is its format as drm_fourcc.h has it. Each plane has a file descriptor, its first byte and the bytes from
    row to row; planes may have one descriptor in common. ``modifier`` is the layout of the memory, if it is known.
    """

    fourcc: str
    planes: tuple[tuple[int, int, int], ...]
    modifier: int | None

    @property
    def descriptors(self) -> list[int]:
        """Each of the planes' descriptors once, in their order."""
        return list(dict.fromkeys(descriptor for descriptor, _, _ in self.planes))


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
    needed = [_IMPORT] if modifier is None else [_IMPORT, _MODIFIERS]
    lacks = [] if has_extension(context, _IMAGE_STORAGE) else [_IMAGE_STORAGE]
    display = _display(context, needed, "imported", egl, lacks)
    image = egl.eglCreateImage(display, None, EGL.LINUX_DMA_BUF_EXT, None, attributes)
    if not image:
        raise egl.failed(f"importing a DMA-BUF of {size[0]}x{size[1]} '{fourcc}'")
    try:
        with kept(context, bound_texture), checked(context, f"making a texture of a DMA-BUF '{fourcc}'"):
            context.gl.glBindTexture(GL.TEXTURE_2D, texture)
            context.gl.glEGLImageTargetTexStorageEXT(GL.TEXTURE_2D, image, None)
    finally:
        egl.eglDestroyImage(display, image)  # the texture keeps the memory


def export_dma_buf(context: GlContext, texture: int, egl: gl_egl.Egl) -> DmaBuf:
    """The memory of the GL texture of that name. The descriptors are the caller's, who closes each once.

    Raises DeviceError if EGL cannot or will not export it.
    """
    display = _display(context, [_EXPORT], "exported", egl)
    level = gl_egl.pointer_attributes(EGL.GL_TEXTURE_LEVEL, 0)
    image = egl.eglCreateImage(display, egl.eglGetCurrentContext(), EGL.GL_TEXTURE_2D, texture, level)
    if not image:
        raise egl.failed("making an image of a texture")
    try:
        return _described(display, image, egl)
    finally:
        egl.eglDestroyImage(display, image)  # the texture and the descriptors keep the memory


def _described(display: int, image: int, egl: gl_egl.Egl) -> DmaBuf:
    code, count, modifiers = ctypes.c_int(), ctypes.c_int(), (ctypes.c_uint64 * _PLANES)()
    # The first call tells how many modifiers the second one writes.
    if not egl.eglExportDMABUFImageQueryMESA(display, image, ctypes.byref(code), ctypes.byref(count), None):
        raise egl.failed("asking for the format of a DMA-BUF")
    if not 1 <= count.value <= _PLANES:
        raise DeviceError(f"EGL exports a texture as {count.value} planes, and a DMA-BUF has 1 to {_PLANES}")
    if not egl.eglExportDMABUFImageQueryMESA(display, image, ctypes.byref(code), ctypes.byref(count), modifiers):
        raise egl.failed("asking for the layout of a DMA-BUF")
    if len(set(modifiers[: count.value])) != 1:
        raise DeviceError("EGL exports a texture as planes of several modifiers, which nobody can import")
    descriptors = (ctypes.c_int * _PLANES)(*[-1] * _PLANES)
    pitches, offsets = (ctypes.c_int * _PLANES)(), (ctypes.c_int * _PLANES)()
    is_exported = egl.eglExportDMABUFImageMESA(display, image, descriptors, pitches, offsets)
    if not is_exported or descriptors[0] < 0:
        error = egl.failed("exporting a DMA-BUF")
        for descriptor in {*descriptors} - {-1}:
            os.close(descriptor)
        raise error
    planes, descriptor = [], -1
    for n in range(count.value):
        descriptor = descriptor if descriptors[n] < 0 else descriptors[n]  # -1: in the memory of the plane before
        planes.append((descriptor, offsets[n], pitches[n]))
    fourcc = (code.value & 0xFFFFFFFF).to_bytes(_FOURCC, "little").decode("ascii", "replace")
    return DmaBuf(fourcc, tuple(planes), None if modifiers[0] == _NO_MODIFIER else modifiers[0])


def find_egl(context: GlContext) -> gl_egl.Egl:
    """EGL's functions. Raises DeviceError if there is no EGL."""
    library = egl_library()
    if library is None:
        raise _not_egl_s(context)
    return gl_egl.Egl(library)


def current_display(context: GlContext, egl: gl_egl.Egl) -> tuple[int, list[str]]:
    """The display of the current context, and its extensions. Raises DeviceError if the context is not EGL's."""
    display = egl.eglGetCurrentDisplay()
    if not display:
        raise _not_egl_s(context)
    return display, (egl.eglQueryString(display, EGL.EXTENSIONS) or b"").decode().split()


def _not_egl_s(context: GlContext) -> DeviceError:
    return DeviceError(f"{context} is no context of EGL, which DMA-BUFs need: make one with EGL")


def _display(context: GlContext, needed: Sequence[str], use: str, egl: gl_egl.Egl, lacks: Sequence[str] = ()) -> int:
    """The display of the current context. Raises DeviceError if it has not all extensions, or ``lacks`` others."""
    display, extensions = current_display(context, egl)
    missing = [*(name for name in needed if name not in extensions), *lacks]
    if missing:
        raise DeviceError(f"{context} has no {' and no '.join(missing)}: DMA-BUFs cannot be {use} here")
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
