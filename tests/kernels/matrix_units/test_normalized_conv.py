"""An instance normalization and the convolution behind it as one step; the units are emulated if a device has none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from framebind.delegate.transform.graph import Node
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp, Lowering
from framebind.kernels.ops.bottleneck.normalized_conv import Normalization, NormalizedTile, launch_normalized
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.separable import CLAMPS
from framebind.kernels.ops.movement.concat import Concatenation
from framebind.kernels.ops.movement.resize import ResizeImage
from framebind.kernels.ops.reduction.instance_norm import InstanceNorm
from framebind.kernels.ops.window import SAME, VALID, Window
from framebind.kernels.target import Target
from framebind.kernels.tensor import TensorId
from framebind.kernels.views import Resize
from support.cases.references import convolve
from support.graphs import Array, Shape, check, conv, convolved, half, normal, run, target_of

SAME_3X3 = Window((3, 3), (1, 1), padding=SAME)
REFLECTED = Window((3, 3), (1, 1), padding=VALID, extra=(1, 1, 1, 1), mode="reflect")


def normalized(x: Array, gamma: Array, beta: Array) -> Array:
    mean, variance = x.mean((1, 2), keepdims=True), x.var((1, 2), keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-3) * gamma + beta


class Block:
    """A 1x1 convolution (tensor 1), its normalization (2), and a convolution of that (3), with NumPy's results."""

    def __init__(self, shape: Shape, out: int, window: Window, *, doubled: bool = False, activation: str = "") -> None:
        batch, height, width, depth = shape
        self.x, weights = normal(*shape), half(depth, depth)
        self.gamma, self.beta = normal(1, 1, 1, depth), normal(1, 1, 1, depth)
        second = half(out, math.prod(window.size) * depth).reshape(out, *window.size, depth)
        operation, factor = Convolution(window, second, half(out, 1)[:, 0]), 2 if doubled else 1
        size = (factor * height, factor * width)
        epilogue = (FusedOp(activation),) if activation else ()
        norm = Node("INSTANCE_NORM", InstanceNorm(1e-3), (1, 4, 5), (2,), epilogue)
        self.nodes = [conv(0, 1, weights), norm]
        self.shapes: dict[int, Shape] = {0: shape, 1: shape, 2: shape, 4: (1, 1, 1, depth), 5: (1, 1, 1, depth)}
        if doubled:
            resize = Resize(size, align_corners=False, half_pixel_centers=False, bilinear=False)
            self.nodes.append(Node("RESIZE_NEAREST_NEIGHBOR", ResizeImage(resize), (2,), (6,)))
            self.shapes[6] = (batch, *size, depth)
        self.nodes.append(Node("CONV_2D", operation, (6 if doubled else 2,), (3,)))
        self.between = normalized(convolved(self.x, weights), self.gamma, self.beta)
        low, high = CLAMPS[(activation,) if activation else ()]
        self.between = np.clip(self.between, low, high)
        self.operation = operation
        read = self.between.repeat(factor, 1).repeat(factor, 2)
        self.expected = convolve(operation)(read.astype(np.float32))
        self.shapes[3] = self.expected.shape

    def run(self, device: Device, tile: NormalizedTile, *outputs: int) -> tuple[list[str], list[Array]]:
        """The kernels that ran behind the first convolution's, and the outputs."""
        target = target_of(device, "f16", group_size=64, local_bytes=1 << 16, fixed={"normalized_conv": tile})
        constants = {4: self.gamma, 5: self.beta}
        made, found = run(
            device, self.shapes, self.nodes, outputs or (3,), self.x, "f16", target=target, constants=constants
        )
        return [step.kernel.source.name for step in made.steps[1:]], found


@pytest.mark.parametrize(
    ("shape", "out", "window", "tile", "activation"),
    [
        ((1, 9, 19, 32), 32, REFLECTED, NormalizedTile(1, 1), "RELU"),
        ((1, 7, 35, 12), 3, SAME_3X3, NormalizedTile(2, 2), ""),
        ((2, 6, 17, 8), 16, Window((5, 4), (1, 1), padding=VALID), NormalizedTile(3, 1), "RELU6"),
    ],
    ids=str,
)
def test_one_step_normalizes_and_convolves(
    device: Device, shape: Shape, out: int, window: Window, tile: NormalizedTile, activation: str
) -> None:
    """The sums of two pictures are a step of their own."""
    block = Block(shape, out, window, activation=activation)
    kernels, found = block.run(device, tile)
    assert kernels == ["moments", "normalized_conv"][shape[0] == 1 :]
    check(device, found, [block.expected], 2e-3)


