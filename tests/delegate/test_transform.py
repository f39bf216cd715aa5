"""The graph that passes rewrite, the order of the passes, and what they cost."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from framebind.delegate.transform.cleanup import remove_unused
from framebind.delegate.transform.graph import Alias, Graph, Node
from framebind.delegate.transform.pipeline import PASSES, transform
from framebind.delegate.transform.separable import fuse_separable
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.depthwise import Depthwise
from framebind.kernels.ops.movement.concat import Concatenation
from framebind.kernels.ops.movement.reshape import Reshape
from framebind.kernels.ops.pointwise.elementwise import Elementwise
from framebind.kernels.ops.window import Window
from framebind.kernels.tensor import TensorInfo
from framebind.tools.certify.cases.operator_models import options
from framebind.video.tflite_writer import G, Op, T, build
from null_programs import program_on_null

POINT = Window((1, 1), (1, 1))


def unary(source: int, destination: int) -> Node:
    return Node("NEG", Elementwise(), (source,), (destination,), (FusedOp("NEG"),), (destination,))


def graph_of(*nodes: Node, outputs: tuple[int, ...] = ()) -> Graph:
    """A graph whose first tensor is the input, and whose tensors all are (1, 2, 2, 4)."""
    ids = {0, *(tensor for node in nodes for tensor in (*node.operands, *node.outputs))}
    return Graph({i: TensorInfo(f"t{i}", (1, 2, 2, 4), "float32") for i in ids}, nodes, (0,), outputs)


def test_each_pass_comes_after_those_it_needs() -> None:
    order = [each.run for each in PASSES]
    assert len(set(order)) == len(order)
    early = [
        (each.run, before) for each in PASSES for before in each.after if order.index(before) > order.index(each.run)
    ]
    assert not early


def test_producers_and_readers_follow_every_change() -> None:
    first, second, third = nodes = unary(0, 1), unary(1, 2), unary(1, 3)
    graph = graph_of(*nodes, outputs=(2, 3))
    assert graph.producer(0) is None and graph.producer(1) is first
    assert graph.readers(1) == [second, third] and graph.sole_reader(1) is None
    graph.redirect(1, 0)
    second, third = graph.nodes[1:]
    assert [node.inputs for node in graph.nodes] == [(0,), (0,), (0,)]
    assert graph.readers(0) == [first, second, third] and not graph.readers(1)
    graph.remove(first, "nobody reads it")
    assert graph.nodes == [second, third] and graph.producer(1) is None
    graph.insert_before(third, first)
    assert graph.nodes == [second, first, third] == graph.readers(0)


def test_an_output_an_alias_and_a_tensor_read_twice_have_no_sole_reader() -> None:
    square = Node("MUL", Elementwise(), (3,), (4,), (FusedOp("MUL", 3),))
    graph = graph_of(unary(0, 1), unary(1, 2), unary(2, 3), square, outputs=(1, 4))
    assert graph.sole_reader(1) is None and graph.sole_reader(3) is None
    assert graph.sole_reader(2) is graph.nodes[2]
    graph.place_inside(2, Alias(5, 0, 1))
    assert graph.sole_reader(2) is None
    assert not graph.has_own_memory(2) and not graph.has_own_memory(5)


def test_a_substitute_takes_the_last_place_and_all_indices() -> None:
    nodes = unary(0, 1), unary(0, 2), unary(1, 3), unary(2, 4)
    graph = graph_of(*nodes, outputs=(3, 4))
    graph.substitute({nodes[2], nodes[0]}, unary(0, 3))
    assert [node.outputs for node in graph.nodes] == [(2,), (3,), (4,)]
    assert graph.nodes[1].indices == (1, 3) and len(graph.changes) == 1
    graph.substitute({graph.nodes[0], graph.nodes[2]}, unary(0, 5), unary(5, 4), at=graph.nodes[0])
    assert [node.outputs for node in graph.nodes] == [(5,), (4,), (3,)]
    assert graph.nodes[1].indices == (2, 4)


def test_a_walk_meets_nodes_as_they_are_when_their_turn_comes() -> None:
    graph = graph_of(unary(0, 1), unary(1, 2), unary(2, 3), unary(3, 4), outputs=(4,))
    met: list[tuple[int, ...]] = []
    for node in graph.forwards():
        met.append(node.outputs)
        if node.outputs == (1,):
            graph.remove(graph.nodes[1], "the walk has not come to it")
            graph.redirect(2, 1)
        if node.outputs == (3,):
            assert node.inputs == (1,)
    assert met == [(1,), (3,), (4,)]
    assert [node.outputs for node in graph.backwards()] == [(4,), (3,), (1,)]


def test_what_only_unread_operators_touch_leaves_the_graph() -> None:
    graph = graph_of(unary(0, 1), unary(0, 2), unary(2, 3), outputs=(1,))
    remove_unused(graph)
    assert [node.outputs for node in graph.nodes] == [(1,)] and graph.tensors.keys() == {0, 1}
    assert graph.new_tensor(1, (1,)) == 4


def test_new_tensors_have_new_numbers() -> None:
    graph = graph_of(unary(0, 7), outputs=(7,))
    assert [graph.new_tensor(7, (1, 1)), graph.new_tensor(0, (2,), np.ones(2, np.float32))] == [8, 9]
    assert graph.tensors[8].shape == (1, 1) and graph.tensors[8].constant is None
    assert graph.tensors[9].constant is not None


def block(source: int, first: int) -> list[Node]:
    """Nodes of most kinds that passes look for: six tensors from ``first`` on, the last one is the result."""
    convolution = Convolution(POINT, np.ones((4, 1, 1, 4), np.float32), None)
    wide = Convolution(POINT, np.ones((4, 1, 1, 8), np.float32), None)
    depthwise = Depthwise(Window((3, 3), (1, 1)), 1, np.ones((1, 3, 3, 4), np.float32))
    return [
        Node("DEPTHWISE_CONV_2D", depthwise, (source,), (first,)),
        Node("CONV_2D", convolution, (first,), (first + 1,)),
        Node("RESHAPE", Reshape((1, 2, 2, 4)), (first + 1,), (first + 2,)),
        unary(first + 2, first + 3),
        Node("CONCATENATION", Concatenation(3, 4), (source, first + 3), (first + 4,)),
        Node("CONV_2D", wide, (first + 4,), (first + 5,)),
    ]


@pytest.mark.parametrize(("dilation", "joined"), [(64, True), (32768, False)])
def test_a_window_that_reaches_far_is_a_step_of_its_own(dilation: int, joined: bool) -> None:
    """The joined kernel reads all columns between the taps: with 65,536 of them a GPU hung."""
    window = Window((3, 3), (1, 1), (1, dilation))
    depthwise = Depthwise(window, 1, np.ones((1, 3, 3, 4), np.float32))
    convolution = Convolution(POINT, np.ones((4, 1, 1, 4), np.float32), None)
    nodes = Node("DEPTHWISE_CONV_2D", depthwise, (0,), (1,)), Node("CONV_2D", convolution, (1,), (2,))
    graph = graph_of(*nodes, outputs=(2,))
    fuse_separable(graph)
    assert len(graph.nodes) == (1 if joined else 2)


def test_a_bias_that_is_no_float_in_steps_is_not_counted() -> None:
    """4e36 / 0.002 is infinite as a float; the sum of values and the bias is not."""
    tensors = [
        T("x", (2, 3)), T("w", (4, 3), 5, "int8", scales=[0.002] * 4, zero_points=[0] * 4), T("b", (4,), 4e36),
        T("y", (2, 4)),
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        operator = Op("FULLY_CONNECTED", [0, 1, 2], [3], options("FullyConnected"))
        reasons, program = program_on_null(build(G(tensors, [operator], [0], [3])))
    assert not reasons and program is not None


def looks(blocks: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of times that passes look at a field of a node, for a graph of so many blocks."""
    nodes = [node for number in range(blocks) for node in block(number * 6, number * 6 + 1)]
    graph = graph_of(*nodes, outputs=(blocks * 6,))
    for node in nodes:
        if isinstance(node.operation, Concatenation):
            graph.tensors[node.outputs[0]] = TensorInfo("wide", (1, 2, 2, 8), "float32")
    counter = itertools.count()

    def counting(self: Node, name: str) -> Any:
        next(counter)
        return object.__getattribute__(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(Node, "__getattribute__", counting)
        transform(graph)
        found = next(counter)
    # A separable convolution and a convolution each; the first block cannot write its input in place.
    assert len(graph.nodes) == 2 * blocks + 1
    return found


def test_the_passes_cost_as_much_for_each_node_of_a_large_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looks(200, monkeypatch) <= 4.2 * looks(50, monkeypatch)


def test_a_product_with_its_own_logistic_is_one_operation_of_the_node_before() -> None:
    """SiLU, in either order of the factors. A LOGISTIC that others read stays."""
    logistic = Node("LOGISTIC", Elementwise(), (1,), (2,), (FusedOp("LOGISTIC"),), (1,))
    for factors in ((1, 2), (2, 1)):
        product = Node("MUL", Elementwise(), (factors[0],), (3,), (FusedOp("MUL", factors[1]),), (2,))
        (node,) = transform(graph_of(unary(0, 1), logistic, product, outputs=(3,))).nodes
        assert [op.expression for op in node.epilogue] == ["NEG", "SILU"] and node.operands == (0,)
        graph = transform(graph_of(unary(0, 1), logistic, product, outputs=(2, 3)))
        assert not any(op.expression == "SILU" for node in graph.nodes for op in node.epilogue)
    rounding = FusedOp("QUANTIZE", values=(1 / 256, 0.0, 255.0))
    steps = replace(logistic, epilogue=(*logistic.epilogue, rounding))
    rounded = Node("MUL", Elementwise(), (1,), (3,), (FusedOp("MUL", 2), FusedOp("RELU")), (2,))
    (node,) = transform(graph_of(unary(0, 1), steps, rounded, outputs=(3,))).nodes
    assert [op.expression for op in node.epilogue] == ["NEG", "SILU_OF_STEPS", "RELU"]
    assert node.epilogue[1].values == rounding.values
    other = Node("MUL", Elementwise(), (0,), (3,), (FusedOp("MUL", 2),), (2,))
    graph = transform(graph_of(unary(0, 1), logistic, other, outputs=(3,)))
    assert not any(op.expression == "SILU" for node in graph.nodes for op in node.epilogue)
