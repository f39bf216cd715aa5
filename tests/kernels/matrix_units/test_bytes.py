"""Convolutions of bytes by bytes against NumPy and LiteRT, exactly; matrix units are emulated if a device has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt

from framebind.delegate.claim.claims import claim
from framebind.delegate.compiler import compile_program
from framebind.delegate.plan.binding import Binding
from framebind.delegate.read.reader import read_model
from framebind.delegate.run.program import Program
from framebind.delegate.transform.graph import Graph, Node
from framebind.delegate.transform.pipeline import transform
from framebind.interop.device import Device
from framebind.interop.null.device import NullDevice
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.matrix_conv import MatrixTile
from framebind.kernels.ops.convolution.tiled_conv import ConvTile
from framebind.kernels.ops.convolution.transpose_conv import TransposeConvolution
from framebind.kernels.ops.pointwise.elementwise import Elementwise
from framebind.kernels.ops.window import SAME, VALID, Window
from framebind.kernels.tensor import Shape
from framebind.kernels.views import Dense, Sliced
from framebind.tools.certify.cases.operator_models import options
from framebind.tools.certify.cases.quantized_models import LAYERS, SIZE, bias, network, tensor, weights
from support.cases.references import convolve
from support.graphs import Array, run, target_of
from support.tiny_models import G, Op, T, build

RNG = np.random.default_rng(5)


def steps(source: int, target: int) -> Node:
    """The node of a tensor that holds its source's values as numbers from 0 to 255."""
    return Node("QUANTIZE", Elementwise(), (source,), (target,), (FusedOp("TO_STEPS", values=(1.0, 0.0, 255.0)),))


def whole(shape: tuple[int, ...], low: int, high: int) -> Array:
    return RNG.integers(low, high, shape, endpoint=True).astype(np.float32)


