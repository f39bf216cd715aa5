"""GL objects in models on CUDA. They are mapped for each run, and copied on the GPU to and from CUDA memory beside
them.

The GPU switches from the GL context to the CUDA context and back for that, which takes longer than a small model:
docs/cuda.md. No byte crosses the host.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import BindingError
from ..gl.buffer import GlBuffer
from ..gl.context import GlContext
from ..gl.gl_backed import GlBacked
from ..gl.khronos import GL
from ..gl.texture import GlTexture
from ..gl.user_objects import as_gl_object
from .api import ask, check, driver
from .arrays import CudaArray, new_array
from .context import CudaContext
from .objects import IMAGE_FORMATS, CudaImage, new_image, texel_bytes

log = logging.getLogger("framebind")

_ALL_DEVICES, _MOST_DEVICES = 1, 64
"""CU_GL_DEVICE_LIST_ALL, and room for so many."""
_DEVICE, _ARRAY = 2, 3
"""CUmemorytype."""


def _side(name: str) -> list[tuple[str, Any]]:
    """The fields of one side of a copy."""
    fields = (
        ("x", ctypes.c_size_t), ("y", ctypes.c_size_t), ("kind", ctypes.c_int), ("host", ctypes.c_void_p),
        ("pointer", ctypes.c_uint64), ("array", ctypes.c_void_p), ("pitch", ctypes.c_size_t),
    )  # fmt: skip
    return [(f"{name}_{field}", kind) for field, kind in fields]


class _Copy(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = (*_side("source"), *_side("target"), ("width", ctypes.c_size_t), ("height", ctypes.c_size_t))


class _Registration:
    """A GL object as CUDA knows it, until nobody holds it."""

    def __init__(self, context: CudaContext, native: GlTexture | GlBuffer) -> None:
        cuda, what = driver(), f"registering {native.label} in {context}"
        with context.entered():
            if isinstance(native, GlTexture):
                names = native.id, GL.TEXTURE_2D
                self.handle: int = ask(cuda.cuGraphicsGLRegisterImage, ctypes.c_void_p, *names, 0, what=what)
            else:
                self.handle = ask(cuda.cuGraphicsGLRegisterBuffer, ctypes.c_void_p, native.id, 0, what=what)
        context.finalize(self, cuda.cuGraphicsUnregisterResource, self.handle)


class _Shared(GlBacked):
    """The base of GlPicture and GlArray: CUDA memory beside a GL object, which kernels use in its place."""

    native: GlTexture | GlBuffer
    registration: _Registration
    compatibility_key = None

    def _share(self, context: CudaContext, native: GlTexture | GlBuffer) -> None:
        self.native, self.registration = native, _Registration(context, native)
        self.gl_objects = (native,)

    def copy(self, stream: int, *, to_gl: bool) -> int:
        """Copy the content on the GPU; the GL object is mapped. Returns CUDA's status."""
        raise NotImplementedError


class GlPicture(_Shared, CudaImage):
    """A GL texture, with a picture in CUDA memory beside it that kernels use."""

    def __init__(self, context: CudaContext, native: GlTexture) -> None:
        if native.format not in IMAGE_FORMATS:
            raise BindingError(
                f"{native.label} is {native.format}, and CUDA shares textures that are {', '.join(IMAGE_FORMATS)}: use "
                "the backend 'opengl'"
            )
        beside = new_image(context, *native.size, native.format, f"CUDA memory beside {native.label}")
        arguments = beside.pointer, *native.size, native.format
        super().__init__(*arguments, pitch=beside.pitch, device=context.device, label=native.label, keep=beside._keep)
        self._share(context, native)
        self._array = ctypes.c_void_p()
        """The CUarray of the texture while it is mapped."""
        self._to_gl = self._whole_copy("target", "source")
        self._from_gl = self._whole_copy("source", "target")

    def _whole_copy(self, array: str, memory: str) -> _Copy:
        """A copy of all texels. ``array`` and ``memory`` are the sides on which the texture and the memory are."""
        sides = {f"{array}_kind": _ARRAY, f"{memory}_kind": _DEVICE, f"{memory}_pitch": self.pitch}
        sides[f"{memory}_pointer"] = self.pointer
        return _Copy(width=self.size[0] * texel_bytes(self.format), height=self.size[1], **sides)

    def copy(self, stream: int, *, to_gl: bool) -> int:
        cuda, array = driver(), self._array
        found = cuda.cuGraphicsSubResourceGetMappedArray(ctypes.byref(array), self.registration.handle, 0, 0)
        if found:
            return found
        if to_gl:
            copy = self._to_gl
            copy.target_array = array.value
        else:
            copy = self._from_gl
            copy.source_array = array.value
        return cuda.cuMemcpy2DAsync_v2(ctypes.byref(copy), stream)


