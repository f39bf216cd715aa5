"""GL textures and buffers as the user makes, wraps and binds them.

State that these calls leave changed in the context: the texture bound to GL_TEXTURE_2D on the active unit, the copy and
pixel buffer bindings (0), and pixel storage (the defaults). Framebuffer bindings are put back.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Hashable
from typing import Any

import numpy as np

from ..errors import BindingError, DeviceError
from ..transfers import transfers
from . import query as gl_query
from .context import GlContext
from .khronos import GL
from .query import FORMATS, checked

_UNPACK_DEFAULTS = ((GL.UNPACK_ROW_LENGTH, 0), (GL.UNPACK_SKIP_ROWS, 0), (GL.UNPACK_SKIP_PIXELS, 0))
_PACK_DEFAULTS = ((GL.PACK_ROW_LENGTH, 0), (GL.PACK_SKIP_ROWS, 0), (GL.PACK_SKIP_PIXELS, 0))
_BUFFER_BARRIERS = GL.BUFFER_UPDATE_BARRIER_BIT | GL.FRAMEBUFFER_BARRIER_BIT | GL.CLIENT_MAPPED_BUFFER_BARRIER_BIT


class _GlObject:
    """What textures and buffers share: a context, a GL name, and whether it is ours to delete."""

    def _adopt(self, context: GlContext, kind: str, id: int, label: str) -> None:
        self.context, self.id, self.label = context, id, label
        self.handle: Hashable = (context, kind, id)
        """See device.Resource."""
        self._let_go = False
        self._finalizers: list[weakref.finalize[..., Any]] = []
        self._keep: Any = None

    def _own(self, kind: Any, name: int) -> None:
        """Delete the GL object ``name`` when this object is released or collected, on the context's own thread."""
        finalizer = weakref.finalize(self, self.context.defer_delete, kind, name)
        finalizer.atexit = False
        self._finalizers.append(finalizer)

    @property
    def is_owned(self) -> bool:
        """We made it, so that nobody else changes or deletes it."""
        return bool(self._finalizers)

    @property
    def released(self) -> bool:
        return self._let_go or self.context.closed

    def release(self) -> None:
        """Delete it where we made it, else let go of it. Any thread, more than once."""
        self._let_go = True
        for finalizer in self._finalizers:
            finalizer()

    def _check_usable(self) -> None:
        if self.released:
            raise BindingError(f"{self.label} is released: make a new one")
        self.context.check()


