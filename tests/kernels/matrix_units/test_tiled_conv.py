"""Convolutions by tiles in local memory against NumPy; matrix units are emulated if a device has none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from framebind.delegate.lower.launches import Lowered
from framebind.delegate.lower.lowering import lower
from framebind.delegate.lower.precision import choose_storage
from framebind.delegate.transform.graph import Graph, Node
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.depthwise import Depthwise
from framebind.kernels.ops.convolution.heuristics import TILED_CANDIDATES
from framebind.kernels.ops.convolution.tiled_conv import ConvTile
from framebind.kernels.ops.convolution.transpose_conv import TransposeConvolution
from framebind.kernels.ops.window import SAME, VALID, Window
from framebind.kernels.target import Target
from framebind.kernels.tensor import TensorInfo
from framebind.kernels.views import Sliced, Storage
from support.cases.references import convolve, transpose_convolve
from support.graphs import Array, Shape, concat, half, logistic, normal, run, target_of
from support.models import OPERATOR_TOLERANCE, relative_error


def convolution(out: int, depth: int, window: Window) -> Convolution:
    weights = half(out, math.prod(window.size) * depth).reshape(out, *window.size, depth)
    return Convolution(window, weights, half(out, 1)[:, 0])


def check(
    device: Device, nodes: list[Node], shapes: dict[int, Shape], x: Array, expected: Array, tile: ConvTile,
    storage: Storage = "f32", kernels: int = 1,
) -> None:  # fmt: skip
    """Run the nodes, of which ``kernels`` are convolutions by this tile, and compare the last tensor."""
    target = target_of(device, storage, matrix_units=False, group_size=64, fixed={"tiled_conv": tile})
    program, (found,) = run(device, shapes, nodes, (max(shapes),), x, storage, target=target)
    assert [step.kernel.source.name for step in program.steps].count("tiled_conv") == kernels
    if device.traits.api != "null":
        assert relative_error(found, expected) <= (OPERATOR_TOLERANCE["f16"] if storage == "f16" else 1e-5)


@pytest.mark.parametrize(
    ("x", "out", "window", "tile"),
    [
        ((1, 9, 21, 24), 20, Window((3, 3), (1, 1), padding=SAME), ConvTile(2, 2, 1, 1, 8, 2)),
        ((2, 9, 5, 13), 37, Window((3, 2), (1, 1), padding=VALID), ConvTile(2, 1, 2, 1, 16, 1, 2, 3)),
        ((1, 9, 21, 40), 9, Window((5, 3), (2, 1), (1, 2), padding=SAME), ConvTile(4, 1, 1, 2, 8, 2)),
        ((1, 8, 9, 10), 8, Window((3, 3), (1, 1), padding=VALID, extra=(1, 1, 1, 1), mode="reflect"),
         ConvTile(2, 1, 1, 1, 16, 1, 3, 2)),
        ((2, 9, 11, 20), 24, Window((3, 3), (2, 2), (1, 3), padding=SAME), ConvTile(3, 2, 1, 1, 0, 1)),
        ((2, 11, 19, 3), 20, Window((3, 3), (2, 2), padding=SAME), ConvTile(2, 2, 1, 1, 8, 1, 1, 4, True)),
        ((1, 8, 20, 4), 16, Window((5, 7), (1, 1), (2, 1), padding=SAME), ConvTile(2, 1, 1, 1, 16, 1, 2, 2, True)),
        ((2, 7, 9, 36), 33, Window((1, 1), (1, 1), padding=SAME), ConvTile(2, 2, 1, 2, 0, 2)),
    ],
    ids=str,
)  # fmt: skip
def test_every_window_and_tile(device: Device, x: Shape, out: int, window: Window, tile: ConvTile) -> None:
    operation, image = convolution(out, x[3], window), normal(*x)
    expected = np.maximum(convolve(operation)(image), 0)
    nodes = [Node("CONV_2D", operation, (0,), (1,), (FusedOp("RELU"),))]
    check(device, nodes, {0: x, 1: expected.shape}, image, expected, tile)


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
    expected = transpose_convolve(operation)(x)
    nodes = [Node("TRANSPOSE_CONV", operation, (0,), (1,))]
    check(device, nodes, {0: x.shape, 1: shape}, x, expected, ConvTile(2, 1, 1, 1, 8 if padding == SAME else 0, 1))


@pytest.mark.parametrize("storage", ["f32", "f16"])
def test_between_its_convolutions_are_halves_if_16_bits_are_allowed(device: Device, storage: Storage) -> None:
    """Joined, added and activated in place; the input and the output are float32 buffers."""
    point, three = Window((1, 1), (1, 1), padding=VALID), Window((3, 3), (1, 1), padding=SAME)
    first, second, third = convolution(16, 8, three), convolution(16, 16, point), convolution(6, 32, three)
    nodes = [
        Node("CONV_2D", first, (0,), (1,), (FusedOp("RELU"),)),
        Node("CONV_2D", second, (1,), (2,), (FusedOp("SILU"), FusedOp("ADD", 1))),
        concat((1, 2), 3, 3),
        Node("CONV_2D", third, (3,), (4,)),
    ]
    sizes = {0: 8, 1: 16, 2: 16, 3: 32, 4: 6}
    shapes: dict[int, Shape] = {i: (1, 9, 10, channels) for i, channels in sizes.items()}
    x = normal(*shapes[0])
    one = np.maximum(convolve(first)(x), 0)
    two = convolve(second)(one)
    two = two * logistic(two) + one
    expected = convolve(third)(np.concatenate([one, two], 3))
    target = target_of(
        device, storage, matrix_units=False, group_size=64, fixed={"tiled_conv": ConvTile(2, 1, 1, 1, 8, 1)}
    )
    program, (found,) = run(device, shapes, nodes, (4,), x, storage, target=target)
    views = [{a.name: a.view for a in step.kernel.source.arguments} for step in program.steps]
    between = [
        view for step, name in enumerate(("dst", "src dst", "src")) for view in (views[step][n] for n in name.split())
    ]
    assert [isinstance(view, Sliced) and view.storage for view in between] == [storage] * 4
    if device.traits.api != "null":
        assert relative_error(found, expected) <= (OPERATOR_TOLERANCE["f16"] if storage == "f16" else 1e-5)


@pytest.mark.parametrize("largest", [1.0, 600.0, 1e30, np.inf])
def test_floats_are_pairs_of_halves_until_one_is_too_large(device: Device, largest: float) -> None:
    """Blocks of a sum before the one with a large value keep what they added up. The units are the device's own."""
    x = normal(1, 8, 20, 48) * np.float32(min(largest, 1.0))
    x[0, 3, 10, 21] = largest
    operation = convolution(24, 48, Window((3, 3), (1, 1), padding=SAME))
    nodes, tile = [Node("CONV_2D", operation, (0,), (1,))], ConvTile(2, 2, 1, 1, 8, 1)
    target = target_of(device, "f16", group_size=64, fixed={"tiled_conv": tile})
    program, (found,) = run(device, {0: x.shape, 1: (1, 8, 20, 24)}, nodes, (1,), x, "f16", target=target)
    assert [step.kernel.source.name for step in program.steps] == ["tiled_conv"]
    expected = convolve(operation)(x)
    finite = np.isfinite(expected)
    if device.traits.api != "null":
        assert not np.isfinite(found[~finite]).any()
        assert relative_error(found[finite], expected[finite]) <= 1e-5


