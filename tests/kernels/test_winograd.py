"""3x3 convolutions by Winograd's F(4x4, 3x3) against NumPy."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from framebind.delegate.lower.lowering import lower
from framebind.delegate.statistics import work_of
from framebind.delegate.transform.graph import Graph, Node
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.fma_conv import FmaTile
from framebind.kernels.ops.window import SAME, VALID, Window
from framebind.kernels.target import Target
from framebind.kernels.tensor import TensorInfo
from support.cases.references import convolve
from support.graphs import Shape, conv, convolved, half, logistic, mean, multiply, normal, run, target_of
from support.models import relative_error

KERNELS = ["winograd_input", "fma_conv", "winograd_output"]
TILE = FmaTile(4, 2, 2, 2, 0, 2)
DIRECT = FmaTile(4, 2, 2, 2, 8, 2)


def convolution(out: int, depth: int, window: Window, *, whole: bool = False) -> Convolution:
    weights = half(out, 9 * depth).reshape(out, 3, 3, depth)
    return Convolution(window, weights, half(out, 1)[:, 0], integer_weights=whole)


def target_for(device: Device, tile: FmaTile = TILE) -> Target:
    fixed = {"fma_conv": DIRECT, "winograd": tile}
    return replace(target_of(device, matrix_units=False, group_size=64, fixed=fixed), halves=True)


@pytest.mark.parametrize(
    ("x", "out", "window", "tile"),
    [
        ((1, 9, 21, 24), 20, Window((3, 3), (1, 1), padding=SAME), FmaTile(4, 3, 2, 1, 0, 2)),
        ((2, 10, 13, 37), 37, Window((3, 3), (1, 1), padding=VALID), TILE),
        ((2, 6, 7, 8), 9, Window((3, 3), (1, 1), padding=VALID, extra=(1, 0, 2, 1), mode="reflect"), TILE),
    ],
    ids=str,
)  # fmt: skip
def test_every_border_and_batch(device: Device, x: Shape, out: int, window: Window, tile: FmaTile) -> None:
    operation, image = convolution(out, x[3], window), normal(*x)
    expected = np.maximum(convolve(operation)(image), 0)
    node = Node("CONV_2D", operation, (0,), (1,), (FusedOp("RELU"),))
    program, (found,) = run(device, {0: x, 1: expected.shape}, [node], (1,), image, target=target_for(device, tile))
    assert [step.kernel.source.name for step in program.steps] == KERNELS
    tiles = x[0] * math.prod(-(-size // 4) for size in expected.shape[1:3])
    least, padded = 36 * tiles * x[3] * out, 36 * tiles * (x[3] + 12) * (out + 20)
    assert least <= work_of(program.steps[1]).multiply_adds <= padded
    if device.traits.api != "null":
        assert relative_error(found, expected) <= 1e-5


def test_results_are_added_up_where_they_are_written(device: Device) -> None:
    """The gate of a squeeze-and-excite block."""
    x, operation, gate = normal(1, 7, 9, 26), convolution(26, 26, Window((3, 3), (1, 1), padding=SAME)), half(26, 26)
    shapes: dict[int, Shape] = {i: x.shape for i in (0, 1, 4)} | {i: (1, 1, 1, 26) for i in (2, 3)}
    nodes = [
        Node("CONV_2D", operation, (0,), (1,)), mean(1, 2), conv(2, 3, gate, (FusedOp("LOGISTIC"),)),
        multiply(1, 3, 4),
    ]  # fmt: skip
    program, (found,) = run(device, shapes, nodes, (4,), x, target=target_for(device))
    assert [step.kernel.source.name for step in program.steps[:3]] == KERNELS
    assert program.steps[2].kernel.source.partial_sums is not None
    y = convolve(operation)(x)
    if device.traits.api != "null":
        expected = y * logistic(convolved(y.mean((1, 2), keepdims=True), gate))
        assert relative_error(found, expected) <= 1e-5


GPU = Target(128, 1 << 18, halves=True, local_bytes=48 << 10)
"""NVIDIA's OpenGL."""


def kernels(target: Target, x: Shape, operation: Convolution, epilogue: tuple[FusedOp, ...] = ()) -> list[str]:
    """The names of the kernels of one convolution."""
    (shape,) = operation.output_shapes([x])
    tensors = {0: TensorInfo("x", x, "float32"), 1: TensorInfo("y", shape, "float32")}
    graph = Graph(tensors, [Node("CONV_2D", operation, (0,), (1,), epilogue)], (0,), (1,))
    return [entry.launch.kernel for entry in lower(graph, target).launches]


def test_large_layers_take_fewer_products_if_16_bits_are_allowed() -> None:
    large: Shape = (1, 128, 128, 96)
    same = Window((3, 3), (1, 1), padding=SAME)
    operation = convolution(96, 96, same)
    assert kernels(GPU, large, operation) == KERNELS
    direct = ["fma_conv"]
    assert kernels(replace(GPU, halves=False), large, operation) == direct
    assert kernels(GPU, large, convolution(96, 96, Window((3, 3), (1, 1), (2, 2), padding=SAME))) == direct
    assert kernels(GPU, large, convolution(96, 96, same, whole=True)) == direct
    assert kernels(GPU, large, operation, (FusedOp("LOG"),)) == direct
    assert not set(kernels(replace(GPU, matrix_units=True), large, operation)) & set(KERNELS)
    assert not set(kernels(replace(GPU, invocations=1), large, operation)) & set(KERNELS)
