"""A stand-in for CUDA's driver and compiler: it records calls, keeps memory on the host, copies and clears it, and
launches nothing.

Kernels compute nothing on it, so that results say nothing. It shows calls, their arguments and order, lifetimes and
errors. Arrays of other libraries in its memory have stand-ins too.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.interop import dlpack
from framebind.interop.cuda import api, nvrtc
from framebind.interop.cuda.context import contexts_on

LIBRARIES = ("libcuda", "libnvrtc")
CONTEXT, OTHER_STREAM, MAPPED = 0xC0, 0x5EED, 0xB0FFE4
MACHINE_CODE = b"what the compiler says"
"""A cubin, or the log of a failure."""
_ATTRIBUTES = {1: 1024, 8: 49152, 16: 132, 39: 2048, 75: 9, 76: 0, 95: 1, 97: 232448}
_INVALID_VALUE, _INVALID_IMAGE, _NOT_READY = 1, 200, 600


class _Entry:
    """An entry point. ctypes' functions take attributes, and so does this."""

    argtypes: Any = None

    def __init__(self, driver: RecordingDriver, name: str, *, holding: bool = False) -> None:
        self._driver, self._name, self.holding = driver, name, holding

    def __call__(self, *arguments: Any) -> int:
        driver = self._driver
        driver.calls.append((self._name, tuple(getattr(each, "value", each) for each in arguments)))
        if not self.holding:
            driver.unlocked.append(self._name)
        if self._name in driver.failing:
            return driver.failing[self._name]
        act: Callable[..., int | None] | None = getattr(driver, f"_{self._name}", None)
        return (act(*arguments) if act is not None else 0) or 0


