"""A 1x1 convolution and the depthwise one behind it as one dispatch: what the two compute, and when they are one."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from framebind.delegate.lower.launches import Lowered
from framebind.delegate.lower.lowering import lower
from framebind.delegate.transform.graph import Graph, Node
from framebind.delegate.transform.pipeline import PASSES, transform
from framebind.delegate.transform.separable import fuse_expanded
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.bottleneck.expanded import Expanded, ExpandedTile, tile_candidates
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.depthwise import Depthwise
from framebind.kernels.ops.window import SAME, VALID, Window
from framebind.kernels.target import Target
from framebind.kernels.tensor import TensorInfo
from framebind.kernels.views import Storage
from support.graphs import Shape, check, conv, half, normal, run, target_of
from support.models import relative_error

CASES: tuple[tuple[Window, str, ExpandedTile, Storage, bool], ...] = (
    (Window((3, 3), (1, 1)), "RELU6", ExpandedTile(1, 1, 2, 1, 1), "f32", True),
    (Window((3, 3), (2, 2)), "HARD_SWISH", ExpandedTile(7, 9, 2, 2, 1), "f16", False),
    (Window((5, 5), (2, 1), padding=VALID), "RELU", ExpandedTile(4, 5, 4, 4, 2), "f32", True),
    (Window((3, 3), (1, 1), (2, 4), SAME), "RELU6", ExpandedTile(2, 3, 8, 1, 2), "f32", False),
    (Window((3, 3), (1, 1), (4, 2), SAME), "HARD_SWISH", ExpandedTile(2, 5, 4, 2, 1), "f16", True),
    (Window((5, 3), (1, 1), extra=(1, 0, 2, 1), padding=VALID), "RELU", ExpandedTile(4, 4, 16, 2, 2), "f32", False),
    (Window((1, 1), (1, 1)), "RELU", ExpandedTile(3, 9, 4, 4, 1), "f16", False),
)
"""The depthwise window, the activation before it, the tile, the storage, and whether a 1x1 convolution follows."""
H200 = Target(256, 132 * 2048, True, halves=True)


def block(shape: Shape, window: Window, channels: int, depth: int, out: int, activation: str = "RELU6",
          **others: int) -> tuple[dict[int, Shape], list[Node]]:  # fmt: skip
    """Pointwise convolution 0 to 1, depthwise 1 to 2, pointwise 2 to 3. Matrix units take weights that are halves."""
    batch, height, width = shape
    filtered = (batch, *window.output_size(height, width))
    shapes: dict[int, Shape] = {0: (*shape, channels), 1: (*shape, depth), 2: (*filtered, depth), 3: (*filtered, out)}
    depthwise = Depthwise(window, others.get("multiplier", 1), normal(1, *window.size, depth), normal(depth))
    return shapes, [
        conv(0, 1, half(depth, channels), (FusedOp(activation),)),
        Node("DEPTHWISE_CONV_2D", depthwise, (1,), (2,), (FusedOp("RELU6"),)),
        conv(2, 3, half(out, depth)),
    ]


@pytest.mark.parametrize(("window", "activation", "tile", "storage", "project"), CASES, ids=str)
def test_both_in_one_step_compute_what_two_compute(
    device: Device, window: Window, activation: str, tile: ExpandedTile, storage: Storage, project: bool
) -> None:
    shapes, nodes = block((2, 7, 9), window, 11, 22, 6, activation)
    nodes, outputs = (nodes, (3,)) if project else (nodes[:2], (2,))
    x = normal(*shapes[0])
    target = target_of(device, storage, fixed={"expanded": tile})
    fused, found = run(device, shapes, list(nodes), outputs, x, storage, target=target)
    without = tuple(each for each in PASSES if each.run is not fuse_expanded)
    _, expected = run(device, shapes, list(nodes), outputs, x, storage, passes=without)
    assert fused.steps[0].kernel.source.name == "expanded" and len(fused.steps) == 1 + project
    if device.traits.api != "null":
        assert relative_error(found[0], expected[0]) <= 1e-5


@pytest.mark.parametrize("tile", [ExpandedTile(7, 9, 2, 2, 1), ExpandedTile(3, 4, 4, 1, 2), None], ids=str)
def test_a_filter_adds_what_it_reads(device: Device, tile: ExpandedTile | None) -> None:
    shapes, nodes = block((2, 7, 9), Window((5, 3), (1, 1)), 11, 22, 6, "RELU")
    nodes[1] = replace(nodes[1], epilogue=(FusedOp("RELU6"), FusedOp("ADD", 1)))
    x, target = normal(*shapes[0]), target_of(device, matrix_units=False, fixed={"expanded": tile} if tile else {})
    fused, found = run(device, shapes, nodes[:2], (2,), x, target=target)
    without = tuple(each for each in PASSES if each.run is not fuse_expanded)
    _, expected = run(device, shapes, nodes[:2], (2,), x, target=target, passes=without)
    assert [step.kernel.source.name for step in fused.steps] == (["expanded"] if tile else ["conv", "depthwise"])
    check(device, found, expected)


def lowered(shapes: dict[int, Shape], nodes: list[Node], outputs: tuple[int, ...], target: Target) -> Lowered:
    graph = Graph({i: TensorInfo(f"t{i}", s, "float32") for i, s in shapes.items()}, nodes, (0,), outputs)
    return lower(transform(graph), target)


def kernels(
    shape: Shape, window: Window, channels: tuple[int, int, int], target: Target = H200, outputs: tuple[int, ...] = (3,)
) -> str:
    shapes, nodes = block(shape, window, *channels)
    return " ".join(entry.launch.kernel for entry in lowered(shapes, nodes, outputs, target).launches)


def test_one_step_is_taken_where_it_is_faster() -> None:
    """Blocks of hand and pose. deeplab's takes long, and eight pictures; a small one is a step with what follows."""
    five, three = Window((5, 5), (1, 1)), Window((3, 3), (1, 1))
    joined, apart, pair = "expanded matrix_conv", "matrix_conv depthwise matrix_conv", "matrix_conv separable"
    assert kernels((1, 7, 7), five, (112, 672, 112)) == kernels((1, 16, 16), five, (56, 336, 56)) == joined
    assert kernels((1, 33, 33), Window((3, 3), (1, 1), (4, 4)), (80, 480, 80)) == apart
    assert kernels((8, 7, 7), five, (112, 672, 112)) == apart
    assert kernels((1, 28, 28), three, (24, 144, 24)) == pair
    assert kernels((1, 7, 7), five, (112, 672, 112), target=Target(256, 132 * 2048)) == "conv separable"


