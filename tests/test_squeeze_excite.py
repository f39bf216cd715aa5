"""Squeeze-and-excite blocks: mean, layers and factor in two steps, with the same values."""

from __future__ import annotations

import numpy as np
import pytest

from cases import relative_error
from framebind.delegate.graph import Node
from framebind.interop.device import Device
from framebind.kernels.elementwise import Elementwise
from framebind.kernels.fully_connected import FullyConnected
from framebind.kernels.layout import Storage
from framebind.kernels.operator import Link
from framebind.kernels.pool import Pooling
from framebind.kernels.reduce import Reduction
from framebind.kernels.registry import OPERATORS
from framebind.kernels.window import VALID, Window
from test_join import Array, Shape, add, conv, convolved, normal, run

MEAN = Reduction((1, 2), 4, True)


def half(*shape: int) -> Array:
    """Values that 16 bits hold."""
    return normal(*shape).astype(np.float16).astype(np.float32)


def mean(source: int, target: int, pooled: tuple[int, int] | None = None) -> Node:
    if pooled is None:
        return Node(OPERATORS["MEAN"], MEAN, (source,), (target,))
    return Node(
        OPERATORS["AVERAGE_POOL_2D"], Pooling(Window(pooled, (1, 1), padding=VALID), False), (source,), (target,)
    )


def multiply(source: int, operand: int, target: int) -> Node:
    return Node(OPERATORS["MUL"], Elementwise(), (source,), (target,), (Link("MUL", operand),))


def logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def block(x: Shape, hidden: int, out: int, w: tuple[Array, Array, Array]) -> tuple[dict[int, Shape], list[Node]]:
    """0 is multiplied by its gate 4, and convolved to 6."""
    batch, rows, columns, channels = x
    one = (batch, 1, 1)
    shapes: dict[int, Shape] = {0: x, 1: (*one, channels), 2: (*one, hidden), 4: (*one, channels), 5: x}
    shapes[6] = (batch, rows, columns, out)
    relu, gate = (Link("RELU"),), (Link("LOGISTIC"),)
    nodes = [mean(0, 1), conv(1, 2, w[0], relu), conv(2, 4, w[1], gate), multiply(0, 4, 5), conv(5, 6, w[2])]
    return shapes, nodes


@pytest.mark.parametrize("storage", ["f32", "f16"])
@pytest.mark.parametrize(
    ("shape", "hidden"), [((1, 4, 5, 16), 8), ((2, 5, 3, 22), 9), ((1, 40, 37, 16), 8), ((1, 3, 3, 600), 12)], ids=str
)
def test_a_block_is_two_steps(device: Device, shape: Shape, hidden: int, storage: Storage) -> None:
    """Or three, where rows of a large picture are reduced before."""
    channels = shape[3]
    weights = half(hidden, channels), half(channels, hidden), half(12, channels)
    shapes, nodes = block(shape, hidden, 12, weights)
    x = normal(*shape)
    program, found = run(device, shapes, nodes, (6,), x, storage)
    names = [step.kernel.source.name for step in program.steps]
    large = shape[1] * shape[2] * -(-channels // 4) > 64 * device.traits.group
    assert names == ["reduce"] * large + ["squeeze_excite", "conv"]
    gate = logistic(convolved(np.maximum(convolved(x.mean((1, 2), keepdims=True), weights[0]), 0), weights[1]))
    if device.traits.api != "null":
        assert relative_error(found[0], convolved(x * gate, weights[2])) <= 1e-5


def test_one_layer_a_pooled_mean_and_a_fully_connected_one(device: Device) -> None:
    weights = half(7, 10)
    layer = FullyConnected(weights, weights[:, 0])
    shapes: dict[int, Shape] = {0: (2, 4, 5, 10), 1: (2, 1, 1, 10), 2: (2, 7)}
    nodes = [mean(0, 1, (4, 5)), Node(OPERATORS["FULLY_CONNECTED"], layer, (1,), (2,), (Link("LOGISTIC"),))]
    x = normal(*shapes[0])
    program, found = run(device, shapes, nodes, (2,), x)
    assert [step.kernel.source.name for step in program.steps] == ["squeeze_excite"]
    if device.traits.api != "null":
        assert relative_error(found[0], logistic(convolved(x.mean((1, 2)), weights))) <= 1e-5


def test_sums_are_read_by_the_mean_and_by_a_convolution(device: Device) -> None:
    """As in a decoder: the mean of a sum of two tensors is the gate of one of them, and the other is added again."""
    shapes: dict[int, Shape] = {0: (1, 4, 5, 8), 1: (1, 4, 5, 8), 2: (1, 4, 5, 8), 3: (1, 1, 1, 8), 4: (1, 1, 1, 8)}
    shapes |= {5: shapes[0], 6: shapes[0], 7: (1, 4, 5, 3)}
    first, gate, last = half(8, 8), half(8, 8), half(3, 8)
    nodes = [conv(0, 1, first), add(0, 1, 2), mean(2, 3), conv(3, 4, gate, (Link("LOGISTIC"),))]
    nodes += [multiply(0, 4, 5), add(5, 1, 6), conv(6, 7, last)]
    x = normal(*shapes[0])
    program, found = run(device, shapes, nodes, (7,), x)
    assert [step.kernel.source.name for step in program.steps] == ["conv", "squeeze_excite", "conv"]
    other = convolved(x, first)
    factor = logistic(convolved((x + other).mean((1, 2), keepdims=True), gate))
    if device.traits.api != "null":
        assert relative_error(found[0], convolved(x * factor + other, last)) <= 1e-5


def test_what_others_need_stays_a_tensor(device: Device) -> None:
    """A sum that is an output, a mean that two layers read, and a layer that is too large."""
    shapes: dict[int, Shape] = {0: (1, 4, 5, 8), 1: (1, 4, 5, 8), 2: (1, 4, 5, 4), 3: (1, 1, 1, 8), 4: (1, 1, 1, 4)}
    shapes |= {5: (1, 1, 1, 4)}
    product = Node(OPERATORS["MUL"], Elementwise(), (0,), (1,), (Link("MUL", 0),))
    nodes = [product, conv(1, 2, half(4, 8)), mean(0, 3), conv(3, 4, half(4, 8)), conv(3, 5, half(4, 8))]
    program, _ = run(device, shapes, nodes, (1, 2, 4, 5), normal(*shapes[0]))
    assert [step.kernel.source.name for step in program.steps] == ["copy", "conv", "reduce", "conv", "conv"]
    shapes = {0: (1, 2, 2, 128), 1: (1, 1, 1, 128), 2: (1, 1, 1, 128)}
    program, _ = run(device, shapes, [mean(0, 1), conv(1, 2, half(128, 128))], (2,), normal(1, 2, 2, 128))
    assert [step.kernel.source.name for step in program.steps] == ["reduce", "conv"]