class GlTexture(_GlObject):
    """A 2-D GL texture in one of the formats rgba8, rgba16f, rgba32f, r8, r32f. Row 0 is the top of the picture.

    ``GlTexture(width, height, format, data=None)`` makes one in the current context, with ``data`` as ``write`` takes
    it or of unspecified content; ``from_array`` takes size and format from an array; ``from_id`` wraps somebody else's.
    Raises BindingError for an unknown format or size, DeviceError where no context is current or memory runs out.
    """

    nbytes = 0

    def __init__(
        self, width: int, height: int, format: str = "rgba8", data: np.ndarray | None = None, *, label: str = ""
    ) -> None:
        context = GlContext.current()
        if format not in FORMATS:
            raise BindingError(f"there is no texture format '{format}': take one of {', '.join(FORMATS)}")
        limit = context.gl.integer(GL.MAX_TEXTURE_SIZE)
        if not (0 < width <= limit and 0 < height <= limit):
            raise BindingError(f"a texture of {width} x {height} texels is impossible here: each side is 1 to {limit}")
        id = context.generate("texture")
        label = label or f"GL texture {id} ({width}x{height} {format})"
        self._adopt_texture(context, id, (width, height), format, label)
        self._own("texture", id)
        with checked(context, f"making {label}"):
            context.gl.glBindTexture(GL.TEXTURE_2D, id)
            context.gl.glTexStorage2D(GL.TEXTURE_2D, 1, FORMATS[format].internal, width, height)
        if data is not None:
            self.write(data)

    def _adopt_texture(self, context: GlContext, id: int, size: tuple[int, int], format: str, label: str) -> None:
        self._adopt(context, "texture", id, label)
        self.size, self.format = size, format
        self._framebuffer = 0

    @staticmethod
    def from_array(array: np.ndarray) -> GlTexture:
        """A new texture with the content of ``array``: HxW, HxWx1, HxWx3 or HxWx4 of uint8, float32 or float16.

        Three channels become RGBA with alpha 1; one channel of float16 becomes r32f.
        """
        array = np.asarray(array)
        channels = 1 if array.ndim == 2 else array.shape[-1] if array.ndim == 3 else 0
        suffix = {"uint8": "8", "float16": "32f" if channels == 1 else "16f", "float32": "32f"}.get(array.dtype.name)
        if suffix is None or channels not in (1, 3, 4):
            raise BindingError(
                f"an array of shape {array.shape} and type {array.dtype} makes no texture: it takes HxW, HxWx1, HxWx3 "
                "or HxWx4 of uint8, float16 or float32"
            )
        return GlTexture(array.shape[1], array.shape[0], ("r" if channels == 1 else "rgba") + suffix, array)

    @staticmethod
    def from_id(id: int, width: int | None = None, height: int | None = None, format: str | None = None) -> GlTexture:
        """A 2-D texture that somebody else made, by its GL name in the current context. We never delete it.

        Size and format are asked from GL; where they are given as well, they must agree. Raises BindingError where the
        name is no 2-D texture (any more), has no storage, or has a format outside the supported ones.
        """
        context = GlContext.current()
        size, found = gl_query.texture(context, id)
        given = (size[0] if width is None else width, size[1] if height is None else height)
        if given != size or (format or found) != found:
            wanted = f"{given[0]}x{given[1]} {format or found}"
            raise BindingError(f"GL texture {id} is {size[0]}x{size[1]} {found}, not {wanted}")
        texture = GlTexture.__new__(GlTexture)
        texture._adopt_texture(context, id, size, found, f"foreign GL texture {id} ({size[0]}x{size[1]} {found})")
        return texture

    def check(self, *, write: bool = False) -> None:
        """Raise BindingError where it is released, deleted or changed by its owner, or (``write``) not writable.

        Raises DeviceError on another thread or with another context current.
        """
        self._check_usable()
        if not self.is_owned and gl_query.texture(self.context, self.id) != (self.size, self.format):
            raise BindingError(f"{self.label} has another size or format by now: wrap it anew with GlTexture.from_id")
        if write and not self.is_owned:
            gl_query.check_image(self.context, self.id, self.size, self.label)

    def write(self, array: np.ndarray, reason: str = "texture upload") -> None:
        """Replace the whole content. ``array`` is HxW, HxWx1, HxWx3 (alpha becomes 1) or HxWx4 in the texture's dtype.

        uint8 for rgba8 and r8, float32 for rgba32f and r32f, float16 or float32 for rgba16f. Counted as ``reason``.
        """
        self._check_usable()
        gl, pixels, texels = self.context.gl, FORMATS[self.format], self._texels(array)
        transfers.count("upload", texels.nbytes, reason)
        gl.glBindBuffer(GL.PIXEL_UNPACK_BUFFER, 0)
        for name, value in (*_UNPACK_DEFAULTS, (GL.UNPACK_ALIGNMENT, 1)):
            gl.glPixelStorei(name, value)
        gl.glBindTexture(GL.TEXTURE_2D, self.id)
        gl.glTexSubImage2D(
            GL.TEXTURE_2D, 0, 0, 0, *self.size, pixels.external, pixels.type, texels.ctypes.data_as(ctypes.c_void_p)
        )
        gl.glPixelStorei(GL.UNPACK_ALIGNMENT, 4)

    def _texels(self, array: np.ndarray) -> np.ndarray:
        array, pixels = np.asarray(array), FORMATS[self.format]
        accepted = {pixels.dtype, np.float32} if pixels.dtype is np.float16 else {pixels.dtype}
        if array.ndim == 2:
            array = array[:, :, None]
        if array.ndim == 3 and array.shape[2] == 3 and pixels.channels == 4:
            opaque = np.full((*array.shape[:2], 1), 255 if array.dtype == np.uint8 else 1, array.dtype)
            array = np.concatenate([array, opaque], axis=2)
        wanted = (self.size[1], self.size[0], pixels.channels)
        if self.format == "r32f" and array.dtype == np.float16:
            array = array.astype(np.float32)
        if array.shape != wanted or array.dtype.type not in accepted:
            raise BindingError(
                f"{self.label} takes an array (height, width, channels) of {wanted} and {pixels.dtype.__name__}, "
                f"not {array.shape} of {array.dtype}"
            )
        return np.ascontiguousarray(array, pixels.dtype)

    def read(self, reason: str = "texture readback") -> np.ndarray:
        """The content as an array (height, width, channels) in the texture's dtype, row 0 the top of the picture.

        Waits for the GPU. Counted as ``reason``.
        """
        self._check_usable()
        gl, pixels = self.context.gl, FORMATS[self.format]
        external, gl_type, dtype, channels = pixels.external, pixels.type, pixels.dtype, pixels.channels
        if self.context.is_es:
            # The only layouts that every OpenGL ES driver can give; both hold every value of our formats exactly.
            external, channels = GL.RGBA, 4
            gl_type, dtype = (GL.UNSIGNED_BYTE, np.uint8) if dtype is np.uint8 else (GL.FLOAT, np.float32)
        texels = np.empty((self.size[1], self.size[0], channels), dtype)
        transfers.count("download", texels.nbytes, reason)
        previous = gl.integer(GL.DRAW_FRAMEBUFFER_BINDING)
        gl.glMemoryBarrier(_BUFFER_BARRIERS)
        gl.glBindFramebuffer(GL.FRAMEBUFFER, self.framebuffer())
        gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, 0)
        for name, value in (*_PACK_DEFAULTS, (GL.PACK_ALIGNMENT, 1)):
            gl.glPixelStorei(name, value)
        gl.glReadPixels(0, 0, *self.size, external, gl_type, texels.ctypes.data_as(ctypes.c_void_p))
        gl.glPixelStorei(GL.PACK_ALIGNMENT, 4)
        gl.glBindFramebuffer(GL.FRAMEBUFFER, previous)
        return np.ascontiguousarray(texels[:, :, : pixels.channels].astype(pixels.dtype, copy=False))

    def framebuffer(self) -> int:
        """The GL name of a framebuffer that draws to this texture, made at the first call and kept with it."""
        if not self._framebuffer:
            gl = self.context.gl
            framebuffer = self.context.generate("framebuffer")
            self._own_framebuffer(framebuffer)
            previous = gl.integer(GL.DRAW_FRAMEBUFFER_BINDING)
            gl.glBindFramebuffer(GL.FRAMEBUFFER, framebuffer)
            gl.glFramebufferTexture2D(GL.FRAMEBUFFER, GL.COLOR_ATTACHMENT0, GL.TEXTURE_2D, self.id, 0)
            status = gl.glCheckFramebufferStatus(GL.FRAMEBUFFER)
            gl.glBindFramebuffer(GL.FRAMEBUFFER, previous)
            if status != GL.FRAMEBUFFER_COMPLETE:
                raise DeviceError(
                    f"{self.context} can neither draw to {self.label} nor read it (status 0x{status:04x})"
                )
            self._framebuffer = framebuffer
        return self._framebuffer

    def _own_framebuffer(self, framebuffer: int) -> None:
        # Kept apart from _finalizers, which tell whether the texture itself is ours.
        finalizer = weakref.finalize(self, self.context.defer_delete, "framebuffer", framebuffer)
        finalizer.atexit = False
        self._framebuffer_finalizer = finalizer

    def release(self) -> None:
        """Delete it where we made it, else let go of it. Any thread, more than once."""
        if self._framebuffer:
            self._framebuffer_finalizer()
        super().release()