class RecordingDriver:
    """The library. ``calls`` are names and arguments; ``failing`` are statuses by name."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.unlocked: list[str] = []
        """The names of those calls that give up Python's lock."""
        self.failing: dict[str, int] = {}
        self.missing: set[str] = set()
        """The names of functions that the library does not have."""
        self.attributes = dict(_ATTRIBUTES)
        self.memory: dict[int, Any] = {}
        """Memory that is not freed, by its address."""
        self.pinned: dict[int, Any] = {}
        """Pinned memory of the host that is not freed, by its address."""
        self.current: list[int] = []
        """CUDA's stack of current contexts."""
        self.retained = 0
        self.refused = b""
        """Machine code that it does not take."""
        self.gpu_of_gl = 0
        """The number of the GPU on which it says that GL runs."""
        self.version = 13000
        """The newest CUDA that it knows."""
        self.memory_is_on = 0
        """The number of the GPU on which it says that all memory lies."""
        self.done = True
        """Whether events are reached."""
        self.flags = 0
        """The flags of all streams."""
        self._name = ""
        """The library is no file, which another process could load."""
        self._last_handle, self._entries = 0x1000, dict[str, _Entry]()

    def __getattr__(self, name: str) -> _Entry:
        if not name.startswith(("cu", "nvrtc")) or name in self.missing:
            raise AttributeError(name)
        return self._entries.setdefault(name, _Entry(self, name))

    def names(self) -> list[str]:
        """The names of the calls, in order."""
        return [name for name, _ in self.calls]

    def _new_handle(self, place: Any) -> None:
        self._last_handle += 16
        place._obj.value = self._last_handle

    _cuStreamCreate = _cuEventCreate = _cuModuleGetFunction = lambda self, place, *_: self._new_handle(place)
    _cuGraphCreate = _cuGraphAddKernelNode = _cuGraphInstantiateWithFlags = _cuStreamCreate

    _cuGraphicsGLRegisterImage = _cuGraphicsGLRegisterBuffer = _cuGraphicsSubResourceGetMappedArray = _cuStreamCreate

    def _cuGLGetDevices_v2(self, count: Any, devices: Any, *_: Any) -> None:
        count._obj.value, devices[0] = 1, self.gpu_of_gl

    def _cuGraphicsResourceGetMappedPointer_v2(self, place: Any, *_: Any) -> None:
        place._obj.value = MAPPED

    def _cuModuleLoadData(self, place: Any, code: bytes) -> int:
        if code == self.refused:
            return _INVALID_IMAGE
        self._new_handle(place)
        return 0

    def _cuDeviceGetCount(self, place: Any) -> None:
        place._obj.value = 1

    def _cuDeviceGetName(self, place: Any, *_: Any) -> None:
        place.value = b"Recorder"

    def _cuDeviceGetUuid(self, place: Any, device: int) -> None:
        place[:] = range(device, device + 16)

    def _cuDeviceGetAttribute(self, place: Any, attribute: int, device: int) -> None:
        place._obj.value = self.attributes[attribute]

    def _cuDeviceTotalMem_v2(self, place: Any, device: int) -> None:
        place._obj.value = 80 << 30

    def _cuDriverGetVersion(self, place: Any) -> None:
        place._obj.value = self.version

    def _cuDevicePrimaryCtxRetain(self, place: Any, device: int) -> None:
        place._obj.value = CONTEXT
        self.retained += 1

    def _cuDevicePrimaryCtxRelease_v2(self, device: int) -> None:
        self.retained -= 1

    def _cuCtxGetCurrent(self, place: Any) -> None:
        place._obj.value = self.current[-1] if self.current else None

    def _cuCtxPushCurrent_v2(self, context: int) -> None:
        self.current.append(context)

    def _cuCtxPopCurrent_v2(self, place: Any) -> None:
        self.current.pop()

    def _cuGraphExecKernelNodeSetParams(self, *_: Any) -> None:
        assert self.current, "driver 580 crashes without a current context"

    def _cuStreamGetCtx(self, stream: int, place: Any) -> None:
        place._obj.value = CONTEXT + 1 if stream == OTHER_STREAM else CONTEXT

    def _cuStreamGetFlags(self, stream: int, place: Any) -> None:
        place._obj.value = self.flags

    def _cuMemAlloc_v2(self, place: Any, nbytes: int) -> None:
        words = np.full(nbytes // 16 + 2, 0x7F, np.complex128)
        address = -(-words.ctypes.data // 16) * 16
        self.memory[address] = (words, nbytes)
        place._obj.value = address

    def _cuMemAllocHost_v2(self, place: Any, nbytes: int) -> None:
        pinned = ctypes.create_string_buffer(nbytes)
        place._obj.value = ctypes.addressof(pinned)
        self.pinned[place._obj.value] = pinned

    def _cuMemFreeHost(self, address: int) -> int:
        return 0 if self.pinned.pop(address, None) is not None else _INVALID_VALUE

    def _cuMemFree_v2(self, address: int) -> int:
        return 0 if self.memory.pop(address, None) is not None else _INVALID_VALUE

    def _cuMemsetD8Async(self, address: int, value: int, nbytes: int, stream: int) -> None:
        ctypes.memset(address, value, nbytes)

    def _cuMemcpyHtoDAsync_v2(self, to: int, source: int, nbytes: int, stream: int) -> None:
        ctypes.memmove(to, source, nbytes)

    def _cuMemcpyDtoHAsync_v2(self, to: int, source: int, nbytes: int, stream: int) -> None:
        ctypes.memmove(to, source, nbytes)

    def _cuPointerGetAttribute(self, place: Any, attribute: int, pointer: int) -> int:
        for address, (_, nbytes) in self.memory.items():
            if address <= pointer < address + nbytes:
                place._obj.value = {7: address + nbytes, 9: self.memory_is_on, 11: address, 12: nbytes}[attribute]
                return 0
        return _INVALID_VALUE

    def _cuEventQuery(self, event: int) -> int:
        return 0 if self.done else _NOT_READY

    def _cuEventElapsedTime(self, place: Any, begin: int, end: int) -> None:
        place._obj.value = 0.001

    def _nvrtcVersion(self, major: Any, minor: Any) -> None:
        major._obj.value, minor._obj.value = 13, 0

    def _nvrtcGetNumSupportedArchs(self, place: Any) -> None:
        place._obj.value = 3

    def _nvrtcGetSupportedArchs(self, known: Any) -> None:
        known[:] = [75, 80, 90]

    def _nvrtcGetErrorString(self, status: int) -> bytes:
        return b"NVRTC_ERROR"

    def _size(self, program: Any, place: Any) -> None:
        place._obj.value = len(MACHINE_CODE)

    def _code(self, program: Any, place: Any) -> None:
        place.raw = MACHINE_CODE

    _nvrtcGetCUBINSize = _nvrtcGetProgramLogSize = _size
    _nvrtcGetCUBIN = _nvrtcGetProgramLog = _code

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(self, place: Any, *_: Any) -> None:
        place._obj.value = 2


class _Holding:
    """The recording library, with functions that keep Python's lock."""

    def __init__(self, driver: RecordingDriver) -> None:
        self._driver = driver

    def __getattr__(self, name: str) -> _Entry:
        return _Entry(self._driver, name, holding=True)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingDriver]:
    """The stand-in in the place of the driver; texts are not compiled."""
    driver = RecordingDriver()
    system = ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver if name.startswith(LIBRARIES) else system(name))
    monkeypatch.setattr(ctypes, "PyDLL", lambda name: _Holding(driver))
    monkeypatch.setitem(sys.modules, "cuda", None)  # NVIDIA's package would find the real compiler
    forget_libraries()
    yield driver
    while fb.cuda.CudaContext.is_current():  # a later test's "auto" would choose it
        fb.cuda.CudaContext.current().release()
    gc.collect()  # what a test made is freed while the stand-in is there
    for context in contexts_on(0):  # something still holds it: a real driver would take its stream for a real one
        if context.handle == CONTEXT:
            context.close()
    forget_libraries()


