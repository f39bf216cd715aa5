"""GL objects bound to a model on CUDA: what the driver is told, in what order. A recording driver stands in for it."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import framebind as fb
from support.environment import CUDA_DEVICES
from support.recording_driver import MAPPED, RecordingDriver
from support.tiny_models import chain

SHAPE = (1, 4, 8, 4)
RUN = {
    "cuGraphicsMapResources", "cuGraphicsUnmapResources", "cuMemcpy2DAsync_v2", "cuMemcpyDtoDAsync_v2",
    "cuLaunchKernel", "cuGraphLaunch",
}  # fmt: skip

pytestmark = pytest.mark.parametrize("context", ["gl"], indirect=True)


def bound(*objects: object) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """A model on CUDA with its input and its output bound."""
    delegate = fb.GpuDelegate("cuda")
    interpreter = fb.Interpreter(
        model_content=chain("EXP", "ABS", shape=SHAPE), experimental_delegates=[delegate]
    )  # fmt: skip
    interpreter.set_allow_buffer_handle_output(True)
    for native, tensor in zip(objects, (interpreter.inputs()[0], interpreter.outputs()[0]), strict=False):
        delegate.bind_buffer_to_tensor(native, tensor)
    return interpreter, delegate


def mapping_of(recorder: RecordingDriver) -> tuple[Any, ...]:
    """The arguments with which the only run maps: a number of objects, the objects, a stream."""
    (mapping,) = [arguments for name, arguments in recorder.calls if name == "cuGraphicsMapResources"]
    return mapping


def test_a_run_maps_once_and_copies_on_the_gpu(recorder: RecordingDriver, context: fb.GlContext) -> None:
    picture = fb.GlTexture.from_array(np.zeros((*SHAPE[1:3], 4), np.uint8))
    result = fb.GlBuffer(4 * int(np.prod(SHAPE)))
    with fb.cuda.CudaContext() as cuda:
        interpreter, delegate = bound(picture, result)
        interpreter.invoke()
        recorder.calls.clear()
        with fb.transfer_guard("disallow"):
            interpreter.invoke()
        first = mapping_of(recorder)
        assert [name for name in recorder.names() if name in RUN] == [
            "cuGraphicsMapResources", "cuMemcpy2DAsync_v2", "cuMemcpyDtoDAsync_v2", "cuLaunchKernel",
            "cuMemcpyDtoDAsync_v2", "cuGraphicsUnmapResources",
        ]  # fmt: skip
        assert (first[0], first[2]) == (2, cuda.stream)
        copies = [arguments for name, arguments in recorder.calls if name.startswith("cuMemcpy")]
        texels = copies[0][0]._obj
        assert (texels.source_kind, texels.target_kind) == (3, 2), "from an array to memory"
        assert (texels.width, texels.height) == (4 * SHAPE[2], SHAPE[1]) and texels.target_pitch % 64 == 0
        ours = copies[1][0]
        assert copies[1] == (ours, MAPPED, result.nbytes, cuda.stream)
        assert copies[2] == (MAPPED, ours, result.nbytes, cuda.stream)
        recorder.calls.clear()
        interpreter.invoke()
        assert mapping_of(recorder)[1] is first[1], "the list of objects is made once"
        delegate.close()


def test_each_object_is_registered_once_until_nobody_holds_it(
    recorder: RecordingDriver, context: fb.GlContext, caplog: pytest.LogCaptureFixture
) -> None:
    textures = [fb.GlTexture.from_array(np.zeros((*SHAPE[1:3], 4), np.uint8)) for _ in range(2)]
    with fb.cuda.CudaContext():
        interpreter, delegate = bound(textures[0])
        for texture in (textures[0], textures[1], textures[1]):
            delegate.bind_buffer_to_tensor(texture, interpreter.inputs()[0])
            interpreter.invoke()
        assert recorder.names().count("cuGraphicsGLRegisterImage") == 2
        delegate.close()
        del interpreter, delegate
        gc.collect()
    assert recorder.names().count("cuGraphicsUnregisterResource") == 2
    assert len([record for record in caplog.records if "the backend 'opengl' does not" in record.message]) == 1


def test_what_cannot_be_shared_is_refused_and_the_rest_works(recorder: RecordingDriver, context: fb.GlContext) -> None:
    with fb.cuda.CudaContext():
        interpreter, delegate = bound()
        tensor = interpreter.inputs()[0]
        picture = fb.GlTexture.from_array(np.zeros((*SHAPE[1:3], 4), np.uint8))
        recorder.gpu_of_gl = 1
        with pytest.raises(fb.BindingError, match="does not run on the GPU of the CUDA context on 'Recorder'"):
            delegate.bind_buffer_to_tensor(picture, tensor)
        recorder.gpu_of_gl, recorder.failing["cuGraphicsGLRegisterImage"] = 0, 219
        with pytest.raises(fb.DeviceError, match=r"registering GL texture .* failed: CUDA error 219"):
            delegate.bind_buffer_to_tensor(picture, tensor)
        recorder.failing.clear()
        delegate.bind_buffer_to_tensor(picture, tensor)
        recorder.failing["cuMemcpy2DAsync_v2"] = 1
        with pytest.raises(fb.DeviceError, match=r"sharing GL objects with .* failed: CUDA error 1"):
            interpreter.invoke()
        calls = ["cuGraphicsUnmapResources", "cuCtxGetCurrent", "cuCtxPopCurrent_v2"]
        assert recorder.names()[-3:] == calls, "GL has its objects again"
        recorder.failing.clear()
        interpreter.invoke()
        context.release()
        with pytest.raises(fb.BindingError, match="GL objects need the backend 'opengl'"):
            delegate.bind_buffer_to_tensor(picture, tensor)
        context.make_current()
        delegate.close()


@pytest.mark.skipif(not CUDA_DEVICES, reason="it takes a GPU: name cuda in FRAMEBIND_DEVICES")
def test_a_gpu_computes_what_the_texture_says(context: fb.GlContext) -> None:
    """NVIDIA's driver in place of the recording one: two textures by turns, one buffer, no byte across."""
    texels = [np.random.default_rng(seed).integers(0, 256, (*SHAPE[1:3], 4), np.uint8) for seed in range(2)]
    pictures = [fb.GlTexture.from_array(each) for each in texels]
    result = fb.GlBuffer(4 * int(np.prod(SHAPE)))
    with fb.cuda.CudaContext():
        interpreter, delegate = bound(pictures[0], result)
        interpreter.invoke()
        for number in (1, 0, 1):
            with fb.transfer_guard("disallow"):
                delegate.bind_buffer_to_tensor(pictures[number], interpreter.inputs()[0])
                interpreter.invoke()
            found = np.empty(SHAPE, np.float32)
            result.read(found)
            np.testing.assert_allclose(found[0], np.exp(texels[number] / np.float32(255)), rtol=1e-5)
        delegate.close()
