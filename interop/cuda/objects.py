"""CUDA memory as the user makes, wraps and binds it: the base of arrays and pictures, and pictures."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...kernels.views import TEXTURE_CHANNELS
from ..arrays import SLICE_ALIGNMENT
from ..errors import BindingError, DeviceError
from ..memory.base import BaseMemory
from ..memory.pictures import BasePicture
from ..transfers import transfers
from .api import ask, check, driver
from .context import CudaContext

IMAGE_FORMATS: dict[str, Any] = {
    "rgba8": np.uint8, "rgba16f": np.float16, "rgba32f": np.float32, "r8": np.uint8, "r32f": np.float32,
    "bgra8": np.uint8,
}  # fmt: skip
"""The NumPy type of a channel, by the format of a picture."""
_BUFFER_ID, _DEVICE_ORDINAL, _RANGE_START, _RANGE_SIZE = 7, 9, 11, 12
"""CU_POINTER_ATTRIBUTE_BUFFER_ID, which no other allocation has, and so on."""
_PITCH = 64
"""The pitch of our own pictures is a multiple of so many bytes."""


class CudaObject(BaseMemory[CudaContext]):
    """Base of arrays and pictures: a range of a GPU's memory, owned or borrowed, given up on release."""

    pitch = 0
    """Bytes from a row of a picture to the next."""
    read_only = False

    def _adopt(self, pointer: int, device: int, keep: Any, nbytes: int) -> None:
        self._pointer, self.device, self._keep = pointer, device, keep
        self.released = pointer == 0
        """True once the memory was given up. An attribute, not a property, because each run reads it."""
        self._unkept: int | None = None
        """The id of the allocation if nothing of ours keeps it alive, else None."""
        if isinstance(keep, Allocation | Lent):
            start = keep.pointer
        else:
            start = _check_memory(pointer, nbytes, device, self.label)
            self._unkept = attribute_of(pointer, _BUFFER_ID) if keep is None else None
        self.handle: Hashable = start
        """The address at which the allocation begins: two arrays in one allocation have the same handle."""
        self.place = pointer, self.pitch
        """The values that a launch takes for it: pointer and pitch."""
        self.offset = pointer - start

    @property
    def is_kept(self) -> bool:
        """Whether the memory cannot be freed while it is in use."""
        return self._unkept is None

    def check_allocated(self) -> None:
        """Raise BindingError if its owner has freed the memory."""
        if self._unkept is not None and attribute_of(self.pointer, _BUFFER_ID) != self._unkept:
            raise BindingError(f"{self.label} was freed by its owner: bind memory that lives, and keep it")

    @property
    def pointer(self) -> int:
        """The CUdeviceptr at which it begins. Raises BindingError after ``release``."""
        if self.released:
            raise BindingError(f"{self.label} is released: make a new one")
        return self._pointer

    def release(self) -> None:
        """Free it after the work that uses it, or let go of it if it is borrowed. May be called more than once."""
        self.released, self._pointer, self._keep = True, 0, None

    def _current_context(self) -> CudaContext:
        context, _ = CudaContext.current(), self.pointer
        if not self.belongs_to(context):
            raise DeviceError(
                f"{self.label} is on CUDA device {self.device}, and {context}, which is current, on "
                f"{context.device}: make a context of its own GPU current"
            )
        return context

    def belongs_to(self, context: CudaContext) -> bool:
        """Whether the memory is that of the GPU of ``context``."""
        return self.device == context.device

    @functools.cached_property
    def compatibility_key(self) -> Hashable:
        """Key that is equal for objects that may replace one another in a slot without checks.

        None for memory that its owner may free.
        """
        if not self.is_kept:
            return None
        described = self.format, self.size, self.nbytes, self.layout
        return type(self), self.device, self.read_only, self._pointer % SLICE_ALIGNMENT, *described

    def check_access(self, access: str, where: str) -> None:
        """Raise BindingError if it is read-only and ``access`` says that kernels write it."""
        if self.read_only and "w" in access:
            raise BindingError(f"{where}: {self.label} is read-only, and kernels must write it: bind a copy")


class CudaImage(CudaObject, BasePicture[CudaContext]):
    """A picture in a GPU's memory: rows of texels, rgba8, rgba16f, rgba32f, r8, r32f or bgra8. Row 0 is the top.

    Parameters
    ----------
    pointer : int
        The CUdeviceptr of the first row.
    width, height : int
        The size in texels.
    format : str
        The format of a texel.
    pitch : int
        Bytes from a row to the next.
    device : int
        The number of the GPU.
    label : str, optional
        Description for error messages.
    keep : object, optional
        An object that is kept alive along with it.

    Raises
    ------
    BindingError
        If the format is another one, or rows overlap or begin at odd addresses.
    DeviceError
        If the pointer is no memory that CUDA knows.

    Examples
    --------
    >>> import contextlib
    >>> with contextlib.suppress(fb.DeviceError):  # there may be no GPU of NVIDIA
    ...     with fb.cuda.CudaContext():
    ...         frame = fb.cuda.CudaImage.from_array(np.zeros((48, 64, 4), np.uint8))
    """

    def __init__(
        self,
        pointer: int,
        width: int,
        height: int,
        format: str,
        *,
        pitch: int,
        device: int,
        label: str = "",
        keep: Any = None,
    ) -> None:
        texel = texel_bytes(format)
        if pitch < width * texel or pitch % texel or pointer % texel:
            raise BindingError(
                f"rows of {width} texels, {format}, at {pointer:#x} with {pitch} bytes from one to the next, cannot be "
                f"a picture: they overlap, or texels do not begin at multiples of {texel} bytes"
            )
        self.size, self.format, self.pitch = (width, height), format, pitch
        self.label = label or f"CUDA picture {pointer:#x} ({width}x{height} {format})"
        self._adopt(pointer, device, keep, pitch * (height - 1) + width * texel)

    @classmethod
    def _made(cls, width: int, height: int, format: str, label: str) -> CudaImage:
        return new_image(CudaContext.current(), width, height, format, label)

    def _channel_type(self) -> npt.DTypeLike:
        return IMAGE_FORMATS[self.format]

    def _copy_in(self, context: CudaContext, texels: np.ndarray, reason: str) -> None:
        """Copy rows of ``pitch`` bytes, which are counted."""
        rows = np.zeros((self.size[1], self.pitch), np.uint8)
        rows[:, : texels[0].nbytes] = texels.reshape(self.size[1], -1).view(np.uint8)
        transfers.count("upload", rows.nbytes, reason)
        upload(context, self.pointer, rows)

    def _copy_out(self, context: CudaContext, texels: np.ndarray, reason: str) -> None:
        rows = np.empty((self.size[1], self.pitch), np.uint8)
        transfers.count("download", rows.nbytes, reason)
        download(context, self.pointer, rows)
        texels[...] = np.ascontiguousarray(rows[:, : texels[0].nbytes]).view(texels.dtype).reshape(texels.shape)


