"""Complex numbers stay on the GPU between the operators that write and read them, or else all of these on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.read.reader import read_model
from framebind.interop.null.device import NullDevice
from framebind.tools.certify.cases.operator_models import options, run_model, run_on_cpu, values
from support.tiny_models import G, Op, T, build

CROSSES = "its complex numbers cross to the CPU, which has them in another form"


def spectrogram(*more: Op, outputs: list[int], length: int = 8, reshaped: tuple[int, int] = (2, 5)) -> bytes:
    """NEG, RFFT2D and COMPLEX_ABS of two rows of eight values, and operators that may read the complex tensor 3."""
    tensors = [
        T("x", (2, 1, 8)), T("n", (2,), [1, length], "int32"), T("negated", (2, 1, 8)),
        T("complex", (2, 1, 5), None, "complex64"), T("size", (2, 1, 5)), T("shape", (2,), reshaped, "int32"),
        T("reshaped", reshaped, None, "complex64"), T("root", (2, 1, 5)), T("size of reshaped", reshaped),
    ]  # fmt: skip
    operators = [
        Op("NEG", [0], [2]), Op("RFFT2D", [2, 1], [3], options("Rfft2d")), Op("COMPLEX_ABS", [3], [4]),
        Op("SQRT", [4], [7]),
    ]  # fmt: skip
    return build(G(tensors, [*operators, *more], [0], outputs))


def reasons(model: bytes) -> dict[int, str]:
    return dict(claim(read_model(model).subgraphs[0], lambda: NullDevice().traits.target).unsupported)


def test_what_the_cpu_reads_it_computes() -> None:
    assert reasons(spectrogram(outputs=[7])) == {}
    assert reasons(spectrogram(outputs=[7, 3])) == {1: CROSSES, 2: CROSSES}
    reshape = Op("RESHAPE", [3, 5], [6], options("Reshape"))
    assert reasons(spectrogram(reshape, outputs=[7, 6])) == dict.fromkeys((1, 2, 4), CROSSES)
    assert reasons(spectrogram(reshape, Op("COMPLEX_ABS", [6], [8]), outputs=[7, 8])) == {}
    turned = reasons(spectrogram(reshape, outputs=[7, 6], reshaped=(5, 2)))
    assert (turned[1], turned[2]) == (CROSSES, CROSSES) and "cannot change the last dimension" in turned[4]


def test_lengths_are_those_of_litert() -> None:
    (first, second) = reasons(spectrogram(outputs=[7], length=6)).values()
    assert first == "lengths [1, 6] are not powers of two up to 4096, with two columns at least"
    assert "tensor 'complex' is complex64" in second


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize(
    "given, on_gpu",
    [
        ({}, "NEG RFFT2D COMPLEX_ABS SQRT"),
        ({"last_delegate_node_index": 1}, ""),
        ({"first_delegate_node_index": 2}, ""),
    ],
)
def test_a_divided_pair_stays_on_the_cpu(context: fb.GlContext, given: dict[str, Any], on_gpu: str) -> None:
    model, x = spectrogram(outputs=[7]), values(2, 1, 8)
    interpreter = fb.Interpreter(model_content=model)
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(**given)))
    np.testing.assert_allclose(run_model(interpreter, [x])[0], run_on_cpu(model, [x])[0], rtol=1e-5)
    operators = interpreter.delegated_ops()
    assert " ".join(operator.name for operator in operators if operator.runs_on == "gpu") == on_gpu
    assert all(operator.reason for operator in operators if operator.runs_on != "gpu")
