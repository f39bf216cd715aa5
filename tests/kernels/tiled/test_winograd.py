"""3x3 convolutions by Winograd's products: what the window's sums compute, for every tile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from framebind.delegate.certify.cases.operator_models import Array
from framebind.delegate.claim.claims import claim
from framebind.delegate.claim.partition_graph import build_graph
from framebind.delegate.compiler import CompiledProgram, compile_program
from framebind.delegate.lower.tuning import Tuning, choices_by_key
from framebind.delegate.read.reader import read_model
from framebind.delegate.run.program import Program
from framebind.delegate.transform.graph import Node
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.tiled.winograd import (
    SHAPES,
    WinogradTile,
    transform_weights,
    winograd_memory,
    winograd_tiles,
)
from framebind.kernels.ops.window import VALID, Window
from framebind.kernels.target import Target
from framebind.kernels.tensor import slices
from framebind.kernels.views import Storage
from support.cases.operator_runs import bind
from support.cases.references import convolve
from support.graphs import Shape, normal, run, target_of
from support.model_runs import reference
from support.models import MODELS, OPERATOR_TOLERANCE, TOLERANCE, random_inputs, relative_error

PLAIN = Window((3, 3), (1, 1))
CASES: dict[str, tuple[Shape, int, Window]] = {
    "same": ((1, 8, 6, 16), 16, PLAIN),
    "odd, several pictures, channels between": ((3, 7, 5, 19), 23, PLAIN),
    "valid": ((1, 9, 10, 32), 32, Window((3, 3), (1, 1), padding=VALID)),
    "valid, odd": ((2, 7, 5, 20), 16, Window((3, 3), (1, 1), padding=VALID)),
    "merged zeros": ((1, 6, 7, 16), 40, Window((3, 3), (1, 1), padding=VALID, extra=(2, 0, 1, 2))),
    "reflecting": ((1, 6, 7, 24), 16, Window((3, 3), (1, 1), padding=VALID, extra=(1, 1, 1, 1), mode="reflect")),
    "many slices": ((1, 5, 4, 96), 72, PLAIN),
    "a single pixel": ((1, 1, 1, 16), 16, PLAIN),
}


def target_with(device: Device, node: Node, number: int, storage: Storage = "f32") -> Target:
    """Convolutions like the node's are computed by this tile, or by the last one, in small work-groups."""
    assert isinstance(node.operation, Convolution)
    out, _, _, channels = node.operation.weights.shape
    small = target_of(device, storage, group_size=64, matrix_units=False)
    tiles = winograd_tiles(node.operation.window, slices(channels), slices(out), small)
    return replace(small, fixed={"conv": tiles[min(number, len(tiles) - 1)]})


def one_node(
    shape: Shape, out: int, window: Window, epilogue: tuple[FusedOp, ...] = ()
) -> tuple[dict[int, Shape], Node]:
    weights = (normal(out, 3, 3, shape[3]) / np.sqrt(9 * shape[3])).astype(np.float32)
    operation = Convolution(window, weights, normal(out))
    shapes: dict[int, Shape] = {0: shape, 1: (shape[0], *window.output_size(*shape[1:3]), out)}
    return shapes, Node("CONV_2D", operation, (0,), (1,), epilogue)


def expected(node: Node, x: Array) -> Array:
    assert isinstance(node.operation, Convolution)
    return convolve(node.operation)(x)


@pytest.mark.parametrize("number", range(len(SHAPES)))
@pytest.mark.parametrize("name", CASES)
def test_every_tile_computes_the_sums_of_the_window(device: Device, name: str, number: int) -> None:
    shape, out, window = CASES[name]
    shapes, node = one_node(shape, out, window)
    x = normal(*shape)
    program, (found,) = run(device, shapes, [node], (1,), x, target=target_with(device, node, number))
    assert [step.kernel.source.name for step in program.steps] == ["winograd"]
    assert device.traits.api == "null" or relative_error(found, expected(node, x)) <= 1e-5
    program.release()


@pytest.mark.parametrize("storage", ["f32", "f16"])
def test_links_apply_to_what_it_writes(device: Device, storage: Storage) -> None:
    """A residual sum and an activation; constants in 16 bits, which are the transformed weights."""
    shape: Shape = (1, 7, 6, 16)
    shapes, node = one_node(shape, 16, PLAIN, (FusedOp("ADD", 0), FusedOp("RELU6")))
    x = normal(*shape)
    target = target_with(device, node, 0, storage)
    program, (found,) = run(device, shapes, [node], (1,), x, storage, target=target)
    assert [step.kernel.source.name for step in program.steps] == ["winograd"]
    error = relative_error(found, np.clip(expected(node, x) + x, 0, 6)) if device.traits.api != "null" else 0.0
    assert error <= OPERATOR_TOLERANCE[storage]
    program.release()


