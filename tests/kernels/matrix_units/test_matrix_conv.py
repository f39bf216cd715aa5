"""Convolutions by matrix units against NumPy and the general kernel; the units are emulated if a device has none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from framebind.delegate.lower.halves import take_halves
from framebind.delegate.lower.launches import Lowered
from framebind.delegate.lower.lowering import lower
from framebind.delegate.lower.precision import choose_storage
from framebind.delegate.lower.tuning import target_for
from framebind.delegate.transform.graph import Graph, Node
from framebind.interop.device import Device
from framebind.interop.null.device import NullDevice
from framebind.kernels.operation import FusedOp, Fusion, Launch
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.fully_connected import FullyConnected
from framebind.kernels.ops.convolution.matrix_conv import (
    MatrixTile,
    choose_matrix_tile,
    matrix_tile_candidates,
    tile_of_halves,
    uses_matrix_units,
)
from framebind.kernels.ops.window import VALID, Window
from framebind.kernels.target import Target
from framebind.kernels.tensor import TensorInfo
from framebind.kernels.views import Resize, Storage
from framebind.tools.certify.cases.operator_models import values
from support.cases.node_cases import NodeCase, convolution_cases
from support.cases.operator_runs import run
from support.cases.references import convolve
from support.graphs import Shape, convolved, half, logistic, mean, multiply, normal, target_of
from support.graphs import conv as pointwise
from support.graphs import run as run_nodes
from support.models import OPERATOR_TOLERANCE, relative_error

TILES = [MatrixTile(*sizes) for sizes in ((1, 1, 1, 1), (1, 2, 2, 2), (2, 4, 1, 2), (2, 3, 2, 1))]


def halved(case: NodeCase) -> NodeCase:
    """A case with weights that halves hold, so that how constants are stored makes no difference."""
    operation = case.operation
    bias = None if operation.bias is None else operation.bias.astype(np.float16).astype(np.float32)
    operation = replace(operation, weights=operation.weights.astype(np.float16).astype(np.float32), bias=bias)
    return replace(case, operation=operation, expected=convolve(operation))


def cases() -> list[NodeCase]:
    far = Convolution(
        Window((9, 9), (1, 1), padding=VALID, extra=(4, 4, 4, 4), mode="reflect"), values(3, 9, 9, 3), None
    )
    middle = Convolution(Window((3, 3), (1, 1)), values(5, 3, 3, 6), values(5))
    wide = Convolution(Window((1, 1), (1, 1)), values(34, 1, 1, 70), values(34))
    linked = NodeCase(
        "1x1 with links", "CONV_2D", wide, (values(2, 5, 7, 70), values(2, 5, 7, 34)), convolve(wide),
        (FusedOp("ADD", 1), FusedOp("RELU6")),
    )  # fmt: skip
    more = [
        NodeCase("9x9", "CONV_2D", far, (values(1, 12, 48, 3),), convolve(far)),
        NodeCase("far from borders", "CONV_2D", middle, (values(2, 6, 64, 6),), convolve(middle)),
        linked,
    ]
    return [halved(case) for case in (*convolution_cases()[:6], *more)]


def tried() -> Iterator[tuple[NodeCase, MatrixTile, bool]]:
    """Each case with two tiles, one of them with halves in all tensors; each tile with half of the cases."""
    for number, case in enumerate(cases()):
        for halves in (False, True):
            yield case, TILES[(number + halves) % len(TILES)], halves


@pytest.mark.parametrize(("case", "tile", "halves"), list(tried()), ids=lambda v: getattr(v, "label", str(v)))
def test_every_tile_agrees(device: Device, case: NodeCase, tile: MatrixTile, halves: bool) -> None:
    expected = case.expected(case.inputs[0])
    if case.epilogue:
        expected = np.clip(expected + case.inputs[1], 0, 6)
    storage: Storage = "f16" if halves else "f32"
    target = target_of(device, storage, fixed={"matrix_conv": tile})
    result = run(device, replace(case, expected=lambda *_: expected), storage, target)
    if device.traits.api != "null":
        assert relative_error(result, expected) <= (OPERATOR_TOLERANCE["f16"] if halves else 1e-5)


@pytest.mark.parametrize(("depth", "tile"), [(4, MatrixTile(1, 1, 1, 1)), (44, MatrixTile(2, 2, 2, 3))], ids=str)
def test_an_infinity_in_any_term_stays_one(device: Device, depth: int, tile: MatrixTile) -> None:
    """One and eleven terms of 4 and 24 that are multiplied: the last ones are there again, in place of zeros."""
    weights = (np.abs(half(8, depth)) + 0.125).astype(np.float16).astype(np.float32)
    x = normal(1, depth, 7, depth)
    channels = np.arange(depth)
    x[0, channels, 3, channels] = np.inf
    made, found = run_nodes(
        device, {0: x.shape, 1: (1, depth, 7, 8)}, [pointwise(0, 1, weights)], (1,), x,
        target=target_of(device, fixed={"matrix_conv": tile}),
    )  # fmt: skip
    assert [step.kernel.source.name for step in made.steps] == ["matrix_conv"]
    if device.traits.api != "null":
        np.testing.assert_array_equal(found[0][:, :, 3], np.inf)
        others = [0, 1, 2, 4, 5, 6]
        assert relative_error(found[0][:, :, others], convolved(x, weights)[:, :, others]) <= 1e-5


@pytest.mark.parametrize("tile", [MatrixTile(1, 1, 1, 2), MatrixTile(2, 2, 2, 1), MatrixTile(1, 3, 1, 1)], ids=str)
def test_a_group_adds_up_what_it_writes(device: Device, tile: MatrixTile) -> None:
    """The gate of a squeeze-and-excite block: sums where pixels are written, also where an invocation writes any slice,
    and layers in the prologue of the convolution that reads the gate.
    """
    shapes: dict[int, Shape] = {i: (1, 7, 9, 26) for i in (0, 1, 4)} | {i: (1, 1, 1, 26) for i in (2, 3)}
    shapes[5] = (1, 7, 9, 11)
    weights = [half(26, 26), half(26, 26), half(11, 26)]
    nodes = [
        pointwise(0, 1, weights[0], (FusedOp("RELU"),)), mean(1, 2),
        pointwise(2, 3, weights[1], (FusedOp("LOGISTIC"),)),
        multiply(1, 3, 4), pointwise(4, 5, weights[2]),
    ]  # fmt: skip
    x = normal(*shapes[0])
    target = target_of(device, fixed={"matrix_conv": tile})
    made, found = run_nodes(device, shapes, nodes, (5,), x, target=target)
    assert [step.kernel.source.name for step in made.steps] == ["matrix_conv"] * 2
    y = np.maximum(convolved(x, weights[0]), 0)
    gate = logistic(convolved(y.mean((1, 2), keepdims=True), weights[1]))
    if device.traits.api != "null":
        assert relative_error(found[0], convolved(y * gate, weights[2])) <= 1e-5


def test_one_dispatch_computes_the_same_bits(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of(gpu, "f16", fixed={"matrix_conv": MatrixTile(1, 2, 2, 2)})
    results = []
    for dispatches in ("separate", "one"):
        monkeypatch.setattr(gpu, "dispatches", dispatches)
        results.append(run(gpu, cases()[1], "f16", target))
    np.testing.assert_array_equal(*results)


def test_what_goes_to_matrix_units() -> None:
    units = Target(256, 132 * 2048, matrix_units=True)
    assert uses_matrix_units(16, units) and not uses_matrix_units(15, units)
    assert not uses_matrix_units(1089, Target(256, 132 * 2048))


def test_weights_of_16_bits_are_what_matrix_units_take() -> None:
    """Neither if constants have 32, nor before a rounding to a quantized tensor's steps, which they would move."""
    traits = replace(NullDevice().traits, matrix_units=True)
    window = Window((1, 1), (1, 1))
    operation = Convolution(window, values(8, 1, 1, 8), None)
    tensors = {i: TensorInfo("", (1, 8, 8, 8), "float32") for i in range(2)}
    for storage, epilogue, kernel in (
        ("f16", (), "matrix_conv"),
        ("f32", (), "conv"),
        ("f16", (FusedOp("QUANTIZE", values=(0.1, -128, 127)),), "conv"),
    ):
        node = Node("CONV_2D", operation, (0,), (1,), epilogue)
        lowered = lower(Graph(tensors, [node], (0,), (1,)), target_for(traits, storage))
        assert [entry.launch.kernel for entry in lowered.launches] == [kernel]


