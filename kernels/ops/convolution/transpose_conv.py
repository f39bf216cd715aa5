"""TRANSPOSE_CONV, and MediaPipe's custom operator Convolution2DTransposeBias."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import TensorInfo, slices
from ..arguments import (
    activation_epilogue,
    bias_epilogue,
    computed_bias,
    constant,
    optional_bias,
    require_float,
    shape_constant,
)
from ..window import SAME, VALID, Window
from .computed_conv import ComputedTranspose, cut_before
from .fma_conv import fma_choice, launch_fma_tiles
from .heuristics import FMA_LEAST_TRANSPOSED, TILED_LEAST_TRANSPOSED
from .packing import pack_bias, pack_weights, pairs_of_bytes
from .tiled_conv import Grid, launch_tiles, tile_choice
from .warpgroup_choice import warpgroup_choice
from .warpgroup_conv import launch_warpgroups


@dataclass(frozen=True)
class TransposeConvolution(Operation):
    """``weights`` is (O, H, W, I). ``size`` is the output's (height, width). None: it follows from the input's size.

    ``scales``, ``integer_weights`` and ``by_bytes`` are those of Convolution.
    """

    strides: tuple[int, int]
    padding: int
    size: tuple[int, int] | None
    weights: np.ndarray = field(compare=False)
    bias: np.ndarray | None = field(compare=False, default=None)
    scales: tuple[float, ...] = ()
    integer_weights: bool = False
    by_bytes: bool = False

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        if self.size:
            return self.size
        if self.padding == SAME:
            return height * self.strides[0], width * self.strides[1]
        kernel = self.weights.shape[1:3]
        return (height - 1) * self.strides[0] + kernel[0], (width - 1) * self.strides[1] + kernel[1]

    def padding_before(self, size: tuple[int, int], output: tuple[int, int]) -> tuple[int, int]:
        """The output pixels that are cut off at the top and left: the padding of the forward convolution."""
        return cut_before(size, output, self.strides, (self.weights.shape[1], self.weights.shape[2]))

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        batch, height, width, _ = shapes[0]
        return [(batch, *self.output_size(height, width), self.weights.shape[0])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        _, height, width, _ = lowering.shape(lowering.inputs[0])
        _, rows, columns, channels = lowering.shape(lowering.outputs[0])
        top, left = self.padding_before((height, width), (rows, columns))
        window, grid = self._forward(lowering, (top, left))
        tiled = self._tiled(lowering, window, grid)
        if tiled is not None:
            return [replace(tiled, halves=self._by_warpgroups(lowering, window, grid))]
        constants: dict[str, int | float] = {
            "KERNEL_H": self.weights.shape[1], "KERNEL_W": self.weights.shape[2],
            "STRIDE_Y": self.strides[0], "STRIDE_X": self.strides[1], "PAD_TOP": top, "PAD_LEFT": left,
        }  # fmt: skip
        arrays = {"weights": pack_weights(self.weights), "bias": pack_bias(self.bias, channels)}
        group_count = lowering.groups_for(lowering.outputs[0])
        reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
        return [Launch("transpose_conv", reads, writes, group_count, constants, arrays)]

    def _forward(self, lowering: Lowering, cut: tuple[int, int]) -> tuple[Window, Grid]:
        """The convolution whose channels are those of strides[0] * strides[1] neighbouring output pixels.

        The pixels y * strides[0] + i of the output, before the first ``cut`` are left out, read the input pixels y - j
        by the rows i + j * strides[0] of the window.
        """
        (_, height, width, _), (_, rows, columns, channels) = (
            lowering.shape(tensor) for tensor in (lowering.inputs[0], lowering.outputs[0])
        )
        (up, across), (kernel_rows, kernel_columns) = self.strides, self.weights.shape[1:3]
        taps = -(-kernel_rows // up), -(-kernel_columns // across)
        size = (rows - 1 + cut[0]) // up + 1, (columns - 1 + cut[1]) // across + 1
        before = taps[0] - 1, taps[1] - 1
        extra = before[0], size[0] - height, before[1], size[1] - width
        grid = Grid(size, up * across * slices(channels), self.strides, cut)
        return Window(taps, (1, 1), padding=VALID, extra=extra), grid

    def _forward_weights(self, taps: tuple[int, int]) -> np.ndarray:
        """The weights of that convolution, OHWI."""
        (up, across), (channels, kernel_rows, kernel_columns, depth) = self.strides, self.weights.shape
        parts = slices(channels)
        padded = np.zeros((4 * parts, taps[0] * up, taps[1] * across, depth), self.weights.dtype)
        padded[:channels, :kernel_rows, :kernel_columns] = self.weights
        apart = padded.reshape(4 * parts, taps[0], up, taps[1], across, depth)[:, ::-1, :, ::-1]
        numbers = apart.transpose(2, 4, 0, 1, 3, 5).reshape(4 * parts * up * across, *taps, depth)
        return pairs_of_bytes(numbers) if self.by_bytes else numbers

    def _tiled(self, lowering: Lowering, window: Window, grid: Grid) -> Launch | None:
        """One dispatch by tiles in local memory; None if there is too little work, or if too many of its products would
        be with zeros.
        """
        if math.prod(self.strides) * math.prod(window.size) > 2 * math.prod(self.weights.shape[1:3]):
            return None
        source, by_bytes = lowering.inputs[0], self.by_bytes
        weights, bias = partial(self._forward_weights, window.size), pack_bias(self.bias, self.weights.shape[0])
        choice = tile_choice(lowering, source, window, grid, TILED_LEAST_TRANSPOSED, as_bytes=by_bytes)
        if choice is not None:
            return launch_tiles(lowering, source, window, grid, weights, bias, choice, as_bytes=by_bytes)
        plain = fma_choice(lowering, source, window, grid, FMA_LEAST_TRANSPOSED)
        if plain is not None:
            return launch_fma_tiles(lowering, source, window, grid, weights, bias, plain)
        return None

    def _by_warpgroups(self, lowering: Lowering, window: Window, grid: Grid) -> tuple[Launch, ...]:
        """One dispatch by warpgroups for halves, if the device has them and they are faster."""
        choice = warpgroup_choice(lowering, lowering.inputs[0], window, grid)
        if choice is None or self.by_bytes:
            return ()
        weights, bias = partial(self._forward_weights, window.size), pack_bias(self.bias, self.weights.shape[0])
        return launch_warpgroups(lowering, lowering.inputs[0], window, grid, weights, bias, choice)


def _checked(strides: tuple[int, int], padding: int, source: TensorInfo | None, weights: tuple[int, ...]) -> None:
    if min(strides) < 1:
        raise Unsupported(f"strides {strides} must be positive")
    if padding not in (SAME, VALID):
        raise Unsupported(f"padding scheme {padding} must be SAME or VALID")
    if source is None or len(source.shape) != 4 or len(weights) != 4 or weights[3] != source.shape[3]:
        raise Unsupported("input and weights must have rank 4 and the same number of input channels")


def _check_size(source: TensorInfo | None, output: list[int], window: Window) -> None:
    """Raise Unsupported unless the forward convolution of the constant output shape gives the size of the input.

    The batch is that of the input, and the constant's batch is ignored: LiteRT, which runs the operator by XNNPACK,
    does the same.
    """
    forward = window.output_size(output[1], output[2]) if len(output) == 4 else ()
    if source is None or source.shape[1:3] != forward:
        raise Unsupported(
            f"its output shape {output} is not that of an input of shape {source.shape if source else ()}"
        )


def _parse(node: TfliteNode) -> Parsed:
    require_float(*node.inputs[1:], *node.outputs)
    shape, weights = shape_constant(node.inputs[0], "output shape").reshape(-1), node.inputs[1]
    if weights is None:
        raise Unsupported("it needs weights")
    strides = node.options.StrideH(), node.options.StrideW()
    _checked(strides, node.options.Padding(), node.inputs[2], weights.shape)
    size, channels = (int(shape[1]), int(shape[2])), weights.shape[0]
    _check_size(
        node.inputs[2],
        shape.tolist(),
        Window((weights.shape[1], weights.shape[2]), strides, padding=node.options.Padding()),
    )
    if int(shape[3]) != channels:
        raise Unsupported(f"its output shape has {shape[3]} channels, and its weights have {channels}")
    activation = activation_epilogue(getattr(node.options, "FusedActivationFunction", lambda: 0)())
    if weights.constant is None:
        operation = ComputedTranspose((weights.shape[1], weights.shape[2]), strides, size, channels)
        return Parsed(operation, (2, 1), (*bias_epilogue(node.inputs, channels, position=3), *activation))
    bias = optional_bias([None, None, *node.inputs[3:4]], channels)
    operation = TransposeConvolution(strides, node.options.Padding(), size, weights.constant, bias, weights.scales)
    return Parsed(operation, (2,), (*computed_bias(node.inputs, channels, position=3), *activation))


def _parse_custom(node: TfliteNode) -> Parsed:
    require_float(*node.inputs, *node.outputs)
    if not isinstance(node.options, bytes | bytearray | memoryview | np.ndarray) or len(node.options) < 12:
        raise Unsupported("its options are not TfLiteTransposeConvParams")
    scheme, stride_width, stride_height = struct.unpack_from("<iii", bytes(node.options))
    weights = constant(node.inputs[1], "weights")
    # TfLitePadding counts from 1: kTfLitePaddingSame, kTfLitePaddingValid.
    _checked((stride_height, stride_width), scheme - 1, node.inputs[0], weights.shape)
    operation = TransposeConvolution(
        (stride_height, stride_width), scheme - 1, None, weights, optional_bias(node.inputs, weights.shape[0])
    )
    return Parsed(operation, (0,), computed_bias(node.inputs, weights.shape[0]))


TFLITE = (
    TfliteOp(
        "TRANSPOSE_CONV", _parse, max_version=5, inputs=3, optional=(3,), channel_axis=0, real_integers=(3,),
        results=(2,),
    ),
    TfliteOp("Convolution2DTransposeBias", _parse_custom, custom=True, real_integers=(2,)),
)  # fmt: skip
