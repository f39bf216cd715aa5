"""OpenCL buffers and images as the user makes, wraps and binds them."""

from __future__ import annotations

import functools
import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from ..errors import BindingError, DeviceError
from ..memory.base import BaseMemory
from ..memory.buffers import BaseBuffer, checked_nbytes
from ..memory.pictures import BasePicture
from ..transfers import transfers
from .api import is_object, own_errors
from .context import ClContext
from .host_copy import ClHostCopy

log = logging.getLogger("framebind")

_ORDER, _TYPE = cl.channel_order, cl.channel_type
IMAGE_FORMATS: dict[str, tuple[int, int, Any]] = {
    "rgba8": (_ORDER.RGBA, _TYPE.UNORM_INT8, np.uint8),
    "rgba16f": (_ORDER.RGBA, _TYPE.HALF_FLOAT, np.float16),
    "rgba32f": (_ORDER.RGBA, _TYPE.FLOAT, np.float32),
    "r8": (_ORDER.R, _TYPE.UNORM_INT8, np.uint8),
    "r32f": (_ORDER.R, _TYPE.FLOAT, np.float32),
    "bgra8": (_ORDER.BGRA, _TYPE.UNORM_INT8, np.uint8),
    "rg8": (_ORDER.RG, _TYPE.UNORM_INT8, np.uint8),
    "r16": (_ORDER.R, _TYPE.UNORM_INT16, np.uint16),
    "rg16": (_ORDER.RG, _TYPE.UNORM_INT16, np.uint16),
    "rgba16": (_ORDER.RGBA, _TYPE.UNORM_INT16, np.uint16),
    "r16f": (_ORDER.R, _TYPE.HALF_FLOAT, np.float16),
}
"""OpenCL's channel order and channel type, and the NumPy type of a channel, by format."""
INPUT_FORMATS = frozenset({"rg8", "r16", "rg16", "rgba16", "r16f"})
"""The formats of images that kernels only read: planes of video, and pictures that other libraries made."""
_POCL = "Portable Computing Language"
_FLAGS, _KINDS = cl.mem_flags, cl.mem_object_type


class Partner(Protocol):
    """The other API of shared memory. It is called before and after each run that uses the memory."""

    def before_run(self, uses: Sequence[Use]) -> None: ...
    def after_run(self, uses: Sequence[Use]) -> None: ...


class _ClObject(BaseMemory[ClContext]):
    """Base of buffers and images: a reference to the memory, given up on release or at the end of a ``with`` block.

    OpenCL counts references: memory that another library made stays alive while we hold it, and we never free it.
    """

    partner: Partner | None = None

    def _adopt(self, memory: Any, keep: Any) -> None:
        self._memory: cl.MemoryObjectHolder | None = memory
        self._keep = keep
        # Asked once, not at each binding.
        self._context: int = memory.context.int_ptr
        self._flags: int = memory.flags
        self.place: int = memory.int_ptr
        """The cl_mem, for calls after those that have checked it."""
        self.handle: Hashable = self.place
        """The cl_mem: objects with equal handles are the same memory."""
        self.released = False
        """True once the reference was given up. An attribute, not a property, because each run reads it."""

    @property
    def memory(self) -> Any:
        """The pyopencl Buffer or Image. Raises BindingError after ``release``."""
        if self._memory is None:
            raise BindingError(f"{self.label} is released: make a new one")
        return self._memory

    @property
    def int_ptr(self) -> int:
        """The cl_mem. Raises BindingError after ``release``."""
        return self.place if self._memory is not None else self.memory.int_ptr

    def release(self) -> None:
        """Let go of it; OpenCL frees it when nobody else holds it and no submitted work uses it. More than once."""
        self._memory = self._keep = None
        self.released = True

    def _current_context(self) -> ClContext:
        context, _ = ClContext.current(), self.memory
        if not self.belongs_to(context):
            raise DeviceError(
                f"{self.label} belongs to another context than {context}, which is current: make its own "
                "context current"
            )
        return context

    def belongs_to(self, context: ClContext) -> bool:
        """Whether the memory was made in the OpenCL context of ``context``."""
        return self._context == context.handle

    @functools.cached_property
    def compatibility_key(self) -> Hashable:
        """Key that is equal for objects that may replace one another in a slot without checks.

        None for memory with a partner, which is called before each run.
        """
        if self.partner is not None:
            return None
        described = self.format, self.size, self.nbytes, self.layout
        return type(self), self._context, self._flags, *described

    def check_access(self, access: str, where: str) -> None:
        """Raise BindingError if it was made for kernels that only read (or only write) and ``access`` says else."""
        if ("w" in access and self._flags & _FLAGS.READ_ONLY) or ("r" in access and self._flags & _FLAGS.WRITE_ONLY):
            made, needed = ("READ_ONLY", "write") if "w" in access else ("WRITE_ONLY", "read")
            raise BindingError(f"{where}: {self.label} is {made}, and kernels must {needed} it: make it READ_WRITE")