def test_tiles_fill_a_device() -> None:
    units = Target(256, 132 * 2048, matrix_units=True)
    assert choose_matrix_tile(33 * 33, 80, 1, 120, units) == MatrixTile(1, 4, 8, 4)  # few pixels, a long sum
    assert choose_matrix_tile(33 * 33, 480, 1, 20, units) == MatrixTile(1, 5, 2, 3)  # a short one
    assert choose_matrix_tile(96 * 96, 32, 9, 8, units) == MatrixTile(1, 4, 2, 3)  # 3x3
    assert choose_matrix_tile(192 * 192, 16, 9, 8, units) == MatrixTile(1, 2, 1, 2)  # a tap is two steps
    assert choose_matrix_tile(384 * 384, 3, 81, 2, units) == MatrixTile(2, 1, 2, 3)  # 9x9
    assert choose_matrix_tile(4 * 4, 192, 1, 48, units) == MatrixTile(1, 1, 4, 3)
    for group_size in (64, 128, 256):
        for tile in matrix_tile_candidates(33 * 33, 80, 1, 120, replace(units, group_size=group_size)):
            assert tile.split * 32 <= group_size


COPY = Fusion(is_copy=True)


def test_nearest_copies_of_halves_are_halves() -> None:
    """They lose nothing, and half the memory is read for them."""
    launches = [
        Launch("instance_norm", {"src": 0}, {"dst": 1}, 1, tolerates_f16=("src", "dst")),
        Launch("copy", {"src": 1}, {"dst": 2}, 1, resize=Resize((2, 2), bilinear=False), fusion=COPY),
        Launch("copy", {"src": 1}, {"dst": 3}, 1, resize=Resize((2, 2), bilinear=True), fusion=COPY),
        Launch("copy", {"src": 1}, {"dst": 4}, 1, resize=Resize((2, 2), bilinear=False), fusion=COPY),
    ]
    epilogue = [(), (), (), (FusedOp("RELU"),)]
    lowered = Lowered(Target(64, 1), dict.fromkeys(range(5), (1, 2, 2, 4)))
    for launch, ops in zip(launches, epilogue, strict=True):
        lowered.add(launch, "", ops)
    assert choose_storage(lowered, "f16") == {0: "f16", 1: "f16", 2: "f16", 3: "f32", 4: "f32"}
    assert set(choose_storage(lowered, "f32").values()) == {"f32"}


