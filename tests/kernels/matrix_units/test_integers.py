"""Convolutions of quantized models that sum integers: which tensors hold numbers of steps, and how those are kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from framebind.delegate.claim.claims import claim
from framebind.delegate.compiler import CompiledProgram, compile_program
from framebind.delegate.read.reader import read_model
from framebind.delegate.transform.graph import Graph, Node
from framebind.delegate.transform.pipeline import PASSES, transform
from framebind.delegate.transform.quantized_steps import sum_integers
from framebind.delegate.transform.separable import fuse_expanded, fuse_separable
from framebind.interop.null.device import NullDevice
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.depthwise import Depthwise
from framebind.kernels.ops.pointwise.elementwise import Elementwise
from framebind.kernels.ops.pointwise.quantize import ScaledIntegers
from framebind.kernels.ops.window import Window
from framebind.kernels.tensor import TensorInfo
from framebind.kernels.views import Storage
from framebind.tools.certify.cases.quantized_models import bottleneck, parted, pooled

LARGER = (1, 8, 8, 5)
APART = tuple(each for each in PASSES if each.run not in (fuse_separable, fuse_expanded))


def compiled(dtype: str, storage: Storage = "f16", *, outputs: tuple[int, ...] = (7,)) -> CompiledProgram:
    """The bottleneck for a device with matrix units: x to 1, to 2, to 3, to 4, sum 5, enlarged 6, 7."""
    subgraph = read_model(bottleneck(dtype, LARGER)).subgraphs[0]
    traits = replace(NullDevice().traits, matrix_units=True)
    claims = claim(subgraph, lambda: traits.target)
    assert claims.unsupported == {}
    return compile_program(claims.graph(sorted(claims.nodes), (0,), outputs), traits, storage, passes=APART)


def test_weights_stay_integers_until_they_are_packed() -> None:
    """Neither a claim nor a pass computes their values; those of int8 without zero points are the file's own bytes."""
    content = bottleneck("int8", LARGER)
    subgraph = read_model(content).subgraphs[0]
    claims = claim(subgraph, lambda: NullDevice().traits.target)
    graph = claims.graph(sorted(claims.nodes), (0,), (7,))
    before = [n.operation for n in graph.nodes if isinstance(n.operation, Convolution | Depthwise)]
    assert len(before) == 4
    assert all(isinstance(each.weights, ScaledIntegers) and "values" not in vars(each.weights) for each in before)
    after = [n.operation for n in transform(graph, APART).nodes if isinstance(n.operation, Convolution | Depthwise)]
    for given, counted in zip(before, after, strict=True):
        assert counted.weights.dtype == np.int8
        assert np.shares_memory(counted.weights, np.frombuffer(content, np.uint8))
        scales = np.array(given.scales, np.float32).reshape((-1, 1, 1, 1) if isinstance(given, Convolution) else -1)
        assert np.array_equal(np.asarray(given.weights), counted.weights * scales)


def in_halves(program: CompiledProgram) -> set[int]:
    return {i for i, kept in program.storages.items() if kept == "f16" and isinstance(i, int) and i < 8}


def test_convolutions_sum_integers_by_matrix_units() -> None:
    for dtype, storage in (("int8", "f16"), ("uint8", "f32")):
        program = compiled(dtype, storage)
        nodes = [n for n in program.graph.nodes if isinstance(n.operation, Convolution | Depthwise)]
        assert len(nodes) == 4
        for node in nodes:
            assert isinstance(node.operation, Convolution | Depthwise) and node.operation.integer_weights
            assert np.array_equal(node.operation.weights, np.rint(node.operation.weights))
            assert np.abs(node.operation.weights).max() <= 255
            assert [op.expression for op in node.epilogue][:2] == ["MUL", "STEPS"]
        kernels = [entry.launch.kernel for entry in program.lowered.launches]
        assert kernels.count("matrix_conv") == 3
        weights = [
            place.storage for key, place in program.constants.items() if isinstance(key, tuple) and key[1] == "weights"
        ]
        assert set(weights) == {"f16"}


def test_tensors_of_8_bits_that_only_convolutions_and_sums_read_are_in_halves() -> None:
    """The sum's second operand too; not what is read outside, and not integers of 16 bits."""
    assert in_halves(compiled("int8")) >= {1, 2, 3, 5}
    assert not in_halves(compiled("int8", outputs=(2, 7))) & {2, 7}
    assert not in_halves(compiled("int16"))
    assert in_halves(compiled("int8", "f32")) == in_halves(compiled("int8"))


def test_maxima_of_numbers_of_steps_are_such_numbers() -> None:
    """x to 1, by a convolution to 2, by MAX_POOL_2D to 3, by a convolution to 4."""
    subgraph = read_model(pooled("int8", LARGER)).subgraphs[0]
    traits = replace(NullDevice().traits, matrix_units=True)
    claims = claim(subgraph, lambda: traits.target)
    program = compile_program(claims.graph(sorted(claims.nodes), (0,), (4,)), traits, "f32")
    assert in_halves(program) == {1, 2, 3}
    last = next(node for node in program.graph.nodes if 4 in node.outputs)
    assert isinstance(last.operation, Convolution) and last.operation.integer_weights


def test_parts_of_numbers_of_steps_are_such_numbers() -> None:
    """x to 1, by a convolution to 2, cut into 3 and 4, of which the second is convolved to 5. 6 is the whole and 5, so
    that nothing reads 3.
    """
    subgraph = read_model(parted("int8", LARGER)).subgraphs[0]
    traits = replace(NullDevice().traits, matrix_units=True)
    claims = claim(subgraph, lambda: traits.target)
    program = compile_program(claims.graph(sorted(claims.nodes), (0,), (7,)), traits, "f32")
    assert in_halves(program) == {1, 2, 4, 5, 6}


def test_a_tensor_that_another_operator_reads_holds_values() -> None:
    """An output of the graph is one; its readers then multiply by the weights' scales alone."""
    program = compiled("int8", outputs=(5, 7))
    added = next(node for node in program.graph.nodes if 5 in node.outputs)
    assert [op.expression for op in added.epilogue] == ["MUL", "STEPS", "ADD_STEPS", "QUANTIZE"]
    last = next(node for node in program.graph.nodes if 7 in node.outputs)
    assert isinstance(last.operation, Convolution) and last.operation.integer_weights


@pytest.mark.parametrize(("scale", "steps", "counted"), [(0.01, 0.5, True), (1e-37, 0.5, True), (1e-37, 1e-4, False)])
def test_a_tensor_holds_values_if_factors_were_no_normal_numbers(scale: float, steps: float, counted: bool) -> None:
    """A file may give any scale to weights, and to what they are multiplied by."""
    weights = scale * np.arange(-8, 8).reshape(4, 1, 1, 4).astype(np.float32)
    nodes = [
        Node("QUANTIZE", Elementwise(), (0,), (1,), (FusedOp("QUANTIZE", values=(steps, -128.0, 127.0)),)),
        Node("CONV_2D", Convolution(Window((1, 1), (1, 1)), weights, scales=(scale,)), (1,), (2,)),
    ]
    graph = Graph({i: TensorInfo("", (1, 2, 2, 4), "float32") for i in range(3)}, nodes, (0,), (2,))
    sum_integers(graph)
    operation = graph.nodes[1].operation
    assert isinstance(operation, Convolution) and operation.integer_weights
    assert graph.nodes[0].epilogue[0].expression == ("TO_STEPS" if counted else "QUANTIZE")