@pytest.mark.parametrize(
    ("x", "out", "window", "fixed"),
    [
        ((1, 9, 5, 24), 20, Window((3, 3), (1, 1), padding=SAME), {"matrix_conv": MatrixTile(1, 2, 2, 2)}),
        ((2, 7, 9, 40), 33, Window((1, 1), (1, 1), padding=VALID), {"matrix_conv": MatrixTile(2, 3, 1, 1)}),
        ((1, 9, 11, 8), 17, Window((3, 2), (2, 1), (1, 2), padding=SAME), {"matrix_conv": MatrixTile(1, 1, 1, 3)}),
        ((1, 9, 21, 24), 20, Window((3, 3), (1, 1), padding=SAME), {"tiled_conv": ConvTile(2, 2, 1, 1, 8, 2)}),
        ((2, 9, 11, 40), 24, Window((3, 3), (2, 2), padding=SAME), {"tiled_conv": ConvTile(2, 1, 1, 2, 0, 2)}),
        ((1, 9, 9, 8), 9, Window((3, 3), (1, 1), padding=SAME), {"tiled_conv": ConvTile(2, 1, 1, 1, 8, 1, 1, 4, True)}),
    ],
    ids=str,
)  # fmt: skip
def test_a_convolution_of_bytes_sums_integers(
    device: Device, x: Shape, out: int, window: Window, fixed: Mapping[str, Any]
) -> None:
    """Sums are right for all extremes, and beyond borders."""
    weights, bias = whole((out, *window.size, x[3]), -128, 127), whole((out,), -(1 << 20), 1 << 20)
    values = whole(x, 0, 255)
    operation = Convolution(window, weights, bias, integer_weights=True, by_bytes=True)
    size = window.output_size(*x[1:3])
    shapes = {0: x, 1: x, 2: (x[0], *size, out)}
    nodes = [steps(0, 1), Node("CONV_2D", operation, (1,), (2,))]
    target = target_of(device, "f32", matrix_units=False, group_size=64, fixed=fixed)
    program, (found,) = run(device, shapes, nodes, (2,), values, target=target)
    (kernel,) = (step.kernel.source for step in program.steps if step.kernel.source.name in fixed)
    views = {argument.name: argument.view for argument in kernel.arguments}
    assert views["src"] == Sliced((x[0], x[1], x[2], x[3] // 2), "u16", x[3] // 8)
    if device.traits.api != "null":
        assert np.array_equal(found, convolve(operation)(values))


def enlarged(first: int, second: int) -> bytes:
    """Two convolutions with RELU6 of one tensor, concatenated, convolved, and enlarged by a transposed convolution."""
    relu, both, large = LAYERS["CONV_2D and RELU6"], first + second, (1, 18, 20)
    sizes = ((*SIZE, 8), (*SIZE, first), (*SIZE, second), (*SIZE, both), (*SIZE, 16), (*large, 12))
    tensors = [T("x", (*SIZE, 8)), *(tensor(f"t{n}", size, "int8", 0.05) for n, size in enumerate(sizes))]
    kernels = ((first, 3, 3, 8), (second, 3, 3, 8), (16, 3, 3, both), (12, 2, 2, 16))
    for kernel in kernels:
        w = weights(kernel, "int8", 0)
        tensors += [w, bias(w, 0.05, kernel[0], "int8")]
    tensors.append(T("size", [4], [*large, 12], "int32"))
    up = options("TransposeConv", strideH=2, strideW=2, padding=SAME)
    operators = [
        Op("QUANTIZE", [0], [1]), Op("CONV_2D", [1, 7, 8], [2], relu, 3), Op("CONV_2D", [1, 9, 10], [3], relu, 3),
        Op("CONCATENATION", [2, 3], [4], options("Concatenation", axis=3), 2),
        Op("CONV_2D", [4, 11, 12], [5], relu, 3), Op("TRANSPOSE_CONV", [15, 13, 5, 14], [6], up, 3),
    ]  # fmt: skip
    return build(G(tensors, operators, [0], [6]))


def graph_of(model: bytes) -> Graph:
    subgraph = read_model(model).subgraphs[0]
    claims = claim(subgraph, lambda: NullDevice().traits.target)
    assert claims.unsupported == {}
    return claims.graph(sorted(claims.nodes), subgraph.inputs, subgraph.outputs)


@pytest.mark.parametrize(
    ("model", "by_bytes"),
    [
        (network(("CONV_2D and RELU6", 16), ("CONV_2D and RELU6", 8), ("CONV_2D", 4)), [False, True, True]),
        (network(("CONV_2D", 16), ("CONV_2D", 4)), [False, False]),
        (network(("CONV_2D and RELU6", 12), ("CONV_2D", 4)), [False, False]),
        (network(("CONV_2D and RELU6", 16), ("CONV_2D", 4), dtype="uint8"), [False, False]),
        (network(("CONV_2D and RELU6", 16), ("CONV_2D", 4), dtype="int16"), [False, False]),
        (enlarged(8, 16), [False, False, True, True]),
        (enlarged(12, 12), [False, False, False, True]),
    ],
    ids=[
        "behind RELU6",
        "of numbers below zero",
        "of 12 channels",
        "of weights of nine bits",
        "of 16 bits",
        "concatenated",
        "from an odd slice on",
    ],
)
def test_what_bytes_hold_is_multiplied_as_bytes(model: bytes, by_bytes: list[bool]) -> None:
    nodes = transform(graph_of(model)).nodes
    kinds = Convolution | TransposeConvolution
    marks = [node.operation.by_bytes for node in nodes if isinstance(node.operation, kinds)]
    assert marks == by_bytes


def test_concatenated_numbers_of_steps_that_are_no_bytes_are_halves() -> None:
    """The whole and its parts, the second of which begins at an odd slice."""
    compiled = compile_program(graph_of(enlarged(12, 12)), replace(NullDevice().traits, matrix_units=True), "f32")
    assert [compiled.storages[i] for i in (2, 3, 4)] == ["f16", "f16", "f16"]


RELU6_NETWORK = network(
    ("CONV_2D and RELU6", 16), ("DEPTHWISE_CONV_2D and RELU6", 16), ("CONV_2D and RELU6", 24), ("CONV_2D", 9)
)  # fmt: skip


@pytest.mark.parametrize(
    ("model", "fixed", "storages"),
    [
        (
            RELU6_NETWORK,
            {"matrix_conv": MatrixTile(1, 1, 1, 1)}, {2: "f16", 3: "u8", 4: "u8"},
        ),
        (enlarged(8, 16), {"tiled_conv": ConvTile(2, 1, 1, 1, 8, 1)}, {1: "f16", 2: "u8", 3: "u8", 4: "u8", 5: "u8"}),
    ],
    ids=["network", "enlarged"],
)  # fmt: skip
def test_layers_compute_litert_s_integers(
    device: Device, model: bytes, fixed: Mapping[str, Any], storages: Mapping[int, str]
) -> None:
    """Tensors that convolutions read are bytes in memory, which others write, too."""
    graph = graph_of(model)
    (output,) = graph.outputs
    shapes = {i: graph.tensors[i].bhwc for i in (0, output)}
    target = target_of(device, "f32", matrix_units=False, group_size=64, fixed=fixed)
    compiled = compile_program(graph, device.traits, "f32", target=target)
    assert {i: compiled.storages[i] for i in storages} == storages
    values = np.random.default_rng(2).normal(size=shapes[0]).astype(np.float32)
    program, buffers = Program(device, compiled), {}
    for i, shape in shapes.items():
        buffers[i] = device.buffer(Dense(shape).nbytes, f"t{i}")
        program.bind(i, Binding(buffers[i], Dense(shape)))
    device.write(buffers[0], values, "test")
    program.run()
    found = np.empty(shapes[output], np.float32)
    device.read(buffers[output], found, "test")
    if device.traits.api != "null":
        np.testing.assert_array_equal(np.rint(found / np.float32(0.05)), on_the_cpu(model, values))


def on_the_cpu(model: bytes, values: Array) -> Array:
    """LiteRT's numbers of steps."""
    reference = LiteRt(model_content=model)
    reference.allocate_tensors()
    reference.set_tensor(0, values)
    reference.invoke()
    (detail,) = reference.get_output_details()
    found = reference.get_tensor(detail["index"]).astype(np.float32) - detail["quantization"][1]
    assert len(np.unique(found)) > 100
    return found
