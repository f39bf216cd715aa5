"""Convolutions of few channels: what the general kernel computes, for every tile, and of pictures without a copy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from framebind.delegate.compiler import compile_program
from framebind.delegate.plan.binding import Binding
from framebind.delegate.run.program import Program
from framebind.delegate.transform.graph import Graph, Node
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.heuristics import PATCH_SLICES
from framebind.kernels.ops.convolution.patch_conv import Tile, choose_tile
from framebind.kernels.ops.window import VALID, Window
from framebind.kernels.target import Target
from framebind.kernels.tensor import TensorInfo
from framebind.kernels.views import Dense, Picture, Storage, picture_parameters
from support.graphs import Array, Shape, normal, run, target_of
from support.models import relative_error

WINDOWS = (
    Window((3, 3), (2, 2)),
    Window((5, 3), (1, 2), padding=VALID),
    Window((3, 3), (1, 1), (2, 3)),
    Window((4, 4), (1, 1), padding=VALID, extra=(1, 2, 2, 1), mode="reflect"),
)
TILES = (Tile(1, 1, 3, 2), Tile(4, 2, 1, 4), Tile(2, 1, 40, 1), Tile(4, 1, 2, 8))
CROPS = (None, (1.0, 2.0, 7.5, 9.0), (3.0, 0.0, 4.0, 4.0))


def convolution(window: Window, channels: int, out: int) -> Node:
    weights = normal(out, *window.size, channels).astype(np.float16).astype(np.float32)
    operation = Convolution(window, weights, normal(out).astype(np.float16).astype(np.float32))
    return Node("CONV_2D", operation, (0,), (1,), (FusedOp("RELU6"),))


def kernels(program: Program) -> list[str]:
    return [step.kernel.source.name for step in program.record().steps]


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: f"{w.size} by {w.strides}, {w.dilations}, {w.mode}")
@pytest.mark.parametrize(("channels", "storage"), [(1, "f16"), (3, "f32"), (4, "f16")])
def test_every_tile_computes_what_the_general_kernel_computes(
    device: Device, channels: int, storage: Storage, window: Window, tile: Tile
) -> None:
    x = normal(2, 11, 13, channels)
    shapes: dict[int, Shape] = {0: x.shape, 1: (2, *window.output_size(11, 13), 10)}
    node = convolution(window, channels, 10)
    by_patches, in_general = (
        target_of(device, storage, matrix_units=False, fixed={"patch_conv": each}) for each in (tile, None)
    )
    made, found = run(device, shapes, [node], (1,), x, storage, target=by_patches)
    general, expected = run(device, shapes, [node], (1,), x, storage, target=in_general)
    assert (kernels(made), kernels(general)) == (["patch_conv"], ["conv"])
    if device.traits.api != "null":
        assert np.ptp(expected[0]) > 1 and relative_error(found[0], expected[0]) <= 1e-5


def test_tiles_have_room_and_enough_outputs() -> None:
    wide, software = Target(256, 132 * 2048), Target(64, 1)
    first, large = Window((3, 3), (2, 2)), Window((9, 9), (1, 1))
    assert choose_tile(128, 128, 4, first, 144, wide) == Tile(2, 1, 8, 8)  # enough outputs for pairs
    assert choose_tile(64, 64, 6, Window((5, 5), (2, 2)), 600, wide) == Tile(1, 1, 5, 8)
    assert choose_tile(16, 16, 6, first, 216, wide) is None  # so few that sums are split
    assert choose_tile(16, 16, 6, first, 216, software) is not None
    assert choose_tile(384, 384, 2, Window((99, 99), (1, 1)), 78408, wide) is None
    tile = choose_tile(384, 384, 2, large, 648, wide)
    assert tile is not None and np.prod(tile.patch(large)) + 648 <= PATCH_SLICES * 256  # with all weights
    tile = choose_tile(384, 384, 2, large, 648, software)
    assert tile is not None and np.prod(tile.patch(large)) <= PATCH_SLICES * 64 < 648  # without


def through_picture(
    device: Device, nodes: list[Node], frames: list[Array], outputs: Shape
) -> tuple[list[str], list[Array]]:
    """The kernels, and output 1 of the graph for each frame (H, W, 4), sampled from each of CROPS.

    All outputs have one shape. Convolutions of few channels take the first of TILES.
    """
    numbers = tuple(node.outputs[0] for node in nodes)
    tensors = {0: TensorInfo("in", (1, 6, 8, 3), "float32")} | {i: TensorInfo("", outputs, "float32") for i in numbers}
    graph, target = Graph(tensors, nodes, (0,), numbers), target_of(device, fixed={"patch_conv": TILES[0]})
    program = Program(device, compile_program(graph, device.traits, "f32", target=target))
    results = {i: device.buffer(Dense(tensors[i].bhwc).nbytes, "out") for i in numbers}
    for i, buffer in results.items():
        program.bind(i, Binding(buffer, Dense(tensors[i].bhwc)))
    found: list[Array] = []
    for frame in frames:
        texture = device.texture(frame.shape[1], frame.shape[0], "rgba32f", "frame")
        device.write(texture, frame, "test")
        for crop in CROPS:
            parameters = picture_parameters(tensors[0].bhwc, texture.size, crop=crop, mean=(0.5,), std=(2.0,))
            program.bind(0, Binding(texture, Picture(tensors[0].bhwc, "rgba32f", "rgb", "bilinear"), parameters))
            program.run()
            found.append(np.empty(outputs, np.float32))
            device.read(results[1], found[-1], "test")
    return kernels(program), found


def test_a_first_convolution_samples_the_picture_itself(device: Device) -> None:
    """The next texture and a crop that moves reach it so, too; the values are those of a picture copied before, because
    another convolution reads it too.
    """
    node = convolution(Window((3, 3), (2, 2)), 3, 10)
    other = replace(node, outputs=(2,))
    frames = [normal(12, 14, 4), normal(12, 14, 4)]
    direct, found = through_picture(device, [node], frames, (1, 3, 4, 10))
    copied, expected = through_picture(device, [node, other], frames, (1, 3, 4, 10))
    assert (direct, copied) == (["patch_conv"], ["copy", "patch_conv", "patch_conv"])
    if device.traits.api != "null":
        for values, reference in zip(found, expected, strict=True):
            assert np.ptp(reference) > 0.1 and relative_error(values, reference) <= 1e-5
        assert len({values.tobytes() for values in found}) == len(frames) * len(CROPS)


def test_a_picture_that_is_read_again_is_copied(device: Device) -> None:
    """The second read is by another kernel, as the other operand, or by a kernel that reads pixels several times."""
    first = convolution(Window((3, 3), (2, 2)), 3, 8)
    pointwise = convolution(Window((1, 1), (2, 2)), 3, 8)
    both = Node("CONV_2D", pointwise.operation, (0,), (2,))
    added = Node("CONV_2D", convolution(Window((3, 3), (1, 1)), 3, 3).operation, (0,), (2,), (FusedOp("ADD", 0),))
    for nodes, outputs in (([first, both], (1, 2)), ([pointwise], (1,)), ([added], (2,))):
        shape = (1, 6, 8, 3)
        tensors = {0: TensorInfo("in", shape, "float32"), 1: TensorInfo("a", (1, 3, 4, 8), "float32")}
        tensors[2] = TensorInfo("b", shape if nodes == [added] else (1, 3, 4, 8), "float32")
        program = Program(device, compile_program(Graph(tensors, list(nodes), (0,), outputs), device.traits, "f32"))
        texture = device.texture(8, 6, "rgba8", "frame")
        program.bind(0, Binding(texture, Picture(shape, "rgba8", "rgb"), picture_parameters(shape, (8, 6))))
        for output in outputs:
            view = Dense(tensors[output].bhwc)
            program.bind(output, Binding(device.buffer(view.nbytes, "out"), view))
        assert kernels(program)[0] == "copy" and len(kernels(program)) == 1 + len(nodes)
