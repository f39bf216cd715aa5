"""Arrays bound to tensors by shape, strides and type; those in the CPU's memory are copied at each run, counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.delegate.run.arrays import array_view
from framebind.interop.arrays import array_layout
from framebind.interop.device import Device
from framebind.kernels.tensor import TensorInfo
from framebind.kernels.views import Dense, Sliced, Strided
from framebind.tools.certify.cases.operator_models import options
from framebind.video.answers.graph import AnswerGraph
from support.tiny_models import CPU_ONLY, G, Op, T, build, chain

SHAPE = (1, 4, 6, 3)
RNG = np.random.default_rng(0)
MODEL = chain("TANH", "EXP", shape=SHAPE)


def model_of(x: np.ndarray) -> np.ndarray:
    return np.exp(np.tanh(x.astype(np.float32)))


class Speaking:
    """A tensor of another library: nothing but the two methods of DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream: Any = None) -> Any:  # as PyAV's planes: no version, no copy
        return self.array.__dlpack__()


LAYOUTS: dict[str, Callable[[Any, Any], np.ndarray]] = {
    "BHWC": lambda shape, dtype: np.zeros(shape, dtype),
    "BCHW": lambda shape, dtype: np.zeros((shape[0], shape[3], *shape[1:3]), dtype),
    "channels last, seen as BCHW": lambda shape, dtype: np.zeros(shape, dtype).transpose(0, 3, 1, 2),
    "CHW, seen as HWC": lambda shape, dtype: np.zeros((shape[3], *shape[1:3]), dtype).transpose(1, 2, 0),
    "with pitches": lambda shape, dtype: np.zeros((shape[1] + 2, shape[2] + 3, shape[3] + 1), dtype)[1:-1, 2:-1, :-1],
    "backwards": lambda shape, dtype: np.zeros(shape, dtype)[:, ::-1],
    "flat": lambda shape, dtype: np.zeros(int(np.prod(shape)), dtype),
}


