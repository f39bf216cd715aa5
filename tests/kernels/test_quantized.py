"""Quantized models: single operators, and the three of the models folder, against LiteRT's CPU kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter as LiteRt

import framebind as fb
from framebind.interop.device import Device
from framebind.tools.certify.cases.operator_models import options
from framebind.tools.certify.cases.quantized_models import (
    SHAPE,
    WINDOW,
    Quantized,
    binary,
    bottleneck,
    cases,
    layers,
    parted,
    pooled,
    pooled_swish,
    random_inputs,
    resize,
    tensor,
    unary,
    weights,
)
from support.model_runs import backend_of
from support.models import Photograph, relative_error
from support.tiny_models import G, Op, T, build

FindModel = Callable[[str], Path]
Values = dict[int, npt.NDArray[Any]]


def on_cpu(model: bytes, inputs: Values) -> Values:
    return run(LiteRt(model_content=model), inputs)


def run(interpreter: LiteRt, inputs: Values) -> Values:
    interpreter.allocate_tensors()
    for index, value in inputs.items():
        interpreter.set_tensor(index, value)
    interpreter.invoke()
    return {detail["index"]: interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()}


def on_gpu(gpu: Device, model: bytes, **options: Any) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """An interpreter in the context that is current, the one of ``gpu``."""
    backend = backend_of(gpu)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend, **options))
    interpreter = fb.Interpreter(model_content=model)
    interpreter.modify_graph_with_delegate(delegate)
    return interpreter, delegate


def on_the_cpu(delegate: fb.GpuDelegate) -> dict[int, str]:
    """The operators that the GPU refused, with the reasons."""
    return delegate.engine.claims[0].unsupported


@pytest.mark.parametrize("case", cases(), ids=str)
def test_operator_is_within_one_step_of_litert(gpu: Device, case: Quantized) -> None:
    """One step, because a value in the middle between two goes to either: LiteRT has fixed-point sums there."""
    interpreter, delegate = on_gpu(gpu, case.model)
    inputs = random_inputs(interpreter.get_input_details())
    expected = on_cpu(case.model, inputs)
    result = run(interpreter, inputs)
    assert on_the_cpu(delegate) == {}
    for index, value in expected.items():
        assert len(np.unique(value)) > 5, "the case tests nothing: its output hardly varies"
        step = 0.05 if value.dtype == np.float32 else 1
        ours, theirs = (np.rint(array / step) for array in (result[index], value))
        assert np.abs(ours - theirs).max() <= 1
    delegate.close()


def with_constant(operator: str, dtype: str, scale: float) -> bytes:
    """Rows of a constant table, or the table beside the input; its scale, and that of the result, which is 0.05."""
    kind: dict[str, Any] = {"dtype": dtype, "zero_points": [0 if dtype == "int16" else 5]}
    rows = np.random.default_rng(1).integers(0, 127, (7, 3))
    table, rows_of = T("table", (7, 3), rows, scales=[scale], **kind), options("Gather")
    taken, beside = T("taken", (2, 3), dtype="int32"), T("beside", (7, 3), scales=[0.05], **kind)
    result = {"GATHER": (2, 3, 3), "PACK": (2, 7, 3)}[operator]
    tensors = [beside, table, T("y", result, scales=[0.05], **kind), T("f", result), taken]
    moved = {
        "GATHER": Op("GATHER", [1, 4], [2], rows_of, 4),
        "PACK": Op("PACK", [0, 1], [2], options("Pack", valuesCount=2)),
    }
    operators = [moved[operator], Op("DEQUANTIZE", [2], [3], version=2)]
    return build(G(tensors, operators, [4] if operator == "GATHER" else [0], [2, 3]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("operator, scale", [("GATHER", 0.05), ("GATHER", 0.125), ("PACK", 0.05)])
def test_integers_of_constants_are_copied_into_the_scale_of_the_result(
    gpu: Device, operator: str, scale: float, dtype: str
) -> None:
    """LiteRT's kernels look at no scale. The numbers are those of an embedding whose table was quantized by itself."""
    model = with_constant(operator, dtype, scale)
    interpreter, delegate = on_gpu(gpu, model)
    inputs: dict[int, Any] = {4: np.array([[0, 6, 2], [2, 2, 5]], np.int32)}
    if operator == "PACK":
        inputs = random_inputs(interpreter.get_input_details())
    result, expected = run(interpreter, inputs), on_cpu(model, inputs)
    assert on_the_cpu(delegate) == {} and len(expected) == 2
    np.testing.assert_array_equal(result[2], expected[2])
    np.testing.assert_allclose(result[3], expected[3], rtol=1e-6)
    delegate.close()


