"""Advice of the command inspect: what costs steps and bytes in a model, by its plan on the null device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ai_edge_litert import schema_py_generated as schema

import framebind as fb
from framebind.tools.common.advice import Advice, advise, facts_of, listed
from support.tiny_models import CPU_ONLY, G, Op, T, build, chain


def advice(content: bytes) -> dict[str, Advice]:
    """The advice on a model, by topic."""
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="null"))
    interpreter = fb.Interpreter(model_content=content, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    delegate.record()
    found = advise(facts_of(interpreter, delegate))
    assert [row.nbytes for row in found] == sorted((row.nbytes for row in found), reverse=True)
    return {row.topic: row for row in found}


def moved(name: str, before: Sequence[int], after: Sequence[int], options: Any, *constant: T) -> bytes:
    """An operator that moves values, between two that compute: it reads no input and writes no output of the model."""
    softmax = schema.SoftmaxOptionsT()
    softmax.beta = 1.0
    tensors = [T("x", before), T("e", before), T("moved", after), T("y", after), *constant]
    operator = Op(name, [1, *range(4, 4 + len(constant))], [2], options)
    return build(G(tensors, [Op("SOFTMAX", [0], [1], softmax), operator, Op("SOFTMAX", [2], [3], softmax)], [0], [3]))


def test_a_plain_model_is_told_to_bind_and_nothing_else() -> None:
    found = advice(chain("EXP", "TANH", shape=(1, 4, 5, 4)))
    assert set(found) == {"set_tensor and get_tensor"}
    assert found["set_tensor and get_tensor"].nbytes == 2 * 4 * 4 * 5 * 4


def test_space_to_depth_costs_a_step_and_its_bytes() -> None:
    options = schema.SpaceToDepthOptionsT()
    options.blockSize = 2
    row = advice(moved("SPACE_TO_DEPTH", (1, 4, 4, 4), (1, 2, 2, 16), options))["space and depth"]
    assert row.where == "operators 1" and row.steps == 1 and row.nbytes >= 2 * 4 * 4 * 4 * 4


def test_a_reshape_costs_unless_whole_slices_stay() -> None:
    def reshape(before: Sequence[int], after: Sequence[int]) -> dict[str, Advice]:
        shape = T("shape", (len(after),), after, "int32")
        return advice(moved("RESHAPE", before, after, schema.ReshapeOptionsT(), shape))

    assert reshape((1, 4, 5, 3), (1, 3, 4, 5))["reshapes"].steps == 1
    assert "reshapes" not in reshape((1, 4, 5, 4), (1, 5, 4, 4)), "the same pixels in another grid"


def test_odd_channels_waste_what_the_last_slice_lacks() -> None:
    row = advice(chain("EXP", "SOFTMAX", "TANH", shape=(1, 4, 5, 5)))["odd channel counts"]
    tensors = int(row.where.split()[0])
    assert "with 5 channels" in row.where and row.nbytes == tensors * 2 * 4 * 5 * 3 * 4, "three of eight are empty"


def test_a_return_to_the_cpu_is_named_with_its_bytes() -> None:
    row = advice(chain("EXP", CPU_ONLY, "TANH", shape=(1, 4, 5, 4)))["GPU to CPU and back"]
    assert row.where == "operators 1 on the CPU" and row.steps == 2 and row.nbytes == 2 * 4 * 5 * 4 * 4


def test_tensors_of_five_axes_are_named() -> None:
    perm = T("perm", (5,), (0, 2, 1, 3, 4), "int32")
    shapes = ((1, 2, 3, 4, 5), (1, 3, 2, 4, 5))
    row = advice(moved("TRANSPOSE", *shapes, schema.TransposeOptionsT(), perm))["tensors of 5 and more axes"]
    assert row.where == "operators 0 to 2" and row.steps >= 1 and row.nbytes > 0


def test_quantized_inputs_and_operators_are_named() -> None:
    x, y = (T(name, (1, 4, 4, 4), dtype="int8", scales=[0.5], zero_points=[3]) for name in "xy")
    found = advice(build(G([x, y], [Op("RELU", [0], [1], version=2)], [0], [1])))
    ends = found["quantized inputs and outputs"]
    assert ends.where == "tensors 0, 1" and ends.steps >= 1 and ends.nbytes > 0
    assert found["quantized operators"].where == "operators 0"
    assert found["set_tensor and get_tensor"].nbytes == 2 * 4 * 4 * 4, "integers of 8 bits cross"


def test_numbers_are_listed_in_ranges() -> None:
    assert listed([0, 1, 2, 5, 7, 8]) == "0 to 2, 5, 7, 8"
    assert listed([0, 2, 4, 6, 8], most=2) == "0, 2 and 3 more"