def test_pixels_are_doubled_where_they_are_read(device: Device) -> None:
    block = Block((1, 5, 9, 16), 8, REFLECTED, doubled=True, activation="RELU")
    kernels, found = block.run(device, NormalizedTile(2, 2))
    assert kernels == ["normalized_conv"]
    check(device, found, [block.expected], 2e-3)


def test_a_residual_is_added_and_kept_for_those_who_read_it_later(device: Device) -> None:
    """The second normalization, which adds it, also needs the sums of what the step writes."""
    block = Block((1, 10, 33, 8), 8, SAME_3X3)
    norm = InstanceNorm(1e-3)
    block.nodes[1] = Node("INSTANCE_NORM", norm, (1, 4, 5), (2,), (FusedOp("ADD", 0),))
    block.nodes.append(Node("INSTANCE_NORM", norm, (3, 4, 5), (6,), (FusedOp("ADD", 2),)))
    block.shapes[6] = block.shapes[3]
    between = block.between + block.x
    expected = normalized(convolve(block.operation)(between), block.gamma, block.beta) + between
    for outputs in ((6,), (6, 2)):
        kernels, found = block.run(device, NormalizedTile(1, len(outputs)), *outputs)
        assert kernels == ["normalized_conv", "instance_norm"]
        check(device, found, [expected, between][: len(outputs)], 2e-3)


def test_a_convolution_that_adds_what_it_reads_has_a_normalization_before_it(device: Device) -> None:
    """The convolution's work-groups would read what others write."""
    block = Block((1, 10, 18, 8), 8, SAME_3X3)
    block.nodes[2] = Node("CONV_2D", block.operation, (2,), (3,), (FusedOp("ADD", 2),))
    kernels, found = block.run(device, NormalizedTile(1, 1))
    assert kernels[0] == "instance_norm"
    check(device, found, [block.expected + block.between], 2e-3)


def test_a_normalization_that_is_read_earlier_under_another_name_is_a_step(device: Device) -> None:
    """A concatenation, in which it lies, is read before it is convolved itself."""
    block, weights = Block((1, 9, 18, 8), 8, SAME_3X3), half(8, 16)
    joined = Node("CONCATENATION", Concatenation(3, 4), (2, 0), (6,))
    block.nodes[2:2] = [joined, conv(6, 7, weights)]
    block.shapes |= {6: (1, 9, 18, 16), 7: (1, 9, 18, 8)}
    kernels, found = block.run(device, NormalizedTile(1, 1), 3, 7)
    assert "instance_norm" in kernels
    read = np.concatenate([block.between, block.x], 3).astype(np.float32)
    check(device, found, [block.expected, convolved(read, weights)], 2e-3)


@pytest.mark.parametrize(("early_launches", "runs"), [(True, 2), (False, 1)])
def test_tiles_are_smaller_if_all_steps_become_one_program(early_launches: bool, runs: int) -> None:
    """The program has the registers of its largest kernel: a convolution of style_transfer_f16_384 on an H200."""
    vector, sums = (1, 1, 1, 32), (1, 144, 3, 32)
    shapes: dict[TensorId, tuple[int, int, int, int]] = {
        0: (1, 96, 96, 32),
        1: vector,
        2: vector,
        3: sums,
        4: (1, 192, 192, 16),
        5: (1, 1, 1, 4),
    }
    target = Target(256, 132 * 2048, True, halves=True, local_bytes=49152, early_launches=early_launches)
    operation = Convolution(REFLECTED, half(16, 9 * 32).reshape(16, 3, 3, 32), None)
    lowering = Lowering((0, 1, 2, 3), (4, 5), shapes.__getitem__, lambda _: 6, target)
    launch = launch_normalized(operation, lowering, Normalization(1e-3, 0.0, 1.0, 1, kept=False))
    assert launch is not None and launch.constants["RUNS"] == runs
