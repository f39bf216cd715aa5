"""Passes that let tensors lie in others, merge convolutions, and read narrow operands: the same values, fewer steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from framebind.delegate.transform.graph import Node
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.movement.concat import Concatenation
from framebind.kernels.ops.movement.pad import Pad
from framebind.kernels.ops.movement.reshape import Reshape
from framebind.kernels.ops.movement.resize import ResizeImage
from framebind.kernels.ops.movement.slice import Cut, Slice, Split
from framebind.kernels.ops.pointwise.elementwise import Elementwise
from framebind.kernels.ops.reduction.reduce import Reduction
from framebind.kernels.views import Resize, Storage
from support.graphs import Array, Shape, add, check, concat, conv, convolved, half, normal, run


def unary(name: str, source: int, destination: int) -> Node:
    return Node(name, Elementwise(), (source,), (destination,), (FusedOp(name),))


@pytest.mark.parametrize("storage", ["f32", "f16"])
@pytest.mark.parametrize("last", [8, 5])
def test_a_concatenation_of_channels_is_written_in_place(device: Device, last: int, storage: Storage) -> None:
    x = normal(1, 3, 5, 8)
    shapes = {0: x.shape, 1: x.shape, 2: (1, 3, 5, last), 3: (1, 3, 5, 8 + last), 4: (1, 3, 5, 6)}
    weights, others = (normal(*s).astype(np.float16).astype(np.float32) for s in ((last, 8), (6, 8 + last)))
    nodes = [unary("NEG", 0, 1), conv(1, 2, weights), concat((1, 2), 3, 3), conv(3, 4, others)]
    program, found = run(device, shapes, nodes, (4,), x, storage)
    assert [step.kernel.source.name for step in program.steps] == ["copy", "conv", "conv"]
    joined = np.concatenate([-x, convolved(-x, weights)], 3)
    check(device, found, [convolved(joined, others)])


def test_a_concatenation_is_written_in_place_into_a_bound_buffer(device: Device) -> None:
    x = normal(1, 3, 5, 4)
    shapes = {0: x.shape, 1: x.shape, 2: x.shape, 3: (1, 3, 5, 8)}
    nodes = [unary("NEG", 0, 1), unary("ABS", 0, 2), concat((1, 2), 3, 3)]
    program, found = run(device, shapes, nodes, (3,), x)
    assert len(program.steps) == 2
    check(device, found, [np.concatenate([-x, np.abs(x)], 3)])


@pytest.mark.parametrize("channels", [3, 4])
def test_rows_are_joined_in_a_bound_buffer_with_or_without_slices(device: Device, channels: int) -> None:
    x = normal(1, 3, 5, channels)
    shapes = {0: x.shape, 1: x.shape, 2: x.shape, 3: (1, 6, 5, channels)}
    nodes = [unary("NEG", 0, 1), unary("ABS", 0, 2), concat((1, 2), 3, 1)]
    program, found = run(device, shapes, nodes, (3,), x)
    assert len(program.steps) == 2
    check(device, found, [np.concatenate([-x, np.abs(x)], 1)])


def test_channels_are_joined_and_copied_where_the_bound_object_has_no_slices(device: Device) -> None:
    x = normal(1, 3, 5, 4)
    weights = half_values(3, 4)
    shapes: dict[int, Shape] = {0: x.shape, 1: x.shape, 2: (1, 3, 5, 3), 3: (1, 3, 5, 7)}
    nodes = [unary("NEG", 0, 1), conv(0, 2, weights), concat((1, 2), 3, 3)]
    program, found = run(device, shapes, nodes, (3,), x)
    assert [step.kernel.source.name for step in program.steps] == ["copy", "conv", "copy"]
    check(device, found, [np.concatenate([-x, convolved(x, weights)], 3)])


def test_parts_reach_a_bound_picture_through_a_copy(device: Device) -> None:
    x = normal(1, 3, 5, 4)
    shapes = {0: x.shape, 1: x.shape, 2: x.shape, 3: (1, 6, 5, 4)}
    nodes = [unary("NEG", 0, 1), unary("ABS", 0, 2), concat((1, 2), 3, 1)]
    program, found = run(device, shapes, nodes, (3,), x, picture=True)
    assert len(program.steps) == 3
    check(device, found, [np.concatenate([-x, np.abs(x)], 1)])


def test_what_cannot_lie_in_the_result_is_concatenated_by_a_kernel(device: Device) -> None:
    x = normal(1, 3, 5, 3)
    shapes = {0: x.shape, 1: x.shape, 2: (1, 3, 5, 6), 3: (1, 3, 5, 6)}
    nodes = [unary("NEG", 0, 1), concat((1, 0), 2, 3), concat((0, 0), 3, 3)]
    program, found = run(device, shapes, nodes, (2, 3), x)
    assert sum(step.kernel.source.name == "concat" for step in program.steps) == 2
    check(device, found, [np.concatenate([-x, x], 3), np.concatenate([x, x], 3)])


def test_reshapes_and_a_concatenation_of_rows_cost_nothing(device: Device) -> None:
    """The heads of a detector end so: [1, h, w, 8] shown as [1, h * w * 2, 4], two of them joined."""
    x = normal(1, 3, 4, 8)
    shapes = {0: x.shape, 1: x.shape, 2: x.shape, 3: (1, 24, 4), 4: (1, 24, 4), 5: (1, 48, 4)}
    nodes = [unary("NEG", 0, 1), unary("ABS", 0, 2)]
    nodes += [Node("RESHAPE", Reshape((1, 24, 4)), (i,), (i + 2,)) for i in (1, 2)]
    nodes.append(Node("CONCATENATION", Concatenation(1, 3), (3, 4), (5,)))
    program, found = run(device, shapes, nodes, (5,), x)
    assert len(program.steps) == 2
    check(device, found, [np.concatenate([-x, np.abs(x)], 0).reshape(1, 48, 4)])


def test_an_identity_in_front_of_an_output_is_left_out(device: Device) -> None:
    x = normal(1, 1, 1, 6)
    shapes = {0: x.shape, 1: x.shape, 2: (1, 6), 3: x.shape}
    nodes = [unary("NEG", 0, 1), Node("RESHAPE", Reshape((1, 6)), (1,), (2,)), unary("ABS", 1, 3)]
    program, found = run(device, shapes, nodes, (2, 3), x)
    assert len(program.steps) == 2
    check(device, found, [-x.reshape(1, 6), np.abs(x)])


def test_two_identities_in_a_row_in_front_of_an_output_are_left_out(device: Device) -> None:
    """Quantized models with float outputs end so, with RESHAPE and DEQUANTIZE."""
    x = normal(1, 1, 1, 6)
    shapes = {0: x.shape, 1: x.shape, 2: (1, 6), 3: (6,)}
    nodes = [
        unary("NEG", 0, 1),
        Node("RESHAPE", Reshape((1, 6)), (1,), (2,)),
        Node("RESHAPE", Reshape((6,)), (2,), (3,)),
    ]
    program, found = run(device, shapes, nodes, (3,), x)
    assert len(program.steps) == 1
    check(device, found, [-x.reshape(6)])


@pytest.mark.parametrize("zero_extended", [8, 6, 3])
@pytest.mark.parametrize("padded_first", [False, True])
def test_added_padding_of_channels_is_read_as_zeros(device: Device, zero_extended: int, padded_first: bool) -> None:
    x, weights = normal(1, 3, 5, zero_extended), normal(11, zero_extended)
    shapes = {0: x.shape, 1: x.shape, 2: (1, 3, 5, 11), 3: (1, 3, 5, 11), 4: (1, 3, 5, 11)}
    pad = Pad(((0, 0), (0, 0), (0, 0), (0, 11 - zero_extended)))
    sum_ = add(2, 3, 4) if padded_first else add(3, 2, 4)
    nodes = [unary("NEG", 0, 1), Node("PAD", pad, (1,), (2,)), conv(1, 3, weights), sum_]
    program, found = run(device, shapes, nodes, (4,), x)
    assert [step.kernel.source.name for step in program.steps] == ["copy", "conv"]
    wide = np.pad(-x, ((0, 0), (0, 0), (0, 0), (0, 11 - zero_extended)))
    check(device, found, [convolved(-x, weights) + wide])


@pytest.mark.parametrize("storage", ["f32", "f16"])
def test_convolutions_of_one_tensor_are_computed_as_one(device: Device, storage: Storage) -> None:
    x = normal(1, 2, 3, 6)
    widths = {1: 8, 2: 3, 3: 4, 4: 8}  # the last has another link, and is a convolution of its own
    weights = {i: normal(n, 6).astype(np.float16).astype(np.float32) for i, n in widths.items()}
    readers = {i: normal(4, n).astype(np.float16).astype(np.float32) for i, n in widths.items()}
    shapes = {0: x.shape} | {i: (1, 2, 3, n) for i, n in widths.items()} | {i + 4: (1, 2, 3, 4) for i in widths}
    nodes = [conv(0, i, weights[i], (FusedOp("RELU"),) if i == 4 else ()) for i in widths]
    nodes += [conv(i, i + 4, readers[i]) for i in widths]
    program, found = run(device, shapes, nodes, (5, 6, 7, 8), x, storage)
    assert len(program.steps) == 2 + 4
    values = {i: convolved(x, weights[i]) for i in widths}
    values[4] = np.maximum(values[4], 0)
    check(device, found, [convolved(values[i], readers[i]) for i in widths])


@pytest.mark.parametrize("storage", ["f32", "f16"])
def test_convolutions_of_integers_are_computed_as_one_whatever_their_steps(device: Device, storage: Storage) -> None:
    """The factors, ends and scales become constants with one number for each channel; a padding channel is zero."""
    random = np.random.default_rng(3)
    x = random.integers(-9, 9, (1, 2, 3, 8)).astype(np.float32)
    shapes: dict[int, Shape] = {0: x.shape}
    constants: dict[int, Array] = {}
    nodes, readers, expected = list[Node](), list[Node](), list[Array]()
    kinds = ((4, -5.0, 9.0, 0.5), (3, 1.0, 7.0, 2.0), (8, 0.0, 255.0, 1.0))
    for i, (channels, lowest, highest, scale) in enumerate(kinds, 1):
        weights, read = random.integers(-127, 127, (channels, 8)).astype(np.float32), half_values(4, channels)
        constants[10 + i] = random.uniform(0.001, 0.01, channels).astype(np.float32)
        shapes |= {i: (1, 2, 3, channels), 10 + i: (channels,), 4 + i: (1, 2, 3, 4)}
        node = conv(0, i, weights, (FusedOp("MUL", 10 + i), FusedOp("STEPS", values=(lowest, highest, scale))))
        assert isinstance(node.operation, Convolution)
        nodes.append(replace(node, operation=replace(node.operation, integer_weights=True)))
        readers.append(conv(i, 4 + i, read))
        steps = np.clip(np.rint(convolved(x, weights) * constants[10 + i]), lowest, highest)
        expected.append(convolved(steps * scale, read))
    program, found = run(device, shapes, [*nodes, *readers], (5, 6, 7), x, storage, constants=constants)
    assert [step.kernel.source.name for step in program.steps] == ["conv"] * 4
    check(device, found, expected)


@pytest.mark.parametrize("first", [False, True])
def test_a_resized_pixel_in_a_concatenation_is_a_vector_that_is_added(device: Device, first: bool) -> None:
    """The pooled branch of a segmentation head: [b, 1, 1, c] resized to the picture, joined, and convolved."""
    x = normal(2, 3, 4, 7)
    mean = Node("MEAN", Reduction((1, 2), 4, keep=True), (0,), (1,))
    pixel = Node("RESIZE_BILINEAR", ResizeImage(Resize((3, 4), align_corners=True, bilinear=True)), (1,), (2,))
    joined = (2, 3) if first else (3, 2)
    weights = normal(5, 14)
    nodes = [mean, pixel, unary("NEG", 0, 3), concat(joined, 4, 3), conv(4, 5, weights, (FusedOp("RELU"),))]
    shapes: dict[int, Shape] = {0: x.shape, 1: (2, 1, 1, 7), 2: x.shape, 3: x.shape, 4: (2, 3, 4, 14), 5: (2, 3, 4, 5)}
    program, found = run(device, shapes, nodes, (5,), x)
    assert sorted(step.kernel.source.name for step in program.steps) == ["conv", "copy", "reduce"]
    values = {2: np.broadcast_to(x.mean((1, 2), keepdims=True), x.shape), 3: -x}
    check(device, found, [np.maximum(convolved(np.concatenate([values[i] for i in joined], 3), weights), 0)])


def reshape(source: int, destination: int, shape: Shape) -> Node:
    return Node("RESHAPE", Reshape(shape), (source,), (destination,))


def heads(channels: int) -> tuple[dict[int, Shape], list[Node], list[Array]]:
    """The scores of a detector: two convolutions of 0, reshaped to rows of ``channels``, one behind the other in 5."""
    weights = [half_values(2 * channels, 8), half_values(6 * channels, 8)]
    shapes: dict[int, Shape] = {0: (1, 3, 4, 8), 1: (1, 3, 4, 2 * channels), 2: (1, 3, 4, 6 * channels)}
    shapes |= {3: (1, 24, channels), 4: (1, 72, channels), 5: (1, 96, channels)}
    nodes = [conv(0, 1, weights[0]), conv(0, 2, weights[1], (FusedOp("RELU"),)), reshape(1, 3, shapes[3])]
    nodes += [reshape(2, 4, shapes[4]), Node("CONCATENATION", Concatenation(1, 3), (3, 4), (5,))]
    return shapes, nodes, weights


def half_values(*shape: int) -> Array:
    return normal(*shape).astype(np.float16).astype(np.float32)


def rows_of(x: Array, weights: list[Array], channels: int) -> Array:
    values = convolved(x, weights[0]), np.maximum(convolved(x, weights[1]), 0)
    return np.concatenate([value.reshape(1, -1, channels) for value in values], 1)


@pytest.mark.parametrize("storage", ["f32", "f16"])
@pytest.mark.parametrize("channels", [1, 3])
def test_what_is_reshaped_is_written_where_it_lies_in_a_bound_buffer(
    device: Device, channels: int, storage: Storage
) -> None:
    shapes, nodes, weights = heads(channels)
    x = normal(*shapes[0])
    program, found = run(device, shapes, nodes, (5,), x, storage)
    assert [step.kernel.source.name for step in program.steps] == ["conv", "conv"]
    check(device, found, [rows_of(x, weights, channels)])


def test_what_is_reshaped_stays_a_tensor_where_others_need_it(device: Device) -> None:
    """The reshaped tensor is an output too, or read again; or the joined tensor is."""
    shapes, nodes, weights = heads(3)
    x = normal(*shapes[0])
    program, found = run(device, shapes, list(nodes), (1, 5), x)
    assert [step.kernel.source.name for step in program.steps] == ["conv", "conv", "reshape"]
    check(device, found, [convolved(x, weights[0]), rows_of(x, weights, 3)])
    shapes |= {6: shapes[1], 7: shapes[5]}
    again = [*nodes, unary("NEG", 1, 6)]
    program, found = run(device, shapes, again, (5, 6), x)
    assert [step.kernel.source.name for step in program.steps] == ["conv", "conv", "reshape", "copy"]
    check(device, found, [rows_of(x, weights, 3), -convolved(x, weights[0])])
    program, found = run(device, shapes, [*nodes, unary("NEG", 5, 7)], (5, 7), x)
    kernels = [step.kernel.source.name for step in program.steps]
    assert kernels == ["conv", "conv", "reshape", "reshape", "copy", "copy"]
    check(device, found, [rows_of(x, weights, 3), -rows_of(x, weights, 3)])


def test_an_output_that_nobody_computes_is_copied(device: Device) -> None:
    shapes: dict[int, Shape] = {0: (1, 3, 2, 3), 1: (1, 6, 3)}
    x = normal(*shapes[0])
    program, found = run(device, shapes, [reshape(0, 1, shapes[1])], (1,), x)
    assert [step.kernel.source.name for step in program.steps] == ["reshape"]
    check(device, found, [x.reshape(shapes[1])])


@pytest.mark.parametrize("axis", [3, 1])
def test_an_input_that_has_a_place_elsewhere_is_copied_into_a_concatenation(device: Device, axis: int) -> None:
    """The other one is written in place, so that the tensor that is large is not moved."""
    x = normal(1, 3, 5, 8)
    joined: Shape = (1, 3, 5, 16) if axis == 3 else (1, 6, 5, 8)
    shapes: dict[int, Shape] = {0: x.shape, 1: x.shape, 2: joined, 3: joined, 4: joined}
    readers = [unary("ABS", 2, 3), unary("NEG", 2, 4)]
    for parts, values in (((1, 0), [-x, x]), ((1, 1), [-x, -x])):
        program, found = run(device, shapes, [unary("NEG", 0, 1), concat(parts, 2, axis), *readers], (3, 4), x)
        assert [step.kernel.source.name for step in program.steps] == ["copy"] * 4
        whole: Array = np.concatenate(values, axis).astype(np.float32)
        check(device, found, [np.abs(whole), -whole])


@pytest.mark.parametrize("last", [8, 6])
def test_parts_of_channels_are_read_where_they_are(device: Device, last: int) -> None:
    """A tensor that is cut in two and joined again lies in the result, and so do its parts."""
    x = normal(1, 3, 5, 8)
    shapes: dict[int, Shape] = {0: x.shape, 1: (1, 3, 5, 8 + last), 2: (1, 3, 5, 8), 3: (1, 3, 5, last)}
    shapes |= {4: (1, 3, 5, last), 5: (1, 3, 5, 8 + 2 * last), 6: (1, 3, 5, 6)}
    weights = [half(8 + last, 8), half(last, last), half(6, 8 + 2 * last)]
    split = Node("SPLIT_V", Split((8, last), 3, 4), (1,), (2, 3))
    nodes = [conv(0, 1, weights[0]), split, conv(3, 4, weights[1]), concat((2, 3, 4), 5, 3), conv(5, 6, weights[2])]
    program, found = run(device, shapes, nodes, (6,), x)
    whole = convolved(x, weights[0])
    assert [step.kernel.source.name for step in program.steps][:2] == ["conv", "conv"]
    assert len(program.steps) == (
        3 if last == 8 else 4
    )  # only the last part of a concatenation may have other channels
    joined = np.concatenate([whole, convolved(whole[..., 8:], weights[1])], 3)
    check(device, found, [convolved(joined, weights[2])])


def test_a_part_that_is_an_output_or_begins_inside_a_slice_is_copied(device: Device) -> None:
    x = normal(1, 3, 5, 8)
    shapes: dict[int, Shape] = {
        0: x.shape,
        1: x.shape,
        2: (1, 3, 5, 4),
        3: (1, 3, 5, 4),
        4: (1, 3, 5, 2),
        5: (1, 3, 5, 2),
    }
    middle = Slice((Cut(None, None), Cut(None, None), Cut(None, None), Cut(2, 4)))
    nodes = [
        unary("NEG", 0, 1), Node("SPLIT", Split((4, 4), 3, 4), (1,), (2, 3)), Node("SLICE", middle, (1,), (4,)),
        conv(4, 5, weights := half(2, 2)),
    ]  # fmt: skip
    program, found = run(device, shapes, nodes, (2, 3, 5), x)
    assert [step.kernel.source.name for step in program.steps].count("strided_copy") == 3
    check(device, found, [-x[..., :4], -x[..., 4:], convolved(-x[..., 2:4], weights)])