class GlBuffer(_GlObject):
    """A GL buffer (SSBO). ``GlBuffer(nbytes, data=None)`` makes one in the current context, of zeros or of ``data``.

    ``from_id`` wraps somebody else's. Raises BindingError for an impossible size, DeviceError where no context is
    current or memory runs out.
    """

    size = (0, 0)
    format = ""

    def __init__(self, nbytes: int, data: np.ndarray | None = None, *, label: str = "") -> None:
        context = GlContext.current()
        if nbytes <= 0:
            raise BindingError(f"a buffer of {nbytes} bytes is impossible: it has at least 1")
        id = context.generate("buffer")
        self._adopt(context, "buffer", id, label or f"GL buffer {id} ({nbytes} bytes)")
        self._own("buffer", id)
        self.nbytes = nbytes
        with checked(context, f"making {self.label} of {nbytes} bytes"):
            context.gl.glBindBuffer(GL.COPY_WRITE_BUFFER, id)
            # Whole words: shaders address nothing smaller.
            context.gl.glBufferData(GL.COPY_WRITE_BUFFER, (nbytes + 3) // 4 * 4, None, GL.DYNAMIC_COPY)
            gl_query.clear_buffer(context, id, (nbytes + 3) // 4)
            context.gl.glBindBuffer(GL.COPY_WRITE_BUFFER, 0)
        if data is not None:
            self.write(data)

    @staticmethod
    def from_id(id: int) -> GlBuffer:
        """A buffer that somebody else made, by its GL name in the current context. We never delete it.

        Raises BindingError where the name is no buffer (any more) or the buffer has no storage.
        """
        context = GlContext.current()
        nbytes = gl_query.buffer(context, id)
        buffer = GlBuffer.__new__(GlBuffer)
        buffer._adopt(context, "buffer", id, f"foreign GL buffer {id} ({nbytes} bytes)")
        buffer.nbytes = nbytes
        return buffer

    def check(self) -> None:
        """Raise BindingError where it is released, deleted or resized by its owner; DeviceError off its thread."""
        self._check_usable()
        if not self.is_owned and gl_query.buffer(self.context, self.id) != self.nbytes:
            raise BindingError(f"{self.label} has another size by now: wrap it anew with GlBuffer.from_id")

    def write(self, array: np.ndarray, reason: str = "buffer upload", offset: int = 0) -> None:
        """Copy ``array``'s bytes into the buffer from byte ``offset`` on. Counted as ``reason``."""
        self._check_usable()
        array = np.ascontiguousarray(array)
        self._check_range(offset, array.nbytes)
        transfers.count("upload", array.nbytes, reason)
        if array.nbytes:
            self._upload(array, offset)

    def _upload(self, array: np.ndarray, offset: int) -> None:
        """Through fresh staging memory and a copy on the GPU, which stays behind the GPU work submitted before it.

        NVIDIA 580 lets a glBufferSubData of more than 64 KiB overtake an earlier glClearBufferData.
        """
        context, gl = self.context, self.context.gl
        staging = context.helper("buffer: upload staging", lambda: context.generate("buffer"))
        gl.glBindBuffer(GL.COPY_READ_BUFFER, staging)
        gl.glBufferData(GL.COPY_READ_BUFFER, array.nbytes, array.ctypes.data_as(ctypes.c_void_p), GL.STREAM_DRAW)
        gl.glBindBuffer(GL.COPY_WRITE_BUFFER, self.id)
        gl.glMemoryBarrier(_BUFFER_BARRIERS)
        gl.glCopyBufferSubData(GL.COPY_READ_BUFFER, GL.COPY_WRITE_BUFFER, 0, offset, array.nbytes)
        gl.glBufferData(GL.COPY_READ_BUFFER, 1, None, GL.STREAM_DRAW)  # lets go of the staging memory
        gl.glBindBuffer(GL.COPY_READ_BUFFER, 0)
        gl.glBindBuffer(GL.COPY_WRITE_BUFFER, 0)

    def read(self, dtype: Any = np.float32, reason: str = "buffer readback") -> np.ndarray:
        """The whole content as a one-dimensional array of ``dtype``. Waits for the GPU. Counted as ``reason``."""
        array = np.empty(self.nbytes // np.dtype(dtype).itemsize, dtype)
        self.read_into(array, reason)
        return array

    def read_into(self, array: np.ndarray, reason: str = "buffer readback", offset: int = 0) -> None:
        """Fill a C-contiguous ``array`` with the bytes from ``offset`` on. Waits for the GPU. Counted as ``reason``."""
        self._check_usable()
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise BindingError(f"{self.label} can be read into a writable C-contiguous array only")
        self._check_range(offset, array.nbytes)
        if not array.nbytes:
            return
        transfers.count("download", array.nbytes, reason)
        self._download(array, offset)

    def _download(self, array: np.ndarray, offset: int) -> None:
        """Through staging memory, to which the GPU copies.

        NVIDIA 580 seems to move a buffer that is mapped itself to host memory: frames of deeplabv3 then took 2.6 ms in
        place of 0.41.
        """
        context, gl = self.context, self.context.gl
        staging = context.helper("buffer: download staging", lambda: context.generate("buffer"))
        gl.glBindBuffer(GL.COPY_READ_BUFFER, self.id)
        gl.glBindBuffer(GL.COPY_WRITE_BUFFER, staging)
        if gl_query.bound_nbytes(context, GL.COPY_WRITE_BUFFER) < array.nbytes:
            gl.glBufferData(GL.COPY_WRITE_BUFFER, array.nbytes, None, GL.STREAM_READ)
        gl.glMemoryBarrier(_BUFFER_BARRIERS)
        gl.clear_errors()
        gl.glCopyBufferSubData(GL.COPY_READ_BUFFER, GL.COPY_WRITE_BUFFER, offset, 0, array.nbytes)
        errors = gl.clear_errors()
        address = 0 if errors else gl.glMapBufferRange(GL.COPY_WRITE_BUFFER, 0, array.nbytes, GL.MAP_READ_BIT)
        if address:
            ctypes.memmove(array.ctypes.data, address, array.nbytes)
            gl.glUnmapBuffer(GL.COPY_WRITE_BUFFER)
        gl.glBindBuffer(GL.COPY_READ_BUFFER, 0)
        gl.glBindBuffer(GL.COPY_WRITE_BUFFER, 0)
        if not address:
            raise BindingError(f"{self.label} cannot be read (GL errors {[*map(hex, errors)]}): is it mapped already?")

    def _check_range(self, offset: int, nbytes: int) -> None:
        if offset < 0 or offset + nbytes > self.nbytes:
            raise BindingError(f"bytes {offset} to {offset + nbytes} lie outside {self.label}, which has {self.nbytes}")


def is_gl_object(native: Any) -> bool:
    """Whether ``as_gl_object`` knows such objects."""
    return isinstance(native, GlTexture | GlBuffer) or isinstance(getattr(native, "glo", None), int)


def as_gl_object(native: Any) -> GlTexture | GlBuffer:
    """One of ours as it is; a moderngl texture or buffer (anything with ``glo`` and ``size``) wrapped and kept alive.

    Raises BindingError for everything else, plain ints included: they do not say what they name.
    """
    if isinstance(native, GlTexture | GlBuffer):
        native.check()
        return native
    if isinstance(native, int):
        raise BindingError(
            f"{native} may name a texture or a buffer: pass GlTexture.from_id(...) or GlBuffer.from_id(...)"
        )
    id, size = getattr(native, "glo", None), getattr(native, "size", None)
    if not isinstance(id, int) or size is None:
        raise BindingError(
            f"a {type(native).__name__} is no GL object that framebind knows: wrap its GL name with "
            "GlTexture.from_id(...) or GlBuffer.from_id(...); OpenCL objects need the backend 'opencl'"
        )
    wrapped = GlTexture.from_id(id, *size) if isinstance(size, tuple) else GlBuffer.from_id(id)
    wrapped._keep = native
    return wrapped
