"""NumPy references of the operators, in float64, and the values that tests feed to them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.depthwise import Depthwise
from framebind.kernels.ops.convolution.transpose_conv import TransposeConvolution
from framebind.kernels.ops.reduction.pool import Pooling
from framebind.kernels.ops.window import Window
from framebind.kernels.views import Resize

Array = npt.NDArray[np.float32]


def values(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed + sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def windows(x: npt.NDArray, window: Window, fill: float) -> npt.NDArray[np.float64]:
    """(batch, rows, columns, kernel height, kernel width, channels): what each output pixel sees."""
    _, height, width, _ = x.shape
    rows, columns = window.output_size(height, width)
    constants = window.constants(height, width)
    reach = [
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip((rows, columns), window.strides, window.size, window.dilations, strict=True)
    ]
    before = constants["PAD_TOP"], constants["PAD_LEFT"]
    amounts = [
        (0, 0),
        *((b, max(0, r - b - n)) for b, r, n in zip(before, reach, (height, width), strict=True)),
        (0, 0),
    ]
    if window.mode == "reflect":
        padded = np.pad(x.astype(np.float64), amounts, mode="reflect")
    else:
        padded = np.pad(x.astype(np.float64), amounts, constant_values=fill)
    y = np.arange(rows)[:, None] * window.strides[0] + np.arange(window.size[0])[None] * window.dilations[0]
    z = np.arange(columns)[:, None] * window.strides[1] + np.arange(window.size[1])[None] * window.dilations[1]
    return padded[:, y][:, :, :, z].transpose(0, 1, 3, 2, 4, 5)


def convolve(operation: Convolution) -> Callable[[Array], npt.NDArray]:
    bias = 0 if operation.bias is None else operation.bias
    return lambda x: np.einsum("brckli,okli->brco", windows(x, operation.window, 0), operation.weights) + bias


def depthwise(operation: Depthwise) -> Callable[[Array], npt.NDArray]:
    def compute(x: Array) -> npt.NDArray:
        repeated = np.repeat(x, operation.multiplier, axis=3)
        seen = windows(repeated, operation.window, 0)
        return np.einsum("brcklo,klo->brco", seen, operation.weights[0]) + (
            0 if operation.bias is None else operation.bias
        )

    return compute


def pool(operation: Pooling) -> Callable[[Array], npt.NDArray]:
    fill = -np.inf if operation.maximum else np.nan
    reduce = np.max if operation.maximum else np.nanmean
    return lambda x: reduce(windows(x, operation.window, fill), axis=(3, 4))


def transpose_convolve(operation: TransposeConvolution) -> Callable[[Array], npt.NDArray]:
    def compute(x: Array) -> npt.NDArray:
        batch, height, width, _ = x.shape
        out, kernel_h, kernel_w, _ = operation.weights.shape
        rows, columns = operation.output_size(height, width)
        top, left = operation.padding_before((height, width), (rows, columns))
        full = np.zeros((batch, height * operation.strides[0] + kernel_h, width * operation.strides[1] + kernel_w, out))
        for y in range(height):
            for z in range(width):
                patch = np.einsum("bi,okli->bklo", x[:, y, z].astype(np.float64), operation.weights)
                r, c = y * operation.strides[0], z * operation.strides[1]
                full[:, r : r + kernel_h, c : c + kernel_w] += patch
        bias = 0 if operation.bias is None else operation.bias
        return full[:, top : top + rows, left : left + columns] + bias

    return compute


def resize(operation: Resize) -> Callable[[Array], npt.NDArray]:
    def places(source: int, target: int) -> npt.NDArray[np.float64]:
        scale = (source - 1) / (target - 1) if operation.align_corners and target > 1 else source / target
        half = 0.5 if operation.half_pixel_centers else 0.0
        return (np.arange(target) + half) * np.float32(scale) - (half if operation.bilinear else 0.0)

    def along(x: npt.NDArray, axis: int) -> npt.NDArray:
        at, last = places(x.shape[axis], operation.size[axis - 1]), x.shape[axis] - 1
        if not operation.bilinear:
            nearest = np.floor(at + 0.5) if operation.align_corners else np.floor(at)
            return np.take(x, np.clip(nearest, 0, last).astype(int), axis)
        low = np.maximum(np.floor(at), 0).astype(int)
        part = np.expand_dims(at - low, tuple(a for a in range(4) if a != axis))
        first, second = np.take(x, low, axis), np.take(x, np.clip(np.ceil(at), 0, last).astype(int), axis)
        return first + (second - first) * part

    return lambda x: along(along(x.astype(np.float64), 1), 2)


def instance_norm(epsilon: float) -> Callable[[Array, Array, Array], npt.NDArray]:
    def compute(x: Array, gamma: Array, beta: Array) -> npt.NDArray:
        mean, variance = x.mean((1, 2), keepdims=True, dtype=np.float64), x.var((1, 2), keepdims=True, dtype=np.float64)
        return (x - mean) / np.sqrt(variance + epsilon) * gamma + beta

    return compute


ELEMENTWISE: dict[str, Callable[..., npt.NDArray]] = {
    "ABS": np.abs, "ATAN2": np.arctan2, "CEIL": np.ceil,
    "COS": np.cos, "EXP": np.exp, "FLOOR": np.floor, "LOG": np.log, "NEG": np.negative, "SIN": np.sin,
    "SQRT": np.sqrt, "SQUARE": np.square, "TANH": np.tanh, "RSQRT": lambda v: 1 / np.sqrt(v),
    "HARD_SWISH": lambda v: v * np.clip(v + 3, 0, 6) / 6, "LOGISTIC": lambda v: 1 / (1 + np.exp(-v)),
    "RELU": lambda v: np.maximum(v, 0), "RELU6": lambda v: np.clip(v, 0, 6),
    "RELU_0_TO_1": lambda v: np.clip(v, 0, 1), "RELU_N1_TO_1": lambda v: np.clip(v, -1, 1),
    "ADD": np.add, "DIV": np.divide, "MAXIMUM": np.maximum, "MINIMUM": np.minimum, "MUL": np.multiply, "SUB":
    np.subtract, "SQUARED_DIFFERENCE": lambda v, w: np.square(v - w), "ROUND": np.round, "SIGN": np.sign,
    "ELU": lambda v: np.where(v < 0, np.expm1(v), v), "FLOOR_DIV": lambda v, w: np.floor(v / w), "FLOOR_MOD": np.mod,
    "POW": np.power, "PRELU": lambda v, w: np.where(v < 0, v * w, v),
}  # fmt: skip
