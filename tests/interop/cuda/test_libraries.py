"""Tensors of PyTorch, CuPy and JAX on a GPU: bound in place on their streams, given out to them, refused.

These tests take a GPU of NVIDIA and the libraries: FRAMEBIND_DEVICES=cuda.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import framebind as fb
from support.environment import CUDA_DEVICES
from support.tiny_models import chain

pytestmark = pytest.mark.skipif(not CUDA_DEVICES, reason="it takes a GPU: name cuda in FRAMEBIND_DEVICES")
SHAPE = (1, 24, 40, 3)
X = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
WANTED = np.exp(np.tanh(X))


def library(name: str) -> Any:
    """A library that has CUDA, or a skipped test: they come with programs that use them, not with framebind."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(str(error))


@pytest.fixture
def torch() -> Any:
    return library("torch")


class Model:
    """A model on PyTorch's current stream, whose results stay on the GPU."""

    def __init__(self) -> None:
        self.delegate = fb.GpuDelegate("cuda")
        content = chain("TANH", "EXP", shape=SHAPE)
        self.interpreter = fb.Interpreter(model_content=content, experimental_delegates=[self.delegate])
        self.interpreter.allocate_tensors()
        self.delegate.set_allow_buffer_handle_output(True)

    def bind(self, source: Any, target: Any) -> None:
        self.delegate.bind_buffer_to_tensor(source, 0)
        self.delegate.bind_buffer_to_tensor(target, 2)

    def run(self) -> None:
        """Run without a byte between host and GPU."""
        with fb.transfer_guard("disallow", exempt=("constants of the model",)):
            self.interpreter.invoke()


@pytest.fixture
def model(torch: Any) -> Iterator[Model]:
    with fb.cuda.CudaContext(stream=torch.cuda.current_stream().cuda_stream):
        made = Model()
        yield made
        made.delegate.close()


def close(found: Any, bound: float = 1e-5) -> None:
    np.testing.assert_allclose(np.asarray(found.float().cpu()).reshape(SHAPE), WANTED, rtol=bound, atol=bound)


def padded(tensor: Any) -> Any:
    """A view of larger memory, with a pitch in each dimension."""
    wide = tensor.new_full([size + 3 for size in tensor.shape], float("nan"))
    view = wide[tuple(slice(1, 1 + size) for size in tensor.shape)]
    view.copy_(tensor)
    return view


LAYOUTS: dict[str, Callable[[Any, Any], Any]] = {
    "BHWC": lambda torch, x: x.clone(),
    "channels last": lambda torch, x: x.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last),
    "BCHW": lambda torch, x: x.permute(0, 3, 1, 2).contiguous(),
    "CHW": lambda torch, x: x[0].permute(2, 0, 1).contiguous(),
    "HWC": lambda torch, x: x[0].clone(),
    "a view": lambda torch, x: padded(x),
    "an odd address": lambda torch, x: torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tensors_of_pytorch_are_bound_in_place(model: Model, torch: Any, layout: str, dtype: str) -> None:
    x = torch.from_numpy(X).cuda().to(getattr(torch, dtype))
    source, target = (LAYOUTS[layout](torch, each) for each in (x, torch.zeros_like(x)))
    pointers = source.data_ptr(), target.data_ptr()
    model.bind(source, target)
    model.run()
    back = target if layout in ("BHWC", "HWC", "a view", "an odd address") else target.movedim(-3, -1)
    close(back, 1e-5 if dtype == "float32" else 5e-3)  # on the same stream, behind the model
    assert (source.data_ptr(), target.data_ptr()) == pointers
    if layout == "a view":
        assert bool(target._base.isnan().any()) and int(target._base.isnan().sum()) == target._base.numel() - x.numel()


