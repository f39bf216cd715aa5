"""GL buffers, made by us or wrapped."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence
from numbers import Integral
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from ..deprecated import warn_deprecated
from ..errors import BindingError, DeviceError
from ..memory.buffers import BaseBuffer, checked_nbytes
from . import query as gl_query
from .context import GlContext
from .gl_object import COPY_BARRIERS, GlObject
from .host_copy import GlHostCopy
from .khronos import GL
from .mapping import map_buffer, unmap_buffer
from .query import checked
from .state import copied_buffers, kept


class GlBuffer(GlObject, BaseBuffer[GlContext]):
    """A GL buffer that kernels read and write (a shader storage buffer).

    The constructor makes one in the current context; ``from_id`` wraps a buffer that somebody else made. It is deleted
    when it is released or collected. In a context of framebind's own, calls leave the bindings for copies between
    buffers at 0; in somebody else's all GL state is afterwards as it was.

    Parameters
    ----------
    nbytes : int
        Size in bytes.
    data : numpy.ndarray, optional
        Content from byte 0 on. Everything else is zero.
    label : str, optional
        Description for error messages.

    Attributes
    ----------
    id : int
        GL name.
    nbytes : int
        Size in bytes.
    offset : int
        The byte of the GL buffer at which it begins: 0 unless it is a part of one.
    context : GlContext
        The context that it lives in.

    Raises
    ------
    BindingError
        If the size is impossible.
    DeviceError
        If no context is current on this thread, or GPU memory runs out.

    Examples
    --------
    >>> with fb.GlContext.headless():
    ...     buffer = fb.GlBuffer(16, np.array([1, 2], np.float32))
    ...     buffer.read()
    array([1., 2., 0., 0.], dtype=float32)
    """

    def __init__(self, nbytes: int, data: np.ndarray | None = None, *, label: str = "") -> None:
        if not isinstance(nbytes, Integral) or nbytes <= 0:
            raise BindingError(f"a buffer of {nbytes} bytes is impossible: it is a whole number of at least 1")
        context, id = self._generate(nbytes, label), self.id
        with kept(context, copied_buffers), checked(context, f"making {self.label} of {nbytes} bytes"):
            context.gl.glBindBuffer(GL.COPY_WRITE_BUFFER, id)
            # Whole words, because shaders address nothing smaller.
            context.gl.glBufferData(GL.COPY_WRITE_BUFFER, (nbytes + 3) // 4 * 4, None, GL.DYNAMIC_COPY)
            gl_query.clear_buffer(context, id, (nbytes + 3) // 4)
            context.gl.glBindBuffer(GL.COPY_WRITE_BUFFER, 0)
        if data is not None:
            self.write(data)

    def _generate(self, nbytes: int, label: str) -> GlContext:
        """Take a new name in the current context."""
        context = GlContext.current()
        id = context.objects.generate("buffer")
        self._adopt(context, "buffer", id, label or f"GL buffer {id} ({nbytes} bytes)")
        self._own("buffer", id)
        self._hold(nbytes)
        self._whole = nbytes
        return context

    @classmethod
    def without_storage(cls, nbytes: int, label: str) -> GlBuffer:
        """Make a buffer of the current context that has no memory yet: the caller gives it some."""
        buffer = cls.__new__(cls)
        buffer._generate(nbytes, label)
        return buffer

    def _content(self) -> str:
        return f"{self.nbytes} bytes" if self.is_whole else f"{self.nbytes} bytes from byte {self.offset}"

    @classmethod
    def _made(cls, shape: Sequence[int], dtype: npt.DTypeLike, label: str) -> GlBuffer:
        nbytes = checked_nbytes(shape, dtype, label)
        made = cls(nbytes, label=label)
        made._hold(nbytes, shape, dtype)
        return made

    @staticmethod
    def from_id(id: int, offset: int = 0, nbytes: int | None = None) -> GlBuffer:
        """Wrap a buffer that somebody else made, or a part of it. It is never deleted by us.

        Parameters
        ----------
        id : int
            Its GL name in the current context.
        offset : int
            First byte of the part: a multiple of GL_SHADER_STORAGE_BUFFER_OFFSET_ALIGNMENT.
        nbytes : int, optional
            Size of the part; by default up to the buffer's end.

        Raises
        ------
        BindingError
            If the name is no buffer, the buffer has no storage, or the part lies outside or begins elsewhere.

        Examples
        --------
        >>> with fb.GlContext.headless():
        ...     whole = fb.GlBuffer(1024)
        ...     part = fb.GlBuffer.from_id(whole.id, offset=256, nbytes=16)
        ...     part.write(np.ones(4, np.float32))
        ...     whole.read()[63:69]
        array([0., 1., 1., 1., 1., 0.], dtype=float32)
        """
        context, id = GlContext.current(), gl_query.gl_name_of(id)
        whole = gl_query.buffer(context, id)
        nbytes = whole - offset if nbytes is None else nbytes
        label = f"foreign GL buffer {id} ({whole} bytes)"
        if offset or nbytes != whole:
            _check_part(context, label, whole, offset, nbytes)
            label = f"bytes {offset} to {offset + nbytes} of {label}"
        buffer = GlBuffer.__new__(GlBuffer)
        buffer._adopt(context, "buffer", id, label)
        buffer._hold(nbytes)
        buffer.offset, buffer._whole = offset, whole
        return buffer

    @property
    def is_whole(self) -> bool:
        """Whether this is all of a GL buffer, not a part."""
        return self.nbytes == self._whole

    @property
    def bound_nbytes(self) -> int:
        """Bytes that a shader may address: whole words of a buffer of ours."""
        return (self.nbytes + 3) // 4 * 4 if self.is_owned else self.nbytes

    def check(self) -> None:
        """Check that the buffer can be used here.

        Raises
        ------
        BindingError
            If it is released, or if its owner deleted or resized it.
        DeviceError
            On another thread, or with another context current.
        """
        self._check_usable()
        if not self.is_owned:
            self.check_unchanged()

    def check_unchanged(self) -> None:
        """Raise BindingError if its owner deleted it or gave it another size. Asks GL if it is not ours."""
        if self.is_owned or gl_query.is_still_buffer(self.context, self.id, self._whole):
            return
        gl_query.buffer(self.context, self.id)
        raise BindingError(f"{self.label} has another size by now: wrap it anew with GlBuffer.from_id")

    def _current_context(self) -> GlContext:
        self.check()
        return self.context

    def _copy_in(self, context: GlContext, array: np.ndarray, offset: int) -> None:
        """Write through fresh staging memory and a copy on the GPU, which stays behind the work submitted before it.

        NVIDIA 580 lets a glBufferSubData of more than 64 KiB overtake an earlier glClearBufferData.
        """
        gl = context.gl
        staging = context.objects.once("buffer", "upload staging", lambda: context.objects.generate("buffer"))
        gl.clear_errors()
        with kept(context, copied_buffers):
            gl.glBindBuffer(GL.COPY_READ_BUFFER, staging)
            gl.glBufferData(GL.COPY_READ_BUFFER, array.nbytes, array.ctypes.data_as(ctypes.c_void_p), GL.STREAM_DRAW)
            gl.glBindBuffer(GL.COPY_WRITE_BUFFER, self.id)
            gl.glMemoryBarrier(COPY_BARRIERS)
            gl.glCopyBufferSubData(GL.COPY_READ_BUFFER, GL.COPY_WRITE_BUFFER, 0, self.offset + offset, array.nbytes)
            gl.glBufferData(GL.COPY_READ_BUFFER, 1, None, GL.STREAM_DRAW)  # frees the staging memory
            gl.glBindBuffer(GL.COPY_READ_BUFFER, 0)
            gl.glBindBuffer(GL.COPY_WRITE_BUFFER, 0)
        error = gl.glGetError()
        if error:
            self._raise_uncopied("written", [error, *gl.clear_errors()])

    def read_into(self, array: np.ndarray, reason: str = "buffer readback", offset: int = 0) -> None:
        """Fill an array with bytes of the buffer. Deprecated since 0.2.0: use ``read(array)``."""
        warn_deprecated("GlBuffer.read_into(array, reason, offset)", "read(out, offset=..., reason=...)")
        self.read(array, offset=offset, reason=reason)

    def _copy_out(self, context: GlContext, array: np.ndarray, offset: int) -> None:
        """Read through staging memory, to which the GPU copies.

        NVIDIA 580 seems to move a buffer that is mapped itself to host memory: frames of deeplabv3 then took 2.6 ms in
        place of 0.41.
        """
        gl = context.gl
        staging = context.objects.once("buffer", "download staging", lambda: context.objects.generate("buffer"))
        with kept(context, copied_buffers):
            gl.glBindBuffer(GL.COPY_READ_BUFFER, self.id)
            gl.glBindBuffer(GL.COPY_WRITE_BUFFER, staging)
            unmap_buffer(context, GL.COPY_WRITE_BUFFER, staging)  # left by a read that was interrupted
            if gl_query.bound_nbytes(context, GL.COPY_WRITE_BUFFER) < array.nbytes:
                gl.glBufferData(GL.COPY_WRITE_BUFFER, array.nbytes, None, GL.STREAM_READ)
            gl.glMemoryBarrier(COPY_BARRIERS)
            gl.clear_errors()
            gl.glCopyBufferSubData(GL.COPY_READ_BUFFER, GL.COPY_WRITE_BUFFER, self.offset + offset, 0, array.nbytes)
            errors = gl.clear_errors()
            address = 0
            try:
                if not errors:
                    address = map_buffer(context, GL.COPY_WRITE_BUFFER, staging, array.nbytes, GL.MAP_READ_BIT)
                if address:
                    ctypes.memmove(array.ctypes.data, address, array.nbytes)
            finally:
                unmap_buffer(context, GL.COPY_WRITE_BUFFER, staging)
            gl.glBindBuffer(GL.COPY_READ_BUFFER, 0)
            gl.glBindBuffer(GL.COPY_WRITE_BUFFER, 0)
        if not address:
            self._raise_uncopied("read", errors or gl.clear_errors())
        gl_query.raise_if_reset(context)

    def _raise_uncopied(self, done: str, errors: Collection[int]) -> NoReturn:
        """Raise DeviceError if GL's errors say that the context is lost or memory is full, else BindingError."""
        gl_query.raise_if_lost(self.context, errors)
        if GL.OUT_OF_MEMORY in errors:
            raise DeviceError(f"{self.label} cannot be {done}: {self.context} is out of GPU memory")
        raise BindingError(f"{self.label} cannot be {done} (GL errors {[*map(hex, errors)]}): is it mapped already?")

    def _host_copy(self, context: GlContext) -> GlHostCopy:
        return GlHostCopy(context, self.id, self.offset, self.nbytes)


def _check_part(context: GlContext, label: str, whole: int, offset: int, nbytes: int) -> None:
    """Raise BindingError if kernels cannot address these bytes of a buffer alone."""
    alignment = context.gl.integer(GL.SHADER_STORAGE_BUFFER_OFFSET_ALIGNMENT)
    if offset < 0 or nbytes <= 0 or offset + nbytes > whole:
        raise BindingError(f"bytes {offset} to {offset + nbytes} are no part of {label}")
    if offset % alignment:
        raise BindingError(
            f"a part of {label} cannot begin at byte {offset}: here it begins at a multiple of {alignment} "
            "(GL_SHADER_STORAGE_BUFFER_OFFSET_ALIGNMENT)"
        )
