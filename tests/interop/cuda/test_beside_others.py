"""CUDA beside OpenCL and OpenGL in one process, and the counter of copies. A recording driver stands in for CUDA's."""

from __future__ import annotations

import numpy as np
import pyopencl
import pytest

import framebind as fb
from support.recording_driver import RecordingDriver
from support.tiny_models import chain

SHAPE = (1, 4, 5, 3)
COPIES = {"cuMemcpyHtoDAsync_v2": "upload", "cuMemcpyDtoHAsync_v2": "download"}


def delegated(backend: str) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend))  # pyright: ignore[reportArgumentType]
    interpreter = fb.Interpreter(model_content=chain("EXP", "ABS"), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    return interpreter, delegate


def copied(recorder: RecordingDriver) -> dict[str, list[int]]:
    """The bytes of each copy between host and GPU that the driver was told to make."""
    found: dict[str, list[int]] = {"upload": [], "download": []}
    for name, arguments in recorder.calls:
        if name.startswith("cuMemcpy"):
            found[COPIES[name]].append(arguments[2])
    return found


def counted() -> dict[str, tuple[int, int]]:
    """The number of copies and their bytes, as fb.transfers says."""
    found = {"upload": (0, 0), "download": (0, 0)}
    for (direction, _), hop in fb.transfers.by_reason.items():
        calls, nbytes = found[direction]
        found[direction] = calls + hop.calls, nbytes + hop.bytes
    return found


def test_each_copy_that_the_driver_makes_is_counted(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        interpreter, delegate = delegated("cuda")
        interpreter.set_tensor(interpreter.inputs()[0], np.ones(SHAPE, np.float32))
        interpreter.invoke()
        interpreter.get_tensor(interpreter.outputs()[0])
        array = fb.cuda.CudaArray.from_array(np.ones(SHAPE, np.float32))
        array.read()
        picture = fb.cuda.CudaImage.from_array(np.zeros((5, 7, 4), np.uint8))
        picture.read()
        made = copied(recorder)
        assert len(made["upload"]) >= 3 and len(made["download"]) >= 3
        assert counted() == {direction: (len(sizes), sum(sizes)) for direction, sizes in made.items()}
        delegate.close()


def test_a_frame_that_is_bound_makes_no_copy(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        interpreter, delegate = delegated("cuda")
        interpreter.set_allow_buffer_handle_output(True)
        for tensor in (interpreter.inputs()[0], interpreter.outputs()[0]):
            delegate.bind_buffer_to_tensor(fb.cuda.CudaArray.from_array(np.ones(SHAPE, np.float32)), tensor)
        interpreter.invoke()
        recorder.calls.clear()
        with fb.transfer_guard("disallow"):
            interpreter.invoke()
            assert copied(recorder) == {"upload": [], "download": []}
        interpreter.set_allow_buffer_handle_output(False)
        with fb.transfer_guard("disallow"), pytest.raises(fb.TransferError, match="download of 240 bytes"):
            delegate.ensure_tensor_data_is_readable(interpreter.outputs()[0])
        assert copied(recorder) == {"upload": [], "download": []}, "it is refused before it is made"
        delegate.close()


def test_objects_of_opencl_and_cuda_are_refused_by_each_other(
    recorder: RecordingDriver, cl_context: fb.cl.ClContext
) -> None:
    """Models of both run side by side."""
    memory = pyopencl.Buffer(cl_context.context, pyopencl.mem_flags.READ_WRITE, 240)
    with fb.cuda.CudaContext():
        (on_cuda, cuda), (on_opencl, opencl) = delegated("cuda"), delegated("opencl")
        array = fb.cuda.CudaArray.from_array(np.zeros(SHAPE, np.float32))
        for foreign in (memory, fb.cl.ClBuffer.from_array(np.zeros(SHAPE, np.float32))):
            with pytest.raises(fb.BindingError, match=r"nothing that CUDA reads.*OpenCL objects the backend 'opencl'"):
                cuda.bind_buffer_to_tensor(foreign, on_cuda.inputs()[0])
        with pytest.raises(fb.BindingError, match=r"no OpenCL object.*arrays on CUDA the backend 'cuda'"):
            opencl.bind_buffer_to_tensor(array, on_opencl.inputs()[0])
        values = np.random.default_rng(0).random(SHAPE, np.float32)
        for interpreter in (on_cuda, on_opencl, on_cuda):
            interpreter.set_tensor(interpreter.inputs()[0], values)
            interpreter.invoke()
        np.testing.assert_allclose(on_opencl.get_tensor(on_opencl.outputs()[0]), np.exp(values), rtol=1e-5)
        assert len([name for name in recorder.names() if name.startswith("cuLaunch")]) >= 2
        cuda.close()
        opencl.close()