UNITS = Target(256, 132 * 2048, matrix_units=True, halves=True, local_bytes=48 << 10)
"""An H200."""


def lowered(sizes: list[Shape], nodes: list[Node]) -> Lowered:
    tensors = {i: TensorInfo(f"t{i}", shape, "float32") for i, shape in enumerate(sizes)}
    return lower(Graph(tensors, nodes, (0,), (len(sizes) - 1,)), UNITS)


@pytest.mark.parametrize(
    ("x", "out", "window", "kernel"),
    [
        ((1, 128, 128, 96), 96, (3, 3), "tiled_conv"),
        ((1, 512, 512, 3), 48, (3, 3), "tiled_conv"),
        ((1, 512, 512, 3), 24, (3, 3), "patch_conv"),
        ((1, 128, 128, 3), 24, (3, 3), "patch_conv"),
        ((1, 20, 20, 128), 128, (3, 3), "matrix_conv"),
        ((1, 80, 80, 128), 128, (1, 1), "matrix_conv"),
    ],
)
def test_much_work_goes_to_tiles(x: Shape, out: int, window: tuple[int, int], kernel: str) -> None:
    operation = Convolution(Window(window, (1, 1)), np.zeros((out, *window, x[3]), np.float32), None)
    nodes = [Node("CONV_2D", operation, (0,), (1,))]
    (entry,) = lowered([x, (*x[:3], out)], nodes).launches
    assert entry.launch.kernel == kernel
    if kernel == "tiled_conv":
        assert entry.launch.choice is not None and len(entry.launch.choice.candidates) == TILED_CANDIDATES
        assert entry.launch.fusion.single_pass_read == (x[3] == 3)


def test_what_other_kernels_than_convolutions_touch_stays_f32() -> None:
    """A tensor between dense convolutions is halves, unless a depthwise convolution or an output has it too."""
    shape = (1, 128, 128, 64)
    dense = Convolution(Window((3, 3), (1, 1)), np.zeros((64, 3, 3, 64), np.float32), None)
    depthwise = Depthwise(Window((3, 3), (1, 1)), 1, np.zeros((1, 3, 3, 64), np.float32), None)
    nodes = [Node("CONV_2D", dense, (i,), (i + 1,)) for i in range(3)]
    chain = lowered([shape] * 5, [*nodes, Node("DEPTHWISE_CONV_2D", depthwise, (3,), (4,))])
    assert choose_storage(chain, "f16") == {0: "f32", 1: "f16", 2: "f16", 3: "f32", 4: "f32"}
    assert set(choose_storage(chain, "f32").values()) == {"f32"}
