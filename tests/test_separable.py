"""Depthwise and pointwise convolutions as one dispatch: what the two compute, for every tile."""

from __future__ import annotations

import numpy as np
import pytest

from cases import relative_error
from framebind.delegate import passes
from framebind.delegate.graph import Node
from framebind.delegate.separable import fuse_separable
from framebind.interop.device import Device
from framebind.kernels import separable
from framebind.kernels.conv import Convolution
from framebind.kernels.depthwise import Depthwise
from framebind.kernels.layout import Storage
from framebind.kernels.operator import Grid, Link
from framebind.kernels.registry import OPERATORS
from framebind.kernels.separable import LOCAL_SLICES, SeparableTile, choose_tile, tile_candidates
from framebind.kernels.window import SAME, VALID, Window
from test_join import Shape, conv, normal, run

WINDOWS = (
    Window((3, 3), (1, 1)),
    Window((3, 3), (2, 2)),
    Window((5, 5), (2, 1), padding=VALID),
    Window((3, 3), (1, 1), (2, 2), SAME),
    Window((3, 3), (1, 1), padding=VALID, extra=(1, 1, 2, 1), mode="reflect"),
)
TILES = [SeparableTile(*sizes) for sizes in ((1, 1), (4, 4), (8, 2), (16, 4))]


def pair(window: Window, channels: int, out: int, activation: tuple[str, ...]) -> tuple[dict[int, Shape], list[Node]]:
    """Depthwise convolution 0 to 1, pointwise 1 to 2 with a sum of 3 behind it, which reads 0 directly."""
    rows, columns = window.output_size(7, 9)
    shapes: dict[int, Shape] = {0: (2, 7, 9, channels), 1: (2, rows, columns, channels), 2: (2, rows, columns, out)}
    depthwise = Depthwise(window, 1, normal(1, *window.size, channels), normal(channels))
    links = tuple(map(Link, activation))
    return shapes, [
        Node(OPERATORS["DEPTHWISE_CONV_2D"], depthwise, (0,), (1,), links),
        conv(1, 2, normal(out, channels), (Link("RELU6"),)),
    ]


@pytest.mark.parametrize("storage", ["f32", "f16"])
@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: f"{w.size} by {w.strides}, {w.dilations}, {w.mode}")
def test_both_in_one_step_compute_what_two_compute(
    device: Device, window: Window, tile: SeparableTile, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes, nodes = pair(window, 11, 22, ("RELU",))
    x = normal(*shapes[0])
    monkeypatch.setattr(separable, "tile_candidates", lambda *_: (tile,))
    fused, found = run(device, shapes, list(nodes), (2,), x, storage)
    monkeypatch.setattr(passes, "PASSES", tuple(p for p in passes.PASSES if p is not fuse_separable))
    general, expected = run(device, shapes, list(nodes), (2,), x, storage)
    assert (len(fused.steps), len(general.steps)) == (1, 2)
    if device.traits.api != "null":
        assert relative_error(found[0], expected[0]) <= 1e-5


@pytest.mark.parametrize("activation", [(), ("RELU6",), ("RELU_N1_TO_1",)], ids=str)
def test_activations_between_the_two_are_clamps(device: Device, activation: tuple[str, ...]) -> None:
    shapes, nodes = pair(Window((1, 1), (1, 1)), 8, 4, activation)
    x = 4 * normal(*shapes[0])
    program, found = run(device, shapes, nodes, (2,), x)
    assert len(program.steps) == 1
    depthwise, pointwise = nodes[0].attributes, nodes[1].attributes
    assert isinstance(depthwise, Depthwise) and isinstance(pointwise, Convolution)
    between = x * depthwise.weights[0, 0, 0] + depthwise.bias
    if activation:
        between = np.clip(between, *{"RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1)}[activation[0]])
    expected = np.clip(between @ pointwise.weights[:, 0, 0].T + pointwise.bias, 0, 6)
    if device.traits.api != "null":
        assert relative_error(found[0], expected) <= 1e-5


def test_what_others_need_is_computed_apart(device: Device) -> None:
    """Another reader, an output of the graph, and an activation that is no clamp each keep the pair apart."""
    shapes, nodes = pair(Window((3, 3), (1, 1)), 8, 4, ())
    program, _ = run(device, shapes, list(nodes), (1, 2), normal(*shapes[0]))
    assert len(program.steps) == 2
    shapes |= {3: shapes[1], 4: shapes[2]}
    more = [Node(OPERATORS["DEPTHWISE_CONV_2D"], nodes[0].attributes, (1,), (3,)), conv(3, 4, normal(4, 8))]
    program, _ = run(device, shapes, [*nodes, *more], (2, 4), normal(*shapes[0]))
    assert [step.kernel.source.name for step in program.steps] == ["depthwise", "conv", "separable"]
    shapes, nodes = pair(Window((3, 3), (1, 1)), 8, 4, ("TANH",))
    program, _ = run(device, shapes, nodes, (2,), normal(*shapes[0]))
    assert len(program.steps) == 2


def test_tiles_fill_a_device_and_fit_local_memory() -> None:
    wide, software = Grid(128, 132 * 2048), Grid(64, 1)
    assert choose_tile(33 * 33, 120, wide) == SeparableTile(4, 4)
    assert choose_tile(8 * 8, 144, wide) == SeparableTile(1, 1)
    assert choose_tile(256 * 256, 2, wide) == SeparableTile(64, 4)
    assert choose_tile(33 * 33, 120, software) == SeparableTile(4, 4)  # 8 KiB of local memory
    assert choose_tile(33 * 33, 6, software) == SeparableTile(64, 4)


def test_pairs_of_many_channels_stay_apart(device: Device) -> None:
    """Few pixels and many weights: each tile would read them all."""
    shapes, nodes = pair(Window((3, 3), (1, 1)), 132, 128, ())
    program, _ = run(device, shapes, nodes, (2,), normal(*shapes[0]))
    assert len(program.steps) == 2


def test_the_rule_s_tile_is_the_first_of_a_few_that_fit_local_memory() -> None:
    wide = Grid(128, 132 * 2048)
    assert tile_candidates(33 * 33, 6, wide)[0] == choose_tile(33 * 33, 6, wide)
    assert {tile.pixels for tile in tile_candidates(256 * 256, 2, wide)} == {16, 32, 64}
    assert {tile.pixels for tile in tile_candidates(33 * 33, 120, wide)} == {1, 2, 4}  # 8 KiB of local memory
    for depth in (1, 7, 100, LOCAL_SLICES):
        assert all(tile.pixels * depth <= LOCAL_SLICES for tile in tile_candidates(33 * 33, depth, wide))