@pytest.mark.parametrize(
    "model",
    [
        bottleneck("int8", (1, 12, 14, 12)),
        layers("int8", 500, 200, 300),
        pooled("int8", (1, 12, 14, 12)),
        parted("int8", (1, 12, 14, 12)),
    ],
    ids=len,
)
def test_convolutions_behind_one_another_compute_litert_s_integers(gpu: Device, model: bytes) -> None:
    """The sums are whole numbers, and one product of floats makes steps of them, as in XNNPACK."""
    interpreter, delegate = on_gpu(gpu, model)
    inputs = random_inputs(interpreter.get_input_details())
    (expected,), (result,) = on_cpu(model, inputs).values(), run(interpreter, inputs).values()
    assert on_the_cpu(delegate) == {} and len(np.unique(expected)) > 100
    np.testing.assert_array_equal(result, expected)
    delegate.close()


def test_a_function_behind_a_pool_reads_values_and_no_numbers_of_steps(gpu: Device) -> None:
    """HARD_SWISH becomes a part of the pool, which does not hand on what it reads then."""
    interpreter, delegate = on_gpu(gpu, model := pooled_swish("int8", (1, 12, 14, 12)))
    inputs = random_inputs(interpreter.get_input_details())
    (expected,), (result,) = on_cpu(model, inputs).values(), run(interpreter, inputs).values()
    assert on_the_cpu(delegate) == {} and len(np.unique(expected)) > 50
    assert np.abs(result.astype(int) - expected).max() <= 2, "by a step of HARD_SWISH"
    delegate.close()


def test_a_tensor_with_a_denormal_scale_stays_on_the_cpu(gpu: Device) -> None:
    """TensorFlow's converter gives a tensor of int16 that was always 0 in calibration the scale 3.587e-43."""
    tensors = [tensor(name, SHAPE, "int16") for name in "xay"]
    tensors.insert(2, tensor("zero", SHAPE, "int16", 3.587e-43))
    add, sub = Op("ADD", [0, 0], [1], options("Add"), 2), Op("SUB", [1, 1], [2], options("Sub"), 2)
    model = build(G(tensors, [add, sub, Op("QUANTIZE", [2], [3], version=2)], [0], [1, 3]))
    interpreter, delegate = on_gpu(gpu, model)
    inputs = random_inputs(interpreter.get_input_details())
    expected, result = on_cpu(model, inputs), run(interpreter, inputs)
    reason = "the scale of tensor 'zero' is denormal: GPUs take it for 0"
    assert on_the_cpu(delegate) == {1: reason, 2: reason}
    for index, value in expected.items():
        np.testing.assert_array_equal(result[index], value)
    delegate.close()


