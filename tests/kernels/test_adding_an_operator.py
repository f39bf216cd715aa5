"""An operator is one new Python file and its kernel text: written here into a folder, found, and run."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.compiler import compile_program
from framebind.delegate.plan.binding import Binding
from framebind.delegate.read.reader import read_model
from framebind.delegate.run.program import Program
from framebind.interop.null.device import NullDevice
from framebind.kernels.codegen.texts import kernel_files
from framebind.kernels.cpu_shapes import RULES
from framebind.kernels.registry import CPU_ONLY, OPERATORS, discover
from framebind.kernels.views import Dense
from framebind.tools.certify.cases.operator_models import run_model
from support.tiny_models import G, Op, T, build

KERNEL = """// Values whose magnitude is above a threshold, and zero for the others: one invocation computes one slice.
KERNEL {
  int item = GROUP_ID * GROUP + LOCAL;
  if (item < dst_COUNT) {
    POSITION(dst, item, b, y, x, s);
    float4 v = READ(src, b, y, x, s);
    WRITE(dst, b, y, x, s, v * is_less(F4(THRESHOLD), fabs(v)));
  }
}
"""
OPERATOR = '''"""HardShrink: values whose magnitude is above a threshold, and zero for the others."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from framebind.kernels.operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from framebind.kernels.ops.arguments import require_float


@dataclass(frozen=True)
class HardShrink(Operation):
    threshold: float

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [shapes[0]]

    def lower(self, lowering: Lowering) -> list[Launch]:
        reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
        group_count = lowering.groups_for(lowering.outputs[0])
        return [Launch("hard_shrink", reads, writes, group_count, {"THRESHOLD": self.threshold})]


def _parse(node: TfliteNode) -> Parsed:
    require_float(*node.inputs, *node.outputs)
    (threshold,) = struct.unpack("<f", node.options)
    if threshold < 0:
        raise Unsupported(f"threshold {threshold} is negative")
    return Parsed(HardShrink(threshold))


TFLITE = (TfliteOp("HardShrink", _parse, custom=True),)
'''
SHAPE = (2, 5, 7, 6)
X = np.random.default_rng(5).normal(size=SHAPE).astype(np.float32)
EXPECTED = np.where(np.abs(X) > 0.5, -X, 0)


def model(threshold: float) -> bytes:
    """NEG, then the new operator."""
    operators = [Op("NEG", [0], [1]), Op("HardShrink", [1], [2], struct.pack("<f", threshold))]
    return build(G([T("x", SHAPE), T("negated", SHAPE), T("y", SHAPE)], operators, [0], [2]))


def unsupported(content: bytes) -> Mapping[int, str]:
    return claim(read_model(content).subgraphs[0], lambda: NullDevice().traits.target).unsupported


@pytest.fixture
def _hard_shrink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "added_operators"
    folder.mkdir()
    for name, text in (("__init__.py", ""), ("hard_shrink.py", OPERATOR), ("hard_shrink.kern", KERNEL)):
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    monkeypatch.setitem(OPERATORS, "HardShrink", discover(importlib.import_module(folder.name))["HardShrink"])
    monkeypatch.setitem(kernel_files(), "hard_shrink", folder / "hard_shrink.kern")


@pytest.mark.usefixtures("_hard_shrink")
def test_its_kernel_compiles_for_every_api() -> None:
    device, subgraph = NullDevice(), read_model(model(0.5)).subgraphs[0]
    claims = claim(subgraph, lambda: device.traits.target)
    assert not claims.unsupported
    graph = claims.graph(sorted(claims.nodes), subgraph.inputs, subgraph.outputs)
    program = Program(device, compile_program(graph, device.traits, "f32"))
    for tensor in (0, 2):
        program.bind(tensor, Binding(device.buffer(Dense(SHAPE).nbytes, ""), Dense(SHAPE)))
    (source,) = (step.kernel.source for step in program.record().steps if step.kernel.source.name == "hard_shrink")
    assert all("0.5f" in text for text in device.kernels[source].texts.values())


@pytest.mark.usefixtures("_hard_shrink")
@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_it_runs_in_a_model(context: fb.GlContext) -> None:
    interpreter = fb.Interpreter(model_content=model(0.5))
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl")))
    np.testing.assert_array_equal(run_model(interpreter, [X])[0], EXPECTED)
    assert [op.runs_on for op in interpreter.delegated_ops()] == ["gpu", "gpu"]


@pytest.mark.usefixtures("_hard_shrink")
def test_its_reason_is_told() -> None:
    assert unsupported(model(-1.0)) == {1: "threshold -1.0 is negative"}


def test_without_the_file_there_is_no_such_operator() -> None:
    assert unsupported(model(0.5)) == {1: "the operator is not supported"}


def test_an_operator_with_a_kernel_is_in_no_table_of_those_without() -> None:
    """An operation knows its own shapes, so the row of kernels/cpu_shapes.py is dead once there is a kernel."""
    without = {*RULES, *" ".join(CPU_ONLY.values()).split()}
    assert not without & set(OPERATORS), "delete their rows in kernels/cpu_shapes.py and kernels/registry.py"