class ClBuffer(_ClObject, BaseBuffer[ClContext]):
    """An OpenCL buffer. ``pyopencl`` buffers and arrays are bound as they are, without this class.

    Parameters
    ----------
    memory : pyopencl.MemoryObjectHolder
        The buffer.
    nbytes : int
        Size in bytes, from its beginning.
    label : str
        Description for error messages.
    keep : object, optional
        An object that is kept alive along with it.

    Raises
    ------
    BindingError
        If the memory is smaller.

    Examples
    --------
    >>> with fb.cl.ClContext("pocl"):
    ...     fb.cl.ClBuffer.from_array(np.ones(4, np.float32)).nbytes
    16
    """

    def __init__(self, memory: cl.MemoryObjectHolder, nbytes: int, label: str, keep: Any = None) -> None:
        if not 0 < nbytes <= memory.size:
            raise BindingError(f"{label} of {nbytes} bytes cannot be made of memory of {memory.size} bytes")
        self._adopt(memory, keep)
        self._hold(nbytes)
        self.label = label

    @staticmethod
    def from_int_ptr(pointer: int, nbytes: int | None = None) -> ClBuffer:
        """Wrap a buffer that somebody else made (C, OpenCV's ``UMat.handle``). It stays alive until it is released.

        Parameters
        ----------
        pointer : int
            The cl_mem. Other numbers crash.
        nbytes : int, optional
            The size, which must be that of the buffer.

        Returns
        -------
        ClBuffer
            Holds a reference of its own to the memory.

        Raises
        ------
        BindingError
            If the size differs, or the object is no buffer.
        """
        memory = _retained(pointer, cl.Buffer)
        _check_kind(memory, _KINDS.BUFFER)
        found = int(memory.size)
        if nbytes not in (None, found):
            raise BindingError(f"OpenCL buffer {pointer:#x} has {found} bytes, not {nbytes}")
        buffer = ClBuffer(memory, found, f"OpenCL buffer {pointer:#x} ({found} bytes)")
        whole = memory.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT)
        if whole is not None:
            buffer.handle, buffer.offset = whole.int_ptr, int(memory.get_info(cl.mem_info.OFFSET))
        return buffer

    @classmethod
    def _made(cls, shape: Sequence[int], dtype: npt.DTypeLike, label: str) -> ClBuffer:
        context, nbytes = ClContext.current(), checked_nbytes(shape, dtype, label)
        with own_errors(f"making a buffer of {nbytes} bytes in {context}"):
            memory = cl.Buffer(context.context, _FLAGS.READ_WRITE, nbytes)
        made = cls(memory, nbytes, label or f"OpenCL buffer {memory.int_ptr:#x} ({nbytes} bytes)")
        made._hold(nbytes, shape, dtype)
        return made

    def _copy_in(self, context: ClContext, array: np.ndarray, offset: int) -> None:
        with own_errors(f"writing to {self.label}"):
            # Blocking: the caller may change the array as soon as this returns.
            cl.enqueue_copy(context.queue, self.memory, array, dst_offset=offset, is_blocking=True)

    def _copy_out(self, context: ClContext, array: np.ndarray, offset: int) -> None:
        with own_errors(f"reading {self.label}"):
            cl.enqueue_copy(context.queue, array, self.memory, src_offset=offset, is_blocking=True)

    def _host_copy(self, context: ClContext) -> ClHostCopy:
        return ClHostCopy(context, self.memory, self.nbytes, self.label)