def bhwc(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array's elements in the tensor's order, on the same memory."""
    if array.ndim == 4 and array.shape != shape:
        return array.transpose(0, 2, 3, 1)
    if array.ndim == 3 and array.shape != shape[1:]:
        return array.transpose(1, 2, 0)[None]
    return array.reshape(shape) if array.ndim == 1 else array.reshape(shape) if array.ndim == 4 else array[None]


def ready(content: bytes, **given: Any) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(**given))
    interpreter = fb.Interpreter(model_content=content, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    return interpreter, delegate


def copies() -> dict[tuple[str, str], tuple[int, int]]:
    rows = fb.transfers.by_reason.items()
    return {
        key: (hop.calls, hop.bytes)
        for key, hop in rows
        if key[1] not in ("constants of the model", "steps of a program")
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("channels", [3, 8])
def test_arrays_of_any_layout_are_read_and_written(gpu: Device, channels: int, dtype: Any) -> None:
    shape = (1, 4, 6, channels)
    interpreter, delegate = ready(chain("TANH", "EXP", shape=shape))
    for make in LAYOUTS.values():
        source, target = make(shape, dtype), make(shape, dtype)
        delegate.bind_buffer_to_tensor(source, 0)
        delegate.bind_buffer_to_tensor(Speaking(target), 2)
        for _ in range(2):  # what counts is the content at the time of the run
            x = RNG.normal(size=shape).astype(dtype)
            bhwc(source, shape)[...] = x
            interpreter.invoke()
            bound = 2e-6 if dtype == np.float32 else 2e-3
            np.testing.assert_allclose(bhwc(target, shape), model_of(x), atol=bound, rtol=bound)
            np.testing.assert_array_equal(interpreter.get_tensor(2), bhwc(target, shape).astype(np.float32))
    delegate.close()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_model_s_arrays_are_what_litert_computes(gpu: Device, model_path: Callable[[str], Path], dtype: Any) -> None:
    """Channels first, in one dispatch if the device has it."""
    content = model_path("face_detection_front").read_bytes()
    interpreter, delegate = ready(content)
    cpu: Any = fb.Interpreter(model_content=content, delegate="cpu")
    cpu.allocate_tensors()
    x = RNG.random((1, 3, 128, 128), np.float32).astype(dtype)
    cpu.set_tensor(0, np.ascontiguousarray(x.transpose(0, 2, 3, 1), np.float32))
    cpu.invoke()
    delegate.bind_buffer_to_tensor(x, 0)
    arrays = {d["index"]: np.zeros(d["shape"], dtype) for d in cpu.get_output_details()}
    for index, array in arrays.items():
        delegate.bind_buffer_to_tensor(array, index)
    interpreter.invoke()
    for index, array in arrays.items():
        wanted = cpu.get_tensor(index)
        assert np.abs(array - wanted).max() <= (1e-4 if dtype == np.float32 else 1e-3) * np.abs(wanted).max()
    delegate.close()


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool"])
def test_integers_are_bound_as_floats(gpu: Device, dtype: str) -> None:
    """A class, an index, a truth value: objects hold it as float32, ``set_tensor`` and ``get_tensor`` as it is."""
    graph = AnswerGraph()
    given = graph.input((1, 2, 3, 1), dtype)
    doubled = graph.binary("MUL", graph.cast(given, "float32"), 2.0)
    interpreter, delegate = ready(graph.build(doubled, graph.cast(doubled, dtype)))
    interpreter.set_allow_buffer_handle_output(True)
    numbers = np.array([0, 1, 1, 0, 1, 1] if dtype == "bool" else [0, 1, -7, 300, 1 << 20, (1 << 24) - 1])
    source, (floats, integers) = numbers.reshape(1, 2, 3, 1).astype(np.float32), np.zeros((2, 1, 2, 3, 1), np.float32)
    delegate.bind_buffer_to_tensor(source, given)
    for output, target in zip(interpreter.outputs(), (floats, integers), strict=True):
        delegate.bind_buffer_to_tensor(target, output)
    interpreter.invoke()
    np.testing.assert_array_equal(floats, 2 * source)
    np.testing.assert_array_equal(integers, (2 * source).astype(dtype).astype(np.float32))
    last = interpreter.outputs()[1]
    delegate.ensure_tensor_data_is_readable(last)
    found = interpreter.get_tensor(last)
    assert found.dtype == dtype and np.array_equal(found, (2 * source).astype(dtype))
    delegate.unbind(given)
    interpreter.set_tensor(given, source[:, ::-1].astype(dtype))
    interpreter.invoke()
    np.testing.assert_array_equal(floats, 2 * source[:, ::-1])
    delegate.close()


def test_pictures_are_bytes_to_a_tensor_of_bytes(gpu: Device) -> None:
    """uint8 without a scale, as PyTorch's exports have it: 255 for a texel of 1."""
    graph = AnswerGraph()
    given = graph.input((1, 4, 6, 3), "uint8")
    floats = graph.cast(given, "float32")
    interpreter, delegate = ready(graph.build(floats, graph.cast(graph.binary("MUL", floats, 0.5), "uint8")))
    picture = RNG.integers(0, 128, (4, 6, 3)).astype(np.uint8) * 2
    delegate.bind_buffer_to_tensor(picture, given)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(floats)[0], picture)
    np.testing.assert_array_equal(interpreter.get_tensor(interpreter.outputs()[1])[0], picture // 2)
    delegate.bind_buffer_to_tensor(picture, given, order="bgr", mean=1.0, std=-1.0)
    interpreter.invoke()
    np.testing.assert_allclose(interpreter.get_tensor(floats)[0], 255 - picture[..., ::-1], rtol=1e-6)
    delegate.close()


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_tensor_of_bytes_becomes_a_texture_of_bytes(context: fb.GlContext) -> None:
    graph = AnswerGraph()
    given = graph.input((1, 4, 6, 3), "uint8")
    made = graph.cast(graph.binary("MUL", graph.cast(given, "float32"), 0.5), "uint8")
    interpreter, delegate = ready(graph.build(made))
    picture, painted = RNG.integers(0, 128, (4, 6, 3)).astype(np.uint8) * 2, fb.GlTexture(6, 4)
    delegate.bind_buffer_to_tensor(fb.GlTexture.from_array(picture), given)
    delegate.bind_buffer_to_tensor(painted, made)
    interpreter.invoke()
    np.testing.assert_array_equal(painted.read()[..., :3], picture // 2)
    np.testing.assert_array_equal(interpreter.get_tensor(made)[0], picture // 2)
    delegate.close()


@pytest.mark.parametrize("context", ["gl", "gles"], indirect=True)
def test_a_bound_result_of_int32_is_read_again_as_it_is(context: fb.GlContext) -> None:
    """A bound buffer holds 24 bits of a number: 2^24 + 1 is none of them."""
    graph, odd = AnswerGraph(), np.full((1, 2, 2, 3), (1 << 24) + 1, np.int32)
    given = graph.input(odd.shape, "int32")
    large = graph.turn(given, 0, 2, 1, 3)
    same = graph.apply("EQUAL", [large, graph.constant(odd)], odd.shape, "bool")
    interpreter, delegate = ready(graph.build(large, graph.cast(same, "float32")))
    interpreter.set_tensor(given, odd)
    delegate.bind_buffer_to_tensor(fb.GlBuffer(48), large)
    interpreter.invoke()
    assert interpreter.get_tensor(interpreter.outputs()[1]).all()
    assert {each.runs_on for each in interpreter.delegated_ops()} == {"gpu"}
    delegate.close()


def test_what_the_cpu_computes_is_not_bound(context: fb.GlContext) -> None:
    tensors = [T(f"t{i}", (1, 4, 5, 3)) for i in range(3)]
    interpreter, delegate = ready(build(G(tensors, [Op(CPU_ONLY, [0], [1]), Op("TANH", [1], [2])], [0], [1, 2])))
    with pytest.raises(fb.BindingError, match=r"tensor 1 't1' .* an operator on the CPU computes it"):
        delegate.bind_buffer_to_tensor(fb.GlBuffer(240), 1)
    interpreter.invoke()
    delegate.close()


def test_bytes_of_a_texture_are_whole_numbers(context: fb.GlContext) -> None:
    """A texel of byte n has the value n / 255."""
    graph = AnswerGraph()
    given = graph.input((1, 16, 16, 1), "uint8")
    interpreter, delegate = ready(graph.build(graph.cast(given, "float32")))
    numbers = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
    delegate.bind_buffer_to_tensor(fb.GlTexture.from_array(np.repeat(numbers, 4, 2)), given)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(interpreter.outputs()[0])[0], numbers)
    delegate.close()


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_buffer_of_integers_is_not_taken_for_floats(context: fb.GlContext) -> None:
    graph = AnswerGraph()
    given = graph.input((1, 2, 3, 1), "int32")
    _, delegate = ready(graph.build(graph.cast(given, "float32")))
    with pytest.raises(fb.BindingError, match="it holds int32, and bound buffers hold the numbers as float32"):
        delegate.bind_buffer_to_tensor(fb.GlBuffer.from_array(np.arange(6, dtype=np.int32)), given)
    delegate.close()


def test_each_run_copies_the_arrays_once_and_the_guard_sees_it(gpu: Device) -> None:
    interpreter, delegate = ready(MODEL)
    source, target = (np.zeros(SHAPE, np.float16) for _ in range(2))
    delegate.bind_buffer_to_tensor(source, 0)
    delegate.bind_buffer_to_tensor(target, 2)
    interpreter.invoke()
    fb.transfers.reset()
    for _ in range(3):
        interpreter.invoke()
    assert copies() == {
        ("upload", "input tensor 0 'x' from its array"): (3, 3 * source.nbytes),
        ("download", "output tensor 2 't2' to its array"): (3, 3 * target.nbytes),
    }
    with fb.transfer_guard("disallow"), pytest.raises(fb.TransferError, match=r"upload of 144 bytes .* from its array"):
        interpreter.invoke()
    source[...] = 0.5
    interpreter.invoke()
    np.testing.assert_allclose(target, model_of(source), atol=2e-3)
    delegate.close()


def test_a_ring_of_arrays_takes_one_buffer(gpu: Device) -> None:
    interpreter, delegate = ready(MODEL)
    delegate.set_allow_buffer_handle_output(True)
    target, buffers = np.zeros(SHAPE, np.float32), set[int]()
    delegate.bind_buffer_to_tensor(target, 2)
    for value in (0.1, 0.2, 0.3):
        frame = np.full((3, 4, 7), value, np.float32)[:, :, :6]
        delegate.bind_buffer_to_tensor(frame, 0)
        interpreter.invoke()
        np.testing.assert_allclose(target, np.exp(np.tanh(value)), rtol=1e-5)
        binding = delegate.engine.boundary.memory.binding((0, 0), TensorInfo("x", SHAPE, "float32"))
        buffers.add(id(binding.resource))
    assert len(buffers) == 1
    delegate.close()


def test_each_frame_of_a_batch_has_an_array(gpu: Device) -> None:
    interpreter, delegate = ready(MODEL)
    interpreter.resize_tensor_input(0, (2, *SHAPE[1:]))
    interpreter.allocate_tensors()
    frames = [RNG.normal(size=SHAPE[1:]).astype(np.float16) for _ in range(2)]
    results = [np.zeros((3, 4, 6), np.float32) for _ in range(2)]
    delegate.bind_buffer_to_tensor(frames, 0)
    delegate.bind_buffer_to_tensor(results, 2)
    for _ in range(2):
        interpreter.invoke()
        for frame, result in zip(frames, results, strict=True):
            np.testing.assert_allclose(result.transpose(1, 2, 0), model_of(frame), rtol=1e-5)
            frame *= 2
    np.testing.assert_array_equal(interpreter.get_tensor(2), np.stack(results).transpose(0, 2, 3, 1))
    assert {key: calls for key, (calls, _) in copies().items()} == {
        ("upload", "input tensor 0 'x' from its array"): 4,
        ("download", "output tensor 2 't2' to its array"): 4,
    }
    delegate.close()


def test_an_array_is_bound_to_a_delegate_in_a_context_of_its_own() -> None:
    interpreter, delegate = ready(MODEL, backend="opengl")
    source, target = np.full(SHAPE, 0.5, np.float32), np.zeros(SHAPE, np.float32)
    delegate.bind_buffer_to_tensor(source, 0)
    delegate.bind_buffer_to_tensor(target, 2)
    interpreter.invoke()
    np.testing.assert_allclose(target, model_of(source), rtol=1e-5)
    delegate.unbind(0)
    interpreter.set_tensor(0, np.zeros(SHAPE, np.float32))
    interpreter.invoke()
    np.testing.assert_allclose(target, 1, rtol=1e-6)
    delegate.close()


def test_halves_that_the_model_reads_again_are_rounded_in_the_array_alone(gpu: Device) -> None:
    """The second output is computed from the first one; the third is written in parts."""
    shape = (1, 2, 3, 4)
    tensors = [T("x", shape), T("tanh", shape), T("exp", shape), T("both", (1, 2, 3, 8))]
    operators = [
        Op("TANH", [0], [1]), Op("EXP", [1], [2]), Op("CONCATENATION", [1, 2], [3], options("Concatenation", axis=3)),
    ]  # fmt: skip
    interpreter, delegate = ready(build(G(tensors, operators, [0], [1, 2, 3])))
    x = RNG.normal(size=shape).astype(np.float32)
    arrays = {index: np.zeros((*shape[:3], 8 if index == 3 else 4), np.float16) for index in (1, 2, 3)}
    for index, array in arrays.items():
        delegate.bind_buffer_to_tensor(array, index)
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    exact = {1: np.tanh(x), 2: model_of(x), 3: np.concatenate([np.tanh(x), model_of(x)], axis=3)}
    for index, array in arrays.items():
        # Half a step of a half: were the first output's halves read again, errors would add up.
        np.testing.assert_allclose(array, exact[index].astype(np.float16), atol=1e-3, rtol=6e-4)
    delegate.close()


READ_ONLY = np.zeros(SHAPE, np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    "array, tensor, reason",
    [
        (np.zeros(SHAPE), 0, "its numbers are float64, and a tensor's values are float32 or float16; convert it"),
        (np.zeros(SHAPE, np.int32), 0, "its numbers are int32"),
        (np.zeros(SHAPE, ">f4"), 0, "its numbers are >f4"),
        (np.zeros((1, 6, 4, 3), np.float32), 0, r"its shape is \(1, 6, 4, 3\), and the tensor's \(1, 4, 6, 3\), or "),
        (np.zeros(71, np.float32), 0, r"its shape is \(71,\), .* or 72 values in one dimension fit"),
        (np.zeros((0, 4, 6, 3), np.float32), 0, "it is empty"),
        (np.ma.masked_invalid(np.zeros(SHAPE, np.float32)), 0, r"of numpy.ma has a mask, .*: give what its filled\("),
        (np.ma.zeros(SHAPE, np.float32), 2, "of numpy.ma has a mask"),
        (READ_ONLY, 2, "it is read-only, and the model writes it; bind a copy"),
        (np.broadcast_to(np.zeros((6, 3), np.float32), SHAPE), 2, "it is read-only"),
        (np.lib.stride_tricks.as_strided(np.zeros(99, np.float32), SHAPE, (0, 12, 12, 4)), 2, "elements share memory"),
        (np.zeros(291, np.uint8)[3:].view(np.float32).reshape(SHAPE), 2, ""),
    ],
)  # fmt: skip
def test_an_array_that_does_not_fit_is_refused_and_what_was_bound_stays(
    array: np.ndarray, tensor: int, reason: str
) -> None:
    interpreter, delegate = ready(MODEL, backend="null")
    before = np.ones(SHAPE, np.float32)
    delegate.bind_buffer_to_tensor(before, tensor)
    if reason:
        with pytest.raises(fb.BindingError, match=f"^tensor {tensor} .* cannot be bound.*{reason}"):
            delegate.bind_buffer_to_tensor(array, tensor)
    else:  # NumPy copies memory that begins anywhere
        delegate.bind_buffer_to_tensor(array, tensor)
        delegate.bind_buffer_to_tensor(before, tensor)
    interpreter.invoke()
    assert before.all() == (tensor == 0), "the null device's results, zeros, came to the array that was bound before"
    delegate.close()


def test_a_larger_array_takes_a_larger_buffer() -> None:
    interpreter, delegate = ready(MODEL, backend="null")
    for array in (np.zeros(SHAPE, np.float16), np.zeros(SHAPE, np.float32)):
        delegate.bind_buffer_to_tensor(array, 0)
        interpreter.invoke()
        binding = delegate.engine.boundary.memory.binding((0, 0), TensorInfo("x", SHAPE, "float32"))
        assert binding.resource.nbytes == array.nbytes
    delegate.close()


def test_pictures_options_are_refused_for_arrays_of_floats() -> None:
    _, delegate = ready(MODEL, backend="null")
    with pytest.raises(fb.BindingError, match=r"with mean, std.*those are for textures"):
        delegate.bind_buffer_to_tensor(np.zeros(SHAPE, np.float32), 0, std=2.0)


def layout(array: np.ndarray, pointer: int = 0) -> Any:
    return array_layout("an array", pointer, array.shape, array.dtype, array.strides)


def test_the_view_is_the_fastest_that_reads_the_array_where_it_is() -> None:
    tensor, wide = TensorInfo("t", (1, 4, 6, 3), "float32"), TensorInfo("w", (1, 4, 6, 8), "float32")
    floats, halves = np.zeros((4, 6, 8), np.float32), np.zeros((4, 6, 8), np.float16)
    cases: list[tuple[Any, TensorInfo, Any]] = [
        (layout(floats), wide, Dense(wide.bhwc)),
        (layout(floats, pointer=8), wide, Strided(wide.bhwc, "float32", (0, 48, 8, 1))),
        (layout(halves), wide, Sliced(wide.bhwc, "f16")),
        (layout(halves, pointer=8), wide, Strided(wide.bhwc, "float16", (0, 48, 8, 1))),
        (layout(floats[:, :, :3].copy(), pointer=4), tensor, Dense(tensor.bhwc)),
        (layout(floats[:, :, :3]), tensor, Strided(tensor.bhwc, "float32", (0, 48, 8, 1))),
        (layout(halves[:, :, :3].copy()), tensor, Strided(tensor.bhwc, "float16", (0, 18, 3, 1))),
        (layout(np.zeros((3, 4, 6), np.float32)), tensor, Strided(tensor.bhwc, "float32", (0, 6, 1, 24))),
    ]
    for given, info, view in cases:
        assert array_view(given, info, "here", write=True) == view
    broadcast = layout(np.broadcast_to(np.zeros((6, 3), np.float32), SHAPE))
    assert array_view(broadcast, tensor, "here", write=False) == Strided(tensor.bhwc, "float32", (0, 0, 3, 1))
    huge = array_layout("an array", 0, SHAPE, np.dtype(np.float16), (0, 1 << 31, 6, 2))
    with pytest.raises(fb.BindingError, match="kernels count to 2147483647 numbers"):
        array_view(huge, tensor, "here", write=False)
