"""NumPy references of the operators, in float64, and the values that tests feed to them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.depthwise import Depthwise
from framebind.kernels.ops.convolution.transpose_conv import TransposeConvolution
from framebind.kernels.ops.window import VALID, Window
from framebind.kernels.views import Resize
from framebind.tools.certify.cases.operator_models import Array


def padded_axis(size: int, kernel: int, stride: int, dilation: int, scheme: int) -> tuple[int, int, int]:
    """Output size, and padding before and after, along one axis of a window.

    They follow ComputeOutSize and ComputePaddingWithOffset of tensorflow/lite/kernels/padding.h, the definition of
    SAME and VALID, and not the code under test.
    """
    reach = (kernel - 1) * dilation + 1
    if scheme == VALID:
        return (size + stride - reach) // stride, 0, 0
    count = (size + stride - 1) // stride
    total = max((count - 1) * stride + reach - size, 0)
    return count, total // 2, total - total // 2


def windows(x: npt.NDArray, window: Window) -> npt.NDArray[np.float64]:
    """The window that each output pixel sees: (batch, rows, columns, kernel height, kernel width, channels).

    A merged PAD or MIRROR_PAD comes first; then the window's own scheme pads with zeros.
    """
    top, bottom, left, right = window.extra
    border = ((0, 0), (top, bottom), (left, right), (0, 0))
    x = np.pad(x.astype(np.float64), border, mode="reflect" if window.mode == "reflect" else "constant")
    (rows, *above), (columns, *beside) = (
        padded_axis(*numbers, window.padding)
        for numbers in zip(x.shape[1:3], window.size, window.strides, window.dilations, strict=True)
    )
    x = np.pad(x, ((0, 0), tuple(above), tuple(beside), (0, 0)))
    y = np.arange(rows)[:, None] * window.strides[0] + np.arange(window.size[0])[None] * window.dilations[0]
    z = np.arange(columns)[:, None] * window.strides[1] + np.arange(window.size[1])[None] * window.dilations[1]
    return x[:, y][:, :, :, z].transpose(0, 1, 3, 2, 4, 5)


def convolve(operation: Convolution) -> Callable[[Array], npt.NDArray]:
    bias = 0 if operation.bias is None else operation.bias
    return lambda x: np.einsum("brckli,okli->brco", windows(x, operation.window), operation.weights) + bias


def depthwise(operation: Depthwise) -> Callable[[Array], npt.NDArray]:
    def compute(x: Array) -> npt.NDArray:
        repeated = np.repeat(x, operation.multiplier, axis=3)
        seen = windows(repeated, operation.window)
        return np.einsum("brcklo,klo->brco", seen, operation.weights[0]) + (
            0 if operation.bias is None else operation.bias
        )

    return compute


def transpose_convolve(operation: TransposeConvolution) -> Callable[[Array], npt.NDArray]:
    """Each input pixel adds the kernel, times its value, to the output. The scheme is that of the convolution from the
    output back to the input (EvalFloat of tensorflow/lite/kernels/transpose_conv.cc): what it pads is cut off.
    """

    def compute(x: Array) -> npt.NDArray:
        batch, height, width, _ = x.shape
        out, *kernel, _ = operation.weights.shape
        whole = [(n - 1) * s + k for n, s, k in zip((height, width), operation.strides, kernel, strict=True)]
        same = (height * operation.strides[0], width * operation.strides[1])
        rows, columns = operation.size or (whole if operation.padding == VALID else same)
        top, left = (
            padded_axis(n, k, s, 1, operation.padding)[1]
            for n, k, s in zip((rows, columns), kernel, operation.strides, strict=True)
        )
        full = np.zeros((batch, max(whole[0], top + rows), max(whole[1], left + columns), out))
        for y in range(height):
            for z in range(width):
                patch = np.einsum("bi,okli->bklo", x[:, y, z].astype(np.float64), operation.weights)
                r, c = y * operation.strides[0], z * operation.strides[1]
                full[:, r : r + kernel[0], c : c + kernel[1]] += patch
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


def layer_norm(epsilon: float, centred: bool) -> Callable[[Array], npt.NDArray]:
    def compute(x: Array) -> npt.NDArray:
        difference = x - (x.mean(-1, keepdims=True, dtype=np.float64) if centred else 0.0)
        return difference / np.sqrt(np.square(difference).mean(-1, keepdims=True) + epsilon)

    return compute


def bilinear_samples(picture: Array, columns: Array, rows: Array) -> npt.NDArray:
    """Each pixel weighted by how near it is to a place, at most one apart."""
    height, width = picture.shape[2:]
    down = np.maximum(1 - np.abs(np.arange(height) - rows[..., None].astype(np.float64)), 0)
    across = np.maximum(1 - np.abs(np.arange(width) - columns[..., None].astype(np.float64)), 0)
    return np.einsum("nchw,ncabh,ncabw->ncab", picture, down, across)
