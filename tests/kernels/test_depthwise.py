"""Depthwise convolutions whose windows are divided among invocations; grouped ones, which take no more constants than
their weights.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import framebind as fb
from framebind.delegate.run.program import Program
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution.depthwise import choose_parts
from framebind.kernels.target import Target
from framebind.tools.certify.cases.operator_models import options, run_model, run_on_cpu, values
from framebind.video.tflite_writer import G, Op, T, build
from null_programs import program_on_null
from support.cases.node_cases import NodeCase, convolution_cases
from support.cases.operator_runs import run
from support.graphs import target_of
from support.models import relative_error

CASES = [case for case in convolution_cases() if case.operator == "DEPTHWISE_CONV_2D"]


@pytest.mark.parametrize("parts", [2, 4, 16])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_divided_windows_agree(device: Device, case: NodeCase, parts: int) -> None:
    linked = replace(case, epilogue=(FusedOp("RELU"),))
    target = replace(target_of(device, fixed={"depthwise": parts}), early_launches=parts != 4)
    result = run(device, linked, "f32", target)
    if device.traits.api != "null":
        assert relative_error(result, case.expected(*case.inputs).clip(0)) <= 1e-5


def test_few_results_have_their_windows_divided_into_short_shares() -> None:
    device = Target(256, 132 * 2048)
    assert choose_parts(7 * 7 * 168, 25, device) == 4  # six or seven taps each
    assert choose_parts(7 * 7 * 168, 9, device) == 2
    assert choose_parts(16 * 16 * 84, 25, device) == 1  # twelve or thirteen each would be slower than all
    assert choose_parts(33 * 33 * 120, 9, device) == 1  # there are enough
    assert choose_parts(1, 9, replace(device, group_size=2)) == 2
    assert choose_parts(1, 9, replace(device, group_size=1)) == 1
    assert choose_parts(1, 9, Target(64, 1)) == 1


CHANNELS = 24
LARGEST_SHARE_OF_THE_FILE = 1.2


def convnext_block() -> bytes:
    """A ConvNeXt block as Keras writes it: a 7x7 convolution of as many groups as channels, a layer norm, two products
    with GELU between them, a scale per channel, and the input added.
    """
    shape, wide = (1, 9, 10, CHANNELS), (1, 9, 10, 4 * CHANNELS)
    mean_shape = (*shape[:3], 1)
    tensors = [
        T("x", shape), T("window", (CHANNELS, 7, 7, 1), values(CHANNELS, 7, 7, 1)),
        T("window bias", (CHANNELS,), values(CHANNELS)), T("mixed", shape), T("axis", (1,), [3], "int32"),
        T("mean", mean_shape), T("squares", shape), T("variance", mean_shape), T("epsilon", (), 1e-6),
        T("safe", mean_shape), T("scale", mean_shape), T("centred", shape), T("normal", shape),
        T("up", (4 * CHANNELS, CHANNELS), values(4 * CHANNELS, CHANNELS)), T("up bias", (4 * CHANNELS,), 0.5),
        T("raised", wide), T("bent", wide),
        T("down", (CHANNELS, 4 * CHANNELS), values(CHANNELS, 4 * CHANNELS)), T("down bias", (CHANNELS,), 0.25),
        T("lowered", shape), T("gamma", (CHANNELS,), values(CHANNELS)), T("scaled", shape), T("y", shape),
    ]  # fmt: skip
    number = {tensor.name: i for i, tensor in enumerate(tensors)}
    reduce, product = options("Reducer", keepDims=True), options("FullyConnected", keepNumDims=True)
    window = options("Conv2D", padding=0, strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1)
    steps = [
        ("CONV_2D", ("x", "window", "window bias"), "mixed", window), ("MEAN", ("mixed", "axis"), "mean", reduce),
        ("SQUARED_DIFFERENCE", ("mixed", "mean"), "squares", None),
        ("MEAN", ("squares", "axis"), "variance", reduce), ("ADD", ("variance", "epsilon"), "safe", options("Add")),
        ("RSQRT", ("safe",), "scale", None), ("SUB", ("mixed", "mean"), "centred", options("Sub")),
        ("MUL", ("centred", "scale"), "normal", options("Mul")),
        ("FULLY_CONNECTED", ("normal", "up", "up bias"), "raised", product),
        ("GELU", ("raised",), "bent", options("Gelu", approximate=False)),
        ("FULLY_CONNECTED", ("bent", "down", "down bias"), "lowered", product),
        ("MUL", ("lowered", "gamma"), "scaled", options("Mul")), ("ADD", ("x", "scaled"), "y", options("Add")),
    ]  # fmt: skip
    operators = [
        Op(name, [number[source] for source in sources], [number[result]], table)
        for name, sources, result, table in steps
    ]
    return build(G(tensors, operators, [0], [number["y"]]))


def grouped_convolution(groups: int, share: int, out: int) -> bytes:
    """A 3x3 convolution of ``groups``, each of ``share`` input channels and ``out`` output channels."""
    weights, bias = values(groups * out, 3, 3, share), values(groups * out)
    tensors = [
        T("x", (1, 5, 6, groups * share)), T("weights", weights.shape, weights), T("bias", bias.shape, bias),
        T("y", (1, 5, 6, groups * out)),
    ]  # fmt: skip
    table = options("Conv2D", padding=0, strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1)
    return build(G(tensors, [Op("CONV_2D", [0, 1, 2], [3], table)], [0], [3]))


def compiled_on_null(model: bytes) -> Program:
    unsupported, program = program_on_null(model)
    assert unsupported == {} and program is not None
    return program


def bytes_of_constants(program: Program) -> int:
    """The bytes of all packed constants, without the padding between them."""
    return sum(constant.nbytes for constant in program.compiled.constants.values())


@pytest.mark.parametrize(("groups", "share", "out"), [(24, 1, 1), (12, 1, 3), (12, 3, 4), (10, 4, 2), (9, 6, 6)])
def test_groups_take_no_more_constants_than_the_file(groups: int, share: int, out: int) -> None:
    program = compiled_on_null(grouped_convolution(groups, share, out))
    weights = groups * out * (9 * share + 1) * 4
    assert bytes_of_constants(program) <= LARGEST_SHARE_OF_THE_FILE * weights
    (step,) = program.record().steps
    assert step.kernel.source.name == ("depthwise" if share == 1 else "grouped_conv")


def test_a_convnext_block_takes_no_more_constants_than_the_file() -> None:
    model = convnext_block()
    program = compiled_on_null(model)
    assert bytes_of_constants(program) <= LARGEST_SHARE_OF_THE_FILE * len(model)
    assert "depthwise" in {step.kernel.source.name for step in program.record().steps}


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_convnext_block_agrees_with_litert(context: fb.GlContext) -> None:
    model, x = convnext_block(), values(1, 9, 10, CHANNELS)
    interpreter = fb.Interpreter(model_content=model)
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(is_precision_loss_allowed=False)))
    assert all(operator.runs_on == "gpu" for operator in interpreter.delegated_ops())
    assert relative_error(run_model(interpreter, [x])[0], run_on_cpu(model, [x])[0]) <= 1e-5