def test_layers_of_halves_have_tiles_of_their_own() -> None:
    """Tiles have twice the pixels, if they are enough for all warps; layers that read floats keep the rule's."""
    units = Target(256, 132 * 2048, matrix_units=True, halves=True, early_launches=True)
    assert tile_of_halves(4096, 384, 24, replace(units, early_launches=False)) is None
    assert tile_of_halves(4096, 384, 24, units) == MatrixTile(2, 4, 1, 3)
    assert tile_of_halves(256, 384, 384, units) == MatrixTile(2, 4, 8, 2)
    assert tile_of_halves(784, 384, 96, units) is None  # 600 warps
    assert tile_of_halves(4096, 256, 8, units) is None  # two steps
    assert tile_of_halves(50176, 1, 24, units) is None  # one channel
    shapes = (1, 4096, 1, 384), (1, 4096, 1, 96)
    tensors = {i: TensorInfo(f"t{i}", shape, "float32") for i, shape in enumerate(shapes)}
    for storage, tile in (("f16", (2, 4, 2)), ("f32", (1, 4, 2))):
        graph = Graph(dict(tensors), [Node("FULLY_CONNECTED", FullyConnected(half(96, 384)), (0,), (1,))], (0,), (1,))
        (entry,) = take_halves(lower(graph, units), {0: storage}).launches
        assert entry.launch.kernel == "matrix_conv"
        assert tuple(entry.launch.constants[name] for name in ("ROWS", "COLUMNS", "SPLIT")) == tile