def test_it_computes_the_same_in_one_dispatch(gpu: Device) -> None:
    """Steps whose local memory others use too."""
    shape: Shape = (1, 9, 7, 16)
    shapes, first = one_node(shape, 16, PLAIN, (FusedOp("RELU"),))
    _, second = one_node(shape, 16, PLAIN)
    second = Node(second.name, second.operation, (1,), (2,))
    shapes[2] = shape
    x = normal(*shape)
    target = target_with(gpu, first, 0)
    separate, (apart,) = run(gpu, shapes, [first, second], (2,), x, target=target)
    gpu.dispatches = "one"
    try:
        one, (together,) = run(gpu, shapes, [first, second], (2,), x, target=target)
    finally:
        gpu.dispatches = "auto"
    assert separate.record().dispatches == 2 and one.record().dispatches == 1
    np.testing.assert_array_equal(apart, together)


@pytest.mark.parametrize("gpu", ["cl:pocl"], indirect=True)
@pytest.mark.parametrize("storage", ["f32", "f16"])
def test_a_model_keeps_its_bounds(gpu: Device, model_path: Callable[[str], Path], storage: Storage) -> None:
    """The model with most such convolutions, all of those that can be computed so."""
    path = model_path("style_transfer_f16_384")
    (case,) = [case for case in MODELS if case.name == path.stem]
    subgraph = read_model(path.read_bytes()).subgraphs[0]
    claims = claim(subgraph, lambda: gpu.traits.target)

    def compiled(tuning: Tuning) -> CompiledProgram:
        graph = build_graph(claims, sorted(claims.nodes), subgraph.inputs, subgraph.outputs)
        return compile_program(graph, gpu.traits, storage, tuning, target=target_of(gpu, storage, matrix_units=False))

    tuned: dict[str, int] = {}
    for key, choice in choices_by_key(compiled(Tuning()).lowered.launches).items():
        numbers = [i for i, candidate in enumerate(choice.candidates) if isinstance(candidate, WinogradTile)]
        if numbers:
            tuned[key] = numbers[0]
    program = Program(gpu, compiled(Tuning(tuned=tuned)))
    shapes = {i: subgraph.tensors[i].shape for i in subgraph.inputs}
    inputs = random_inputs(shapes, case)
    buffers = {i: bind(gpu, program, i, program.graph.tensors[i], inputs.get(i)) for i in (*inputs, *subgraph.outputs)}
    program.run()
    assert [step.kernel.source.name for step in program.steps].count("winograd") == 11
    for tensor, value in reference(path, inputs).items():
        found = np.empty_like(value)
        gpu.read(buffers[tensor], found, "test")
        assert relative_error(found, value) <= TOLERANCE[storage]
    program.release()


def test_only_plain_windows_of_enough_channels_have_tiles() -> None:
    target = Target(128, 1)
    assert winograd_tiles(PLAIN, 8, 8, target) and winograd_tiles(PLAIN, 4, 4, target)
    for window in (
        Window((1, 1), (1, 1)),
        Window((5, 5), (1, 1)),
        Window((3, 3), (2, 2)),
        Window((3, 3), (1, 1), (2, 2)),
    ):
        assert winograd_tiles(window, 8, 8, target) == ()
    assert winograd_tiles(PLAIN, 3, 8, target) == winograd_tiles(PLAIN, 8, 3, target) == ()
    assert winograd_tiles(PLAIN, 11, 8, target) == (), "11 slices come one at a time"
    assert winograd_tiles(PLAIN, 8, 8, Target(72, 1)) == ()


@pytest.mark.parametrize("group_size", [64, 128, 256])
@pytest.mark.parametrize("depth", [4, 8, 20, 24])
@pytest.mark.parametrize("channels", [4, 5, 8, 40])
def test_tiles_use_every_invocation_and_16_kib(group_size: int, depth: int, channels: int) -> None:
    group_count = winograd_tiles(PLAIN, depth, channels, Target(group_size, 1))
    assert len(set(group_count)) == len(group_count)
    for tile in group_count:
        sums = tile.patches * tile.slices
        assert sums == group_size // 16 * tile.block_patches * tile.block_slices and tile.slices <= channels
        ((_, _, count),) = winograd_memory(depth, tile)
        assert 16 * sums <= count <= 1024


def test_transformed_weights_are_products_of_sums() -> None:
    """Against the definition, for one pair of channels; and F(2x2, 3x3) with them against a correlation."""
    g = normal(1, 3, 3, 1)
    u = transform_weights(g)[0, :, :, 0]
    b = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
    a = np.array([[1, 1, 1, 0], [0, 1, -1, -1]])
    d = normal(4, 4)
    correlation = [[(d[y : y + 3, x : x + 3] * g[0, :, :, 0]).sum() for x in (0, 1)] for y in (0, 1)]
    np.testing.assert_allclose(a @ (u * (b @ d @ b.T)) @ a.T, correlation, atol=1e-6)
