"""Models with channels first (NCHW), as PyTorch exports them: each gives, bit for bit, what its twin with channels last
gives for the same pictures, and takes no step more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import cv2
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter as LiteRt

import framebind as fb
from framebind.delegate.claim.channels_first import with_layouts
from framebind.delegate.read.reader import read_model
from framebind.interop.device import Device
from framebind.interop.frames.frame import Frame
from framebind.kernels.views import Picture, PlanePicture
from framebind.tools.certify.cases.formulas import Formula
from framebind.video.assets import PHOTOGRAPH
from framebind.video.tflite_writer import G, Op, T
from support.device_steps import texture
from support.formulas import error_on, kernels_of
from support.gl_calls import counted_calls
from support.model_runs import backend_of
from support.recording_driver import RecordingDriver
from support.tiny_models import build

Array = np.ndarray[Any, Any]
Ends = Literal["transposed", "computed"]
HEIGHT, WIDTH = 10, 14
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (18, 32, 4), np.uint8)
SAME_SIZE = RNG.integers(0, 256, (HEIGHT, WIDTH, 4), np.uint8)
LUMA, CHROMA = PIXELS[..., 0].copy(), PIXELS[::2, ::2, 1:3].copy()
PLACE: dict[str, Any] = {"crop": (1.5, 1.0, 20.0, 12.0), "rotation": 30.0, "flip": "horizontal"}
LETTERBOX: dict[str, Any] = {"crop": (-4.0, -9.0, 40.0, 44.0), "pad": 114 / 255, "mean": 0.25, "std": 0.5}
SCALE: dict[str, Any] = {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.25, 0.3)}


class _Writer:
    """Tensors and operators of a model, whose current tensor has channels last or first."""

    def __init__(self) -> None:
        self.tensors, self.operators = list[T](), list[Op]()

    def add(self, name: str, inputs: Sequence[int], shape: Sequence[int], options: Any = None, label: str = "") -> int:
        self.tensors.append(T(label or f"t{len(self.tensors)}", shape))
        self.operators.append(Op(name, inputs, [len(self.tensors) - 1], options))
        return len(self.tensors) - 1

    def constant(self, values: Array) -> int:
        self.tensors.append(T(f"c{len(self.tensors)}", values.shape, values, values.dtype.name))
        return len(self.tensors) - 1

    def transpose(self, source: int, order: tuple[int, ...], label: str = "") -> int:
        shape = [self.tensors[source].shape[axis] for axis in order]
        return self.add("TRANSPOSE", [source, self.constant(np.array(order, np.int32))], shape, label=label)

    def convolve(self, source: int, channels: int, label: str = "") -> int:
        *size, given = self.tensors[source].shape
        options = schema.Conv2DOptionsT()
        options.strideH = options.strideW = 1
        random = np.random.default_rng(given * 8 + channels)
        weights, bias = random.normal(0, 0.3, (channels, 3, 3, given)), random.normal(0, 0.3, channels)
        constants = [self.constant(each.astype(np.float32)) for each in (weights, bias)]
        return self.add("CONV_2D", [source, *constants], [*size, channels], options, label)


def network(
    layout: str, *, given: Ends = "transposed", result: Ends = "transposed", batch: int = 1, channels: int = 3
) -> bytes:
    """Two convolutions of a picture "x", which make a picture "y"; both have channels first in the layout "nchw".

    With the ends "computed" an operator (ABS) reads the picture, or writes the result, in the model's own layout.
    """
    writer, first = _Writer(), layout == "nchw"
    size = (channels, HEIGHT, WIDTH) if first else (HEIGHT, WIDTH, channels)
    writer.tensors.append(T("x", (batch, *size)))
    current = 0
    if given == "computed":
        current = writer.add("ABS", [current], writer.tensors[current].shape)
    if first:
        current = writer.transpose(current, (0, 2, 3, 1))
    current = writer.convolve(writer.convolve(current, 8), channels, "" if first or result == "computed" else "y")
    if first:
        current = writer.transpose(current, (0, 3, 1, 2), "" if result == "computed" else "y")
    if result == "computed":
        current = writer.add("ABS", [current], writer.tensors[current].shape, label="y")
    return build(G(writer.tensors, writer.operators, [0], [current]))


def ready(content: bytes, backend: Any) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend))
    interpreter = fb.Interpreter(model_content=content, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    interpreter.set_allow_buffer_handle_output(True)
    return interpreter, delegate


def in_layout(array: Array, layout: str) -> Array:
    """Values (batch, height, width, channels) in a layout."""
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2)) if layout == "nchw" else array


def with_channels_last(values: Array, layout: str) -> Array:
    return values.transpose(0, 2, 3, 1) if layout == "nchw" else values


class Run(NamedTuple):
    """The outputs of a network, with channels last, and the kernels of its steps."""

    values: Array
    kernels: list[str]


def run(content: bytes, layout: str, backend: Any, source: Any, target: Any = None, **mapping: Any) -> Run:
    interpreter, delegate = ready(content, backend)
    assert (delegate.layout_of("x"), delegate.layout_of("y")) == (layout, layout)
    delegate.bind_buffer_to_tensor(source, "x", **mapping)
    if target is not None:
        delegate.bind_buffer_to_tensor(target, "y")
    interpreter.invoke()
    output = interpreter.outputs()[0]
    delegate.ensure_tensor_data_is_readable(output)
    values = with_channels_last(interpreter.get_tensor(output).copy(), layout)
    kernels = [step.kernel for step in delegate.steps()]
    delegate.close()
    return Run(values, kernels)


def twins(
    gpu: Device, source: Callable[[str], Any], target: Callable[[str], Any] = lambda _: None,
    given: Ends = "transposed", result: Ends = "transposed", batch: int = 1, channels: int = 3, **mapping: Any,
) -> tuple[Run, Run]:  # fmt: skip
    """The outputs of both networks, which are equal. ``source`` and ``target`` make the objects for a layout."""
    first, last = (
        run(
            network(layout, given=given, result=result, batch=batch, channels=channels), layout, backend_of(gpu),
            source(layout), target(layout), **mapping,
        )
        for layout in ("nchw", "nhwc")
    )  # fmt: skip
    assert np.ptp(last.values) > 0.1 and np.array_equal(first.values, last.values)
    if given == result == "transposed":
        assert first.kernels == last.kernels
    return first, last


# Equal to channels last -----------------------------------------------------------------------------------------------

PICTURES: dict[str, tuple[Callable[[Device], Any], dict[str, Any]]] = {
    "texture of the tensor's size": (lambda gpu: texture(gpu, SAME_SIZE), {}),
    "texture, scaled": (lambda gpu: texture(gpu, PIXELS), {}),
    "texture, a region turned": (lambda gpu: texture(gpu, PIXELS), PLACE | SCALE | {"order": "bgr"}),
    "array of bytes": (lambda _: PIXELS[..., :3], PLACE),
    "array of bytes, channels first": (lambda _: PIXELS[..., :3].transpose(2, 0, 1), SCALE),
    "texture, letterboxed": (lambda gpu: texture(gpu, PIXELS), LETTERBOX),
    "nv12, letterboxed": (lambda _: fb.YuvPicture([LUMA, CHROMA]), LETTERBOX),
    "nv12": (lambda _: fb.YuvPicture([LUMA, CHROMA]), SCALE),
    "yuv420p": (
        lambda _: fb.YuvPicture([LUMA, CHROMA[..., 0].copy(), CHROMA[..., 1].copy()], format="yuv420p"), PLACE
    ),
    "frame": (lambda _: Frame(fb.YuvPicture([LUMA, CHROMA]), rotation=90), SCALE),
}  # fmt: skip


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_gives_what_it_gives_with_channels_last(gpu: Device, name: str) -> None:
    make, mapping = PICTURES[name]
    twins(gpu, lambda _: make(gpu), **mapping)


@pytest.mark.parametrize("name", ["texture, a region turned", "nv12"])
def test_operators_before_the_transpose_take_one_conversion(gpu: Device, name: str) -> None:
    make, mapping = PICTURES[name]
    first, last = twins(gpu, lambda _: make(gpu), given="computed", **mapping)
    assert Counter(first.kernels) - Counter(last.kernels) == {"strided_copy": 2}  # the picture's, and the model's own


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("result", ["transposed", "computed"])
def test_a_result_is_drawn_as_with_channels_last(gpu: Device, channels: int, result: Ends) -> None:
    pictures = PIXELS if channels > 1 else PIXELS[..., :1].copy()
    format = "rgba32f" if channels > 1 else "r32f"
    targets = [gpu.texture(WIDTH, HEIGHT, format, "result") for _ in range(2)]
    twins(
        gpu,
        lambda _: texture(gpu, pictures),
        lambda layout: targets[layout == "nchw"],
        channels=channels,
        result=result,
    )
    last, first = (np.empty((HEIGHT, WIDTH, 1 if channels == 1 else 4), np.float32) for _ in range(2))
    gpu.read(targets[0], last, "test")
    gpu.read(targets[1], first, "test")
    assert np.ptp(last) > 0.1 and np.array_equal(first, last)


def test_buffers_and_arrays_hold_the_tensors_own_values(gpu: Device) -> None:
    values = RNG.random((1, HEIGHT, WIDTH, 3), np.float32)
    results = dict[str, Array]()

    def buffer(layout: str) -> Any:
        made = gpu.buffer(values.nbytes, "values")
        gpu.write(made, in_layout(values, layout), "test")
        return made

    def result(layout: str) -> Array:
        results[layout] = np.zeros_like(in_layout(values, layout))
        return results[layout]

    twins(gpu, buffer, lambda _: gpu.buffer(values.nbytes, "result"))
    twins(gpu, lambda layout: in_layout(values, layout), result)
    assert np.array_equal(with_channels_last(results["nchw"], "nchw"), results["nhwc"])
    twins(gpu, lambda _: values[0])  # (height, width, channels) fits both
    twins(gpu, lambda layout: in_layout(values.astype(np.float16), layout))


def test_the_cpus_values_need_no_transpose(gpu: Device) -> None:
    values, found = RNG.random((1, HEIGHT, WIDTH, 3), np.float32), list[Array]()
    for layout in ("nchw", "nhwc"):
        interpreter, delegate = ready(network(layout), backend_of(gpu))
        interpreter.set_tensor(interpreter.inputs()[0], in_layout(values, layout))
        interpreter.invoke()
        delegate.ensure_tensor_data_is_readable("y")
        found.append(with_channels_last(interpreter.get_tensor(interpreter.outputs()[0]), layout))
        assert len(delegate.steps()) == 2
        delegate.close()
    assert np.ptp(found[0]) > 0.1 and np.array_equal(found[0], found[1])


def test_a_batch_has_a_picture_for_each_frame(gpu: Device) -> None:
    frames = [texture(gpu, PIXELS), texture(gpu, SAME_SIZE)]
    results = {layout: [gpu.texture(WIDTH, HEIGHT, "rgba32f", "result") for _ in frames] for layout in ("nchw", "nhwc")}
    crops = [None, (1.0, 2.0, 8.0, 6.0)]
    twins(gpu, lambda _: frames, results.__getitem__, batch=2, crop=crops, **SCALE)
    for pair in zip(*results.values(), strict=True):
        texels = [np.empty((HEIGHT, WIDTH, 4), np.float32) for _ in pair]
        for each, read in zip(pair, texels, strict=True):
            gpu.read(each, read, "test")
        assert np.ptp(texels[0]) > 0.1 and np.array_equal(texels[0], texels[1])
    twins(gpu, lambda _: frames, results.__getitem__, batch=2, given="computed", result="computed", crop=crops, **SCALE)
    halves = [RNG.random((1, HEIGHT, WIDTH, 3), np.float32) for _ in frames]
    twins(gpu, lambda layout: [in_layout(half, layout) for half in halves], batch=2)
    twins(gpu, lambda layout: [in_layout(half, layout) for half in halves], batch=2, given="computed")


def test_a_model_is_resized_to_a_batch(gpu: Device) -> None:
    interpreter, delegate = ready(network("nchw"), backend_of(gpu))
    found = list[Array]()
    for frames in ([PIXELS], [SAME_SIZE, PIXELS]):
        interpreter.resize_tensor_input(interpreter.inputs()[0], (len(frames), 3, HEIGHT, WIDTH))
        interpreter.allocate_tensors()
        delegate.bind_buffer_to_tensor([texture(gpu, frame) for frame in frames], "x")
        interpreter.invoke()
        delegate.ensure_tensor_data_is_readable("y")
        found.append(interpreter.get_tensor(interpreter.outputs()[0]).copy())
    assert found[1].shape == (2, 3, HEIGHT, WIDTH) and np.array_equal(found[0][0], found[1][1])
    delegate.close()


# Cost -----------------------------------------------------------------------------------------------------------------


def test_the_first_convolution_samples_the_picture(device: Device) -> None:
    """On a GPU whose units this picture does not fill, it is copied once, in both layouts alike."""
    backend = "null" if device.traits.api == "null" else backend_of(device)
    kernels = list[list[str]]()
    for layout in ("nchw", "nhwc"):
        interpreter, delegate = ready(network(layout), backend)
        delegate.bind_buffer_to_tensor(texture(device, PIXELS) if backend != "null" else PIXELS, 0, **PLACE)
        interpreter.invoke()
        steps = delegate.engine.programs[0].steps
        assert any(isinstance(each.view, Picture | PlanePicture) for each in steps[0].kernel.source.arguments)
        binding = delegate.engine.boundary.memory.used((0, 0))
        assert binding is not None and binding.how == "at most one conversion dispatch"
        kernels.append([step.kernel.source.name for step in steps])
        delegate.close()
    assert kernels[0] == kernels[1]
    if device.traits.invocations <= 1 << 15:
        assert len(kernels[0]) <= 2 and "conv" in kernels[0][0]


def test_a_picture_for_other_operators_says_that_it_is_converted() -> None:
    interpreter, delegate = ready(network("nchw", given="computed"), "null")
    delegate.bind_buffer_to_tensor(PIXELS, "x")
    interpreter.invoke()
    binding = delegate.engine.boundary.memory.used((0, 0))
    assert binding is not None and binding.how == "one conversion dispatch"
    assert delegate.steps()[0].label == "0 TRANSPOSE "
    delegate.close()


def test_the_next_texture_is_the_same_commands_and_calls(context: fb.GlContext) -> None:
    counts, steps = list[Counter[str]](), list[int]()
    for layout in ("nchw", "nhwc"):
        ring = [fb.GlTexture.from_array(PIXELS) for _ in range(3)]
        with counted_calls(context) as calls:
            interpreter, delegate = ready(network(layout), "opengl")
            delegate.bind_buffer_to_tensor(fb.GlTexture(WIDTH, HEIGHT, "rgba32f"), "y")
            recorded, before = set[int](), Counter[str]()
            for frame in (*ring, *ring):
                before = Counter(calls)
                delegate.bind_buffer_to_tensor(frame, 0, **SCALE)
                interpreter.invoke()
                recorded.add(id(delegate.engine.programs[0].recorded))
            counts.append(calls - before)
            assert len(recorded) == 1
            steps.append(len(delegate.engine.programs[0].steps))
            delegate.close()
    assert counts[0] == counts[1] and steps == [counts[0]["glDispatchCompute"]] * 2


def test_pictures_of_cuda_are_read_in_place(recorder: RecordingDriver) -> None:
    found = list[list[str]]()
    with fb.cuda.CudaContext():
        planes = [fb.cuda.CudaArray.from_array(plane) for plane in (LUMA, CHROMA)]
        image, array = fb.cuda.CudaImage.from_array(PIXELS), fb.cuda.CudaArray.from_array(PIXELS)
        for layout in ("nchw", "nhwc"):
            interpreter, delegate = ready(network(layout), "cuda")
            result = fb.cuda.CudaImage.from_array(np.zeros((HEIGHT, WIDTH, 4), np.float32))
            delegate.bind_buffer_to_tensor(result, "y")
            for obj in (image, array, fb.YuvPicture(planes)):
                delegate.bind_buffer_to_tensor(obj, "x", **PLACE)
                interpreter.invoke()
                fb.transfers.reset()
                recorder.calls.clear()
                delegate.bind_buffer_to_tensor(obj, "x", **PLACE)
                interpreter.invoke()
                assert fb.transfers.bytes == 0
                found.append(recorder.names() + [step.kernel for step in delegate.steps()])
            delegate.close()
    assert found[:3] == found[3:]


# The rule -------------------------------------------------------------------------------------------------------------


def layouts(*shape: int, order: tuple[int, ...] | None = None) -> tuple[bool, bool]:
    """Whether the input and the output of a model, of one operator, have channels first."""
    writer = _Writer()
    writer.tensors.append(T("x", shape))
    result = writer.add("ABS", [0], shape) if order is None else writer.transpose(0, order)
    subgraph = read_model(build(G(writer.tensors, writer.operators, [0], [result]))).subgraphs[0]
    found = with_layouts(subgraph, dict(enumerate(subgraph.tensors)))
    return found[0].channels_first, found[result].channels_first


def test_the_layout_is_decided_by_transposes_and_shapes() -> None:
    assert layouts(1, 3, 10, 14) == layouts(2, 1, 5, 5) == layouts(1, 4, 10, 14) == (True, True)
    for shape in ((1, 5, 10, 14), (1, 10, 14, 3), (1, 3, 4, 4), (1, 1, 1, 1000), (1, 1, 77, 4), (1, 3, 14), (3, 14)):
        assert layouts(*shape) == (False, False), shape
    assert layouts(1, 3, 4, 4, order=(0, 2, 3, 1)) == (True, False)
    assert layouts(1, 4, 4, 3, order=(0, 3, 1, 2)) == (False, True)
    assert layouts(1, 8, 4, 4, order=(0, 2, 3, 1)) == (False, False)


def test_layout_overrules_the_rule(gpu: Device) -> None:
    pixels = RNG.integers(0, 256, (4, 4, 4), np.uint8)
    writer = _Writer()
    writer.tensors.append(T("x", (1, 3, 4, 4)))
    writer.add("ABS", [0], (1, 3, 4, 4))
    content = build(G(writer.tensors, writer.operators, [0], [1]))
    interpreter, delegate = ready(content, backend_of(gpu))
    assert delegate.layout_of("x") == "nhwc"
    delegate.bind_buffer_to_tensor(texture(gpu, pixels), "x", layout="nchw")
    interpreter.invoke()
    delegate.ensure_tensor_data_is_readable(1)
    assert np.abs(interpreter.get_tensor(1)[0] - pixels[..., :3].transpose(2, 0, 1) / 255).max() <= 1e-6
    delegate.close()
    interpreter, delegate = ready(network("nchw", channels=4), backend_of(gpu))
    with pytest.raises(fb.BindingError, match=r"BHWC 1x4x10x14\) cannot be bound to .* pass layout='nchw'"):
        delegate.bind_buffer_to_tensor(texture(gpu, pixels), "x", layout="nhwc")
    delegate.close()


def test_layouts_that_do_not_exist_are_refused() -> None:
    _, delegate = ready(network("nchw"), "null")
    nonsense: Any = "chw"
    with pytest.raises(fb.BindingError, match=r"tensor 0 'x' \(NCHW 1x3x10x14\) .* layout 'chw' must be 'nchw' or"):
        delegate.bind_buffer_to_tensor(PIXELS, "x", layout=nonsense)
    delegate.close()


def test_a_transposed_picture_may_be_taken_for_channels_last(gpu: Device) -> None:
    """(1, 4, 4, 4) behind a TRANSPOSE counts as NCHW, and the user says that it is not: it is copied."""
    pixels = RNG.integers(0, 256, (4, 4, 4), np.uint8)
    writer = _Writer()
    writer.tensors.append(T("x", (1, 4, 4, 4)))
    writer.add("ABS", [writer.transpose(0, (0, 2, 3, 1))], (1, 4, 4, 4))
    interpreter, delegate = ready(build(G(writer.tensors, writer.operators, [0], [3])), backend_of(gpu))
    assert delegate.layout_of("x") == "nchw"
    choices: list[tuple[Any, Array]] = [("nhwc", pixels.transpose(1, 2, 0)), ("nchw", pixels)]
    for layout, expected in choices:
        delegate.bind_buffer_to_tensor(texture(gpu, pixels), "x", layout=layout)
        interpreter.invoke()
        delegate.ensure_tensor_data_is_readable(3)
        assert np.abs(interpreter.get_tensor(3)[0] - expected / 255).max() <= 1e-6
    delegate.close()


# A stock export -------------------------------------------------------------------------------------------------------


def test_a_stock_export_makes_a_picture_of_a_photograph(gpu: Device, model_path: Callable[[str], Path]) -> None:
    """SRVGG x4 by litert-torch: 1x3x64x64 in, 1x3x256x256 out."""
    path = model_path("srvgg_x4")
    photograph = cv2.imread(str(PHOTOGRAPH))
    assert photograph is not None
    small = np.ascontiguousarray(cv2.resize(photograph, (64, 64), interpolation=cv2.INTER_AREA)[:, :, ::-1])
    reference = LiteRt(str(path))
    reference.allocate_tensors()
    reference.set_tensor(0, np.ascontiguousarray((small / np.float32(255)).transpose(2, 0, 1)[None]))
    reference.invoke()
    expected = reference.get_tensor(reference.get_output_details()[0]["index"])[0].transpose(1, 2, 0)
    interpreter, delegate = ready(path.read_bytes(), backend_of(gpu))
    result = gpu.texture(256, 256, "rgba32f", "result")
    delegate.bind_buffer_to_tensor(texture(gpu, np.dstack([small, small[..., :1]])), interpreter.inputs()[0])
    delegate.bind_buffer_to_tensor(result, interpreter.outputs()[0])
    delegate.record()
    with fb.transfer_guard("disallow"):
        interpreter.invoke()
    texels = np.empty((256, 256, 4), np.float32)
    gpu.read(result, texels, "test")
    assert np.abs(texels[..., :3] - expected).max() <= 1e-5 * np.abs(expected).max()
    delegate.close()


def enlarged() -> bytes:
    """A super-resolving network: a pixel shuffle with channels first, plus the enlarged picture, bounded by 0 and 1."""
    f = Formula((1, 3, HEIGHT, WIDTH))
    last = f.transpose(0, 0, 2, 3, 1)
    layer = f.add("TANH", f.add("CONCATENATION", *[last] * 4, shape=(1, HEIGHT, WIDTH, 12), axis=3))
    split = f.transpose(f.reshape(f.transpose(layer, 0, 3, 1, 2), 3, 2, 2, HEIGHT * WIDTH), 0, 1, 3, 2)
    rows = f.transpose(f.reshape(split, 3, 2, HEIGHT, WIDTH * 2), 0, 2, 1, 3)
    size: Any = (1, 2 * HEIGHT, 2 * WIDTH, 3)
    large = f.add("RESIZE_NEAREST_NEIGHBOR", last, f.constant(size[1:3], "int32"), shape=size, halfPixelCenters=True)
    shuffled = f.reshape(rows, 1, 3, *size[1:3])
    total = f.add("ADD", shuffled, f.transpose(large, 0, 3, 1, 2))
    return f.model(f.add("RELU_0_TO_1", f.add("MUL", total, f.constant(0.7))))


def test_an_output_that_is_a_sum_with_a_transposed_picture_is_written_with_channels_last(gpu: Device) -> None:
    model = enlarged()
    assert sorted(kernels_of(model)) == [*["concat"] * 3, "copy", "strided_copy"]
    values = np.random.default_rng(3).normal(0, 1, (1, 3, HEIGHT, WIDTH)).astype(np.float32)
    assert error_on(gpu, model, [values]) < 1e-6


def test_two_outputs_of_a_transposed_value_are_both_written(gpu: Device) -> None:
    f = Formula((1, 4, 5, 3))
    first = f.transpose(f.add("TANH", 0), 0, 3, 1, 2)
    model = f.model(f.add("SQUARE", first), f.add("ABS", first))
    assert kernels_of(model) == ["copy", "copy", "copy"]
    assert error_on(gpu, model, [np.random.default_rng(3).normal(0, 1, (1, 4, 5, 3)).astype(np.float32)]) < 1e-6
