"""The OpenCL objects that can be bound to tensors: ours, and pyopencl's buffers, images and arrays."""

from __future__ import annotations

import sys
from typing import Any

import pyopencl as cl

from ..arrays import array_layout
from ..backends import advice_on_others
from ..errors import BindingError
from .api import own_errors
from .objects import ClBuffer, ClImage


def is_cl_object(native: Any) -> bool:
    """Whether an object is OpenCL's, so that ``as_cl_object`` takes it or says why not."""
    return isinstance(native, ClBuffer | ClImage | cl.MemoryObjectHolder) or _is_array(native)


def as_cl_object(native: Any) -> ClBuffer | ClImage:
    """Take a ClBuffer or ClImage as it is; wrap a pyopencl Buffer, Image or Array, which is kept alive.

    Raises BindingError for everything else.
    """
    if isinstance(native, ClBuffer | ClImage):
        return native
    if _is_array(native):
        return _array(native)
    if not isinstance(native, cl.MemoryObjectHolder):
        wrap = "wrap a cl_mem with ClBuffer.from_int_ptr(...) or ClImage.from_int_ptr(...)"
        if isinstance(native, int):
            raise BindingError(f"{native} may be a buffer or an image: {wrap}")
        raise BindingError(
            f"a {type(native).__name__} is no OpenCL object that framebind knows: bind a pyopencl Buffer, Image or "
            f"Array, or {wrap}; {advice_on_others('opencl')}"
        )
    # References of our own: the user's object may be released while the model still runs with it.
    if isinstance(native, cl.Image):
        image = ClImage.from_int_ptr(native.int_ptr)
        image._keep = native
        return image
    buffer = ClBuffer.from_int_ptr(native.int_ptr)
    buffer._keep = native
    return buffer


def _is_array(native: Any) -> bool:
    arrays = sys.modules.get("pyopencl.array")  # an expensive import, and whoever has an array has made it
    return arrays is not None and isinstance(native, arrays.Array)


def _array(array: Any) -> ClBuffer:
    what = f"a pyopencl array of {array.shape} {array.dtype}"
    layout = array_layout(what, int(array.offset), array.shape, array.dtype, array.strides)
    buffer = as_cl_object(array.base_data)
    assert isinstance(buffer, ClBuffer)
    if array.offset:
        buffer = _part(buffer, int(array.offset), layout.nbytes, what)
    # Memory pools round sizes up: what counts is what the array fills.
    buffer.nbytes, buffer.layout = layout.nbytes, layout
    buffer.label, buffer._keep = f"OpenCL array {array.shape}", array
    return buffer


def _part(buffer: ClBuffer, offset: int, nbytes: int, what: str) -> ClBuffer:
    """A part of a buffer as a buffer of its own. The offset is checked here, because rusticl 22.3 accepts any, and
    kernels read float4.
    """
    alignment = max(device.mem_base_addr_align for device in buffer.memory.context.devices) // 8
    if offset % alignment:
        raise BindingError(
            f"{what} cannot be bound: it begins at byte {offset} of its buffer, and OpenCL takes parts that begin at "
            f"multiples of {alignment}; use array.copy()"
        )
    with own_errors(f"taking bytes {offset} to {offset + nbytes} of {buffer.label}"):
        memory = buffer.memory.get_sub_region(offset, nbytes)
    part = ClBuffer(memory, nbytes, what)
    part.handle, part.offset = buffer.handle, buffer.offset + offset
    return part