class ClImage(_ClObject, BasePicture[ClContext]):
    """A 2-D OpenCL image: rgba8, rgba16f, rgba32f, r8, r32f or bgra8. Row 0 is the top of the picture.

    ``pyopencl`` images are bound as they are, without this class.

    Parameters
    ----------
    memory : pyopencl.Image
        The image.
    label : str, optional
        Description for error messages.
    keep : object, optional
        An object that is kept alive along with it.

    Raises
    ------
    BindingError
        If it has another format.

    Examples
    --------
    >>> with fb.cl.ClContext("pocl"):
    ...     image = fb.cl.ClImage.from_array(np.zeros((48, 64, 4), np.uint8))
    ...     image.size, image.format
    ((64, 48), 'rgba8')
    """

    def __init__(self, memory: Any, label: str = "", keep: Any = None) -> None:
        given = (memory.format.channel_order, memory.format.channel_data_type)
        formats = [name for name, (*wanted, _) in IMAGE_FORMATS.items() if tuple(wanted) == given]
        if not formats:
            raise BindingError(
                f"an OpenCL image of {memory.format} cannot be bound: copy it to one of {', '.join(IMAGE_FORMATS)}"
            )
        if formats[0] == "r16f" and memory.context.devices[0].platform.name == _POCL:
            raise BindingError("PoCL reads images of one half per pixel wrongly: take r32f or rgba16f")
        self._adopt(memory, keep)
        self.format, self.size = formats[0], (int(memory.width), int(memory.height))
        described = f"OpenCL image {memory.int_ptr:#x} ({self.size[0]}x{self.size[1]} {self.format})"
        self.label = label or described

    @staticmethod
    def from_int_ptr(pointer: int) -> ClImage:
        """Wrap an image that somebody else made. It stays alive until it is released.

        Parameters
        ----------
        pointer : int
            The cl_mem. Other numbers crash.

        Returns
        -------
        ClImage
            The image, with a reference of its own to the memory.

        Raises
        ------
        BindingError
            If the object is no 2-D image of a supported format.
        """
        memory = _retained(pointer, cl.Image)
        _check_kind(memory, _KINDS.IMAGE2D)
        return ClImage(memory)

    @classmethod
    def _made(cls, width: int, height: int, format: str, label: str) -> ClImage:
        return cls(image_memory(ClContext.current(), width, height, format), label)

    def _channel_type(self) -> npt.DTypeLike:
        return IMAGE_FORMATS[self.format][2]

    def _copy_in(self, context: ClContext, texels: np.ndarray, reason: str) -> None:
        transfers.count("upload", texels.nbytes, reason)
        with own_errors(f"writing to {self.label}"):
            cl.enqueue_copy(context.queue, self.memory, texels, origin=(0, 0), region=self.size, is_blocking=True)

    def _copy_out(self, context: ClContext, texels: np.ndarray, reason: str) -> None:
        transfers.count("download", texels.nbytes, reason)
        with own_errors(f"reading {self.label}"):
            cl.enqueue_copy(context.queue, texels, self.memory, origin=(0, 0), region=self.size, is_blocking=True)


def image_memory(context: ClContext, width: int, height: int, format: str) -> cl.Image:
    """The memory of a new image. Raises BindingError for an unknown format or an impossible size, else DeviceError."""
    if format not in IMAGE_FORMATS:
        raise BindingError(f"there is no texture format '{format}': take one of {', '.join(IMAGE_FORMATS)}")
    order, kind, _ = IMAGE_FORMATS[format]
    try:
        return cl.create_image(context.context, _FLAGS.READ_WRITE, cl.ImageFormat(order, kind), (width, height))
    except cl.Error as error:
        size = f"{width} x {height} texels"
        raise BindingError(f"{context} makes no image of {size}, {format}: {error}") from error


@dataclass(frozen=True)
class Use:
    """Use of an object with a partner in a run: "r", "w" or "rw", and how many of a buffer's bytes."""

    resource: ClBuffer | ClImage
    access: str
    nbytes: int


def _retained(pointer: int, kind: Any) -> Any:
    if not pointer:
        raise BindingError("a cl_mem of 0 is no memory object: it was never made")
    try:
        if is_object(pointer):
            return kind.from_int_ptr(pointer, retain=True)
    except cl.Error as error:
        log.debug(f"OpenCL does not take {pointer:#x}: {error}")
    raise BindingError(f"OpenCL object {pointer:#x} is released, or no memory object: bind one that is alive")


def _check_kind(memory: Any, kind: int) -> None:
    if memory.type != kind:
        found, needed = (_KINDS.to_string(k) for k in (memory.type, kind))
        raise BindingError(f"OpenCL object {memory.int_ptr:#x} is of type {found}, and {needed} is needed")
