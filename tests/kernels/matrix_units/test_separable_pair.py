"""Two separable convolutions as one dispatch: what the two compute, for every tile."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from framebind.delegate.lower.lowering import lower
from framebind.delegate.transform.graph import Graph, Node
from framebind.delegate.transform.pipeline import PASSES, transform
from framebind.delegate.transform.separable import fuse_separable_pairs
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.bottleneck.separable_pair import PairTile
from framebind.kernels.ops.convolution.depthwise import Depthwise
from framebind.kernels.ops.window import Window
from framebind.kernels.target import Target
from framebind.kernels.tensor import TensorInfo
from support.graphs import Shape, conv, half, normal, run, target_of
from support.models import relative_error

RELU, RELU6 = FusedOp("RELU"), FusedOp("RELU6")


def blocks(
    sizes: tuple[int, int], channels: tuple[int, int, int], residual: tuple[bool, bool]
) -> tuple[dict[int, Shape], list[Node]]:
    """Depthwise 0 to 1, pointwise 1 to 2, depthwise 2 to 3, pointwise 3 to 4; residual sums are with 0 and 2."""
    first, second, third = channels
    shapes: dict[int, Shape] = {i: (2, 7, 9, c) for i, c in enumerate((first, first, second, second, third))}
    windows = [Window((size, size), (1, 1)) for size in sizes]
    depth = [Depthwise(w, 1, normal(1, *w.size, c), normal(c)) for w, c in zip(windows, channels, strict=False)]
    sums = [(FusedOp("ADD", 2 * i), RELU) if added else (RELU6,) for i, added in enumerate(residual)]
    return shapes, [
        Node("DEPTHWISE_CONV_2D", depth[0], (0,), (1,)),
        conv(1, 2, half(second, first), sums[0]),
        Node("DEPTHWISE_CONV_2D", depth[1], (2,), (3,), (RELU,)),
        conv(3, 4, half(third, second), sums[1]),
    ]


CASES = (
    (PairTile(1, 2), (3, 3), (11, 11, 11), (True, True)),
    (PairTile(4, 5), (5, 3), (11, 22, 6), (False, False)),
    (PairTile(7, 9), (3, 5), (6, 6, 38), (True, False)),
    (PairTile(4, 9), (3, 3), (22, 6, 6), (False, True)),
)
"""The tile, the sizes of the windows, the channels before, between and behind the two, and their residual sums."""


@pytest.mark.parametrize(("tile", "sizes", "channels", "residual"), CASES, ids=str)
def test_two_pairs_in_one_step_compute_what_two_steps_compute(
    device: Device, tile: PairTile, sizes: tuple[int, int], channels: tuple[int, int, int], residual: tuple[bool, bool]
) -> None:
    """Pairs that stay two steps are the steps that they were before."""
    shapes, nodes = blocks(sizes, channels, residual)
    x = normal(*shapes[0])
    fused, found = run(device, shapes, list(nodes), (4,), x, target=target_of(device, fixed={"separable_pair": tile}))
    without = tuple(each for each in PASSES if each.run is not fuse_separable_pairs)
    apart, expected = run(device, shapes, list(nodes), (4,), x, passes=without)
    both, alike = run(device, shapes, list(nodes), (4,), x)
    assert [step.kernel.source.name for step in fused.steps] == ["separable_pair"]
    assert [step.kernel.source for step in both.steps] == [step.kernel.source for step in apart.steps]
    if device.traits.api != "null":
        assert relative_error(found[0], expected[0]) <= 1e-5
        assert (alike[0] == expected[0]).all()


def kernels(shape: Shape, channels: tuple[int, int, int], target: Target, **changes: Window) -> list[str]:
    """The kernels of two pairs, whose windows are 3x3 unless ``changes`` say otherwise."""
    shapes, nodes = blocks((3, 3), channels, (True, False))
    shapes = {i: (*shape, each[3]) for i, each in shapes.items()}
    if "second" in changes:
        depthwise = replace(cast("Depthwise", nodes[2].operation), window=changes["second"])
        nodes[2] = replace(nodes[2], operation=depthwise)
    graph = Graph({i: TensorInfo(f"t{i}", s, "float32") for i, s in shapes.items()}, nodes, (0,), (4,))
    return [entry.launch.kernel for entry in lower(transform(graph), target).launches]


def test_pairs_of_few_channels_are_one_step() -> None:
    """Blocks of face and pose are, one of 8x8 pixels and 96 channels is not, nor any without matrix units."""
    units = Target(256, 132 * 2048, True, halves=True, local_bytes=49152)
    assert kernels((1, 64, 64), (24, 24, 28), units) == ["separable_pair"]
    assert kernels((1, 256, 256), (8, 8, 8), units) == ["separable_pair"]
    assert kernels((1, 8, 8), (96, 96, 96), units) == ["separable"] * 2
    assert kernels((8, 64, 64), (24, 24, 28), units) == ["separable"] * 2
    assert kernels((1, 64, 64), (24, 24, 28), replace(units, matrix_units=False)) == ["separable"] * 2
    assert kernels((1, 64, 64), (24, 24, 28), units, second=Window((3, 3), (1, 1), (2, 2))) == ["separable"] * 2
