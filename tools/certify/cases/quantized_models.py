"""Quantized models of a single operator, with random weights, for the comparison with LiteRT's CPU kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from ....video.tflite_writer import G, Op, T, build
from .operator_models import options

ZERO_POINTS = {"int8": -5, "uint8": 121, "int16": 0}
"""LiteRT's 16-bit integers are symmetric."""
STEP = {"int8": 0.03, "uint8": 0.03, "int16": 0.0002}
BIAS = {"int8": "int32", "uint8": "int32", "int16": "int64"}

WINDOW = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
RELU6 = schema.ActivationFunctionType.RELU6


@dataclass(frozen=True)
class Quantized:
    """A model of one quantized operator, the shapes of its inputs, and the steps by which its results may differ."""

    label: str
    model: bytes
    dtype: str

    def __str__(self) -> str:
        return f"{self.label} {self.dtype}"


def tensor(name: str, shape: Sequence[int], dtype: str, scale: float | None = None) -> T:
    """A computed tensor of this type."""
    return T(name, shape, dtype=dtype, scales=[scale or STEP[dtype]], zero_points=[ZERO_POINTS[dtype]])


def weights(shape: Sequence[int], dtype: str, axis: int | None) -> T:
    """Random weights: 8-bit whatever the activations are, or int4; ``axis``: one scale for each index along it."""
    generator = np.random.default_rng(sum(shape))
    kept = dtype if dtype in ("uint8", "int4") else "int8"
    low, high, zero_point = {"uint8": (0, 256, 130), "int8": (-127, 128, 0), "int4": (-7, 8, 0)}[kept]
    count = 1 if axis is None or kept == "uint8" else shape[axis]
    scales = generator.uniform(0.002, 0.008, count).tolist()
    values = generator.integers(low, high, tuple(shape))
    return T("weights", shape, values, kept, scales=scales, zero_points=[zero_point] * count, axis=axis or 0)


def bias(given: T, source: float, count: int, dtype: str) -> T:
    """A bias, with the scale of the input times that of the weights, as LiteRT demands."""
    scales = (np.float32(source) * np.array(given.scales, np.float32)).tolist()
    values = np.random.default_rng(count).integers(-3000, 3000, count) * (100 if dtype == "int16" else 1)
    return T("bias", [count], values, BIAS[dtype], scales=scales, zero_points=[0] * len(scales))


