"""Squeeze-and-excite blocks: mean, layers and factor in two steps, with the same values."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from framebind.delegate.lower.partial_sums import sum_where_written
from framebind.delegate.lower.prologue import compute_where_read
from framebind.delegate.run.program import Program
from framebind.delegate.transform.graph import Node
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.bottleneck.expanded import ExpandedTile
from framebind.kernels.ops.convolution.blocks import Block
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.depthwise import Depthwise
from framebind.kernels.ops.convolution.fully_connected import FullyConnected
from framebind.kernels.ops.convolution.matrix_conv import MatrixTile
from framebind.kernels.ops.pointwise.elementwise import Elementwise
from framebind.kernels.ops.window import Window
from framebind.kernels.views import Storage
from support.graphs import Array, Shape, add, conv, convolved, half, logistic, mean, multiply, normal, run, target_of
from support.models import relative_error


def names(made: Program) -> list[str]:
    return [step.kernel.source.name for step in made.steps]


def block(
    x: Shape, hidden: int, out: int, w: tuple[Array, Array, Array], source: int = 0
) -> tuple[dict[int, Shape], list[Node]]:
    """``source`` is multiplied by its gate 4, and convolved to 6."""
    batch, rows, columns, channels = x
    one = (batch, 1, 1)
    shapes: dict[int, Shape] = {source: x, 1: (*one, channels), 2: (*one, hidden), 4: (*one, channels), 5: x}
    shapes[6] = (batch, rows, columns, out)
    relu, gate = (FusedOp("RELU"),), (FusedOp("LOGISTIC"),)
    nodes = [mean(source, 1), conv(1, 2, w[0], relu), conv(2, 4, w[1], gate), multiply(source, 4, 5), conv(5, 6, w[2])]
    return shapes, nodes


@pytest.mark.parametrize("storage", ["f32", "f16"])
@pytest.mark.parametrize(
    ("shape", "hidden"), [((1, 4, 5, 16), 8), ((2, 5, 3, 22), 9), ((1, 40, 37, 16), 8), ((1, 3, 3, 600), 12)], ids=str
)
def test_a_block_of_an_input_is_two_steps(device: Device, shape: Shape, hidden: int, storage: Storage) -> None:
    """Rows are added up; the convolution that reads the gate computes it."""
    channels = shape[3]
    weights = half(hidden, channels), half(channels, hidden), half(12, channels)
    shapes, nodes = block(shape, hidden, 12, weights)
    x = normal(*shape)
    target = target_of(device, storage, matrix_units=False)
    made, found = run(device, shapes, nodes, (6,), x, storage, target=target)
    assert names(made) == ["reduce", "conv"]
    gate = logistic(convolved(np.maximum(convolved(x.mean((1, 2), keepdims=True), weights[0]), 0), weights[1]))
    if device.traits.api != "null":
        assert relative_error(found[0], convolved(x * gate, weights[2])) <= 1e-5


def test_one_layer_a_pooled_mean_and_a_fully_connected_one(device: Device) -> None:
    weights = half(7, 10)
    layer = FullyConnected(weights, weights[:, 0])
    shapes: dict[int, Shape] = {0: (2, 4, 5, 10), 1: (2, 1, 1, 10), 2: (2, 7)}
    nodes = [mean(0, 1, (4, 5)), Node("FULLY_CONNECTED", layer, (1,), (2,), (FusedOp("LOGISTIC"),))]
    x = normal(*shapes[0])
    made, found = run(device, shapes, nodes, (2,), x)
    assert names(made) == ["reduce", "squeeze_excite"]
    if device.traits.api != "null":
        assert relative_error(found[0], logistic(convolved(x.mean((1, 2)), weights))) <= 1e-5


def test_sums_are_read_by_the_mean_and_by_a_convolution(device: Device) -> None:
    """A decoder has this: the mean of a sum of two tensors is the gate of one of them, and the other is added again."""
    shapes: dict[int, Shape] = {0: (1, 4, 5, 8), 1: (1, 4, 5, 8), 2: (1, 4, 5, 8), 3: (1, 1, 1, 8), 4: (1, 1, 1, 8)}
    shapes |= {5: shapes[0], 6: shapes[0], 7: (1, 4, 5, 3)}
    first, gate, last = half(8, 8), half(8, 8), half(3, 8)
    nodes = [conv(0, 1, first), add(0, 1, 2), mean(2, 3), conv(3, 4, gate, (FusedOp("LOGISTIC"),))]
    nodes += [multiply(0, 4, 5), add(5, 1, 6), conv(6, 7, last)]
    x = normal(*shapes[0])
    made, found = run(device, shapes, nodes, (7,), x)
    assert names(made) == ["conv", "conv"]
    other = convolved(x, first)
    factor = logistic(convolved((x + other).mean((1, 2), keepdims=True), gate))
    if device.traits.api != "null":
        assert relative_error(found[0], convolved(x * factor + other, last)) <= 1e-5


def test_what_others_need_stays_a_tensor(device: Device) -> None:
    """A sum that is an output, a mean that two layers read, and a layer that is too large."""
    shapes: dict[int, Shape] = {0: (1, 4, 5, 8), 1: (1, 4, 5, 8), 2: (1, 4, 5, 4), 3: (1, 1, 1, 8), 4: (1, 1, 1, 4)}
    shapes |= {5: (1, 1, 1, 4)}
    product = Node("MUL", Elementwise(), (0,), (1,), (FusedOp("MUL", 0),))
    nodes = [product, conv(1, 2, half(4, 8)), mean(0, 3), conv(3, 4, half(4, 8)), conv(3, 5, half(4, 8))]
    made, _ = run(device, shapes, nodes, (1, 2, 4, 5), normal(*shapes[0]))
    assert names(made) == ["copy", "reduce", "conv", "conv", "conv"]  # the sum waits for nothing: it runs with the copy
    shapes = {0: (1, 2, 2, 128), 1: (1, 1, 1, 128), 2: (1, 1, 1, 128)}
    made, _ = run(device, shapes, [mean(0, 1), conv(1, 2, half(128, 128))], (2,), normal(1, 2, 2, 128))
    assert names(made) == ["reduce", "conv"]


BLOCKS = (Block(1, 1, 1, 1), Block(2, 1, 8, 4), Block(4, 2, 1, 1), Block(4, 2, 4, 2), Block(1, 1, 16, 4))


def kernels_both_ways(
    device: Device, graph: tuple[dict[int, Shape], list[Node]], storage: Storage, **stages: Any
) -> tuple[list[str], list[str]]:
    """The kernels of the program with output 6, and of one with a step for each launch, which computes the same.

    ``stages`` are stages of ``compile_program`` in place of its own.
    """
    shapes, nodes = graph
    x = normal(*shapes[0])
    merged, found = run(device, shapes, list(nodes), (6,), x, storage, **stages)
    again, repeated = run(device, shapes, list(nodes), (6,), x, storage, **stages)
    apart, expected = run(device, shapes, list(nodes), (6,), x, storage, **stages | {"rewrites": ()})
    if device.traits.api != "null":
        assert np.abs(expected[0]).max() > 0 and relative_error(found[0], expected[0]) <= 1e-5
        np.testing.assert_array_equal(found[0], repeated[0])
    assert names(merged) == names(again)
    return names(merged), names(apart)


@pytest.mark.parametrize("split", BLOCKS, ids=str)
@pytest.mark.parametrize(("size", "channels", "storage"), [(1, 16, "f32"), (3, 22, "f16")], ids=str)
def test_a_convolution_adds_up_what_it_writes(
    device: Device, size: int, channels: int, split: Block, storage: Storage
) -> None:
    """However its outputs are divided among invocations; and the next one computes the gate, however it is divided."""
    weights = half(9, channels), half(channels, 9), half(10, channels)
    shapes, nodes = block((1, 9, 7, channels), 9, 10, weights, source=7)
    window = Convolution(Window((size, size), (1, 1)), half(channels, size, size, 6), half(channels))
    writer = Node("CONV_2D", window, (0,), (7,), (FusedOp("RELU"),))
    target = target_of(device, storage, matrix_units=False, fixed={"conv": split})
    graph = (shapes | {0: (1, 9, 7, 6)}, [writer, *nodes])
    merged, apart = kernels_both_ways(device, graph, storage, target=target)
    assert (merged, apart) == (["conv", "conv"], ["conv", "reduce", "squeeze_excite", "conv"])


@pytest.mark.parametrize("tile", [MatrixTile(1, 1, 1, 1), MatrixTile(1, 3, 2, 1), MatrixTile(2, 2, 1, 2)], ids=str)
@pytest.mark.parametrize("channels", [22, 40])
def test_matrix_units_add_up_what_they_write(device: Device, channels: int, tile: MatrixTile) -> None:
    """Sums have up to eight slices, or any that an invocation writes; work-groups compute the gates that they read."""
    weights = half(9, channels), half(channels, 9), half(10, channels)
    shapes, nodes = block((1, 9, 7, channels), 9, 10, weights, source=7)
    target = target_of(device, "f16", local_bytes=1 << 16, fixed={"matrix_conv": tile})
    graph = (shapes | {0: (1, 9, 7, 8)}, [conv(0, 7, half(channels, 8)), *nodes])
    merged, apart = kernels_both_ways(device, graph, "f16", target=target)
    assert merged == ["matrix_conv", *["reduce"] * (channels > 32 and tile.columns == 3), "matrix_conv"]
    assert apart == ["matrix_conv", "reduce", "squeeze_excite", "matrix_conv"]


def test_an_expanding_step_adds_up_what_it_writes(device: Device) -> None:
    """Each work-group writes two slices of all: its sums of them have 128 terms on a device with large groups."""
    weights = half(9, 22), half(22, 9), half(10, 22)
    shapes, nodes = block((1, 9, 7, 22), 9, 10, weights, source=7)
    depthwise = Depthwise(Window((3, 3), (1, 1)), 1, half(1, 3, 3, 22), half(22))
    first = [conv(0, 8, half(22, 8), (FusedOp("RELU"),)), Node("DEPTHWISE_CONV_2D", depthwise, (8,), (7,))]
    fixed = {"expanded": ExpandedTile(4, 5, 2, 1, 1)}
    target = target_of(device, "f16", matrix_units=False, local_bytes=1 << 16, fixed=fixed)
    graph = (shapes | {0: (1, 9, 7, 8), 8: (1, 9, 7, 22)}, [*first, *nodes])
    merged, apart = kernels_both_ways(device, graph, "f16", target=target)
    assert (merged, apart) == (["expanded", "conv"], ["expanded", "reduce", "squeeze_excite", "conv"])


@pytest.mark.parametrize("channels", [4, 24, 70])
@pytest.mark.parametrize(("batch", "parts"), [(1, 1), (2, 1), (1, 2)])
def test_a_depthwise_convolution_adds_up_what_it_writes(device: Device, batch: int, parts: int, channels: int) -> None:
    """Sums are of one picture: tiles of several would mix them. Whoever reads gates computes all. Windows may be
    divided among invocations.
    """
    weights = half(5, channels), half(channels, 5), half(10, channels)
    shapes, nodes = block((batch, 9, 7, channels), 5, 10, weights, source=7)
    operation = Depthwise(Window((3, 3), (2, 2)), 1, half(1, 3, 3, channels), half(channels))
    writer = Node("DEPTHWISE_CONV_2D", operation, (0,), (7,))
    graph = (shapes | {0: (batch, 17, 13, channels)}, [writer, *nodes])
    target = target_of(device, fixed={"depthwise": parts})
    merged, apart = kernels_both_ways(device, graph, "f32", target=target)
    assert merged == ["depthwise", *["reduce"] * (batch - 1), "conv"]
    assert apart == ["depthwise", "reduce", "squeeze_excite", "conv"]


@pytest.mark.parametrize("first", [False, True], ids=["written first", "written last"])
def test_what_is_added_before_the_mean_is_added_where_the_last_summand_is_written(device: Device, first: bool) -> None:
    """A decoder has this: what is convolved is added to an earlier tensor, and the mean of both is a gate."""
    shapes: dict[int, Shape] = {i: (1, 6, 5, 8) for i in (0, 1, 2, 3, 7, 8)} | {i: (1, 1, 1, 8) for i in (4, 5)}
    shapes[6] = (1, 6, 5, 3)
    sum_ = add(7, 8, 1) if first else add(8, 7, 1)
    nodes = [conv(0, 7, half(8, 8)), conv(0, 8, half(8, 8), (FusedOp("RELU"),)), sum_, mean(1, 4)]
    nodes += [conv(4, 5, half(8, 8), (FusedOp("LOGISTIC"),)), multiply(8, 5, 2), add(2, 7, 3), conv(3, 6, half(3, 8))]
    merged, apart = kernels_both_ways(device, (shapes, nodes), "f32")
    assert (merged, apart) == (["conv"] * 3, ["conv", "conv", "reduce", "squeeze_excite", "conv"])


def test_a_gate_that_is_read_twice_or_by_many_tiles_is_a_step(device: Device) -> None:
    weights = half(4, 8), half(8, 4), half(3, 8)
    shapes, nodes = block((1, 5, 4, 8), 4, 3, weights, source=7)
    shapes |= {0: (1, 5, 4, 8), 8: (1, 5, 4, 8), 9: shapes[6], 10: shapes[6]}
    nodes = [conv(0, 7, half(8, 8)), *nodes[:-1], conv(5, 9, weights[2]), multiply(0, 4, 8), conv(8, 10, half(3, 8))]
    nodes.append(add(9, 10, 6))
    merged, _ = kernels_both_ways(device, (shapes, nodes), "f32")
    assert merged == ["conv", "squeeze_excite", "conv", "conv"]
    shapes, nodes = block((1, 5, 4, 8), 4, 3, weights, source=7)
    graph = (shapes | {0: (1, 5, 4, 8)}, [conv(0, 7, half(8, 8)), *nodes])
    for_no_group = (sum_where_written, partial(compute_where_read, most_groups=0))
    merged, _ = kernels_both_ways(device, graph, "f32", rewrites=for_no_group)
    assert merged == ["conv", "squeeze_excite", "conv"]


def test_too_many_sums_are_those_of_rows(device: Device) -> None:
    """Each work-group that reads the gate reads all sums; and a device whose local memory is full computes it apart."""
    weights = half(4, 8), half(8, 4), half(3, 8)
    shapes, nodes = block((1, 3, 300, 8), 4, 3, weights, source=7)
    graph = (shapes | {0: (1, 3, 300, 8)}, [conv(0, 7, half(8, 8)), *nodes])
    group_size, fixed = device.traits.group_size, {"conv": Block(1, 1, 1, 1)}
    of_few = (partial(sum_where_written, sums_read=8 / group_size), compute_where_read)
    merged, _ = kernels_both_ways(device, graph, "f32", target=target_of(device, fixed=fixed), rewrites=of_few)
    assert merged == ["conv", "reduce", "conv"]
    small = target_of(device, local_bytes=group_size * 16 + 64, fixed=fixed)
    merged, _ = kernels_both_ways(device, graph, "f32", target=small)
    assert merged == ["conv", "squeeze_excite", "conv"]


def test_a_batch_has_a_work_group_for_each_picture(device: Device) -> None:
    """Each work-group would compute the factors of all pictures in a prologue."""
    shape = (5, 4, 5, 16)
    weights = half(8, 16), half(16, 8), half(12, 16)
    shapes, nodes = block(shape, 8, 12, weights)
    x = normal(*shape)
    made, found = run(device, shapes, nodes, (6,), x, target=target_of(device, "f32", matrix_units=False))
    assert names(made) == ["reduce", "squeeze_excite", "conv"]
    assert made.steps[1].group_count == 5
    gate = logistic(convolved(np.maximum(convolved(x.mean((1, 2), keepdims=True), weights[0]), 0), weights[1]))
    if device.traits.api != "null":
        assert relative_error(found[0], convolved(x * gate, weights[2])) <= 1e-5
