"""Arrays of numbers in CUDA memory. Other libraries use them in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...kernels.tensor import strides_of
from .. import dlpack
from ..arrays import array_layout
from ..dlpack import LEGACY_STREAM
from ..errors import BindingError
from ..memory.buffers import BaseBuffer, checked_nbytes
from .api import check, driver
from .context import CudaContext, contexts_on
from .host_copy import CudaHostCopy
from .objects import Allocation, CudaObject, download, upload


class CudaArray(CudaObject, BaseBuffer[CudaContext]):
    """An array of numbers in a GPU's memory.

    Arrays of PyTorch, CuPy and others are bound as they are, without this class; and they take this one in place:
    ``torch.from_dlpack(array)``, ``cupy.from_dlpack(array)``, or by its ``__cuda_array_interface__``.

    Parameters
    ----------
    pointer : int
        The CUdeviceptr.
    shape : tuple of int
        The shape.
    dtype : numpy.dtype
        The type of its numbers.
    device : int
        The number of the GPU.
    strides : tuple of int, optional
        Bytes from one index to the next along each dimension, not negative; C-contiguous without them.
    label : str, optional
        Description for error messages.
    keep : object, optional
        An object that is kept alive along with it, which owns the memory. Without it each run asks CUDA whether the
        memory was freed.
    read_only : bool
        Kernels must not write it.

    Raises
    ------
    BindingError
        If the memory is none that CUDA knows, was freed, is another GPU's or too small; if addresses of numbers are no
        multiples of their size.

    Examples
    --------
    >>> import contextlib
    >>> with contextlib.suppress(fb.DeviceError):  # there may be no GPU of NVIDIA
    ...     with fb.cuda.CudaContext():
    ...         frame = fb.cuda.CudaArray.from_array(np.zeros((1, 4, 4, 3), np.float32))
    """

    def __init__(
        self,
        pointer: int,
        shape: Sequence[int],
        dtype: Any,
        *,
        device: int,
        strides: Sequence[int] | None = None,
        label: str = "",
        keep: Any = None,
        read_only: bool = False,
    ) -> None:
        shape, dtype = tuple(shape), np.dtype(dtype)
        self.label = label or f"CUDA array {pointer:#x} of {shape} {dtype}"
        layout = array_layout(self.label, pointer, shape, dtype, strides, read_only=read_only)
        self._hold(layout.nbytes, shape, dtype)
        self._strides, self.read_only = layout.strides, read_only
        self.layout = layout
        self._adopt(pointer, device, keep, self.nbytes)

    @classmethod
    def _made(cls, shape: Sequence[int], dtype: npt.DTypeLike, label: str) -> CudaArray:
        return new_array(CudaContext.current(), shape, dtype, label)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the protocol by which CuPy, PyTorch, Numba and others use the memory in place.

        It names the stream of a CudaContext on this GPU, the current one if there are several, and has that stream
        wait for those of the others.
        """
        contexts = contexts_on(self.device)
        current = CudaContext.current() if CudaContext.is_current() else None
        context = current if current in contexts else next(iter(contexts), None)
        for other in contexts:
            if context is not None:
                context.wait_for_stream(other.stream)
        return {
            "shape": self.shape, "typestr": self.dtype.str, "data": (self.pointer, self.read_only),
            "strides": self._steps,
            "version": 3, "stream": (context.stream or LEGACY_STREAM) if context is not None else None,
        }  # fmt: skip

    @property
    def _steps(self) -> tuple[int, ...] | None:
        """The strides in bytes; None if it is C-contiguous."""
        pairs = zip(self.shape, self._strides, strides_of(self.shape), strict=True)
        if all(size == 1 or stride == expected for size, stride, expected in pairs):
            return None
        return tuple(self.dtype.itemsize * stride for stride in self._strides)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's type and number of the device: kDLCUDA, and that of the GPU."""
        return dlpack.CUDA, self.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The memory as a DLPack capsule, which other libraries' ``from_dlpack`` asks for. It lives as long as theirs.

        Parameters
        ----------
        stream : int, optional
            The consumer's stream: what framebind has submitted on this GPU comes before what follows there. 1 is the
            legacy default stream, as is None; 2 the default stream of each thread; -1 asks for no order.
        max_version : tuple of int, optional
            The newest version that the consumer knows: from (1, 0) on the capsule has a version and flags.
        dl_device : tuple of int, optional
            The device that the consumer wants; only this one is possible.
        copy : bool, optional
            True makes a copy on the GPU.

        Returns
        -------
        capsule
            "dltensor_versioned", or "dltensor" for consumers of older versions.

        Raises
        ------
        BindingError
            For another device or stream 0; if it is released; if it is read-only, and the consumer's version has no
            flag for that.
        """
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BindingError(
                f"{self.label} is not given out on DLPack's device {dl_device}: read() copies to the CPU"
            )
        if stream == 0:
            raise BindingError(
                "stream 0 may be two streams: give 1, the legacy default stream, or 2, that of each thread"
            )
        is_versioned = max_version is not None and max_version[0] >= dlpack.VERSION[0]
        given = self._copied() if copy else self
        if given.read_only and not is_versioned:
            raise BindingError(f"{self.label} is read-only, which a DLPack tensor without a version cannot say")
        if stream != dlpack.NO_STREAM:
            for context in contexts_on(self.device):
                context.hold_stream(stream or LEGACY_STREAM)
        return dlpack.exported(
            given.pointer, self.device, self.shape, self.dtype, self._steps, keep=given._keep,
            is_versioned=is_versioned, read_only=given.read_only, is_copied=given is not self,
        )  # fmt: skip

    def _copied(self) -> CudaArray:
        """A copy in memory of its own, made on the GPU after what was submitted before."""
        contexts = contexts_on(self.device)
        if not contexts:
            raise BindingError(f"{self.label} cannot be copied: make a CudaContext on device {self.device}")
        context = contexts[0]
        for other in contexts[1:]:
            context.wait_for_stream(other.stream)
        memory = Allocation(context, self.nbytes, f"a copy of {self.label}")
        with context.entered():
            status = driver().cuMemcpyDtoDAsync_v2(memory.pointer, self.pointer, self.nbytes, context.stream)
            check(status, f"copying {self.label}")
        return CudaArray(memory.pointer, self.shape, self.dtype, device=self.device, strides=self._steps, keep=memory)

    def _values(self, context: CudaContext, reason: str, offset: int) -> np.ndarray[Any, Any]:
        steps = self._steps
        if steps is None:
            return super()._values(context, reason, offset)
        memory = np.empty(self.nbytes, np.uint8)
        self.download(context, memory, reason, offset)
        return np.ndarray(self.shape, self.dtype, memory, strides=steps).copy()

    def _copy_in(self, context: CudaContext, array: np.ndarray, offset: int) -> None:
        upload(context, self.pointer + offset, array)

    def _copy_out(self, context: CudaContext, array: np.ndarray, offset: int) -> None:
        download(context, self.pointer + offset, array)

    def _host_copy(self, context: CudaContext) -> CudaHostCopy:
        if self._steps is not None:
            raise BindingError(f"{self.label} has gaps, and a ring copies its bytes as they lie: use read()")
        return CudaHostCopy(context, self.pointer, self.nbytes)


def new_array(context: CudaContext, shape: Sequence[int], dtype: npt.DTypeLike, label: str = "") -> CudaArray:
    """An array of undefined content in the GPU of a context, current or not. Raises DeviceError if memory runs out."""
    memory = Allocation(context, checked_nbytes(shape, dtype, label), label or f"a CUDA array of {tuple(shape)}")
    return CudaArray(memory.pointer, shape, dtype, device=context.device, label=label, keep=memory)
