"""Depthwise and pointwise convolutions as one dispatch: what the two compute, for every tile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from framebind.delegate.transform.graph import Node
from framebind.delegate.transform.pipeline import PASSES
from framebind.delegate.transform.separable import fuse_separable
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.depthwise import Depthwise
from framebind.kernels.ops.convolution.heuristics import PAIR_LOCAL_SLICES
from framebind.kernels.ops.convolution.separable import Pair, SeparableTile, divide_window, is_one_step, tile_candidates
from framebind.kernels.ops.window import SAME, VALID, Window
from framebind.kernels.target import Target
from framebind.kernels.views import Storage
from support.graphs import Shape, conv, half, normal, run, target_of
from support.models import relative_error

WINDOWS = (
    Window((3, 3), (1, 1)),
    Window((3, 3), (2, 2)),
    Window((5, 5), (2, 1), padding=VALID),
    Window((3, 3), (1, 1), (2, 2), SAME),
    Window((3, 3), (1, 1), padding=VALID, extra=(1, 1, 2, 1), mode="reflect"),
)
TILES: tuple[tuple[SeparableTile, Storage], ...] = (
    (SeparableTile(1, 1, 1, 6), "f32"),
    (SeparableTile(1, 16, 4, 6), "f16"),
    (SeparableTile(2, 4, 2, 6), "f32"),
    (SeparableTile(2, 1, 2, 4), "f16"),
    (SeparableTile(4, 1, 4, 4), "f32"),
    (SeparableTile(3, 1, 3, 1), "f32"),
    (SeparableTile(4, 2, 2, 8), "f16"),
)


def pair(window: Window, channels: int, out: int, activation: tuple[str, ...]) -> tuple[dict[int, Shape], list[Node]]:
    """Depthwise convolution 0 to 1, pointwise 1 to 2 with weights of 16 bits: kernels round others each in its way."""
    rows, columns = window.output_size(7, 9)
    shapes: dict[int, Shape] = {0: (2, 7, 9, channels), 1: (2, rows, columns, channels), 2: (2, rows, columns, out)}
    depthwise = Depthwise(window, 1, normal(1, *window.size, channels), normal(channels))
    epilogue = tuple(map(FusedOp, activation))
    return shapes, [
        Node("DEPTHWISE_CONV_2D", depthwise, (0,), (1,), epilogue),
        conv(1, 2, half(out, channels), (FusedOp("RELU6"),)),
    ]


@pytest.mark.parametrize(("tile", "storage"), TILES, ids=str)
@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: f"{w.size} by {w.strides}, {w.dilations}, {w.mode}")
def test_both_in_one_step_compute_what_two_compute(
    device: Device, window: Window, tile: SeparableTile, storage: Storage
) -> None:
    shapes, nodes = pair(window, 11, 22, ("RELU",))
    x = normal(*shapes[0])
    target = replace(target_of(device, storage, fixed={"separable": tile}), early_launches=storage == "f16")
    fused, found = run(device, shapes, list(nodes), (2,), x, storage, target=target)
    without = tuple(each for each in PASSES if each.run is not fuse_separable)
    general, expected = run(device, shapes, list(nodes), (2,), x, storage, passes=without)
    assert (len(fused.steps), len(general.steps)) == (1, 2)
    if device.traits.api != "null":
        assert relative_error(found[0], expected[0]) <= 1e-5


@pytest.mark.parametrize("activation", [(), ("RELU6",), ("RELU_N1_TO_1",)], ids=str)
def test_activations_between_the_two_are_clamps(device: Device, activation: tuple[str, ...]) -> None:
    shapes, nodes = pair(Window((1, 1), (1, 1)), 8, 4, activation)
    x = 4 * normal(*shapes[0])
    program, found = run(device, shapes, nodes, (2,), x)
    assert len(program.steps) == 1
    depthwise, pointwise = nodes[0].operation, nodes[1].operation
    assert isinstance(depthwise, Depthwise) and isinstance(pointwise, Convolution)
    between = x * depthwise.weights[0, 0, 0] + depthwise.bias
    if activation:
        between = np.clip(between, *{"RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1)}[activation[0]])
    expected = np.clip(between @ pointwise.weights[:, 0, 0].T + pointwise.bias, 0, 6)
    if device.traits.api != "null":
        assert relative_error(found[0], expected) <= 1e-5


def test_what_others_need_is_computed_apart(device: Device) -> None:
    """A second reader, an output of the graph, and an activation that is no clamp each keep the pair apart."""
    shapes, nodes = pair(Window((3, 3), (1, 1)), 8, 4, ())
    program, _ = run(device, shapes, list(nodes), (1, 2), normal(*shapes[0]))
    assert len(program.steps) == 2
    shapes |= {3: shapes[1], 4: shapes[2]}
    more = [Node("DEPTHWISE_CONV_2D", nodes[0].operation, (1,), (3,)), conv(3, 4, normal(4, 8))]
    program, _ = run(device, shapes, [*nodes, *more], (2, 4), normal(*shapes[0]))
    assert [step.kernel.source.name for step in program.steps] == ["depthwise", "conv", "separable"]
    shapes, nodes = pair(Window((3, 3), (1, 1)), 8, 4, ("TANH",))
    program, _ = run(device, shapes, nodes, (2,), normal(*shapes[0]))
    assert len(program.steps) == 2


H200, SOFTWARE = Target(256, 132 * 2048), Target(64, 1)


def test_tiles_of_all_output_slices_fill_a_device_and_fit_local_memory() -> None:
    def rule(*pair: int, target: Target = H200) -> SeparableTile:
        return tile_candidates(Pair(*pair), target)[0]

    assert rule(128 * 128, 128, 9, 2, 2) == SeparableTile(1, 64, 4, 2)
    assert rule(33 * 33, 33, 9, 24, 8) == SeparableTile(1, 5, 5, 8)  # of 4 pixels there are 273, of which 264 at once
    assert rule(32 * 32, 32, 25, 36, 6) == SeparableTile(2, 2, 4, 6)  # neighbours share what a large window reads
    assert rule(16 * 16, 16, 9, 60, 10) == SeparableTile(1, 1, 1, 10)
    assert rule(33 * 33, 33, 9, 120, 8, target=SOFTWARE) == SeparableTile(1, 4, 4, 8)  # 8 KiB of local memory
    assert rule(33 * 33, 33, 9, 6, 6, target=SOFTWARE) == SeparableTile(1, 80, 5, 6)


def test_windows_are_divided_where_invocations_were_idle() -> None:
    assert divide_window(3, 60, 256) == (3, 1)
    assert divide_window(3, 120, 256) == (2, 2)
    assert divide_window(5, 72, 256) == (3, 2)
    assert divide_window(3, 240, 256) == divide_window(3, 300, 256) == (1, 3)


def test_tiles_of_few_pixels_and_many_channels_share_the_output_slices() -> None:
    """Tiles are as many as an H200 has units, or fewer: 96, 96, 128, 96, 24."""

    def rule(*pair: int, target: Target = H200) -> SeparableTile:
        return tile_candidates(Pair(*pair), target)[0]

    assert rule(8 * 8, 8, 25, 144, 24) == SeparableTile(2, 1, 2, 8)
    assert rule(8 * 8, 8, 9, 144, 48) == SeparableTile(4, 1, 4, 8)
    assert rule(16 * 16, 16, 25, 84, 14) == SeparableTile(2, 2, 4, 8)
    assert rule(4 * 4, 4, 9, 48, 48) == SeparableTile(2, 1, 2, 4)
    assert rule(2 * 2, 2, 9, 48, 48) == SeparableTile(2, 1, 2, 4)
    assert rule(1, 1, 1, PAIR_LOCAL_SLICES, 48, target=SOFTWARE) == SeparableTile(
        1, 1, 1, 48
    )  # one work-group computes all


def test_pairs_of_many_channels_and_pixels_are_two_steps(device: Device) -> None:
    """Each tile would compute too many depthwise values anew. Two pictures are few pixels, five are too many."""
    shapes, nodes = pair(Window((3, 3), (1, 1)), 132, 128, ("RELU6",))
    target = target_of(device, matrix_units=False)
    x = normal(5, *shapes[0][1:])
    one, found = run(device, shapes, list(nodes), (2,), x[:2], target=target)
    shapes = {i: (5, *shape[1:]) for i, shape in shapes.items()}
    two, expected = run(device, shapes, list(nodes), (2,), x, target=target)
    assert [[step.kernel.source.name for step in p.steps] for p in (one, two)] == [["separable"], ["depthwise", "conv"]]
    if device.traits.api != "null":
        assert relative_error(found[0], expected[0][:2]) <= 1e-5


def test_two_steps_are_preferred_where_they_are_faster() -> None:
    matrix = replace(H200, matrix_units=True)
    cases = ((256, 33, True, False), (16, 33, True, True), (257, 33, False, False), (257, 32, True, True))
    for pixels, depth, general, beside_matrix_units in cases:
        given = Pair(pixels, 16, 9, depth, 32)
        assert (is_one_step(given, H200), is_one_step(given, matrix)) == (general, beside_matrix_units)
    assert not is_one_step(Pair(1, 1, 9, PAIR_LOCAL_SLICES + 1, 1), H200)  # more than local memory holds


@pytest.mark.parametrize("pixels", [1, 33 * 33, 256 * 256])
@pytest.mark.parametrize("target", [H200, SOFTWARE, Target(128, 1 << 16)], ids=str)
def test_the_rule_s_tile_is_the_first_of_a_few_that_fit_local_memory(pixels: int, target: Target) -> None:
    for depth in (1, 7, 100, PAIR_LOCAL_SLICES):
        for out in (1, 6, 48):
            group_count = tile_candidates(Pair(pixels, 1 if pixels == 1 else 33, 25, depth, out), target)
            assert len(set(group_count)) == len(group_count) <= 5
            for tile in group_count:
                assert tile.pixels % tile.block == 0 and tile.slices <= out
                assert tile.pixels * depth <= max(PAIR_LOCAL_SLICES, 3 * target.group_size)
