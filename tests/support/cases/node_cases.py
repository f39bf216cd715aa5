"""Cases of single nodes with NumPy references: convolutions, and what no TFLite model of one operator shows LiteRT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from framebind.kernels.operation import FusedOp, Operation
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.depthwise import Depthwise
from framebind.kernels.ops.convolution.fully_connected import FullyConnected
from framebind.kernels.ops.convolution.grouped_conv import GroupedConvolution
from framebind.kernels.ops.convolution.transpose_conv import TransposeConvolution
from framebind.kernels.ops.indexing.bilinear_samples import BilinearSamples
from framebind.kernels.ops.pointwise.elementwise import Elementwise
from framebind.kernels.ops.reduction.instance_norm import InstanceNorm
from framebind.kernels.ops.reduction.layer_norm import LayerNorm
from framebind.kernels.ops.window import SAME, VALID, Window
from framebind.tools.certify.cases.operator_models import Array, values
from support.cases.references import (
    bilinear_samples,
    convolve,
    depthwise,
    instance_norm,
    layer_norm,
    transpose_convolve,
)


@dataclass(frozen=True)
class NodeCase:
    """An operator with its operation, its inputs, and what NumPy says comes out (float64 inside)."""

    label: str
    operator: str
    operation: Operation
    inputs: tuple[Array, ...]
    expected: Callable[..., npt.NDArray[np.floating]]
    epilogue: tuple[FusedOp, ...] = ()


def convolution_cases() -> list[NodeCase]:
    cases = []
    for label, shape, out, window in [
        ("1x1", (1, 4, 5, 5), 13, Window((1, 1), (1, 1))),
        ("3x3 same stride 2", (1, 9, 8, 3), 6, Window((3, 3), (2, 2))),
        ("3x3 valid dilated", (2, 9, 9, 4), 3, Window((3, 3), (1, 1), (2, 2), VALID)),
        ("5x3 same", (1, 7, 6, 1), 4, Window((5, 3), (1, 2))),
        (
            "reflecting border",
            (1, 6, 7, 5),
            5,
            Window((3, 3), (1, 1), padding=VALID, extra=(1, 1, 1, 1), mode="reflect"),
        ),
        ("nothing to reflect", (1, 4, 5, 5), 13, Window((1, 1), (1, 1), mode="reflect")),
        ("merged zero border", (1, 6, 7, 3), 5, Window((3, 3), (2, 2), padding=VALID, extra=(1, 0, 0, 1))),
        ("blocks of pixels", (1, 96, 97, 3), 32, Window((3, 3), (1, 1))),
    ]:
        operation = Convolution(window, values(out, *window.size, shape[3]), values(out) if out % 2 else None)
        cases.append(NodeCase(label, "CONV_2D", operation, (values(*shape),), convolve(operation)))
    for label, channels, multiplier, window in [
        ("3x3", 5, 1, Window((3, 3), (1, 1))),
        ("5x5 stride 2", 13, 1, Window((5, 5), (2, 2))),
        ("dilated", 8, 1, Window((3, 3), (1, 1), (4, 4))),
        ("multiplier 3", 5, 3, Window((3, 3), (2, 1), padding=VALID)),
        ("one to eight channels", 1, 8, Window((3, 3), (1, 1))),
        ("reflecting border", 4, 1, Window((3, 3), (1, 1), padding=VALID, extra=(1, 1, 1, 1), mode="reflect")),
    ]:
        weights = values(1, *window.size, channels * multiplier)
        operation = Depthwise(window, multiplier, weights, values(channels * multiplier))
        cases.append(
            NodeCase(label, "DEPTHWISE_CONV_2D", operation, (values(2, 9, 10, channels),), depthwise(operation))
        )
    for label, kernel, strides, padding in [("2x2", 2, 2, SAME), ("3x3", 3, 2, SAME), ("4x4 valid", 4, 3, VALID)]:
        operation = TransposeConvolution((strides, strides), padding, None, values(3, kernel, kernel, 5), values(3))
        cases.append(
            NodeCase(
                label, "Convolution2DTransposeBias", operation, (values(1, 4, 5, 5),), transpose_convolve(operation)
            )
        )
    sized = TransposeConvolution((2, 2), SAME, (7, 9), values(6, 3, 3, 2), None)
    cases.append(NodeCase("given size", "TRANSPOSE_CONV", sized, (values(2, 4, 5, 2),), transpose_convolve(sized)))
    return cases


def without_oracle() -> list[NodeCase]:
    """Cases that no model of a single operator shows LiteRT: merged borders, custom operators, INSTANCE_NORM, and
    epilogues of several operations.
    """
    labels = ("reflecting border", "nothing to reflect", "merged zero border", "blocks of pixels")
    merged = [case for case in convolution_cases() if case.label in labels]
    custom = [case for case in convolution_cases() if case.operator == "Convolution2DTransposeBias"]
    return [*merged, *reflecting_cases(), *custom, *normalization_cases(), *epilogue_cases(), *sample_cases()]


def reflecting_cases() -> list[NodeCase]:
    """MIRROR_PAD merged into the kernels of convolutions of few channels and of groups."""
    window = Window((3, 3), (1, 1), padding=VALID, extra=(1, 1, 1, 1), mode="reflect")
    few = Convolution(window, values(5, 3, 3, 3), values(5))
    grouped = GroupedConvolution(window, values(8, 3, 3, 4), values(8), groups=2)
    # The same without groups: each group's outputs have zeros for the other group's inputs.
    full = np.zeros((8, 3, 3, 8), np.float32)
    full[:4, ..., :4], full[4:, ..., 4:] = grouped.weights[:4], grouped.weights[4:]
    return [
        NodeCase("reflecting border, few channels", "CONV_2D", few, (values(2, 6, 7, 3),), convolve(few)),
        NodeCase(
            "reflecting border, groups", "CONV_2D", grouped, (values(2, 6, 7, 8),),
            convolve(Convolution(window, full, grouped.bias)),
        ),
    ]  # fmt: skip


def normalization_cases() -> list[NodeCase]:
    x, gamma, beta = values(2, 9, 31, 5) + 3, values(2, 1, 1, 5, seed=1), values(2, 1, 1, 5, seed=2)
    large = (values(1, 60, 50, 8), values(1, 1, 1, 8), values(1, 1, 1, 8))
    return [
        NodeCase("large mean", "INSTANCE_NORM", InstanceNorm(1e-5), (x + 100, gamma, beta), instance_norm(1e-5)),
        NodeCase("many pixels", "INSTANCE_NORM", InstanceNorm(1e-3), large, instance_norm(1e-3)),
        *(
            NodeCase(
                f"{shape} {centred}",
                "LAYER_NORM",
                LayerNorm(1e-3, centred),
                (values(*shape) + 2,),
                layer_norm(1e-3, centred),
            )
            for shape, centred in (((2, 3, 5, 13), True), ((1, 1, 7, 300), True), ((3, 6, 5, 8), False))
        ),
    ]


def sample_cases() -> list[NodeCase]:
    picture, places = values(2, 3, 5, 7), [values(2, 3, 4, 6, seed=seed) * 3 + 2 for seed in (1, 2)]
    return [NodeCase("some outside", "BILINEAR_SAMPLES", BilinearSamples(), (picture, *places), bilinear_samples)]


def epilogue_cases() -> list[NodeCase]:
    x, channels, other = values(1, 3, 4, 5), values(1, 1, 1, 5), values(1, 3, 4, 5, seed=3)
    return [
        NodeCase(
            "quarters", "QUANTIZE", Elementwise(), (x,),
            lambda v: np.clip(np.rint(v / np.float64(0.25)), -3, 2) * 0.25,
            (FusedOp("QUANTIZE", values=(0.25, -3, 2)),),
        ),
        NodeCase(
            "numbers of steps", "ADD", Elementwise(), (x, other),
            lambda v, w: np.clip(np.rint(np.clip(np.rint(v / 0.25), -3, 2) + w * 1.5), -5, 4) * 0.5,
            (
                FusedOp("TO_STEPS", values=(0.25, -3, 2)), FusedOp("ADD_STEPS", 1, values=(1.5,)),
                FusedOp("STEPS", values=(-5, 4, 0.5)),
            ),
        ),
        NodeCase(
            "swapped", "SUB", Elementwise(), (x, channels), lambda v, w: w - v, (FusedOp("SUB", 1, swapped=True),)
        ),
        NodeCase("cube root", "STABLEHLO_CBRT", Elementwise(), (x,), np.cbrt, (FusedOp("CBRT"),)),
        NodeCase(
            "rest", "STABLEHLO_REMAINDER", Elementwise(), (x, other + 2), np.fmod, (FusedOp("REMAINDER", 1),)
        ),
        NodeCase("smaller value", "ADD", Elementwise(), (values(1, 1, 1, 1), x), np.add, (FusedOp("ADD", 1),)),
        NodeCase(
            "chain", "ADD", Elementwise(), (x, other), lambda v, w: np.clip(v + w, 0, 6) * w,
            (FusedOp("ADD", 1), FusedOp("RELU6"), FusedOp("MUL", 1)),
        ),
    ]  # fmt: skip


def fully_connected_cases() -> list[NodeCase]:
    weights, bias = values(7, 13), values(7)
    dense, flat = FullyConnected(weights, bias), FullyConnected(values(5, 2 * 3 * 5), None)
    kept = FullyConnected(weights, bias, keep_dimensions=True)

    def flattened(x: Array) -> npt.NDArray:
        return x.reshape(2, -1) @ flat.weights.T

    return [
        NodeCase("vector", "FULLY_CONNECTED", dense, (values(3, 13),), lambda x: x @ weights.T + bias),
        NodeCase("flattened", "FULLY_CONNECTED", flat, (values(2, 2, 3, 5),), flattened),
        NodeCase("kept dimensions", "FULLY_CONNECTED", kept, (values(1, 4, 13),), lambda x: x @ weights.T + bias),
    ]