def new_image(context: CudaContext, width: int, height: int, format: str, label: str = "") -> CudaImage:
    """A picture of undefined content in the GPU of a context, current or not. Raises DeviceError if memory runs out."""
    if width <= 0 or height <= 0:
        raise BindingError(f"a texture of {width} x {height} texels is impossible: each side is at least 1")
    pitch = -(-width * texel_bytes(format) // _PITCH) * _PITCH
    memory = Allocation(context, pitch * height, label or f"a CUDA picture of {width}x{height}")
    return CudaImage(
        memory.pointer, width, height, format, pitch=pitch, device=context.device, label=label, keep=memory
    )


# Memory ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lent:
    """Memory that begins at ``pointer`` and that its owner is known to keep: CUDA is not asked for it."""

    pointer: int
    owner: Any


def texel_bytes(format: str) -> int:
    """Bytes of a texel. Raises BindingError for a format that pictures do not have."""
    if format not in IMAGE_FORMATS:
        raise BindingError(f"CUDA pictures are {', '.join(IMAGE_FORMATS)}, not '{format}'")
    return TEXTURE_CHANNELS[format] * np.dtype(IMAGE_FORMATS[format]).itemsize


def attribute_of(pointer: int, attribute: int) -> int | None:
    """A CU_POINTER_ATTRIBUTE of memory; None if CUDA knows no memory there."""
    found = ctypes.c_uint64()
    return None if driver().cuPointerGetAttribute(ctypes.byref(found), attribute, pointer) else found.value


def device_at(pointer: int) -> int | None:
    """The number of the GPU in whose memory an address lies; None if CUDA knows no memory there."""
    return attribute_of(pointer, _DEVICE_ORDINAL)


def _check_memory(pointer: int, nbytes: int, device: int, what: str) -> int:
    """The beginning of the allocation in which a range of a GPU's memory lies. Raises BindingError if it is in none."""
    found = [attribute_of(pointer, attribute) for attribute in (_DEVICE_ORDINAL, _RANGE_START, _RANGE_SIZE)]
    number, start, size = found
    if number is None or start is None or size is None:
        raise BindingError(f"{what} cannot be bound: {pointer:#x} is no memory of CUDA, or was freed")
    if number != device:
        raise BindingError(f"{what} cannot be bound: {pointer:#x} is memory of CUDA device {number}, not {device}")
    if pointer + nbytes > start + size:
        raise BindingError(f"{what} cannot be bound: its {nbytes} bytes end behind the memory at {pointer:#x}")
    return start


class Allocation:
    """Memory of a GPU, freed when nobody holds it any more, from any thread. CUDA waits for the work that uses it.

    Raises DeviceError if there is no room.
    """

    def __init__(self, context: CudaContext, nbytes: int, label: str) -> None:
        context.check()
        if nbytes <= 0:
            raise BindingError(f"'{label}' of {nbytes} bytes is impossible: it has at least 1")
        with context.entered():
            what = f"making room for '{label}' of {nbytes} bytes in {context}"
            self.pointer: int = ask(driver().cuMemAlloc_v2, ctypes.c_uint64, nbytes, what=what)
        context.finalize(self, driver().cuMemFree_v2, self.pointer)


def upload(context: CudaContext, pointer: int, array: np.ndarray) -> None:
    """Copy a C-contiguous array into a GPU's memory after what was submitted before. It waits: the caller may change
    the array afterwards.
    """
    with context.entered():
        cuda, what = driver(), f"writing {array.nbytes} bytes in {context}"
        check(cuda.cuMemcpyHtoDAsync_v2(pointer, array.ctypes.data, array.nbytes, context.stream), what)
        check(cuda.cuStreamSynchronize(context.stream), what)


def download(context: CudaContext, pointer: int, array: np.ndarray) -> None:
    """Copy a GPU's memory into a C-contiguous array after what was submitted before."""
    with context.entered():
        cuda, what = driver(), f"reading {array.nbytes} bytes in {context}"
        context.sleep()
        check(cuda.cuMemcpyDtoHAsync_v2(array.ctypes.data, pointer, array.nbytes, context.stream), what)
        check(cuda.cuStreamSynchronize(context.stream), what)
