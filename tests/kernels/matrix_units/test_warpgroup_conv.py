"""Convolutions of halves by warpgroups against NumPy; their products are emulated if a device has none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from framebind.delegate.lower.halves import take_halves
from framebind.delegate.lower.launches import Lowered
from framebind.delegate.lower.lowering import lower
from framebind.delegate.lower.precision import choose_storage
from framebind.delegate.lower.tuning import choices_by_key
from framebind.delegate.transform.graph import Alias, Graph, Node
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.heuristics import WARPGROUP_CANDIDATES
from framebind.kernels.ops.convolution.tiled_conv import ConvTile, Grid
from framebind.kernels.ops.convolution.transpose_conv import TransposeConvolution
from framebind.kernels.ops.convolution.warpgroup_choice import _tiles, clocks, least_clocks, warpgroup_candidates
from framebind.kernels.ops.convolution.warpgroup_conv import WarpgroupTile, fits
from framebind.kernels.ops.window import SAME, VALID, Window
from framebind.kernels.target import Target
from framebind.kernels.tensor import TensorId, TensorInfo
from framebind.kernels.views import Storage
from support.cases.references import convolve, transpose_convolve
from support.graphs import RNG, Array, Shape, conv, convolved, half, run, target_of
from support.models import relative_error


def halves_between(lowered: Lowered, storage: Storage) -> Mapping[TensorId, Storage]:
    """Tensor 1 is halves, all others floats."""
    return {tensor: "f16" if tensor == 1 else "f32" for tensor in lowered.shapes}


def result_of(
    device: Device, last: Node, shape: Shape, out: Shape, x: Array, first: Array, group_size: int, **fixed: object
) -> Array:
    """The result of a convolution of one tap, which writes halves of this shape, and the last node behind it by
    ``fixed`` tiles. Some groups compute two tiles, because the device counts as one of few invocations.
    """
    target = target_of(device, "f16", group_size=group_size, invocations=2048, fixed=fixed)
    shapes, nodes = {0: x.shape, 1: shape, 2: out}, [conv(0, 1, first), last]
    program, (found,) = run(device, shapes, nodes, (2,), x, "f16", target=target, storage_rule=halves_between)
    assert program.steps[1].kernel.source.name == "warpgroup_conv"
    return found


def check(
    device: Device, last: Node, shape: Shape, expected: Array, x: Array, first: Array, group_size: int, **fixed: object
) -> None:
    found = result_of(device, last, shape, expected.shape, x, first, group_size, **fixed)
    if device.traits.api != "null":
        assert relative_error(found, expected) <= 1e-5


def integers(*shape: int) -> Array:
    """Small integers, whose sums of four products halves hold."""
    return RNG.integers(-4, 5, shape).astype(np.float32)


def convolution(out: int, depth: int, window: Window) -> Convolution:
    weights = half(out, math.prod(window.size) * depth).reshape(out, *window.size, depth)
    return Convolution(window, weights, half(out, 1)[:, 0])


@pytest.mark.parametrize(
    ("shape", "out", "window", "tile", "group_size"),
    [
        ((1, 9, 21, 16), 24, Window((3, 3), (1, 1)), WarpgroupTile(1, 3, 1, 1, 1, 2, 9, 1), 128),
        ((1, 9, 21, 24), 37, Window((3, 3), (1, 1)), WarpgroupTile(2, 2, 1, 1, 2, 1, 2, 3), 128),
        ((2, 9, 11, 13), 8, Window((3, 3), (2, 2), padding=VALID), WarpgroupTile(1, 1, 1, 1, 1, 1, 2, 2), 128),
        ((1, 9, 13, 24), 16, Window((1, 3), (1, 2)), WarpgroupTile(1, 1, 1, 2, 1, 2, 1, 3), 256),
        ((1, 12, 9, 16), 30, Window((2, 3), (1, 1), (1, 3)), WarpgroupTile(1, 2, 2, 1, 1, 1, 3, 3), 256),
        ((2, 7, 9, 36), 33, Window((1, 1), (1, 1)), WarpgroupTile(1, 3, 1, 1, 0, 2, 1, 4), 128),
        ((2, 9, 9, 24), 24, Window((3, 3), (1, 1)), WarpgroupTile(1, 3, 1, 1, 0, 2, 9, 4), 128),
        ((2, 7, 5, 16), 16, Window((2, 3), (1, 1), (3, 2)), WarpgroupTile(1, 2, 1, 1, 0, 1, 3, 3, 2), 256),
        ((2, 6, 7, 16), 16, Window((3, 2), (1, 1), padding=VALID), WarpgroupTile(1, 1, 2, 1, 0, 2, 6, 1), 256),
        ((2, 6, 7, 16), 8, Window((3, 3), (1, 1), (1, 1), VALID, (3, 1, 0, 4)),
         WarpgroupTile(2, 1, 1, 1, 0, 2, 9, 1), 128),
        ((2, 5, 6, 8), 8, Window((1, 1), (1, 1), extra=(0, 1, 2, 0)), WarpgroupTile(1, 1, 1, 1, 0, 1, 1, 1), 128),
        ((2, 17, 26, 16), 8, Window((3, 3), (1, 1)), WarpgroupTile(1, 1, 1, 1, 1, 2, 5, 6), 128),
        ((2, 5, 9, 40), 21, Window((3, 3), (1, 1), (2, 1)), WarpgroupTile(1, 1, 1, 1, 1, 1, 3, 3, 3), 128),
    ],
    ids=str,
)  # fmt: skip
def test_every_window_and_tile(
    device: Device, shape: Shape, out: int, window: Window, tile: WarpgroupTile, group_size: int
) -> None:
    operation, first, x = convolution(out, shape[3], window), integers(shape[3], 4), integers(*shape[:3], 4)
    expected = np.maximum(convolve(operation)(convolved(x, first)), 0)
    last = Node("CONV_2D", operation, (1,), (2,), (FusedOp("RELU"),))
    check(device, last, shape, expected, x, first, group_size, warpgroup_conv=tile)


def test_an_infinite_pixel_makes_its_neighbours_infinite(device: Device) -> None:
    """Nine terms are no whole steps. All weights of the infinite channel are above zero. The convolution before has
    terms of whole steps.
    """
    operation, first, x = convolution(8, 8, Window((3, 3), (1, 1))), integers(8, 16), integers(1, 9, 10, 16)
    operation = replace(operation, weights=np.abs(half(8, 72)).reshape(8, 3, 3, 8) + 0.125)
    first[:, 0], x[0, 4, 5, 0] = 1, np.inf
    expected = convolve(operation)(convolved(x, first))
    last, tile = Node("CONV_2D", operation, (1,), (2,)), WarpgroupTile(1, 1, 1, 1, 1, 1, 5, 1)
    found = result_of(device, last, (1, 9, 10, 8), expected.shape, x, first, 128, warpgroup_conv=tile)
    if device.traits.api != "null":
        np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))


@pytest.mark.parametrize("size", [(2, 2), (4, 3)])
def test_a_transposed_convolution_is_one_of_neighbouring_pixels(device: Device, size: tuple[int, int]) -> None:
    weights = half(5, math.prod(size) * 9).reshape(5, *size, 9)
    operation = TransposeConvolution((2, 2), SAME, None, weights, half(5, 1)[:, 0])
    first, x = integers(9, 4), integers(1, 5, 7, 4)
    expected = transpose_convolve(operation)(convolved(x, first))
    fixed = {"tiled_conv": ConvTile(2, 1, 1, 1, 8, 1), "warpgroup_conv": WarpgroupTile(1, 3, 1, 1, 1, 2, 1, 2)}
    check(device, Node("TRANSPOSE_CONV", operation, (1,), (2,)), (1, 5, 7, 9), expected, x, first, 128, **fixed)


HOPPER = Target(256, 132 * 2048, matrix_units=True, halves=True, local_bytes=48 << 10, warpgroup_bytes=227 << 10)
"""An H200."""


@pytest.mark.parametrize(
    ("storage", "epilogue", "kernels"),
    [
        ("f16", (), ["tiled_conv", "warpgroup_conv", "warpgroup_conv"]),
        ("f32", (), ["tiled_conv", "tiled_conv", "tiled_conv"]),
        ("f16", (FusedOp("LOG"),), ["fma_conv", "fma_conv", "fma_conv"]),
    ],
)
def test_launches_of_halves_take_the_place_of_those_that_read_halves(
    storage: Storage, epilogue: tuple[FusedOp, ...], kernels: list[str]
) -> None:
    """The input is float32. Nothing before a logarithm is rounded."""
    nodes = [
        Node("CONV_2D", convolution(96, 96, Window((3, 3), (1, 1))), (i,), (i + 1,), epilogue if i == 2 else ())
        for i in range(3)
    ]
    tensors = {i: TensorInfo(f"t{i}", (1, 128, 128, 96), "float32") for i in range(4)}
    lowered = lower(Graph(tensors, nodes, (0,), (3,)), HOPPER)
    keys = choices_by_key(lowered.launches)
    found = take_halves(lowered, choose_storage(lowered, storage)).launches
    assert [entry.launch.kernel for entry in found] == kernels
    if kernels[-1] == "warpgroup_conv":
        (choice,) = {entry.launch.choice for entry in found[1:]}
        assert choice is not None and choice.key in keys and len(choice.candidates) == WARPGROUP_CANDIDATES


@pytest.mark.parametrize(
    ("most", "channels", "count", "kernel"),
    [
        (100, 96, 1, "warpgroup_conv"), (5000, 96, 1, "warpgroup_conv"),
        (5000, 48, 2, "tiled_conv"), (5000, 48, 3, "warpgroup_conv"), (100, 48, 2, "warpgroup_conv"),
    ],
)  # fmt: skip
def test_warpgroups_break_up_one_dispatch_only_for_much_work(most: int, channels: int, count: int, kernel: str) -> None:
    """A layer of 96 channels has 1.36e9 multiply-adds, one of 48 has 3.4e8, of which three are enough."""
    layer = convolution(channels, channels, Window((3, 3), (1, 1)))
    nodes = [Node("CONV_2D", layer, (i,), (i + 1,)) for i in range(count)]
    tensors = {i: TensorInfo(f"t{i}", (1, 128, 128, channels), "float32") for i in range(count + 1)}
    graph = Graph(tensors, nodes, (0,), (count,))
    lowered = lower(graph, replace(HOPPER, warpgroup_invocations=most))
    found = take_halves(lowered, dict.fromkeys(range(count), "f16")).launches
    assert {entry.launch.kernel for entry in found} == {kernel}


@pytest.mark.parametrize(("start", "octets"), [(4, 1), (3, 0)])
def test_octets_of_a_part_of_a_tensor_lie_at_multiples_of_16_bytes(start: int, octets: int) -> None:
    nodes = [Node("CONV_2D", convolution(96, 96, Window((3, 3), (1, 1))), (0,), (1,))]
    tensors = {i: TensorInfo(f"t{i}", (1, 128, 128, 96), "float32") for i in range(3)}
    lowered = lower(Graph(tensors, nodes, (0,), (1,)), HOPPER)
    lowered.aliases = {0: Alias(2, start, 48)}
    (entry,) = take_halves(lowered, {0: "f16"}).launches
    assert (entry.launch.kernel, entry.launch.constants["OCTETS"]) == ("warpgroup_conv", octets)


def test_few_pixels_of_many_channels_share_their_sums() -> None:
    """The second launch adds up, and has what is fused into the convolution."""
    operation = convolution(128, 576, Window((3, 3), (1, 1), (6, 6)))
    tensors = {i: TensorInfo(f"t{i}", (1, 33, 33, channels), "float32") for i, channels in enumerate((576, 128))}
    graph = Graph(tensors, [Node("CONV_2D", operation, (0,), (1,), (FusedOp("RELU"),))], (0,), (1,))
    first, last = take_halves(lower(graph, HOPPER), {0: "f16"}).launches
    assert (first.launch.kernel, last.launch.kernel) == ("warpgroup_conv", "reduce")
    assert first.launch.writes["dst"] == last.launch.reads["src"] and last.launch.writes == {"dst": 1}
    assert first.epilogue == () and [op.expression for op in last.epilogue] == ["RELU"]
    assert first.launch.constants["SHARES"] == last.launch.constants["REDUCED_B"] == 8
    assert first.number != last.number


@pytest.mark.parametrize(("size", "flat"), [(128, False), (129, True)])
def test_tiles_are_positions_in_a_row_if_squares_cover_too_much(size: int, flat: bool) -> None:
    grid = Grid((size, size), 32)
    first, *_ = warpgroup_candidates(Window((3, 3), (1, 1)), (1, size, size, 160), grid, HOPPER)
    assert first.is_flat == flat


@pytest.mark.parametrize(
    ("shape", "grid", "window"),
    [
        ((1, 64, 64, 96), Grid((64, 64), 48), Window((3, 3), (1, 1))),
        ((1, 14, 14, 256), Grid((7, 7), 128), Window((3, 3), (2, 2))),
        ((2, 33, 33, 256), Grid((33, 33), 64), Window((1, 1), (1, 1))),
    ],
)
def test_the_likeliest_tiles_are_those_of_all_tiles(shape: Shape, grid: Grid, window: Window) -> None:
    """Bounds leave most tiles out of the estimates, and no likely one."""
    target = Target(256, 132 * 2048, halves=True, warpgroup_bytes=227 << 10)
    possible = [tile for tile in _tiles(window, shape, grid, target) if fits(window, shape, grid, tile, target)]
    costs = {tile: clocks(window, shape, grid, tile, target) for tile in possible}
    assert warpgroup_candidates(window, shape, grid, target) == tuple(
        sorted(costs, key=costs.__getitem__)[:WARPGROUP_CANDIDATES]
    )
    assert all(least_clocks(window, shape, grid, tile, target) <= cost for tile, cost in costs.items())
