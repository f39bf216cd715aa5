"""Arrays whose producers lie, by DLPack or as subclasses of NumPy's array: refused, or taken by their memory alone."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.interop.device import Device
from framebind.interop.dlpack import host_array
from support.tiny_models import chain

VALUES = -np.arange(1, 257, dtype=np.float32).reshape(1, 8, 8, 4)
_ADDRESS = VALUES.ctypes.data
_INT64 = (1 << 63) - 1


class Tensor(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
        ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    )  # fmt: skip


class Producer:
    """A library whose tensor says what the test wants."""

    def __init__(self, sizes: tuple[int, ...] = VALUES.shape, steps: tuple[int, ...] = (), **said: Any) -> None:
        self._sizes, self._steps = (ctypes.c_int64 * len(sizes))(*sizes), (ctypes.c_int64 * len(steps))(*steps)
        honest = {
            "data": _ADDRESS, "device_type": 1, "rank": len(sizes), "code": 2, "bits": 32, "lanes": 1,
            "shape": ctypes.addressof(self._sizes), "strides": ctypes.addressof(self._steps) if steps else None,
        }  # fmt: skip
        self._tensor = Tensor(**{**honest, **said})

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **asked: Any) -> Any:
        new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(self._tensor), b"dltensor", None)


LIES: dict[str, tuple[Callable[[], Producer], str]] = {
    "no data": (lambda: Producer(data=None), "has its data at 0x0, offset 0, and there is no memory of 1024 bytes"),
    "data at an offset from nowhere": (lambda: Producer(data=None, byte_offset=_ADDRESS), "has its data at 0x0"),
    "data where nothing is": (lambda: Producer(data=4096), "there is no memory of 1024 bytes"),
    "no shape": (lambda: Producer(shape=None), r"its tensor has 4 dimensions, and no shape \(NULL\)"),
    "100 dimensions": (lambda: Producer(rank=100), "its tensor has 100 dimensions, and 0 to 32 are read"),
    "-1 dimensions": (lambda: Producer(rank=-1), "its tensor has -1 dimensions"),
    "a negative size": (lambda: Producer((1, -8, 8, 4)), r"shape, \(1, -8, 8, 4\), has a negative size"),
    "a huge size": (lambda: Producer((1 << 40, 8, 8, 4)), "there is no memory of 1125899906842624 bytes"),
    "sizes whose product overflows": (lambda: Producer((1 << 62, 1 << 62, 8, 4)), "there is no memory of"),
    "strides beyond memory": (lambda: Producer(steps=(1, 1 << 50, 1 << 50, 1)), "there is no memory of"),
    "strides beyond 64 bits": (lambda: Producer(steps=(1, _INT64 >> 3, _INT64 >> 3, 1)), "there is no memory of"),
    "strides below memory": (lambda: Producer(steps=(1, -(1 << 45), 4, 1)), "there is no memory of"),
    "an offset that wraps": (lambda: Producer(byte_offset=(1 << 64) - 8), "offset 18446744073709551608, and there is"),
    "an offset beyond": (lambda: Producer(byte_offset=1 << 50), "offset 1125899906842624, and there is"),
    "vectors": (lambda: Producer(lanes=4), r"\(32 bits, 4 at once\)"),
    "numbers of 0 bits": (lambda: Producer(bits=0), r"\(0 bits\)"),
    "numbers of 7 bits": (lambda: Producer(bits=7), r"\(7 bits\)"),
    "numbers of 24 bits": (lambda: Producer(bits=24), r"\(24 bits\)"),
    "an unknown type": (lambda: Producer(code=99), "of DLPack's type 99"),
    "another device": (lambda: Producer(device_type=2), "is on DLPack's device 2 after all"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_producer_that_lies_is_refused(lie: str) -> None:
    make, message = LIES[lie]
    with pytest.raises(fb.BindingError, match=message):
        host_array(make())


def test_what_is_odd_and_true_is_taken() -> None:
    np.testing.assert_array_equal(host_array(Producer()), VALUES)
    last = _ADDRESS + VALUES.nbytes - 4
    np.testing.assert_array_equal(
        host_array(Producer(steps=(-256, -32, -4, -1), data=last)), VALUES[::-1, ::-1, ::-1, ::-1]
    )
    np.testing.assert_array_equal(host_array(Producer((2, 3), (0, 0), byte_offset=8)), np.full((2, 3), -3, np.float32))
    assert host_array(Producer((0, 8), data=None)).shape == (0, 8)
    assert host_array(Producer(())) == -1


class Hostile(np.ndarray):
    """A subclass whose attributes and elements raise errors."""

    @property
    def flags(self) -> Any:
        raise RuntimeError("no flags")

    def __getitem__(self, key: Any) -> Any:
        raise RuntimeError("no elements")


def test_a_subclass_of_an_array_is_its_memory(gpu: Device) -> None:
    interpreter = fb.Interpreter(model_content=chain("ABS", shape=VALUES.shape))
    delegate = fb.GpuDelegate()
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    result = np.zeros_like(VALUES)
    delegate.bind_buffer_to_tensor(VALUES.view(Hostile), interpreter.inputs()[0])
    delegate.bind_buffer_to_tensor(result.view(Hostile), interpreter.outputs()[0])
    interpreter.invoke()
    np.testing.assert_array_equal(result, -VALUES)


def test_a_subclass_of_an_array_is_filled(context: fb.GlContext) -> None:
    filled = np.zeros(4, np.float32)
    fb.GlBuffer(16, np.arange(4, dtype=np.float32)).read(filled.view(Hostile))
    np.testing.assert_array_equal(filled, np.arange(4))
    filled.flags.writeable = False
    with pytest.raises(fb.BindingError, match="can be read into a writable C-contiguous array only"):
        fb.GlBuffer(16, np.arange(4, dtype=np.float32)).read(filled.view(Hostile))
