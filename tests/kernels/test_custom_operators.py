"""The custom operators that LiteRT's CPU does not have, or only in XNNPACK, in LiteRT's interpreter, against NumPy."""

from __future__ import annotations

import dataclasses

import ai_edge_litert.interpreter as litert
import numpy as np
import pytest

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.read.reader import read_model
from framebind.interop.device import Device
from framebind.interop.null.device import NullDevice
from framebind.tools.certify.cases.operator_models import Array, run_model, values
from support.cases.custom_cases import (
    CUSTOM_CASES,
    SAME,
    VALID,
    CustomCase,
    max_with_indices,
    model_of,
    pool_options,
    with_tenth,
)
from support.models import relative_error
from support.tiny_models import G, Op, T, build


def check(case: CustomCase) -> None:
    model = model_of(case)
    assert claim(read_model(model).subgraphs[0], lambda: NullDevice().traits.target).unsupported == {}
    interpreter = fb.Interpreter(model_content=model)
    delegate = fb.GpuDelegate()
    interpreter.modify_graph_with_delegate(delegate)
    for result, expected in zip(run_model(interpreter, case.inputs), case.expected, strict=True):
        if case.tolerance:
            assert relative_error(result, expected) <= case.tolerance
        else:
            np.testing.assert_array_equal(result, expected)
    delegate.close()


@pytest.mark.parametrize("case", CUSTOM_CASES, ids=str)
def test_operator(gpu: Device, case: CustomCase) -> None:
    check(case)


def pictures_with_ties() -> dict[str, Array]:
    """Inputs of 7x8 pixels with equal values in many windows."""
    random = np.random.default_rng(0)
    equal = random.integers(0, 3, (1, 7, 8, 5)).astype(np.float32)
    holes = np.where(random.random(equal.shape) < 0.3, np.float32(np.nan), equal)
    flat = {"zeros": 0.0, "NaN": np.nan, "lowest": -np.inf}
    return {"equal": equal, "holes": holes} | {name: np.full_like(equal, value) for name, value in flat.items()}


@pytest.mark.parametrize("scheme", [SAME, VALID])
@pytest.mark.parametrize("kernel", [(2, 2), (3, 2), (2, 3), (3, 1), (3, 3), (4, 4)], ids=str)
@pytest.mark.parametrize("picture", pictures_with_ties())
def test_of_equal_values_the_one_counts_that_litert_takes(
    gpu: Device, picture: str, kernel: tuple[int, int], scheme: int
) -> None:
    """LiteRT runs this operator only in XNNPACK, which stores indices as unsigned integers, counted by columns."""
    x = pictures_with_ties()[picture]
    expected = max_with_indices(x, kernel, kernel, scheme)
    case = CustomCase("MaxPoolingWithArgmax2D", "ties", pool_options(kernel, kernel, scheme), (x,), expected)
    floats = dataclasses.replace(case, expected=(expected[0], with_tenth(expected[1])))
    largest, bits = run_model(litert.Interpreter(model_content=model_of(floats)), [x])
    across, down = np.divmod(bits.view(np.uint32).astype(np.int32), kernel[0])
    check(dataclasses.replace(case, expected=(largest, down * kernel[1] + across)))
    check(dataclasses.replace(case, expected=(largest, with_tenth(down * kernel[1] + across))))


def test_a_pooling_is_undone(context: fb.GlContext) -> None:
    """The maxima return to where they were, through both operators at once."""
    x, given = values(1, 6, 8, 5) + 2, pool_options((2, 2), (2, 2), SAME)
    tensors = [T("x", x.shape), T("largest", (1, 3, 4, 5)), T("places", (1, 3, 4, 5)), T("y", x.shape)]
    operators = [Op("MaxPoolingWithArgmax2D", [0], [1, 2], given), Op("MaxUnpooling2D", [1, 2], [3], given)]
    interpreter = fb.Interpreter(model_content=build(G(tensors, operators, [0], [3])))
    interpreter.modify_graph_with_delegate(fb.GpuDelegate())
    result = run_model(interpreter, [x])[0]
    largest = x.reshape(1, 3, 2, 4, 2, 5).max((2, 4))
    np.testing.assert_array_equal(result.reshape(1, 3, 2, 4, 2, 5).sum((2, 4)), largest)
    np.testing.assert_array_equal(result[result > 0], x[result > 0])


@pytest.mark.parametrize("bounds", [(0, 0), (1, 2)])
def test_a_pooling_and_its_unpooling_run_on_one_side(context: fb.GlContext, bounds: tuple[int, int]) -> None:
    """XNNPACK's indices are integers' bits, counted by columns: an unpooling on the other side would misread them."""
    x, given = values(1, 6, 8, 5) + 2, pool_options((2, 2), (2, 2), VALID)
    tensors = [
        T("x", x.shape),
        T("largest", (1, 3, 4, 5)),
        T("places", (1, 3, 4, 5)),
        T("undone", x.shape),
        T("y", x.shape),
    ]
    operators = [
        Op("MaxPoolingWithArgmax2D", [0], [1, 2], given),
        Op("MaxUnpooling2D", [1, 2], [3], given),
        Op("ABS", [3], [4]),
    ]
    model = build(G(tensors, operators, [0], [4]))
    first, last = bounds
    options = fb.GpuDelegateOptions(first_delegate_node_index=first, last_delegate_node_index=last)
    interpreter, delegate = fb.Interpreter(model_content=model), fb.GpuDelegate(options)
    interpreter.modify_graph_with_delegate(delegate)
    (found,), (expected,) = run_model(interpreter, [x]), run_model(litert.Interpreter(model_content=model), [x])
    np.testing.assert_array_equal(found, expected)
    pooling, unpooling, _ = interpreter.delegated_ops()
    assert pooling.runs_on == unpooling.runs_on == "cpu"
    delegate.close()


@pytest.mark.parametrize("name", ["MaxPoolingWithArgmax2D", "MaxUnpooling2D", "Resampler"])
def test_the_attribute_space_is_covered(name: str) -> None:
    assert len([case for case in CUSTOM_CASES if case.name == name]) >= 20
