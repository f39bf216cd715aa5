"""Why operators stay on the CPU: the sentence is true of the tensor or the operator that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from framebind.delegate.claim.claims import claim
from framebind.delegate.read.reader import read_model
from framebind.interop.null.device import NullDevice
from framebind.tools.certify.cases.operator_models import options
from framebind.video.tflite_writer import G, Op, T, build

SHAPE = (1, 2, 3, 4)


def reason(operator: str, source: T, result: T) -> str:
    """Why the only operator of a model stays on the CPU."""
    return _reasons(build(G([source, result], [Op(operator, [0], [1])], [0], [1])))[0]


def _reasons(model: bytes) -> Mapping[int, str]:
    return claim(read_model(model).subgraphs[0], lambda: NullDevice().traits.target).unsupported


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (T("x", SHAPE, dtype="int8"), "tensor 'x' is int8 without a scale, so that its integers stand for no real"),
        (
            T("x", SHAPE, dtype="int8", scales=[0.5] * 4, zero_points=[0] * 4, axis=3),
            "tensor 'x' is int8 with 4 scales; a computed tensor needs one",
        ),
        (T("x", SHAPE, dtype="int64"), "tensor 'x' is int64; the operator takes float32, and int8, uint8 and int16"),
    ],
)
def test_the_type_of_a_tensor_is_named_with_those_that_the_operator_takes(tensor: T, expected: str) -> None:
    assert reason("EXP", tensor, T("y", SHAPE)).startswith(expected)


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("RANDOM_UNIFORM", "the operator is not supported: it draws random numbers"),
        ("RNN", "the operator is not supported: it keeps a state between invokes"),
        ("L2_POOL_2D", "the operator is not supported"),
    ],
)
def test_an_operator_without_a_kernel_says_why(operator: str, expected: str) -> None:
    assert reason(operator, T("x", SHAPE), T("y", SHAPE)).startswith(expected)


def test_too_many_indices_are_refused() -> None:
    """Each value of the result looks at each index: half a million by as many values take too long."""
    count = 1 << 19
    tensors = [
        T("indices", (count, 1), dtype="int32"), T("values", (count,)), T("shape", (1,), [count], "int32"),
        T("y", (count,)),
    ]  # fmt: skip
    found = _reasons(build(G(tensors, [Op("SCATTER_ND", [0, 1, 2], [3])], [0, 1], [3])))
    assert found == {0: f"indices of shape ({count}, 1) are too many for a result of shape ({count},)"}


def test_indices_outside_a_tensor_are_refused() -> None:
    tensors = [T("x", (2, 3)), T("indices", (1, 2), np.array([[1, 3]]), "int32"), T("y", (1,))]
    found = _reasons(build(G(tensors, [Op("GATHER_ND", [0, 1], [2])], [0], [2])))
    assert found == {0: "tensor 'indices' has indices outside the shape (2, 3)"}


@pytest.mark.parametrize("scale", [0.5, 0.25])
def test_integers_of_another_scale_are_not_put_into_a_tensor(scale: float) -> None:
    """LiteRT copies the integers of the part as they are, whatever they stand for."""
    tensors = [
        T("x", (2, 5), dtype="int8", scales=[0.5], zero_points=[0]),
        T("part", (1, 5), dtype="int8", scales=[scale], zero_points=[0]), T("starts", (2,), [1, 0], "int32"),
        T("y", (2, 5), dtype="int8", scales=[0.5], zero_points=[0]),
    ]  # fmt: skip
    found = _reasons(build(G(tensors, [Op("DYNAMIC_UPDATE_SLICE", [0, 1, 2], [3])], [0, 1], [3])))
    assert found == (
        {} if scale == 0.5 else {0: "tensor 'part' does not have the scale of 'x', whose integers it replaces"}
    )


@pytest.mark.parametrize("axis", [2, 3])
def test_scales_along_another_dimension_than_the_channels_stay_on_the_cpu(axis: int) -> None:
    """LiteRT takes them for those of the output's channels all the same."""
    scales = {"scales": [0.5, 0.25, 0.125], "zero_points": [0] * 3}
    tensors = [
        T("x", (1, 4, 4, 3), dtype="int8", scales=[0.5], zero_points=[0]),
        T("w", (1, 3, 3, 3), np.ones((1, 3, 3, 3), np.int8), "int8", **scales, axis=axis),
        T("bias", (3,), np.zeros(3, np.int32), "int32", scales=[0.25, 0.125, 0.0625], zero_points=[0] * 3),
        T("y", (1, 4, 4, 3), dtype="int8", scales=[0.5], zero_points=[0]),
    ]
    given = options("DepthwiseConv2D", strideH=1, strideW=1, depthMultiplier=1)
    found = _reasons(build(G(tensors, [Op("DEPTHWISE_CONV_2D", [0, 1, 2], [3], given)], [0], [3])))
    expected = "the scales of its weights 'w' are those of dimension 2, and LiteRT's kernels read them as those of "
    assert found == ({} if axis == 3 else {0: f"{expected}dimension 3"})