def forget_libraries() -> None:
    """Let the libraries be loaded again."""
    for cached in (api.driver, nvrtc._library, nvrtc.version, nvrtc.architecture):
        cached.cache_clear()


# Arrays of other libraries --------------------------------------------------------------------------------------------


class Capsules:
    """A library's tensor on a GPU: its capsules are ours, of NumPy's memory. ``refuses`` are keywords it does not take.

    ``fails`` is what its __dlpack__ raises, ``refusal`` the kind of error that it raises for such a keyword,
    ``changes`` fields of the tensor that its capsules have in place of the array's.
    """

    def __init__(
        self,
        array: np.ndarray,
        *refuses: str,
        place: tuple[int, int] = (2, 0),
        fails: Any = None,
        refusal: type[Exception] = TypeError,
        changes: Mapping[str, Any] | None = None,
    ) -> None:
        self.array, self.place, self.fails, self.refuses, self.refusal = array, place, fails, refuses, refusal
        self.changes = changes or {}
        self.asked: list[dict[str, Any]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place

    def __dlpack__(self, **given: Any) -> Any:
        self.asked.append(given)
        if self.fails is not None:
            raise self.fails
        if set(given) & set(self.refuses):
            raise self.refusal(f"unexpected keyword {self.refuses[0]}")
        capsule = dlpack.exported(
            self.array.ctypes.data, 0, self.array.shape, self.array.dtype, self.array.strides, keep=self.array,
            is_versioned="max_version" in given, read_only=not self.array.flags.writeable,
        )  # fmt: skip
        tensor, _ = dlpack._unpacked(capsule, "it")
        for name, value in self.changes.items():
            setattr(tensor, name, value)
        return capsule


class Foreign:
    """An array that has __cuda_array_interface__: (1, 4, 4, 4) floats, but for ``changes``."""

    def __init__(self, **changes: Any) -> None:
        self.changes = changes
        self.shape: tuple[int, ...] = changes.get("shape", (1, 4, 4, 4))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (1, 4, 4, 4), "typestr": "<f4", "data": (0, False), "strides": None, "version": 3, "stream": None,
            **self.changes,
        }  # fmt: skip