@pytest.mark.parametrize("name", ["TANH", "SOFTMAX", "RESIZE_BILINEAR"])
def test_16_bits_are_exact_where_litert_is_not(gpu: Device, name: str) -> None:
    """LiteRT has tables of tanh and exp, and 10 bits for the weights of a bilinear resize: it is up to 2, 3 and some
    hundred of 65536 steps off.
    """
    scale = 0.0002
    table = options("ResizeBilinear", halfPixelCenters=True)
    given = {"beta": 1.0} if name == "SOFTMAX" else {}
    if name == "RESIZE_BILINEAR":
        model, step = resize("BILINEAR", "int16", SHAPE, 4), scale
        size = T("size", [2], [SHAPE[1] * 2 + 1, SHAPE[2] * 3], "int32")
        tensors = [T("x", SHAPE), size, T("y", (1, SHAPE[1] * 2 + 1, SHAPE[2] * 3, SHAPE[3]))]
        twin = build(G(tensors, [Op(name, [0, 1], [2], table, 3)], [0], [2]))
    else:
        model, step = unary(name, "int16", SHAPE, scale=1 / 32768, zero_point=0, version=3, **given), 1 / 32768
        softmax = schema.SoftmaxOptionsT()
        softmax.beta = 1.0
        twin = build(G([T("x", SHAPE), T("y", SHAPE)], [Op(name, [0], [1], softmax if given else None)], [0], [1]))
    interpreter, delegate = on_gpu(gpu, model)
    inputs = random_inputs(interpreter.get_input_details())
    (exact,) = on_cpu(twin, {0: (inputs[0] * scale).astype(np.float32)}).values()
    (theirs,), (ours,) = on_cpu(model, inputs).values(), run(interpreter, inputs).values()
    assert on_the_cpu(delegate) == {}
    wanted = np.minimum(exact / step, 32767)
    assert np.abs(ours - wanted).max() <= 0.51 < 1.5 < np.abs(theirs - wanted).max()
    delegate.close()


def float_with_integer_weights(shape: Sequence[int], out: int, *, integers: bool, dtype: str = "int8") -> bytes:
    """Post-training dynamic range: float32 but for the weights (int8 or int4); or the same with float32 weights."""
    w = weights([out, 3, 3, shape[3]], dtype, 0)
    return _float_convolution(shape, out, w if integers else _dequantized(w))


def float_after_dequantize(shape: Sequence[int], out: int, dtype: str = "int8") -> bytes:
    """A float convolution whose weights are integers and a DEQUANTIZE: LiteRT rounds no activation."""
    w = weights([out, 3, 3, shape[3]], dtype, 0)
    return _float_convolution(shape, out, T("float_weights", w.shape), stored=w)


def _dequantized(w: T) -> T:
    """Weights with one scale per output channel, as float32 weights."""
    scales = np.array(w.scales, np.float32).reshape(-1, 1, 1, 1)
    return T("weights", w.shape, np.asarray(w.values, np.float32) * scales)


def _float_convolution(shape: Sequence[int], out: int, w: T, stored: T | None = None) -> bytes:
    tensors = [T("x", shape), w, T("bias", [out], np.linspace(-1, 1, out)), T("y", [*shape[:3], out])]
    operators = [Op("CONV_2D", [0, 1, 2], [3], options("Conv2D", **WINDOW), 5)]
    if stored is not None:
        tensors.append(stored)
        operators.insert(0, Op("DEQUANTIZE", [4], [1], version=5))
    return build(G(tensors, operators, [0], [3]))


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_integer_weights_of_a_float_model_are_dequantized_once(gpu: Device, dtype: str) -> None:
    """Post-training dynamic range. LiteRT would round the activations too, to 8 bits, for its integer kernels."""
    model, exact = (float_with_integer_weights(SHAPE, 9, integers=integers, dtype=dtype) for integers in (True, False))
    interpreter, delegate = on_gpu(gpu, model)
    inputs = random_inputs(interpreter.get_input_details())
    expected, rounded = on_cpu(exact, inputs)[3], on_cpu(model, inputs)[3]
    result = run(interpreter, inputs)[3]
    assert on_the_cpu(delegate) == {}
    assert relative_error(result, expected) <= 1e-5 < relative_error(rounded, expected)
    delegate.close()