def convolution(dtype: str, shape: Sequence[int], out: int, *, stride: int = 1, activation: int = 0) -> bytes:
    window = WINDOW | {"strideH": stride, "strideW": stride}
    table = options("Conv2D", **window, fusedActivationFunction=activation)
    w = weights([out, 3, 3, shape[3]], dtype, 0)
    rows, columns = -(-shape[1] // stride), -(-shape[2] // stride)
    tensors = [tensor("x", shape, dtype), w, bias(w, STEP[dtype], out, dtype)]
    tensors.append(tensor("y", [shape[0], rows, columns, out], dtype, STEP[dtype] * 1.7))
    return build(G(tensors, [Op("CONV_2D", [0, 1, 2], [3], table, 3)], [0], [3]))


def depthwise(dtype: str, shape: Sequence[int], multiplier: int) -> bytes:
    table = options("DepthwiseConv2D", **WINDOW, depthMultiplier=multiplier)
    out = shape[3] * multiplier
    w = weights([1, 3, 3, out], dtype, 3)
    tensors = [tensor("x", shape, dtype), w, bias(w, STEP[dtype], out, dtype)]
    tensors.append(tensor("y", [*shape[:3], out], dtype))
    return build(G(tensors, [Op("DEPTHWISE_CONV_2D", [0, 1, 2], [3], table, 3)], [0], [3]))


def bottleneck(dtype: str, shape: Sequence[int]) -> bytes:
    """A 1x1 convolution, a depthwise one, a 1x1 convolution back, and the sum with the first one's input; enlarged, and
    convolved again. Only convolutions and sums read the tensors between them.
    """
    convolve, depth = options("Conv2D", **WINDOW), options("DepthwiseConv2D", **WINDOW, depthMultiplier=1)
    expand = options("Conv2D", **WINDOW, fusedActivationFunction=RELU6)
    channels, wide, size = shape[3], 11, [2 * shape[1], 2 * shape[2]]
    small, middle, large = list(shape), [*shape[:3], wide], [shape[0], *size, channels]
    shapes = {"a": small, "b": middle, "c": middle, "d": small, "sum": small, "large": large, "y": [*large[:3], 7]}
    scales = {"a": STEP[dtype], "b": 0.05, "c": 0.04, "d": 0.06, "sum": 0.0831, "large": 0.0831, "y": 0.3}
    tensors = [T("x", shape), *(tensor(name, shapes[name], dtype, scales[name]) for name in shapes)]
    layers = (("a", [wide, 1, 1, channels], 0), ("b", [1, 3, 3, wide], 3), ("c", [channels, 1, 1, wide], 0),
              ("large", [7, 3, 3, channels], 0))  # fmt: skip
    for source, kernel, axis in layers:
        w = weights(kernel, dtype, axis)
        tensors += [w, bias(w, scales[source], kernel[axis], dtype)]
    tensors.append(T("size", [2], size, "int32"))
    operators = [
        Op("QUANTIZE", [0], [1]), Op("CONV_2D", [1, 8, 9], [2], expand, 3),
        Op("DEPTHWISE_CONV_2D", [2, 10, 11], [3], depth, 3), Op("CONV_2D", [3, 12, 13], [4], convolve, 3),
        Op("ADD", [1, 4] if dtype == "uint8" else [4, 1], [5], options("Add"), 2),
        Op("RESIZE_NEAREST_NEIGHBOR", [5, 16], [6], options("ResizeNearestNeighbor"), 2),
        Op("CONV_2D", [6, 14, 15], [7], convolve, 3),
    ]  # fmt: skip
    return build(G(tensors, operators, [0], [7]))


def pooled(dtype: str, shape: Sequence[int]) -> bytes:
    """A 3x3 convolution, the maxima of 2x2 pixels, and a 1x1 convolution of those."""
    half, scale = [shape[0], shape[1] // 2, shape[2] // 2, 11], {"int8": 0.05, "uint8": 0.05, "int16": 0.001}[dtype]
    w = [weights([11, 3, 3, shape[3]], dtype, 0), weights([7, 1, 1, 11], dtype, 0)]
    tensors = [T("x", shape), tensor("a", shape, dtype), tensor("b", [*shape[:3], 11], dtype, scale)]
    tensors += [tensor("c", half, dtype, scale), tensor("y", [*half[:3], 7], dtype, 4 * scale)]
    tensors += [w[0], bias(w[0], STEP[dtype], 11, dtype), w[1], bias(w[1], scale, 7, dtype)]
    pool = options("Pool2D", strideH=2, strideW=2, filterHeight=2, filterWidth=2)
    operators = [
        Op("QUANTIZE", [0], [1]), Op("CONV_2D", [1, 5, 6], [2], options("Conv2D", **WINDOW), 3),
        Op("MAX_POOL_2D", [2], [3], pool, 2), Op("CONV_2D", [3, 7, 8], [4], options("Conv2D", **WINDOW), 3),
    ]  # fmt: skip
    return build(G(tensors, operators, [0], [4]))


def pooled_swish(dtype: str, shape: Sequence[int]) -> bytes:
    """A 3x3 convolution, HARD_SWISH of the maxima of 2x2 pixels, and a 1x1 convolution of those."""
    half, scale = [shape[0], shape[1] // 2, shape[2] // 2, 11], 0.05
    w = [weights([11, 3, 3, shape[3]], dtype, 0), weights([7, 1, 1, 11], dtype, 0)]
    tensors = [tensor("x", shape, dtype), tensor("a", [*shape[:3], 11], dtype, scale), tensor("b", half, dtype, scale)]
    tensors += [tensor("c", half, dtype, scale / 2), tensor("y", [*half[:3], 7], dtype, 2 * scale)]
    tensors += [w[0], bias(w[0], STEP[dtype], 11, dtype), w[1], bias(w[1], scale / 2, 7, dtype)]
    pool = options("Pool2D", strideH=2, strideW=2, filterHeight=2, filterWidth=2)
    operators = [
        Op("CONV_2D", [0, 5, 6], [1], options("Conv2D", **WINDOW), 3), Op("MAX_POOL_2D", [1], [2], pool, 2),
        Op("HARD_SWISH", [2], [3]), Op("CONV_2D", [3, 7, 8], [4], options("Conv2D", **WINDOW), 3),
    ]  # fmt: skip
    return build(G(tensors, operators, [0], [4]))


def fully_connected(dtype: str, inputs: int, units: int, axis: int | None = None) -> bytes:
    w = weights([units, inputs], dtype, axis)
    tensors = [tensor("x", [2, inputs], dtype), w, bias(w, STEP[dtype], units, dtype), tensor("y", [2, units], dtype)]
    return build(G(tensors, [Op("FULLY_CONNECTED", [0, 1, 2], [3], options("FullyConnected"), 4)], [0], [3]))


def layers(dtype: str, inputs: int, hidden: int, units: int) -> bytes:
    """Two consecutive layers. No other operator reads the tensor between them."""
    given = options("FullyConnected", fusedActivationFunction=RELU6)
    w = [weights([hidden, inputs], dtype, None), weights([units, hidden], dtype, None)]
    tensors = [T("x", (2, inputs)), tensor("a", [2, inputs], dtype), tensor("b", [2, hidden], dtype, 0.0251)]
    tensors += [tensor("y", [2, units], dtype, 0.0371), w[0], bias(w[0], STEP[dtype], hidden, dtype), w[1]]
    tensors.append(bias(w[1], 0.0251, units, dtype))
    operators = [Op("QUANTIZE", [0], [1]), Op("FULLY_CONNECTED", [1, 4, 5], [2], given, 4)]
    operators.append(Op("FULLY_CONNECTED", [2, 6, 7], [3], options("FullyConnected"), 4))
    return build(G(tensors, operators, [0], [3]))


def binary(name: str, dtype: str, shapes: Sequence[Sequence[int]], activation: int = 0) -> bytes:
    table = options(name.title(), fusedActivationFunction=activation)
    tensors = [tensor("a", shapes[0], dtype, 0.02), tensor("b", shapes[1], dtype, 0.05)]
    tensors.append(tensor("y", np.broadcast_shapes(*map(tuple, shapes)), dtype, 0.06))
    return build(G(tensors, [Op(name, [0, 1], [2], table, 2)], [0, 1], [2]))


def constant_operand(dtype: str, shape: Sequence[int]) -> bytes:
    """x + c, where c is a quantized constant with one value per channel."""
    generator = np.random.default_rng(3)
    low = ZERO_POINTS[dtype]
    c = T("c", shape[-1:], generator.integers(low - 90, low + 90, shape[-1]), dtype, scales=[0.01], zero_points=[low])
    tensors = [tensor("x", shape, dtype), c, tensor("y", shape, dtype, 0.04)]
    return build(G(tensors, [Op("ADD", [0, 1], [2], options("Add"), 2)], [0], [2]))


def concatenation(dtype: str, shape: Sequence[int], other: int, axis: int) -> bytes:
    second, joined = list(shape), list(shape)
    second[axis], joined[axis] = other, shape[axis] + other
    tensors = [tensor(name, s, dtype) for name, s in (("a", shape), ("b", second), ("y", joined))]
    return build(G(tensors, [Op("CONCATENATION", [0, 1], [2], options("Concatenation", axis=axis), 2)], [0, 1], [2]))


def pool(name: str, dtype: str, shape: Sequence[int]) -> bytes:
    table = options("Pool2D", filterHeight=3, filterWidth=2, strideH=2, strideW=2)
    out = [shape[0], -(-shape[1] // 2), -(-shape[2] // 2), shape[3]]
    return build(G([tensor("x", shape, dtype), tensor("y", out, dtype)], [Op(name, [0], [1], table, 2)], [0], [1]))


def pad(dtype: str, shape: Sequence[int]) -> bytes:
    amounts = np.array([[0, 0], [1, 2], [0, 3], [0, 0]])
    out = [int(n) for n in np.array(shape) + amounts.sum(1)]
    tensors = [tensor("x", shape, dtype), T("paddings", [4, 2], amounts, "int32"), tensor("y", out, dtype)]
    return build(G(tensors, [Op("PAD", [0, 1], [2], options("Pad"), 2)], [0], [2]))


def resize(kind: str, dtype: str, shape: Sequence[int], version: int = 3) -> bytes:
    """``kind`` is "BILINEAR" or "NEAREST_NEIGHBOR"."""
    table = options(f"Resize{kind.title().replace('_', '')}", halfPixelCenters=True)
    size = [shape[1] * 2 + 1, shape[2] * 3]
    tensors = [tensor("x", shape, dtype), T("size", [2], size, "int32")]
    tensors.append(tensor("y", [shape[0], *size, shape[3]], dtype))
    return build(G(tensors, [Op(f"RESIZE_{kind}", [0, 1], [2], table, version)], [0], [2]))


def split(dtype: str, shape: Sequence[int]) -> bytes:
    """Two outputs, of the input's scale."""
    half = [*shape[:3], shape[3] // 2]
    tensors = [T("axis", [], 3, "int32"), tensor("x", shape, dtype), tensor("a", half, dtype), tensor("b", half, dtype)]
    return build(G(tensors, [Op("SPLIT", [0, 1], [2, 3], options("Split", numSplits=2), 2)], [1], [2, 3]))


def transpose_convolution(dtype: str, shape: Sequence[int], out: int) -> bytes:
    table = options("TransposeConv", strideH=2, strideW=2)
    w = weights([out, 3, 3, shape[3]], dtype, 0)
    size = [shape[0], shape[1] * 2, shape[2] * 2, out]
    tensors = [T("size", [4], size, "int32"), w, tensor("x", shape, dtype), bias(w, STEP[dtype], out, dtype)]
    tensors.append(tensor("y", size, dtype, STEP[dtype] * 2))
    return build(G(tensors, [Op("TRANSPOSE_CONV", [0, 1, 2, 3], [4], table, 3)], [2], [4]))


LAYERS = {
    "CONV_2D": options("Conv2D", **WINDOW),
    "CONV_2D and RELU6": options("Conv2D", **WINDOW, fusedActivationFunction=RELU6),
    "DEPTHWISE_CONV_2D and RELU6": options(
        "DepthwiseConv2D", **WINDOW, depthMultiplier=1, fusedActivationFunction=RELU6
    ),
}  # fmt: skip
SIZE = (1, 9, 10)


def network(*layers: tuple[str, int], dtype: str = "int8", channels: int = 8) -> bytes:
    """Layers of LAYERS behind one another, with their numbers of channels."""
    tensors = [T("x", (*SIZE, channels)), tensor("a", (*SIZE, channels), dtype)]
    tensors += [tensor(f"layer {n}", (*SIZE, out), dtype, 0.05) for n, (_, out) in enumerate(layers)]
    operators = [Op("QUANTIZE", [0], [1])]
    for n, (name, out) in enumerate(layers):
        depthwise, before = name.startswith("DEPTHWISE"), channels if n == 0 else layers[n - 1][1]
        kernel = weights([1, 3, 3, out] if depthwise else [out, 3, 3, before], dtype, 3 if depthwise else 0)
        source = tensors[n + 1]
        tensors += [kernel, bias(kernel, (source.scales or [0.0])[0], out, dtype)]
        place = len(tensors) - 2
        operators.append(Op(name.partition(" ")[0], [n + 1, place, place + 1], [n + 2], LAYERS[name], 3))
    return build(G(tensors, operators, [0], [len(layers) + 1]))


def parted(dtype: str, shape: Sequence[int]) -> bytes:
    """A convolution of eight channels, of which half is convolved again, and then all with the result."""
    half, whole, both = ([*shape[:3], channels] for channels in (4, 8, 12))
    sizes = (shape, whole, half, half, half, both, [*shape[:3], 7])
    tensors = [T("x", shape), *(tensor(f"t{n}", size, dtype, 0.05) for n, size in enumerate(sizes))]
    for kernel in ([8, 1, 1, shape[3]], [4, 3, 3, 4], [7, 1, 1, 12]):
        w = weights(kernel, dtype, 0)
        tensors += [w, bias(w, 0.05, kernel[0], dtype)]
    tensors.append(T("axis", [], 3, "int32"))
    convolve = options("Conv2D", **WINDOW)
    operators = [
        Op("QUANTIZE", [0], [1]), Op("CONV_2D", [1, 8, 9], [2], convolve, 3),
        Op("SPLIT", [14, 2], [3, 4], options("Split", numSplits=2), 2), Op("CONV_2D", [4, 10, 11], [5], convolve, 3),
        Op("CONCATENATION", [3, 4, 5], [6], options("Concatenation", axis=3), 2),
        Op("CONV_2D", [6, 12, 13], [7], convolve, 3),
    ]  # fmt: skip
    return build(G(tensors, operators, [0], [7]))


def silu(dtype: str, shape: Sequence[int]) -> bytes:
    """x * LOGISTIC(x), which is rounded to the steps that LiteRT demands of LOGISTIC."""
    gate = T("gate", shape, dtype=dtype, scales=[1 / 256], zero_points=[-128 if dtype == "int8" else 0])
    tensors = [tensor("x", shape, dtype), gate, tensor("y", shape, dtype, 0.02)]
    product = Op("MUL", [0, 1], [2], options("Mul"), 2)
    return build(G(tensors, [Op("LOGISTIC", [0], [1], None, 2), product], [0], [2]))


def unary(
    name: str, dtype: str, shape: Sequence[int], *, scale: float, zero_point: int, version: int = 2, **given: Any
) -> bytes:
    """An operator whose output has a scale of its own (for some LiteRT fixes it); ``given`` are its options' fields."""
    y = T("y", shape, dtype=dtype, scales=[scale], zero_points=[zero_point])
    table = options(name.title().replace("_", ""), **given) if given else None
    return build(G([tensor("x", shape, dtype), y], [Op(name, [0], [1], table, version)], [0], [1]))


def mean(dtype: str, shape: Sequence[int]) -> bytes:
    tensors = [tensor("x", shape, dtype), T("axes", [2], [1, 2], "int32")]
    tensors.append(tensor("y", [shape[0], 1, 1, shape[3]], dtype, 0.01))
    return build(G(tensors, [Op("MEAN", [0, 1], [2], options("Reducer", keepDims=True), 2)], [0], [2]))


def requantize(dtype: str, shape: Sequence[int]) -> bytes:
    """A conversion from one scale to another; the model takes and gives float32."""
    tensors = [T("x", shape), tensor("a", shape, dtype), tensor("b", shape, dtype, 0.05), T("y", shape)]
    operators = [Op("QUANTIZE", [0], [1], version=2), Op("QUANTIZE", [1], [2], version=2)]
    return build(G(tensors, [*operators, Op("DEQUANTIZE", [2], [3], version=2)], [0], [3]))


SHAPE = (1, 6, 7, 5)
EIGHT = ("int8", "uint8")


def cases() -> list[Quantized]:
    found = []
    for dtype in EIGHT:
        last = {"int8": -128, "uint8": 0}[dtype]
        models = {
            "CONV_2D": convolution(dtype, (1, 7, 6, 5), 9),
            "CONV_2D stride 2, RELU6": convolution(dtype, (2, 9, 8, 8), 12, stride=2, activation=RELU6),
            "CONV_2D one channel": convolution(dtype, (1, 7, 6, 3), 1),
            "CONV_2D, DEPTHWISE_CONV_2D and ADD": bottleneck(dtype, SHAPE),
            "DEPTHWISE_CONV_2D": depthwise(dtype, SHAPE, 1),
            "DEPTHWISE_CONV_2D multiplier 2": depthwise(dtype, (1, 6, 7, 3), 2),
            "FULLY_CONNECTED": fully_connected(dtype, 21, 10),
            "FULLY_CONNECTED twice": layers(dtype, 40, 33, 10),
            "ADD": binary("ADD", dtype, (SHAPE, SHAPE)),
            "ADD RELU6": binary("ADD", dtype, (SHAPE, SHAPE), RELU6),
            "ADD broadcast": binary("ADD", dtype, (SHAPE, (1, 1, 1, 5))),
            "ADD constant": constant_operand(dtype, SHAPE),
            "SUB": binary("SUB", dtype, (SHAPE, SHAPE)),
            "MUL": binary("MUL", dtype, (SHAPE, (1, 1, 1, 5))),
            "CONCATENATION channels": concatenation(dtype, SHAPE, 6, 3),
            "CONCATENATION rows": concatenation(dtype, SHAPE, 2, 1),
            "AVERAGE_POOL_2D": pool("AVERAGE_POOL_2D", dtype, SHAPE),
            "MAX_POOL_2D": pool("MAX_POOL_2D", dtype, SHAPE),
            "PAD": pad(dtype, SHAPE),
            "RESIZE_BILINEAR": resize("BILINEAR", dtype, SHAPE),
            "RESIZE_NEAREST_NEIGHBOR": resize("NEAREST_NEIGHBOR", dtype, SHAPE),
            "LOGISTIC": unary("LOGISTIC", dtype, SHAPE, scale=1 / 256, zero_point=last),
            "TANH": unary("TANH", dtype, SHAPE, scale=1 / 128, zero_point=last + 128),
            "SOFTMAX": unary("SOFTMAX", dtype, SHAPE, scale=1 / 256, zero_point=last, beta=1.0),
            "HARD_SWISH": unary("HARD_SWISH", dtype, SHAPE, scale=0.02, zero_point=last + 20, version=1),
            "LEAKY_RELU": unary("LEAKY_RELU", dtype, SHAPE, scale=0.025, zero_point=last + 40, alpha=0.25),
            "SPLIT": split(dtype, (1, 6, 7, 10)),
            "LOGISTIC and MUL": silu(dtype, SHAPE),
            "CONV_2D of a part": parted(dtype, SHAPE),
            "CONV_2D and RELU6 twice": network(("CONV_2D and RELU6", 16), ("CONV_2D", 8), dtype=dtype),
            "TRANSPOSE_CONV": transpose_convolution(dtype, (1, 4, 5, 3), 6),
            "MEAN": mean(dtype, (2, 6, 7, 13)),
            "QUANTIZE": requantize(dtype, SHAPE),
        }
        found += [Quantized(label, model, dtype) for label, model in models.items()]
    found.append(Quantized("FULLY_CONNECTED one scale a unit", fully_connected("int8", 21, 10, 0), "int8"))
    return found + [Quantized(label, model, "int16") for label, model in cases_of_16_bits().items()]


def cases_of_16_bits() -> dict[str, bytes]:
    """16-bit activations and 8-bit weights. Not TANH, SOFTMAX and RESIZE_BILINEAR, where LiteRT itself is not exact."""
    return {
        "CONV_2D": convolution("int16", (1, 7, 6, 5), 9),
        "CONV_2D stride 2, RELU6": convolution("int16", (2, 9, 8, 8), 12, stride=2, activation=RELU6),
        "DEPTHWISE_CONV_2D": depthwise("int16", SHAPE, 1),
        "FULLY_CONNECTED": fully_connected("int16", 21, 10),
        "ADD": binary("ADD", "int16", (SHAPE, SHAPE)),
        "ADD constant": constant_operand("int16", SHAPE),
        "SUB": binary("SUB", "int16", (SHAPE, SHAPE)),
        "CONCATENATION": concatenation("int16", SHAPE, 6, 3),
        "AVERAGE_POOL_2D": pool("AVERAGE_POOL_2D", "int16", SHAPE),
        "MAX_POOL_2D": pool("MAX_POOL_2D", "int16", SHAPE),
        "PAD": pad("int16", SHAPE),
        "RESIZE_NEAREST_NEIGHBOR": resize("NEAREST_NEIGHBOR", "int16", SHAPE, 4),
        "LOGISTIC": unary("LOGISTIC", "int16", SHAPE, scale=1 / 32768, zero_point=0, version=3),
        "LEAKY_RELU": unary("LEAKY_RELU", "int16", SHAPE, scale=0.0002, zero_point=0, alpha=0.25),
        "SPLIT": split("int16", (1, 6, 7, 10)),
        "TRANSPOSE_CONV": transpose_convolution("int16", (1, 4, 5, 3), 6),
        "MEAN": mean("int16", (2, 6, 7, 13)),
        "QUANTIZE": requantize("int16", SHAPE),
    }


def random_inputs(details: list[dict[str, Any]]) -> dict[int, npt.NDArray[Any]]:
    """Random values of the whole range for each input of an interpreter."""
    generator = np.random.default_rng(7)
    values: dict[int, npt.NDArray[Any]] = {}
    for detail in details:
        dtype, shape = detail["dtype"], tuple(detail["shape"])
        if dtype == np.float32:
            values[detail["index"]] = generator.uniform(-4, 4, shape).astype(np.float32)
        else:
            info = np.iinfo(dtype)
            values[detail["index"]] = generator.integers(info.min, info.max + 1, shape).astype(dtype)
    return values