def test_what_others_need_and_what_the_kernel_has_not_is_computed_apart() -> None:
    """Cases: a second reader; several outputs per channel; a dilation with a stride; pixels that are reflected."""
    window = Window((3, 3), (1, 1))
    assert kernels((1, 7, 7), window, (64, 384, 64), outputs=(1, 3)) == "matrix_conv depthwise matrix_conv"
    for other in (
        Window((3, 3), (2, 2), (2, 2)),
        Window((3, 3), (1, 1), padding=VALID, extra=(1, 1, 1, 1), mode="reflect"),
    ):
        assert kernels((1, 14, 14), other, (64, 384, 64)).startswith("matrix_conv depthwise")


def candidates(shape: Shape, size: tuple[int, int], depth: int) -> list[tuple[int, ...]]:
    """The tiles of a block that keeps its ``shape``, behind ``depth`` channels."""
    depthwise = Depthwise(Window(size, (1, 1)), 1, normal(1, *size, shape[3]))
    expansion = Convolution(Window((1, 1), (1, 1)), normal(shape[3], 1, 1, depth))
    return [tuple(tile) for tile in tile_candidates(Expanded(expansion, ("RELU6",), depthwise), shape, H200)]


def test_candidates_are_the_fastest_tiles_and_small_ones_of_equal_time_come_first() -> None:
    """A block of hand, one whose tiles all take one round, and one with fewer tiles than candidates."""
    (fastest, *others) = candidates((1, 7, 7, 672), (5, 5), 112)
    assert fastest == (7, 7, 2, 1, 1)
    assert others == [(3, 7, 4, 1, 2), (7, 3, 4, 1, 2), (4, 7, 4, 1, 2), (7, 4, 4, 1, 2)]
    assert candidates((1, 1, 17, 8), (5, 5), 4) == [(1, width, 2, 1, 1) for width in (1, 2, 3, 4, 5)]
    assert candidates((8, 2, 1, 8), (5, 5), 8) == [(1, 1, 2, 1, 1), (2, 1, 2, 1, 1)]


def test_the_search_for_tiles_takes_few_calls() -> None:
    """A picture of 125 x 127 pixels has 4,000 tiles. All are estimated at once, and for an equal block not again."""
    calls = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    def searched() -> int:
        nonlocal calls
        calls = 0
        sys.setprofile(count)
        try:
            assert len(candidates((1, 125, 127, 16), (3, 3), 16)) == 5
        finally:
            sys.setprofile(None)
        return calls

    assert searched() < 800 and searched() < 100
