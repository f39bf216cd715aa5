"""Convolutions by multiply-adds of tiles in local memory against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from framebind.delegate.lower.lowering import lower
from framebind.delegate.transform.graph import Graph, Node
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.fma_conv import FmaTile
from framebind.kernels.ops.convolution.heuristics import FMA_CANDIDATES
from framebind.kernels.ops.convolution.transpose_conv import TransposeConvolution
from framebind.kernels.ops.window import SAME, VALID, Window
from framebind.kernels.target import Target
from framebind.kernels.tensor import TensorInfo
from framebind.kernels.views import Storage
from support.cases.references import convolve, transpose_convolve
from support.graphs import Array, Shape, conv, convolved, half, logistic, mean, multiply, normal, run, target_of
from support.models import OPERATOR_TOLERANCE, relative_error


def convolution(out: int, depth: int, window: Window) -> Convolution:
    weights = half(out, math.prod(window.size) * depth).reshape(out, *window.size, depth)
    return Convolution(window, weights, half(out, 1)[:, 0])


def check(
    device: Device, node: Node, shapes: dict[int, Shape], x: Array, expected: Array, tile: FmaTile,
    storage: Storage = "f32",
) -> None:  # fmt: skip
    """Run the node by this tile, and compare."""
    target = target_of(device, storage, matrix_units=False, group_size=64, fixed={"fma_conv": tile})
    program, (found,) = run(device, shapes, [node], (1,), x, storage, target=target)
    assert [step.kernel.source.name for step in program.steps] == ["fma_conv"]
    if device.traits.api != "null":
        assert relative_error(found, expected) <= (OPERATOR_TOLERANCE["f16"] if storage == "f16" else 1e-5)


@pytest.mark.parametrize(
    ("x", "out", "window", "tile"),
    [
        ((1, 9, 21, 24), 20, Window((3, 3), (1, 1), padding=SAME), FmaTile(4, 3, 2, 1, 8, 2)),
        ((2, 9, 5, 13), 37, Window((3, 2), (1, 1), padding=VALID), FmaTile(2, 2, 4, 2, 8, 2)),
        ((1, 9, 21, 40), 9, Window((5, 3), (2, 1), (1, 2), padding=SAME), FmaTile(4, 1, 2, 4, 8, 4)),
        ((1, 8, 9, 10), 8, Window((3, 3), (1, 1), padding=VALID, extra=(1, 1, 1, 1), mode="reflect"),
         FmaTile(2, 1, 2, 1, 16, 1)),
        ((2, 9, 11, 20), 24, Window((3, 3), (2, 2), (1, 3), padding=SAME), FmaTile(8, 2, 4, 1, 0, 1)),
        ((2, 7, 9, 36), 33, Window((1, 1), (1, 1), padding=SAME), FmaTile(4, 3, 4, 2, 0, 4)),
    ],
    ids=str,
)  # fmt: skip
def test_every_window_and_tile(device: Device, x: Shape, out: int, window: Window, tile: FmaTile) -> None:
    operation, image = convolution(out, x[3], window), normal(*x)
    expected = np.maximum(convolve(operation)(image), 0)
    node = Node("CONV_2D", operation, (0,), (1,), (FusedOp("RELU"),))
    check(device, node, {0: x, 1: expected.shape}, image, expected, tile)


@pytest.mark.parametrize(
    ("size", "strides", "padding", "batch"),
    [((2, 2), (2, 2), SAME, 1), ((4, 3), (2, 2), SAME, 2), ((3, 3), (2, 1), VALID, 1)],
    ids=str,
)
def test_a_transposed_convolution_is_one_of_neighbouring_pixels(
    device: Device, size: tuple[int, int], strides: tuple[int, int], padding: int, batch: int
) -> None:
    weights = half(5, math.prod(size) * 9).reshape(5, *size, 9)
    operation = TransposeConvolution(strides, padding, None, weights, half(5, 1)[:, 0])
    x = normal(batch, 5, 7, 9)
    (shape,) = operation.output_shapes([x.shape])
    node = Node("TRANSPOSE_CONV", operation, (0,), (1,))
    tile = FmaTile(4, 2, 2, 2, 8 if padding == SAME else 0, 2)
    check(device, node, {0: x.shape, 1: shape}, x, transpose_convolve(operation)(x), tile)


GPU = Target(128, 1 << 18, local_bytes=48 << 10)
"""NVIDIA's OpenGL, in 32 bits."""
CPU = Target(64, 1, halves=True, local_bytes=32 << 10)
"""llvmpipe."""
UNITS = Target(256, 132 * 2048, matrix_units=True, halves=True, local_bytes=48 << 10)


@pytest.mark.parametrize(
    ("target", "x", "out", "window", "kernel"),
    [
        (GPU, (1, 128, 128, 96), 96, (3, 3), "fma_conv"),
        (GPU, (1, 16, 16, 384), 1536, (1, 1), "fma_conv"),
        (GPU, (1, 14, 14, 192), 768, (1, 1), "conv"),
        (GPU, (1, 28, 28, 128), 128, (3, 3), "fma_conv"),
        (GPU, (1, 192, 192, 32), 16, (3, 3), "row_conv"),
        (GPU, (1, 128, 128, 3), 24, (3, 3), "patch_conv"),
        (CPU, (1, 128, 128, 96), 96, (3, 3), "conv"),
        (UNITS, (1, 128, 128, 96), 96, (3, 3), "tiled_conv"),
    ],
)
def test_much_work_goes_to_tiles_on_a_gpu_without_matrix_units(
    target: Target, x: Shape, out: int, window: tuple[int, int], kernel: str
) -> None:
    operation = Convolution(Window(window, (1, 1)), np.zeros((out, *window, x[3]), np.float32), None)
    tensors = {0: TensorInfo("x", x, "float32"), 1: TensorInfo("y", (*x[:3], out), "float32")}
    graph = Graph(tensors, [Node("CONV_2D", operation, (0,), (1,))], (0,), (1,))
    (entry,) = lower(graph, target).launches
    assert entry.launch.kernel == kernel
    if kernel == "fma_conv":
        assert entry.launch.choice is not None and len(entry.launch.choice.candidates) == FMA_CANDIDATES


@pytest.mark.parametrize("tile", [FmaTile(4, 3, 4, 1, 8, 2), FmaTile(2, 2, 4, 2, 8, 2)], ids=str)
def test_a_group_adds_up_what_it_writes(device: Device, tile: FmaTile) -> None:
    """The gate of a squeeze-and-excite block: sums where pixels are written, and a layer of their means."""
    x, operation, gate = normal(1, 7, 9, 26), convolution(26, 26, Window((3, 3), (1, 1), padding=SAME)), half(26, 26)
    shapes: dict[int, Shape] = {i: x.shape for i in (0, 1, 4)} | {i: (1, 1, 1, 26) for i in (2, 3)}
    nodes = [
        Node("CONV_2D", operation, (0,), (1,)), mean(1, 2), conv(2, 3, gate, (FusedOp("LOGISTIC"),)),
        multiply(1, 3, 4),
    ]  # fmt: skip
    target = target_of(device, matrix_units=False, group_size=64, fixed={"fma_conv": tile})
    program, (found,) = run(device, shapes, nodes, (4,), x, target=target)
    source = program.steps[0].kernel.source
    assert source.name == "fma_conv" and source.partial_sums is not None
    y = convolve(operation)(x)
    if device.traits.api != "null":
        expected = y * logistic(convolved(y.mean((1, 2), keepdims=True), gate))
        assert relative_error(found, expected) <= 1e-5
