"""Operators that mutants of models made wrong on the GPU: what LiteRT's kernels read otherwise stays on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ai_edge_litert.interpreter as litert
import numpy as np
import pytest

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.claim.pooled_places import divided
from framebind.delegate.read.reader import read_model
from framebind.interop.null.device import NullDevice
from framebind.kernels.ops.window import VALID, Window
from framebind.tools.certify.cases.operator_models import options
from framebind.video.tflite_writer import G, Op, T, build


def reasons(*subgraphs: G) -> Mapping[int, str]:
    """Why operators stay on the CPU."""
    return claim(read_model(build(*subgraphs)).subgraphs[0], lambda: NullDevice().traits.target).unsupported


def quantized(name: str, shape: tuple[int, ...], scale: float, dtype: str = "int8") -> T:
    return T(name, shape, dtype=dtype, scales=[scale], zero_points=[0])


def strided(**masks: int) -> Mapping[int, str]:
    tensors = [
        T("x", (2, 5, 6, 7)), T("begin", (4,), [0, 1, 2, 3], "int32"), T("end", (4,), [2, 4, 6, 6], "int32"),
        T("strides", (4,), [1, 1, 1, 1], "int32"), T("y", (2, 3, 4, 3)),
    ]  # fmt: skip
    return reasons(G(tensors, [Op("STRIDED_SLICE", [0, 1, 2, 3], [4], options("StridedSlice", **masks))], [0], [4]))


@pytest.mark.parametrize(
    ("masks", "expected"),
    [
        ({"ellipsisMask": 3}, "it has more than one ellipsis"),
        ({"ellipsisMask": -1}, "its ellipsis mask -1 has bits beyond its 4 ranges"),
        ({"newAxisMask": -1}, "its new axis mask -1 has bits beyond its 4 ranges"),
        ({"newAxisMask": 16}, "its new axis mask 16 has bits beyond its 4 ranges"),
    ],
)
def test_masks_of_slices_that_mean_nothing(masks: dict[str, int], expected: str) -> None:
    assert strided(**masks) == {0: expected}


def test_a_softmax_without_options() -> None:
    assert reasons(G([T("x", (2, 3)), T("y", (2, 3))], [Op("SOFTMAX", [0], [1])], [0], [1])) == {
        0: "it has no options, and LiteRT takes 0 for its beta"
    }


@pytest.mark.parametrize("alpha", [float("nan"), float("inf"), float("-inf")])
def test_a_slope_of_integers_that_is_no_number(alpha: float) -> None:
    tensors = [quantized("x", (2, 3), 0.5), quantized("y", (2, 3), 0.5)]
    found = reasons(G(tensors, [Op("LEAKY_RELU", [0], [1], options("LeakyRelu", alpha=alpha))], [0], [1]))
    assert found == {0: f"its alpha is {alpha}, which is not finite"}


def test_a_concatenation_with_an_activation_function() -> None:
    tensors = [T("x", (2, 3)), T("y", (2, 6))]
    given = options("Concatenation", axis=1, fusedActivationFunction=1)
    found = reasons(G(tensors, [Op("CONCATENATION", [0, 0], [1], given)], [0], [1]))
    assert found[0].startswith("it has a fused activation function, which some of LiteRT's kernels refuse")


@pytest.mark.parametrize("declared", ["float32", "float16"])
def test_a_move_whose_output_is_declared_of_another_type(declared: str) -> None:
    """LiteRT gives the output the type of the input."""
    tensors = [T("x", (3, 5), dtype="bool"), T("axis", (), 1, "int32"), T("y", (3, 1, 5), dtype=declared)]
    found = reasons(G(tensors, [Op("EXPAND_DIMS", [0, 1], [2])], [0], [2]))
    assert found[0].startswith("tensor 'x' is bool")


def test_a_mean_of_another_scale() -> None:
    given = options("Pool2D", filterWidth=2, filterHeight=2, strideW=1, strideH=1)
    for scale, expected in ((0.5, {}), (0.25, {0: "its output 'y' has another scale than its input"})):
        tensors = [quantized("x", (1, 2, 2, 3), 0.5), quantized("y", (1, 2, 2, 3), scale)]
        found = reasons(G(tensors, [Op("AVERAGE_POOL_2D", [0], [1], given)], [0], [1]))
        assert {number: reason.partition(",")[0] for number, reason in found.items()} == expected


def test_a_move_to_another_scale() -> None:
    tensors = [
        quantized("x", (1, 2, 2, 3), 0.5), T("size", (2,), [4, 4], "int32"), quantized("y", (1, 4, 4, 3), 0.25)
    ]  # fmt: skip
    found = reasons(
        G(tensors, [Op("RESIZE_NEAREST_NEIGHBOR", [0, 1], [2], options("ResizeNearestNeighbor"))], [0], [2])
    )
    assert found == {0: "its output 'y' has another scale than its input, and LiteRT's kernel copies the integers"}


@pytest.mark.parametrize(
    ("scale", "zero_point", "value", "expected"),
    [
        (0.125, 0, 7, ""),
        (0.125 * 1.001, 0, 7, ""),
        (0.25, 0, 7, "its bias 'bias' has another scale than its input times its weights, or a zero point"),
        (0.125, 3, 7, "its bias 'bias' has another scale than its input times its weights, or a zero point"),
        (0.25, 0, 0, ""),
        (0.25, 3, 0, "its bias 'bias' has another scale than its input times its weights, or a zero point"),
        (0.125, 0, 1 << 50, "its bias 'bias' is so large that LiteRT's sums of integers overflow"),
    ],
)
def test_a_bias_is_integers_to_litert(scale: float, zero_point: int, value: int, expected: str) -> None:
    tensors = [
        quantized("x", (2, 4), 0.5, "int16"),
        T("w", (3, 4), np.ones((3, 4), np.int8), "int8", scales=[0.25], zero_points=[0]),
        T("bias", (3,), np.full(3, value), "int64", scales=[scale], zero_points=[zero_point]),
        quantized("y", (2, 3), 0.5, "int16"),
    ]
    given = options("FullyConnected", keepNumDims=True)
    found = reasons(G(tensors, [Op("FULLY_CONNECTED", [0, 1, 2], [3], given)], [0], [3]))
    assert found.get(0, "").startswith(expected) and bool(found) == bool(expected)


# A window beyond the input: a GPU would loop over it until its driver resets it ---------------------------------------


@pytest.mark.parametrize("size", [1, 3, 5, 7, 100, 2**31 - 1])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("stride", [1, 2, 5])
def test_a_clipped_window_sees_the_same_pixels(size: int, padding: int, stride: int) -> None:
    window = Window((size, 2), (stride, 1), padding=padding)
    if padding == VALID and size > 7:
        with pytest.raises(ValueError, match="does not fit"):
            window.clipped(7, 9)
        return
    whole, clipped = window.constants(7, 9), window.clipped(7, 9)
    assert int(clipped["KERNEL_H"]) <= min(size, 7 + stride * (window.output_size(7, 9)[0] - 1))

    def seen(constants: dict[str, Any], row: int) -> list[int]:
        first = row * stride - constants["PAD_TOP"]
        return list(range(max(first, 0), min(first + constants["KERNEL_H"], 7)))

    for row in range(window.output_size(7, 9)[0]):
        assert seen(whole, row) == seen(clipped, row)


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize("operator", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_a_window_of_two_thousand_million_pixels_is_pooled(operator: str) -> None:
    given = options("Pool2D", filterWidth=2**31 - 1, filterHeight=3, strideW=2, strideH=1)
    tensors = [T("x", (3, 1, 4, 2)), T("y", (3, 1, 2, 2))]
    model = build(G(tensors, [Op(operator, [0], [1], given)], [0], [1]))
    values = np.random.default_rng(0).normal(size=(3, 1, 4, 2)).astype(np.float32)
    interpreter = fb.Interpreter(model_content=model)
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl")))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, values)
    interpreter.invoke()
    whole = values.mean(axis=2, keepdims=True) if operator == "AVERAGE_POOL_2D" else values.max(axis=2, keepdims=True)
    np.testing.assert_allclose(interpreter.get_tensor(1), np.repeat(whole, 2, axis=2), rtol=1e-3)


def test_a_slope_at_which_integers_overflow() -> None:
    tensors = [quantized("x", (2, 3), 0.5), quantized("y", (2, 3), 0.25)]
    for alpha, expected in ((8000.0, {}), (1e38, {0: "its alpha is 1e+38, at which LiteRT's integers overflow"})):
        graph = G(tensors, [Op("LEAKY_RELU", [0], [1], options("LeakyRelu", alpha=alpha))], [0], [1])
        assert reasons(graph) == expected


@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool"])
@pytest.mark.parametrize("operator", ["MEAN", "REVERSE_V2", "FILL", "TOPK_V2"])
def test_axes_and_sizes_that_are_no_integers_of_32_bits(operator: str, dtype: str) -> None:
    """LiteRT refuses such a model. A constant string was read as one size for each of its bytes."""
    x, index = T("x", (1, 1)), T("index", (1,), [0], dtype)
    graphs = {
        "MEAN": G([x, index, T("y", (1, 1))], [Op("MEAN", [0, 1], [2], options("Reducer", keepDims=True))], [0], [2]),
        "REVERSE_V2": G([x, index, T("y", (1, 1))], [Op("REVERSE_V2", [0, 1], [2])], [0], [2]),
        "FILL": G([index, T("value", (), 1.5), T("y", (1,))], [Op("FILL", [0, 1], [2])], [], [2]),
        "TOPK_V2": G(
            [x, T("k", (), 1, dtype), T("y", (1, 1)), T("place", (1, 1), dtype="int32")],
            [Op("TOPK_V2", [0, 1], [2, 3])], [0], [2, 3],
        ),
    }  # fmt: skip
    (reason,) = reasons(graphs[operator]).values()
    assert f"is {dtype}; only " in reason


@pytest.mark.parametrize("operator", ["MaxPoolingWithArgmax2D", "MaxUnpooling2D"])
def test_a_pooling_without_indices(operator: str) -> None:
    graph = G([T("x", (1, 4, 4, 1)), T("y", (1, 2, 2, 1))], [Op(operator, [0], [1], bytes(24))], [0], [1])
    assert list(reasons(graph)) == [0]
    assert divided([], read_model(build(graph)).subgraphs[0]) == {}


@pytest.mark.parametrize(
    ("shape", "new_shape", "expected"),
    [
        (None, [], "(2, 3) cannot be reshaped to ()"),
        (None, [0], "(2, 3) cannot be reshaped to ()"),
        (None, [3, 2], None),
        (T("s", (2,), [3, 2], "int32"), [], None),
        (T("s", (2,), [3, 2], "int64"), [], "(2, 3) cannot be reshaped to ()"),
        (T("s", (2,), [5, 5], "int64"), [3, 2], None),
        (T("s", (1,), [0], "int32"), [3, 2], "(2, 3) cannot be reshaped to (0,)"),
    ],
)
def test_a_reshape_takes_the_shape_that_litert_takes(
    shape: T | None, new_shape: list[int], expected: str | None
) -> None:
    """The shape of the output in the file counts for nothing: LiteRT refuses what cannot be reshaped."""
    tensors = [T("x", (2, 3)), T("y", (3, 2)), *([shape] if shape else [])]
    operator = Op("RESHAPE", [0, 2] if shape else [0], [1], options("Reshape", newShape=new_shape))
    graph = G(tensors, [operator], [0], [1])
    assert reasons(graph) == ({0: expected} if expected else {})
    interpreter: Any = litert.Interpreter(model_content=build(graph))
    if expected is None:
        interpreter.allocate_tensors()
        assert tuple(interpreter.get_output_details()[0]["shape"]) == (3, 2)
    else:
        with pytest.raises(RuntimeError):
            interpreter.allocate_tensors()


def test_a_transposed_convolution_with_other_channels_than_its_weights() -> None:
    tensors = [
        T("shape", (4,), [1, 4, 5, 7], "int32"), T("w", (5, 1, 1, 1), 0.5), T("x", (1, 4, 5, 1)), T("y", (1, 4, 5, 5)),
    ]  # fmt: skip
    given = options("TransposeConv", strideH=1, strideW=1)
    found = reasons(G(tensors, [Op("TRANSPOSE_CONV", [0, 1, 2], [3], given)], [2], [3]))
    assert found == {0: "its output shape has 7 channels, and its weights have 5"}


@pytest.mark.parametrize("operator", ["MAXIMUM", "MINIMUM"])
def test_a_choice_among_integers_of_other_scales(operator: str) -> None:
    """LiteRT's kernels compare the integers, whatever they stand for."""
    for scale, expected in ((0.5, {}), (0.25, {0: "its tensors 'b' and 'y' differ in their scale"})):
        tensors = [quantized("a", (2, 3), 0.5), quantized("b", (2, 3), scale), quantized("y", (2, 3), 0.5)]
        assert reasons(G(tensors, [Op(operator, [0, 1], [2])], [0, 1], [2])) == expected
