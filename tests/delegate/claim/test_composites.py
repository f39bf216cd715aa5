"""STABLEHLO_COMPOSITE: the operators of its decomposition run on the GPU, in the partition around it.

The oracle is LiteRT's CPU interpreter, which runs the decomposition as a subgraph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt

import framebind as fb
from framebind.interop.device import Device
from framebind.tools.certify.cases.operator_models import options, run_model
from support.tiny_models import CPU_ONLY, G, Op, T, build

on_gl = pytest.mark.parametrize("gpu", ["gl"], indirect=True)
SHAPE = (1, 4, 5, 6)
Array = npt.NDArray[Any]


def floats(*names: str, shape: tuple[int, ...] = SHAPE) -> list[T]:
    return [T(name, shape) for name in names]


def composite(subgraph: int, inputs: list[int], outputs: list[int], name: str = "odml.test") -> Op:
    table = options("StableHLOComposite", name=name, decompositionSubgraphIndex=subgraph, compositeAttributes=[])
    return Op("STABLEHLO_COMPOSITE", inputs, outputs, table)


def doubled(name: str = "doubled") -> G:
    """y = x + x"""
    return G(floats("x", "y"), [Op("ADD", [0, 0], [1], options("Add"))], [0], [1], name)


def between(*decompositions: G, name: str = "odml.test") -> bytes:
    """The first decomposition between an ABS and a SQRT."""
    operators = [Op("ABS", [0], [1]), composite(1, [1], [2], name), Op("SQRT", [2], [3])]
    return build(G(floats("x", "a", "b", "y"), operators, [0], [3]), *decompositions)


def with_several_outputs() -> bytes:
    """(exp(a) * b, a, 3, b): a computed output, two inputs, and a constant."""
    inside = G(
        [*floats("a", "b", "e", "m"), T("c", SHAPE, 3.0)],
        [Op("EXP", [0], [2]), Op("MUL", [2, 1], [3], options("Mul"))], [0, 1], [3, 0, 4, 1], "several",
    )  # fmt: skip
    outside = G(
        floats("p", "q", "n", "u", "v", "w", "x", "y", "z"),
        [Op("NEG", [0], [2]), composite(1, [1, 2], [3, 4, 5, 6]), Op("ADD", [3, 5], [7], options("Add")),
         Op("SUB", [4, 6], [8], options("Sub"))], [0, 1], [7, 8, 6],
    )  # fmt: skip
    return build(outside, inside)


def nested() -> bytes:
    """A composite that runs two others, of which one runs the other."""
    outer = G(
        floats("x", "p", "q", "y"),
        [composite(2, [0], [1], "odml.inner"), composite(3, [1], [2]), Op("TANH", [2], [3])], [0], [3], "outer",
    )  # fmt: skip
    inner = G(floats("x", "p", "y"), [composite(3, [0], [1], "odml.innermost"), Op("EXP", [1], [2])], [0], [2], "inner")
    return between(outer, inner, doubled())


def shared() -> bytes:
    """One decomposition for two shapes. The file's shapes in it are those of neither: they follow from the inputs."""
    small, large = (1, 2, 2, 3), (2, 3, 2, 5)
    outside = G(
        [T("x", small), T("y", large), T("p", small), T("q", large)],
        [composite(1, [0], [2]), composite(1, [1], [3])], [0, 1], [2, 3],
    )  # fmt: skip
    return build(outside, doubled())


def quantized() -> bytes:
    """Values of 8 bits between a QUANTIZE and a DEQUANTIZE."""

    def q(name: str, scale: float) -> T:
        return T(name, SHAPE, dtype="int8", scales=[scale], zero_points=[3])

    inside = G([q("a", 0.02), q("b", 0.01)], [Op("LEAKY_RELU", [0], [1], options("LeakyRelu", alpha=0.3))], [0], [1])
    outside = G(
        [T("x", SHAPE), q("p", 0.02), q("q", 0.01), T("y", SHAPE)],
        [Op("QUANTIZE", [0], [1]), composite(1, [1], [2]), Op("DEQUANTIZE", [2], [3])], [0], [3],
    )  # fmt: skip
    return build(outside, inside)


def in_a_loop() -> bytes:
    """x is doubled three times, by a WHILE."""
    count, x, y = T("i", (), dtype="int32"), T("x", SHAPE), T("y", SHAPE)
    loop = options("While", condSubgraphIndex=1, bodySubgraphIndex=2)
    return build(
        G([x, T("zero", (), 0, "int32"), count, y], [Op("WHILE", [1, 0], [2, 3], loop)], [0], [3]),
        G([count, x, T("n", (), 3, "int32"), T("c", (), dtype="bool")], [Op("LESS", [0, 2], [3])], [0, 1], [3]),
        G([count, x, T("one", (), 1, "int32"), T("j", (), dtype="int32"), y],
          [Op("ADD", [0, 2], [3], options("Add")), composite(3, [1], [4])], [0, 1], [3, 4]),
        doubled(),
    )  # fmt: skip