def test_float16_tensors_cross_as_halves_and_are_rounded_as_such(gpu: Device) -> None:
    """A chain in float16, which is float32 on the GPU and rounded after each operator; its input is float16 too."""
    shape, half = (2, 3, 5, 7), "float16"
    order, turned = [0, 2, 1, 3], (2, 5, 3, 7)
    tensors = [
        T("x", shape, dtype=half), T("one", (7,), np.linspace(0, 3, 7), half), T("sum", shape, dtype=half),
        T("curve", shape, dtype=half), T("order", (4,), order, "int32"), T("turned", turned, dtype=half),
        T("y", turned),
    ]  # fmt: skip
    operators = [
        Op("ADD", [0, 1], [2], schema.AddOptionsT()), Op("TANH", [2], [3]), Op("TRANSPOSE", [3, 4], [5]),
        Op("CAST", [5], [6], schema.CastOptionsT()),
    ]  # fmt: skip
    model = build(G(tensors, operators, [0], [5, 6]))
    interpreter, delegate = on_gpu(gpu, model)
    x = np.random.default_rng(0).uniform(-3, 3, shape).astype(np.float16)
    result = run(interpreter, {0: x})
    assert on_the_cpu(delegate) == {}
    total = (x + np.linspace(0, 3, 7).astype(np.float16)).astype(np.float16)
    expected = np.tanh(total.astype(np.float32)).astype(np.float16).transpose(order)
    assert result[5].dtype == np.float16 and result[6].dtype == np.float32
    np.testing.assert_array_equal(result[5].astype(np.float32), result[6])
    np.testing.assert_allclose(result[6], expected.astype(np.float32), rtol=2**-10)  # one step of a half
    np.testing.assert_allclose(result[6], on_cpu(model, {0: x})[6], rtol=2**-9)
    delegate.close()


ADD = binary("ADD", "int8", (SHAPE, SHAPE))
COUNT = int(np.prod(SHAPE))


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_weights_through_dequantize_are_dequantized_once(gpu: Device, dtype: str) -> None:
    model = float_after_dequantize(SHAPE, 9, dtype)
    interpreter, delegate = on_gpu(gpu, model)
    inputs = random_inputs(interpreter.get_input_details())
    result = run(interpreter, inputs)[3]
    assert on_the_cpu(delegate) == {}
    (partition,) = delegate.engine.partitions
    assert partition.program is not None and len(partition.program.steps) == 1
    exact = float_with_integer_weights(SHAPE, 9, integers=False, dtype=dtype)
    assert relative_error(result, on_cpu(exact, inputs)[3]) <= 1e-5
    delegate.close()


def test_integers_cross_as_bytes_and_are_converted_on_the_gpu(gpu: Device) -> None:
    interpreter, delegate = on_gpu(gpu, ADD)
    inputs = random_inputs(interpreter.get_input_details())
    run(interpreter, inputs)
    fb.transfers.reset()
    for index, value in inputs.items():
        interpreter.set_tensor(index, value)
    interpreter.invoke()
    crossed = [(way, hop.calls, hop.bytes) for (way, _), hop in sorted(fb.transfers.by_reason.items())]
    assert crossed == [("download", 1, COUNT), ("upload", 1, COUNT), ("upload", 1, COUNT)]
    (partition,) = delegate.engine.partitions
    assert partition.program is not None and len(partition.program.steps) == 4
    delegate.close()