class GlArray(_Shared, CudaArray):
    """A GL buffer, with an array of bytes in CUDA memory beside it that kernels use."""

    def __init__(self, context: CudaContext, native: GlBuffer) -> None:
        beside = new_array(context, (native.nbytes,), np.uint8, f"CUDA memory beside {native.label}")
        arguments = beside.pointer, (native.nbytes,), np.uint8
        super().__init__(*arguments, device=context.device, label=native.label, keep=beside._keep)
        self.layout = None  # bytes, as those of any buffer
        self._share(context, native)
        self._offset, self._begin, size = native.offset, ctypes.c_uint64(), ctypes.c_size_t()
        """Byte offset in the GL buffer; its address while it is mapped, and its size, which CUDA writes."""
        self._where = ctypes.byref(self._begin), ctypes.byref(size), self.registration.handle

    def copy(self, stream: int, *, to_gl: bool) -> int:
        found = driver().cuGraphicsResourceGetMappedPointer_v2(*self._where)
        if found:
            return found
        theirs = self._begin.value + self._offset
        target, source = (theirs, self.pointer) if to_gl else (self.pointer, theirs)
        return driver().cuMemcpyDtoDAsync_v2(target, source, self.nbytes, stream)


class GlObjects:
    """The GL objects that a CUDA device uses. Each is registered once, which takes half a millisecond."""

    def __init__(self, context: CudaContext) -> None:
        self._context = context
        self._known: weakref.WeakValueDictionary[GlTexture | GlBuffer, Any] = weakref.WeakValueDictionary()
        self._warned = False

    def borrow(self, native: Any) -> GlPicture | GlArray:
        """An object of the current GL context. Raises BindingError if it cannot be shared with CUDA."""
        resource = as_gl_object(native)
        known = self._known.get(resource)
        if known is None or known.released:
            check_same_gpu(self._context, resource.context)
            if isinstance(resource, GlTexture):
                known = GlPicture(self._context, resource)
            else:
                known = GlArray(self._context, resource)
            self._known[resource] = known
        if not self._warned:
            self._warned = True
            log.warning(
                f"GL objects are bound to a model on {self._context}: the GPU switches contexts twice per run, which "
                "costs 0.3 ms on an H200; the backend 'opengl' does not"
            )
        return known


def check_same_gpu(context: CudaContext, gl: GlContext) -> None:
    """Raise BindingError if a GL context, which is current, does not run on the GPU of a CudaContext."""
    gl.check()
    count, devices = ctypes.c_uint(), (ctypes.c_int * _MOST_DEVICES)()
    with context.entered():
        status = driver().cuGLGetDevices_v2(ctypes.byref(count), devices, _MOST_DEVICES, _ALL_DEVICES)
    if status or context.device not in devices[: count.value]:
        raise BindingError(f"{gl} does not run on the GPU of {context}, so that they share nothing: use 'opengl'")


class MappedObjects:
    """GL objects that are mapped for runs, with what the calls take. It is made once for a set of objects.

    ``uses`` has the kernels' access to each: "r", "w" or both.
    """

    def __init__(self, context: CudaContext, uses: Mapping[GlPicture | GlArray, str]) -> None:
        self._context, self._objects = context, tuple(uses)
        self._written = tuple(resource for resource, access in uses.items() if "w" in access)
        self._handles = (ctypes.c_void_p * len(uses))(*(resource.registration.handle for resource in uses))
        self._what = f"sharing GL objects with {context}"

    @contextlib.contextmanager
    def mapped(self) -> Iterator[None]:
        """Within the block the CUDA memory beside the objects has their content. At its end they get what kernels
        wrote.

        Objects that are only written are fetched too, because kernels may write a part of them.
        """
        cuda, stream, what, mapping = driver(), self._context.stream, self._what, (len(self._objects), self._handles)
        for resource in self._objects:
            resource.native.context.check()
        with self._context.entered():
            try:  # from before the call: a signal handler's exception may come before its result
                check(cuda.cuGraphicsMapResources(*mapping, stream), what)
                for resource in self._objects:
                    check(resource.copy(stream, to_gl=False), what)
                yield
                for resource in self._written:
                    check(resource.copy(stream, to_gl=True), what)
            finally:
                status = cuda.cuGraphicsUnmapResources(*mapping, stream)
        check(status, what)