def test_a_profile_of_pytorch_shows_kernels_alone(model: Model, torch: Any) -> None:
    source = torch.from_numpy(X).cuda().permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
    target = torch.zeros(SHAPE, device="cuda", dtype=torch.float16)
    model.bind(source, target)
    model.run()
    torch.cuda.synchronize()
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as profile:
        for _ in range(10):
            model.run()
        torch.cuda.synchronize()
    on_gpu = [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    assert len(on_gpu) >= 10 and not [name for name in on_gpu if "mem" in name.lower()], set(on_gpu)


def test_a_graph_of_pytorch_captures_a_run(torch: Any) -> None:
    side = torch.cuda.Stream()
    with fb.cuda.CudaContext(stream=side):
        model, target = Model(), torch.zeros(SHAPE, device="cuda")
        model.bind(torch.from_numpy(X).cuda(), target)
        model.run()
        torch.cuda.synchronize()
        target.zero_()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            model.interpreter.invoke()
            target += 1
        graph.replay()
        torch.cuda.synchronize()
        close(target - 1)
        model.delegate.close()


def test_what_is_bound_is_kept_alive(model: Model, torch: Any) -> None:
    target = torch.zeros(SHAPE, device="cuda")
    model.bind(torch.from_numpy(X).cuda(), target)
    gc.collect()
    torch.cuda.empty_cache()
    others = [torch.full(SHAPE, 9.0, device="cuda") for _ in range(20)]
    model.run()
    close(target)
    del others


def test_a_producer_on_another_stream_is_waited_for(model: Model, torch: Any) -> None:
    target, side = torch.zeros(SHAPE, device="cuda"), torch.cuda.Stream()
    slow = torch.randn(4000, 4000, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for _ in range(6):
            slow = slow @ slow * 1e-3
        source = torch.from_numpy(X).cuda() + 0 * slow[0, 0].nan_to_num(0, 0, 0)
        model.delegate.bind_buffer_to_tensor(source, 0)
    model.delegate.bind_buffer_to_tensor(target, 2)
    model.run()
    close(target)


def test_wrong_tensors_are_refused_and_the_model_goes_on(model: Model, torch: Any) -> None:
    source, target = torch.from_numpy(X).cuda(), torch.zeros(SHAPE, device="cuda")
    model.bind(source, target)
    wrong = [
        (0, source.double(), "its numbers are float64"),
        (0, source.bfloat16(), "its numbers are bfloat16"),
        (0, source[:, :-1], r"its shape is \(1, 23, 40, 3\)"),
        (0, source[:0], "it is empty"),
        (0, source.clone().requires_grad_(), "require gradient"),
        (2, torch.zeros(1, device="cuda").expand(SHAPE), "elements share memory"),
    ]
    for index, tensor, reason in wrong:
        with pytest.raises(fb.BindingError, match=reason):
            model.delegate.bind_buffer_to_tensor(tensor, index)
        target.zero_()
        model.run()
        close(target)


def test_memory_that_its_owner_frees_is_refused(model: Model, torch: Any) -> None:
    cuda, pointer = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    target = torch.zeros(SHAPE, device="cuda")
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(X.nbytes)) == 0
    array = fb.cuda.CudaArray(pointer.value, SHAPE, np.float32, device=0)
    torch.from_dlpack(array).copy_(torch.from_numpy(X))
    model.bind(array, target)
    model.run()
    close(target)
    torch.cuda.synchronize()
    assert cuda.cuMemFree_v2(pointer) == 0
    with pytest.raises(fb.BindingError, match="was freed by its owner"):
        model.run()
    with pytest.raises(fb.BindingError, match="is no memory of CUDA, or was freed"):
        fb.cuda.CudaArray(pointer.value, SHAPE, np.float32, device=0)
    model.delegate.bind_buffer_to_tensor(torch.from_numpy(X).cuda(), 0)
    target.zero_()
    model.run()
    close(target)


def test_our_memory_is_taken_in_place_and_lives_as_long_as_theirs(model: Model, torch: Any) -> None:
    array, result = fb.cuda.CudaArray.from_array(X), fb.cuda.CudaArray.from_array(np.zeros(SHAPE, np.float32))
    taken = torch.from_dlpack(array)
    assert taken.data_ptr() == array.pointer
    assert torch.as_tensor(array, device="cuda").data_ptr() == array.pointer
    model.bind(array, result)
    model.run()
    close(torch.from_dlpack(result))
    copied = torch.from_dlpack(array, copy=True)
    assert copied.data_ptr() != array.pointer and torch.equal(copied, taken)
    model.delegate.unbind(0)
    array.release()
    gc.collect()
    torch.zeros(SHAPE, device="cuda")
    np.testing.assert_array_equal(taken.cpu().numpy(), X)


def test_tensors_on_the_cpu_are_copied_and_counted(model: Model, torch: Any) -> None:
    source, target = torch.from_numpy(X.copy()), torch.zeros(SHAPE, dtype=torch.float16)
    model.bind(source, target)
    model.interpreter.invoke()
    fb.transfers.reset()
    model.interpreter.invoke()
    close(target, 5e-3)
    assert fb.transfers.bytes == X.nbytes + X.nbytes // 2
    with pytest.raises(fb.TransferError, match="from its array"):
        model.run()


def test_arrays_of_cupy_and_jax_are_bound_in_place(model: Model, torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    target = torch.zeros(SHAPE, device="cuda")
    # Or JAX takes three quarters of the GPU's memory, and tests in other processes find no GPU that has room.
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = library("jax")
    model.bind(jax.device_put(X), target)
    model.run()
    close(target)
    cupy = library("cupy")
    source, back = cupy.asarray(X, cupy.float16), cupy.zeros(SHAPE, cupy.float16)
    model.bind(source, back)
    model.run()
    close(torch.from_dlpack(back), 5e-3)
    with pytest.raises(fb.BindingError, match="kernels count upwards"):  # CuPy's capsule has strides without a sign
        model.delegate.bind_buffer_to_tensor(source[:, ::-1], 0)
    array = fb.cuda.CudaArray.from_array(X)
    assert cupy.from_dlpack(array).data.ptr == cupy.asarray(array).data.ptr == array.pointer