def test_bound_buffers_hold_what_the_integers_stand_for(context: fb.GlContext) -> None:
    interpreter = fb.Interpreter(model_content=ADD)
    delegate = fb.GpuDelegate()
    interpreter.modify_graph_with_delegate(delegate)
    inputs = random_inputs(interpreter.get_input_details())
    expected = on_cpu(ADD, inputs)[2]
    interpreter.allocate_tensors()
    for index, scale in ((0, 0.02), (1, 0.05)):
        values = ((inputs[index].astype(np.float32) + 5) * scale).astype(np.float32)
        delegate.bind_buffer_to_tensor(fb.GlBuffer(values.nbytes, values), index)
    result = fb.GlBuffer(COUNT * 4)
    delegate.bind_buffer_to_tensor(result, 2)
    interpreter.set_allow_buffer_handle_output(True)
    interpreter.invoke()
    with fb.transfer_guard("disallow"):
        interpreter.invoke()
    stored = result.read().reshape(SHAPE) / 0.06 - 5
    assert np.abs(stored - np.rint(stored)).max() < 1e-3
    assert np.abs(stored - expected).max() <= 1.001
    interpreter.ensure_tensor_data_is_readable(2)
    np.testing.assert_array_equal(interpreter.get_tensor(2), np.rint(stored).astype(np.int8))
    delegate.close()


def test_a_texture_is_bound_to_an_integer_input(context: fb.GlContext) -> None:
    """The texels are values from 0 to 1 there too."""
    picture = np.random.default_rng(0).integers(0, 256, (6, 7, 3)).astype(np.uint8)
    shape = (1, 6, 7, 3)
    x = T("x", shape, dtype="uint8", scales=[1 / 255], zero_points=[0])
    y = T("y", shape, dtype="uint8", scales=[1 / 256], zero_points=[0])
    model = build(G([x, y], [Op("LOGISTIC", [0], [1])], [0], [1]))
    interpreter = fb.Interpreter(model_content=model)
    delegate = fb.GpuDelegate()
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    delegate.bind_buffer_to_tensor(fb.GlTexture.from_array(picture), 0)
    interpreter.invoke()
    expected = on_cpu(model, {0: picture[None]})[1]
    assert np.abs(interpreter.get_tensor(1).astype(int) - expected).max() <= 1
    delegate.close()


def test_integers_go_from_one_partition_to_the_cpu_and_to_the_next(gpu: Device) -> None:
    """CAST reads the integers themselves, so it has no float view; the ADD after it reads a of the first partition."""
    tensors = [
        T("x", SHAPE, dtype="int8", scales=[0.1], zero_points=[3]),
        T("a", SHAPE, dtype="int8", scales=[0.3], zero_points=[-7]),
    ]
    tensors += [T("float", SHAPE), T("b", SHAPE, dtype="int8", scales=[1.0], zero_points=[0])]
    tensors.append(T("y", SHAPE, dtype="int8", scales=[1.1], zero_points=[2]))
    operators = [Op("ADD", [0, 0], [1], schema.AddOptionsT(), 2), Op("CAST", [1], [2], schema.CastOptionsT())]
    operators += [Op("QUANTIZE", [2], [3]), Op("ADD", [1, 3], [4], schema.AddOptionsT(), 2)]
    model = build(G(tensors, operators, [0], [4]))
    interpreter, delegate = on_gpu(gpu, model)
    inputs = random_inputs(interpreter.get_input_details())
    expected, result = on_cpu(model, inputs)[4], run(interpreter, inputs)[4]
    assert list(on_the_cpu(delegate)) == [1]
    assert len(delegate.engine.partitions) == 2
    assert np.abs(result.astype(int) - expected).max() <= 2, "by a step of HARD_SWISH"
    delegate.close()


def test_enable_quantization_false_leaves_quantized_operators_to_the_cpu(gpu: Device) -> None:
    interpreter, delegate = on_gpu(gpu, ADD, enable_quantization=False)
    inputs = random_inputs(interpreter.get_input_details())
    result = run(interpreter, inputs)[2]
    assert "enable_quantization is False" in on_the_cpu(delegate)[0]
    assert delegate.engine.partitions == [] and fb.transfers.calls == 0
    np.testing.assert_array_equal(result, on_cpu(ADD, inputs)[2])
    delegate.close()


# The models -----------------------------------------------------------------------------------------------------------

APIS = ["gl", "cl:pocl"]
POSENET = "posenet_mobilenet_v1_100_257x257_multi_kpt_stripped_integer_quant"


