"""The device that the backend "auto" takes with a GPU of NVIDIA, for which a recording driver stands in."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest

import framebind as fb
from framebind.interop.cuda.compute.device import CudaDevice
from framebind.interop.discovery.devices import choose_device, device_of
from framebind.interop.gl.compute.device import GlDevice
from framebind.interop.null.device import NullDevice
from support.recording_driver import RecordingDriver, forget_libraries


@pytest.fixture(autouse=True)
def nothing_current() -> Iterator[None]:
    """No context is current on this thread; a GL context that was is so again afterwards."""
    before = fb.GlContext.current() if fb.GlContext.is_current() else None
    if before is not None:
        before.release()
    yield
    if before is not None:
        before.make_current()


def chosen() -> tuple[str, str]:
    """The API that is chosen, and why it was not the first choice."""
    device, reason, _ = choose_device()
    api = device.traits.api
    device.close()
    return api, reason


def test_without_a_current_context_it_is_cuda(recorder: RecordingDriver) -> None:
    assert chosen() == ("cuda", "")
    assert recorder.retained == 0 and not fb.cuda.CudaContext.is_current(), "its context is closed with the device"


def test_a_current_context_decides(recorder: RecordingDriver, cl_context: fb.cl.ClContext) -> None:
    assert chosen() == ("opencl", "")
    with fb.cuda.CudaContext():
        assert chosen() == ("cuda", ""), "it was made last, and nobody makes one without meaning it"
    cl_context.release()
    with fb.GlContext.headless():
        assert chosen() == ("opengl", "")
    assert "cuDevicePrimaryCtxRetain" in recorder.names()


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_context_that_a_device_made_for_itself_decides_nothing(
    recorder: RecordingDriver, context: fb.GlContext
) -> None:
    context.release()
    first, _, _ = choose_device()
    assert chosen() == ("cuda", "") and recorder.names().count("cuStreamCreate") == 1, "both are one device"
    context.make_current()
    assert chosen() == ("opengl", "")
    first.close()
    assert recorder.retained == 0


@pytest.mark.parametrize(
    "broken, reason",
    [("no compiler", "NVIDIA's compiler NVRTC, which is not there: pip install"), ("a GPU", "the GPU has 6.0")],
)
def test_what_cuda_lacks_is_said_in_a_sentence(
    recorder: RecordingDriver, monkeypatch: pytest.MonkeyPatch, broken: str, reason: str
) -> None:
    before = ctypes.CDLL

    def without_compiler(name: str) -> object:
        if name.startswith("libnvrtc"):
            raise OSError(name)
        return before(name)

    if broken == "a GPU":
        recorder.attributes[75] = 6
    else:
        monkeypatch.setattr(ctypes, "CDLL", without_compiler)
    forget_libraries()
    api, said = chosen()
    assert api in ("opencl", "opengl") and reason in said
    assert "cuDevicePrimaryCtxRetain" not in recorder.names()


def test_without_a_gpu_of_nvidia_cuda_is_not_mentioned(recorder: RecordingDriver) -> None:
    recorder.failing["cuInit"] = 100  # CUDA_ERROR_NO_DEVICE
    forget_libraries()
    api, said = chosen()
    assert api in ("opencl", "opengl") and "CUDA" not in said and "NVRTC" not in said


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_the_first_object_that_is_bound_decides(recorder: RecordingDriver, context: fb.GlContext) -> None:
    with fb.cuda.CudaContext():
        array = fb.cuda.CudaArray.from_array(np.zeros(4, np.float32))
    texture = fb.GlTexture.from_array(np.zeros((4, 4, 4), np.uint8))
    on_cuda = device_of(array, NullDevice())
    assert isinstance(on_cuda, CudaDevice)
    assert device_of(array, on_cuda) is None, "it is there already"
    on_gl = device_of(texture, on_cuda)
    assert isinstance(on_gl, GlDevice)
    context.release()
    assert device_of(texture, on_cuda) is None, "GL objects need their context"
    context.make_current()
    on_gl.close()
    on_cuda.close()