def delegated(model: bytes, backend: str) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend))  # type: ignore[arg-type]
    interpreter = fb.Interpreter(model_content=model, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    return interpreter, delegate


def compare(interpreter: fb.Interpreter, model: bytes, atol: float = 2e-6) -> None:
    rng = np.random.default_rng(0)
    details: list[dict[str, Any]] = interpreter.get_input_details()
    inputs = [rng.uniform(-1, 1, detail["shape"]).astype(np.float32) for detail in details]
    expected = run_model(LiteRt(model_content=model), inputs)
    for ours, theirs in zip(run_model(interpreter, inputs), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=atol, rtol=2e-6)


@on_gl
@pytest.mark.parametrize(
    "make", [with_several_outputs, nested, shared, in_a_loop, quantized], ids=lambda make: make.__name__
)
def test_a_composite_runs_in_one_partition_with_its_neighbours(gpu: Device, make: Any) -> None:
    model = make()
    interpreter, delegate = delegated(model, "opengl")
    operators = interpreter.delegated_ops()
    assert {(op.runs_on, op.partition) for op in operators} == {("gpu", 0)}
    counts = delegate.statistics()
    assert (counts.operators_on_gpu, counts.operators) == (len(operators), len(operators))
    fb.transfers.reset()
    compare(interpreter, model, atol=0.011 if make is quantized else 2e-6)
    copies = {way: hop.calls for (way, _), hop in fb.transfers.by_reason.items()}
    assert copies == {"upload": 1, "download": 1}


def test_steps_and_operators_have_the_name_of_their_composite() -> None:
    interpreter, delegate = delegated(nested(), "null")
    assert [op.composite for op in interpreter.delegated_ops()[:3]] == ["", "odml.test", ""]
    delegate.record()
    labels = [step.label for step in delegate.steps()]
    assert any("ADD 3.0 in odml.innermost" in label for label in labels), labels


def test_a_composite_follows_a_resized_input() -> None:
    interpreter, _ = delegated(nested(), "null")
    interpreter.resize_tensor_input(0, [3, 2, 7, 5])
    interpreter.allocate_tensors()
    details: list[dict[str, Any]] = interpreter.get_output_details()
    assert list(details[0]["shape"]) == [3, 2, 7, 5]
    assert {op.runs_on for op in interpreter.delegated_ops()} == {"gpu"}


@on_gl
def test_a_composite_with_an_operator_of_the_cpu_runs_there(gpu: Device) -> None:
    """The other operators of the decomposition, which LiteRT runs, are a partition."""
    inside = G(floats("x", "y", "z"), [Op("EXP", [0], [1]), Op(CPU_ONLY, [1], [2])], [0], [2], "mixed")
    model = between(inside)
    interpreter, _ = delegated(model, "opengl")
    reasons = {op.name: op.reason for op in interpreter.delegated_ops() if op.runs_on == "cpu"}
    assert reasons["STABLEHLO_COMPOSITE"] == f"operator 1 {CPU_ONLY} of 'mixed': the operator is not supported"
    assert reasons.keys() == {"STABLEHLO_COMPOSITE", CPU_ONLY}
    compare(interpreter, model)


def tower(height: int, calls: int) -> bytes:
    """Decompositions that run the next one ``calls`` times each."""
    names = [f"t{i}" for i in range(calls + 1)]
    levels = [
        G(floats(*names), [composite(level + 2, [i], [i + 1]) for i in range(calls)], [0], [calls], f"level {level}")
        for level in range(height - 1)
    ]
    return between(*levels, doubled())


@pytest.mark.parametrize(
    "model, reason",
    [
        (tower(40, 1), "more than 32 subgraphs run one another"),
        (tower(16, 2), "its decomposition has more than 8192 operators"),
        (between(G([T("x", SHAPE, dtype="int8"), T("y", SHAPE)], [], [0], [1], "other")), "tensor 'a' does not have"),
        (between(G(floats("x", "y"), [], [0], [0, 1], "two")), "the numbers of its inputs and outputs are not those"),
        (between(G(floats("x", "y"), [], [0], [1], "none")), "nothing computes tensor 'y' of its subgraph"),
        (between(G([*floats("x"), T("s", SHAPE, variable=True)], [], [0], [1], "kept")), "its subgraph 'kept' keeps"),
    ],
    ids=["deep", "wide", "a type", "a number", "a gap", "a state"],
)
def test_composites_that_stay_on_the_cpu(model: bytes, reason: str) -> None:
    """LiteRT would fail for most of them when it allocates; the claims are made before."""
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="null"))
    interpreter = fb.Interpreter(model_content=model, experimental_delegates=[delegate])
    (seen,) = (op for op in interpreter.delegated_ops() if op.name == "STABLEHLO_COMPOSITE" and op.subgraph == 0)
    assert seen.runs_on == "cpu" and reason in seen.reason


@pytest.mark.parametrize(
    "model, message",
    [
        (between(), "subgraph 0, operator 1 STABLEHLO_COMPOSITE runs subgraph 1 of 1"),
        (between(G(floats("x", "y"), [composite(1, [0], [1])], [0], [1])), "subgraphs run one another without end"),
    ],
    ids=["no subgraph", "a cycle"],
)
def test_a_composite_without_a_sound_decomposition_is_refused(model: bytes, message: str) -> None:
    with pytest.raises(fb.ModelError, match=message):
        fb.Interpreter(model_content=model)
