"""CONV_3D and CONV_3D_TRANSPOSE with constant weights. Tensors have rank 5; for the kernel each plane is a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...operation import Collapsed, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import TensorInfo
from ..arguments import (
    INFINITE_SUMS,
    activation_epilogue,
    computed_bias,
    constant,
    index_constant,
    optional_bias,
    require_float,
)
from ..window import SAME, VALID
from .packing import pack_bias, pack_weights

Sizes = tuple[int, int, int]
"""Depth, height and width."""


@dataclass(frozen=True)
class Convolution3D(Operation):
    """``weights`` is (D, H, W, I, O) and ``bias`` (O,) or None; strides and dilations are of depth, height and width.

    ``size`` is the output's depth, height and width if the convolution is transposed, else None.
    """

    strides: Sizes
    dilations: Sizes
    padding: int
    size: Sizes | None
    weights: np.ndarray = field(compare=False)
    bias: np.ndarray | None = field(compare=False, default=None)

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        batch, *sizes, _ = shapes[0]
        places = [self._place(axis, size) for axis, size in enumerate(sizes)]
        return [(batch, *(size for size, _ in places), self.weights.shape[4])]

    def _place(self, axis: int, size: int) -> tuple[int, int]:
        """The output's size along an axis (0 to 2), and the padding before its first plane, row or column."""
        wide = size if self.size is None else self.size[axis]
        stride, reach = self.strides[axis], (self.weights.shape[axis] - 1) * self.dilations[axis] + 1
        count = -(-wide // stride) if self.padding == SAME else (wide - reach) // stride + 1
        if count < 1 or (self.size is not None and count != size):
            raise ValueError(f"a window of {reach} with stride {stride} does not make {count} of {wide} along {axis}")
        return (count if self.size is None else wide), max(0, (count - 1) * stride + reach - wide) // 2

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        """A convolution of pictures: the planes of all volumes, one after the other."""
        pictures = [(shape[0] * shape[1], *shape[2:]) for shape in (shapes[0], self.output_shapes(shapes)[0])]
        return [Collapsed(ConvolutionOfPlanes(self, shapes[0][1]), (pictures[0],), (pictures[1],))]

    def lower(self, lowering: Lowering) -> list[Launch]:
        raise NotImplementedError("it is lowered as a convolution of planes")

    def constants(self, shape: tuple[int, ...]) -> dict[str, int | float]:
        """The constants by which the kernel knows the window, for an input of this shape of rank 5."""
        constants: dict[str, int | float] = {"TRANSPOSED": int(self.size is not None), "SRC_DEPTH": shape[1]}
        for axis, (name, kernel, pad) in enumerate(
            (("Z", "KERNEL_D", "PAD_FRONT"), ("Y", "KERNEL_H", "PAD_TOP"), ("X", "KERNEL_W", "PAD_LEFT"))
        ):
            size, before = self._place(axis, shape[1 + axis])
            constants |= {
                f"STRIDE_{name}": self.strides[axis], f"DILATION_{name}": self.dilations[axis],
                kernel: self.weights.shape[axis], pad: before,
            }  # fmt: skip
            if name == "Z":
                constants["DST_DEPTH"] = size
        return constants


@dataclass(frozen=True)
class ConvolutionOfPlanes(Operation):
    """A 3-D convolution of volumes of ``depth`` planes, each of which is a picture of the batch."""

    convolution: Convolution3D
    depth: int

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        (volume,) = self.convolution.output_shapes([self._volume(shapes[0])])
        return [(volume[0] * volume[1], *volume[2:])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """One dispatch, one invocation for each slice of each output value."""
        source, destination = lowering.inputs[0], lowering.outputs[0]
        weights, bias = self.convolution.weights, self.convolution.bias
        depth, height, width, share, out = weights.shape
        rows = weights.transpose(4, 0, 1, 2, 3).reshape(out, depth * height, width, share)
        arrays = {"weights": pack_weights(rows), "bias": pack_bias(bias, out)}
        constants = self.convolution.constants(self._volume(lowering.shape(source)))
        groups = lowering.groups_for(destination)
        return [Launch("conv_3d", {"src": source}, {"dst": destination}, groups, constants, arrays)]

    def _volume(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0] // self.depth, self.depth, *shape[1:])


def _checked(options: Any, source: TensorInfo | None, channels: int) -> tuple[Sizes, Sizes]:
    """Strides and dilations. Raises Unsupported unless they, and the input, are valid."""
    strides = (options.StrideD(), options.StrideH(), options.StrideW())
    dilations = (options.DilationDFactor(), options.DilationHFactor(), options.DilationWFactor())
    if min(*strides, *dilations) < 1:
        raise Unsupported(f"strides {strides} and dilations {dilations} must be positive")
    if options.Padding() not in (SAME, VALID):
        raise Unsupported(f"padding scheme {options.Padding()} must be SAME or VALID")
    if source is None or len(source.shape) != 5 or source.shape[4] != channels:
        raise Unsupported(f"input must have rank 5 and {channels} channels, as its weights have")
    return strides, dilations


def _weights(tensor: TensorInfo | None) -> np.ndarray:
    weights = constant(tensor, "weights")
    if weights.ndim != 5:
        raise Unsupported(f"weights of shape {weights.shape} must have rank 5")
    return weights


def _parse(node: TfliteNode) -> Parsed:
    require_float(*node.inputs, *node.outputs)
    weights = _weights(node.inputs[1])
    strides, dilations = _checked(node.options, node.inputs[0], weights.shape[3])
    out, activation = weights.shape[4], activation_epilogue(node.options.FusedActivationFunction())
    bias = optional_bias(node.inputs, out)
    operation = Convolution3D(strides, dilations, node.options.Padding(), None, weights, bias)
    return Parsed(operation, (0,), (*computed_bias(node.inputs, out), *activation))


def _parse_transposed(node: TfliteNode) -> Parsed:
    require_float(*node.inputs[1:], *node.outputs)
    shape, weights = index_constant(node.inputs[0], "output shape").reshape(-1), _weights(node.inputs[1])
    strides, dilations = _checked(node.options, node.inputs[2], weights.shape[4])
    if dilations != (1, 1, 1) or shape.size != 5:
        raise Unsupported(f"dilations {dilations} must be 1, and its output shape {shape.tolist()} of rank 5")
    if node.inputs[2] is None or shape[0] != node.inputs[2].shape[0]:
        raise Unsupported(f"its output shape {shape.tolist()} must have the batch size of its input")
    size = (int(shape[1]), int(shape[2]), int(shape[3]))
    out, activation = weights.shape[3], activation_epilogue(node.options.FusedActivationFunction())
    bias = optional_bias([None, None, *node.inputs[3:4]], out)
    swapped = weights.transpose(0, 1, 2, 4, 3)
    operation = Convolution3D(strides, dilations, node.options.Padding(), size, swapped, bias)
    return Parsed(operation, (2,), (*computed_bias(node.inputs, out, position=3), *activation))


TFLITE = (
    TfliteOp("CONV_3D", _parse, max_version=1, inputs=2, optional=(2,), max_rank=5, unlike_litert=INFINITE_SUMS),
    TfliteOp(
        "CONV_3D_TRANSPOSE", _parse_transposed, max_version=1, inputs=3, optional=(3,), max_rank=5,
        unlike_litert=INFINITE_SUMS, results=(2,),
    ),
)  # fmt: skip
