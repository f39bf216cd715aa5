"""Operators that LiteRT has no kernel for, and every division of a convolution among invocations, against NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import framebind as fb
from framebind.interop.device import Device
from framebind.kernels.ops.convolution.blocks import Block, block_candidates, choose_block
from framebind.kernels.ops.convolution.heuristics import BLOCK_SIZES
from framebind.kernels.target import Target, TuningChoice
from framebind.kernels.views import Storage
from framebind.tools.certify.cases.operator_models import Const, ModelCase, case_model, options, run_model, run_on_cpu
from support.cases.node_cases import NodeCase, convolution_cases, fully_connected_cases, without_oracle
from support.cases.operator_runs import run
from support.graphs import target_of
from support.model_runs import backend_of
from support.models import OPERATOR_TOLERANCE, relative_error
from support.tiny_models import chain


def name_of(case: NodeCase) -> str:
    return f"{case.operator} {case.label}"


@pytest.mark.parametrize("storage", ["f32", "f16"])
@pytest.mark.parametrize("case", without_oracle(), ids=name_of)
def test_operator(device: Device, case: NodeCase, storage: Storage) -> None:
    if storage == "f16":
        case = replace(case, inputs=tuple(x.astype(np.float16).astype(np.float32) for x in case.inputs))
    result = run(device, case, storage)
    if device.traits.api == "null":  # it computes nothing: the shapes and the generated sources are what is tested
        assert result.shape == case.expected(*case.inputs).shape
        return
    assert relative_error(result, case.expected(*case.inputs)) <= OPERATOR_TOLERANCE[storage]


@pytest.mark.parametrize("operator", ["MAXIMUM", "MINIMUM", "LEAKY_RELU", "PRELU"])
def test_choices_between_a_number_and_nan_are_those_of_litert(gpu: Device, operator: str) -> None:
    x = np.array([[1, np.nan, np.nan, 1, -1, -1, 0, np.inf, -np.inf]], np.float32)
    y = np.array([np.nan, 1, np.nan, -1, np.nan, 0, np.nan, np.nan, np.nan], np.float32)
    kind = {"LEAKY_RELU": options("LeakyRelu", alpha=float("nan")), "PRELU": None}
    inputs = (x,) if operator == "LEAKY_RELU" else (x, Const(y))
    case = ModelCase(operator, "NaN", inputs, kind.get(operator, options("MaximumMinimum")))
    model = case_model(case, [x.shape])
    interpreter = fb.Interpreter(model_content=model)
    interpreter.modify_graph_with_delegate(fb.GpuDelegate())
    np.testing.assert_array_equal(run_model(interpreter, [x]), run_on_cpu(model, [x]))


@pytest.mark.parametrize("names", [("TANH",), ("EXP", "TANH"), ("RELU",)], ids="-".join)
def test_nan_stays_nan_but_where_a_bound_takes_its_place(gpu: Device, names: tuple[str, ...]) -> None:
    interpreter = fb.Interpreter(model_content=chain(*names, shape=(1, 1, 1, 4)))
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend_of(gpu)))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.array([np.nan, np.inf, -np.inf, 0.5], np.float32).reshape(1, 1, 1, 4))
    interpreter.invoke()
    nan, infinity, _, _ = interpreter.get_tensor(len(names)).ravel()
    assert nan == 0 if names == ("RELU",) else np.isnan(nan)
    assert infinity == np.inf if names == ("RELU",) else abs(infinity - 1) < 1e-6
    delegate.close()


def test_cases_have_names_of_their_own() -> None:
    for cases in (without_oracle(), [*convolution_cases(), *fully_connected_cases()]):
        assert len({name_of(case) for case in cases}) == len(cases)


BLOCKS = (
    Block(1, 1, 1, 1),
    Block(4, 1, 2, 1),
    Block(2, 1, 16, 4),
    Block(4, 2, 1, 1),
    Block(4, 2, 4, 2),
    Block(8, 1, 8, 8),
)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
@pytest.mark.parametrize("case", convolution_cases()[:7] + fully_connected_cases(), ids=lambda case: case.label)
def test_every_block_agrees(device: Device, case: NodeCase, block: Block) -> None:
    """However the outputs of a convolution are divided among invocations, it computes the same."""
    result = run(device, case, "f32", target_of(device, fixed={"conv": block}))
    assert device.traits.api == "null" or relative_error(result, case.expected(*case.inputs)) <= 1e-5


def test_blocks_fill_a_device() -> None:
    wide, software = Target(128, 132 * 2048), Target(64, 1)
    assert choose_block(33, 33, 20, 1, 120, software) == Block(4, 2, 1, 1)  # one CPU: the fewest loads
    assert choose_block(768, 384, 4, 9, 4, wide) == Block(4, 2, 1, 1)  # enough blocks without a split
    assert choose_block(384, 384, 1, 81, 2, wide) == Block(8, 1, 4, 2)  # a single output slice
    assert choose_block(96, 96, 8, 9, 8, wide) == Block(4, 2, 8, 8)  # too few blocks: eight share their sums
    assert choose_block(1, 256, 8, 1, 32, wide) == Block(1, 1, 8, 8)  # far too few: small blocks, split sums
    assert choose_block(1, 1, 2, 1, 6, wide) == Block(1, 1, 2, 2)  # shares are not split further
    assert choose_block(384, 384, 2, 81, 1, wide) == Block(4, 2, 2, 1)  # one input slice: taps are split


def test_the_rule_s_block_is_the_first_of_a_few_different_ones() -> None:
    wide, software = Target(128, 132 * 2048), Target(64, 1)
    for shape in ((33, 33, 20, 1, 120), (384, 384, 1, 81, 2), (1, 256, 8, 1, 32), (1, 1, 2, 1, 6)):
        for target in (wide, software):
            found = block_candidates(*shape, target)
            assert found[0] == choose_block(*shape, target) and len(set(found)) == len(found) <= len(BLOCK_SIZES) + 2
            assert all(b.pixels <= shape[1] and b.slices <= shape[2] and b.split <= target.group_size for b in found)
    assert block_candidates(1, 1, 2, 1, 6, software) == (Block(1, 1, 1, 1),)
    splits = {block.split for block in block_candidates(96, 96, 8, 9, 8, wide) if block[:2] == (4, 2)}
    assert splits == {4, 8, 16}


def test_a_grid_takes_the_rule_s_candidate_or_the_measured_one() -> None:
    choice = TuningChoice("how many", (3, 5, 7))
    assert Target(64, 1).take(choice) == 3
    assert (
        Target(64, 1, tuned={"how many": 2}).take(choice) == 7 and Target(64, 1, tuned={"how few": 2}).take(choice) == 3
    )