def pictures_as_inputs(interpreter: LiteRt, photograph: Photograph, mean: float, std: float) -> Values:
    """The photograph for a model's picture input; for a style vector, one of small random values."""
    inputs: Values = {}
    for detail in interpreter.get_input_details():
        shape = tuple(detail["shape"])
        value = np.random.default_rng(0).normal(0, 0.3, shape).astype(np.float32)
        if shape[3] == 3:
            value = (photograph("astronaut", shape[2], shape[1])[None] / np.float32(255) - mean) / std
        inputs[detail["index"]] = value.astype(np.float32)
    return inputs


def steps_off(result: Values, expected: Values) -> npt.NDArray[np.float64]:
    """The error of every value of every output in quantization steps; a step is the least difference of two values."""
    off = []
    for index, value in expected.items():
        step = np.diff(np.unique(value)).min()
        off.append(np.abs(result[index].astype(np.float64) - value).ravel() / step)
    return np.concatenate(off)


@pytest.mark.parametrize("gpu", APIS, indirect=True)
@pytest.mark.parametrize("half", [False, True], ids=["f32", "f16"])
@pytest.mark.parametrize("name", [POSENET, "style_predict_quantized_256"])
def test_model_computes_litert_s_integers(
    gpu: Device, model_path: FindModel, photograph: Photograph, name: str, half: bool
) -> None:
    """Sums are of whole numbers, which float32 holds, and are rounded as XNNPACK rounds them."""
    model = model_path(name).read_bytes()
    interpreter, delegate = on_gpu(gpu, model, is_precision_loss_allowed=half)
    mean, std = (0.5, 0.5) if name == POSENET else (0.0, 1.0)
    inputs = pictures_as_inputs(interpreter, photograph, mean, std)
    expected, result = on_cpu(model, inputs), run(interpreter, inputs)
    assert on_the_cpu(delegate) == {}
    assert steps_off(result, expected).max() < 1e-3
    delegate.close()


@pytest.mark.parametrize("name", [POSENET, "style_predict_quantized_256"])
def test_gl_and_opencl_compute_the_same_integers(
    gl_and_cl: tuple[Device, Device], model_path: FindModel, photograph: Photograph, name: str
) -> None:
    model = model_path(name).read_bytes()
    mean, std = (0.5, 0.5) if name == POSENET else (0.0, 1.0)
    results: list[Values] = []
    for gpu in gl_and_cl:
        interpreter, delegate = on_gpu(gpu, model)
        results.append(run(interpreter, pictures_as_inputs(interpreter, photograph, mean, std)))
        delegate.close()
    assert steps_off(*results).max() < 1e-3


@pytest.mark.parametrize("gpu", APIS, indirect=True)
def test_quantized_style_transfer_is_closer_to_the_float_model_than_litert(
    gpu: Device, model_path: FindModel, photograph: Photograph
) -> None:
    """Two of LiteRT's own CPU kernels differ by 50 steps there: 13 instance normalizations amplify every rounding."""
    model = model_path("style_transfer_quantized_384").read_bytes()
    exact = model_path("style_transfer_f16_384").read_bytes()
    interpreter, delegate = on_gpu(gpu, model)
    inputs = pictures_as_inputs(interpreter, photograph, 0.0, 1.0)
    by_channels = {value.shape[3]: value for value in inputs.values()}
    of_exact = {
        detail["index"]: by_channels[detail["shape"][3]] for detail in LiteRt(model_content=exact).get_input_details()
    }
    (wanted,) = on_cpu(exact, of_exact).values()
    (theirs,) = on_cpu(model, inputs).values()
    (ours,) = run(interpreter, inputs).values()
    assert on_the_cpu(delegate) == {}
    for measure in (np.mean, np.max, lambda error: np.quantile(error, 0.999)):
        assert measure(np.abs(ours - wanted)) < measure(np.abs(theirs - wanted))
    delegate.close()
