"""The work of loading a model, counted: it grows with the number of operators, and not with its square."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from ai_edge_litert import schema_py_generated as schema

from framebind.delegate.claim.claims import claim
from framebind.delegate.compiler import compile_program
from framebind.delegate.plan.binding import Binding
from framebind.delegate.read.reader import read_model
from framebind.delegate.run.program import Program
from framebind.interop.null.device import NullDevice
from framebind.kernels.ops.reduction.pool import Pooling
from framebind.kernels.views import Dense
from support.tiny_models import G, Op, T, build

SHAPE = (1, 4, 4, 8)


def residual(count: int) -> bytes:
    """``count`` operators: pools, each followed by two sums with values from some operators before."""
    pool = schema.Pool2DOptionsT()
    pool.filterHeight = pool.filterWidth = 2
    pool.strideH = pool.strideW = 1
    operators = [
        Op("MAX_POOL_2D", [i], [i + 1], pool) if i % 3 == 0 else Op("ADD", [i, max(0, i - 7)], [i + 1])
        for i in range(count)
    ]
    return build(G([T(f"t{i}", SHAPE) for i in range(count + 1)], operators, [0], [count]))


def load(content: bytes) -> Program:
    """All of loading but LiteRT's part: the recorded program of a model that runs on the GPU alone."""
    subgraph = read_model(content).subgraphs[0]
    device = NullDevice()
    claims = claim(subgraph, lambda: device.traits.target)
    assert not claims.unsupported
    graph = claims.graph(sorted(claims.nodes), subgraph.inputs, subgraph.outputs)
    program = Program(device, compile_program(graph, device.traits, "f32"))
    for tensor in (*program.inputs, *program.outputs):
        view = Dense(graph.tensors[tensor].bhwc)
        program.bind(tensor, Binding(device.buffer(view.nbytes, "bound"), view))
    assert program.record().steps
    return program


def instructions(content: bytes) -> int:
    """The number of instructions of Python's machine that loading executes."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        load(content)
    finally:
        sys.settrace(before)
    return count


def test_twice_the_operators_are_twice_the_work() -> None:
    instructions(residual(60))  # kernels' texts are read once a process, and Python 3.12 counts from the second time on
    once, twice = instructions(residual(120)), instructions(residual(240))
    assert twice < 2.2 * once


def test_an_operator_is_lowered_twice() -> None:
    """Lowering packs the weights, so it is done before an operator is claimed and in its program, no more often."""
    lowered = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal lowered
        lowered += event == "call" and frame.f_code is Pooling.lower.__code__

    sys.setprofile(count)
    try:
        load(residual(30))
    finally:
        sys.setprofile(None)
    assert lowered == 2 * 10