@pytest.mark.parametrize("zero_points", [[0, 0], [0, 127]])
def test_weights_with_zero_points_by_channel_stay_on_the_cpu(zero_points: list[int]) -> None:
    """XNNPACK refuses them, and LiteRT's other kernels take them for 0: the result was off by 22 steps."""
    tensors = [
        T("x", (1, 2), dtype="int8", scales=[0.5], zero_points=[0]),
        T("w", (2, 2), np.ones((2, 2), np.int8), "int8", scales=[0.5, 0.25], zero_points=zero_points),
        T("y", (1, 2), dtype="int8", scales=[0.5], zero_points=[0]),
    ]
    found = _reasons(build(G(tensors, [Op("FULLY_CONNECTED", [0, 1, -1], [2], options("FullyConnected"))], [0], [2])))
    reason = "its weights 'w' have zero points by channel, which LiteRT's kernels take for 0"
    assert found == ({0: reason} if any(zero_points) else {})


@pytest.mark.parametrize(
    ("weight", "kind", "value", "fits"),
    [(0, "int32", 2**31 - 1, True), (1, "int32", 2**31 - 1, False), (1, "int32", 2**30, True),
     (1, "int64", 2**40, True), (1, "int64", -(2**60), False)],
)  # fmt: skip
def test_a_bias_that_makes_litert_s_sums_overflow_stays_on_the_cpu(
    weight: int, kind: str, value: int, fits: bool
) -> None:
    stored = {"dtype": "int8" if kind == "int32" else "int16", "scales": [0.5], "zero_points": [0]}
    tensors = [
        T("x", (1, 2, 2, 3), **stored),
        T("w", (2, 1, 1, 3), np.full((2, 1, 1, 3), weight, np.int8), "int8", scales=[0.5], zero_points=[0]),
        T("bias", (2,), np.array([0, value], kind), kind, scales=[0.25], zero_points=[0]),
        T("y", (1, 2, 2, 2), **stored),
    ]
    found = _reasons(
        build(G(tensors, [Op("CONV_2D", [0, 1, 2], [3], options("Conv2D", strideH=1, strideW=1))], [0], [3]))
    )
    assert found == ({} if fits else {0: "its bias 'bias' is so large that LiteRT's sums of integers overflow"})


def test_a_result_that_is_falsely_declared_float16_stays_on_the_cpu() -> None:
    expected = "tensor 'y' is declared float16, and LiteRT computes float32"
    assert reason("ABS", T("x", SHAPE), T("y", SHAPE, dtype="float16")) == expected


def test_four_coordinates_are_the_most_into_a_tensor_of_rank_5() -> None:
    tensors = [T("x", (2, 2, 2, 2, 3)), T("indices", (1, 4), [[1, 0, 1, 0]], "int32"), T("y", (1, 3))]
    found = _reasons(build(G(tensors, [Op("GATHER_ND", [0, 1], [2])], [0], [2])))
    assert found == {0: "an input of shape (2, 2, 2, 2, 3) has parts behind 4 coordinates"}


class Store:
    """A store of numbers, as an earlier process left it."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def known_number(self, what: str) -> int | None:
        return self.numbers.get(what)

    def keep_number(self, what: str, number: int) -> None:
        self.numbers[what] = number

    def find(self, key: str) -> bytes | None:
        """Find nothing: no test of this file compiles."""

    def reject(self, key: str) -> None:
        """Do nothing: no test of this file compiles."""

    def keep(self, key: str, binary: object) -> None:
        """Do nothing: no test of this file compiles."""


def test_operators_are_tried_on_the_device_once_for_all_processes() -> None:
    """A warm start takes it from the store that all can be lowered. What cannot is looked at anew, for its reason."""
    subgraph = read_model(build(G([T("x", SHAPE), T("y", SHAPE)], [Op("EXP", [0], [1])], [0], [1]))).subgraphs[0]
    enough = NullDevice().traits.target
    too_little, store = replace(enough, max_buffer_bytes=16), Store()
    for _ in range(2):
        refused = claim(subgraph, lambda: too_little, store=lambda: store).unsupported
        assert "takes 96 bytes; a buffer of" in refused[0] and not store.numbers
    assert claim(subgraph, lambda: enough, store=lambda: store).unsupported == {} and len(store.numbers) == 1
    assert claim(subgraph, lambda: too_little, store=lambda: store).unsupported == {}, "it was not tried again"
    assert claim(subgraph, lambda: too_little, store=lambda: store, number=1).unsupported, "it was another subgraph"
    assert claim(subgraph, lambda: too_little, store=lambda: store, shapes={0: (1, 4, 3, 4)}).unsupported
