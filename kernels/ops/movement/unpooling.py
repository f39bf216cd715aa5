"""MediaPipe's custom operators MaxPoolingWithArgmax2D and MaxUnpooling2D, which LiteRT's GPU calls
custom_call.MaxUnpooling2D.

Semantics: mediapipe/util/tflite/operations/max_pool_argmax.cc and max_unpooling.cc. An index counts the values of its
window by rows. Options are the bytes of a TfLitePoolParams. LiteRT runs these operators in XNNPACK only, and only for
windows side by side. Of equal values of such a window the one counts that XNNPACK takes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ..arguments import activation_epilogue, require_float, require_type
from ..window import Window

INDICES = frozenset({"float32", "int32"})

LARGEST_WINDOW = 1 << 14
"""Pixels of a window, at most: each invocation looks at all of them."""
FLOAT_ADDEND = 0.1
"""MediaPipe adds this to an index that is stored as a float, so that it survives 16 bits and truncation."""


@dataclass(frozen=True)
class MaxIndices(Operation):
    """Maxima of a window; ``addend`` is added to their indices."""

    window: Window
    addend: float

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        batch, height, width, channels = shapes[0]
        return [(batch, *self.window.output_size(height, width), channels)] * 2

    def lower(self, lowering: Lowering) -> list[Launch]:
        _, height, width, _ = lowering.shape(lowering.inputs[0])
        clamped = self.window.strides == self.window.size
        constants = self.window.constants(height, width) | {"ADDEND": self.addend, "CLAMPED": int(clamped)}
        writes = {"dst": lowering.outputs[0], "indices": lowering.outputs[1]}
        return [
            Launch(
                "max_indices", {"src": lowering.inputs[0]}, writes, lowering.groups_for(lowering.outputs[0]), constants
            )
        ]


@dataclass(frozen=True)
class Unpooling(Operation):
    """Undoes a pooling. ``window`` is that of the pooling. The output has the size of all windows side by side."""

    window: Window

    def constants(self, height: int, width: int) -> dict[str, int | float]:
        """The kernel's constants for an input of this size: the window, and the part of the first window that is cut
        off.
        """
        before = []
        for size, kernel, stride in zip((height, width), self.window.size, self.window.strides, strict=True):
            before.append(max(0, (size - 1) * stride + kernel - size * kernel) // 2)
        (kernel_height, kernel_width), (down, across) = self.window.size, self.window.strides
        return {
            "KERNEL_H": kernel_height, "KERNEL_W": kernel_width, "STRIDE_Y": down, "STRIDE_X": across,
            "PAD_TOP": before[0], "PAD_LEFT": before[1],
        }  # fmt: skip

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        batch, height, width, channels = shapes[0]
        if shapes[0] != shapes[1]:
            raise ValueError(f"values {shapes[0]} and indices {shapes[1]} differ in shape")
        return [(batch, height * self.window.size[0], width * self.window.size[1], channels)]

    def lower(self, lowering: Lowering) -> list[Launch]:
        _, height, width, _ = lowering.shape(lowering.inputs[0])
        return [lowering.launch("unpool", ("src", "indices"), self.constants(height, width))]


def _options(options: Any) -> tuple[Window, int]:
    """The window, and the number of the fused activation function."""
    if not isinstance(options, bytes) or len(options) < 24:
        raise Unsupported("its options are not TfLitePoolParams")
    scheme, across, down, width, height, activation = struct.unpack_from("<iiiiii", options)
    if width * height > LARGEST_WINDOW:
        raise Unsupported(f"its window {height}x{width} has more than {LARGEST_WINDOW} pixels")
    return Window((height, width), (down, across), padding=scheme - 1), activation  # TfLitePadding counts from 1


def _parse_pooling(node: TfliteNode) -> Parsed:
    require_float(*node.inputs, node.outputs[0])
    require_type(INDICES, *node.outputs[1:])
    if node.inputs[0] is None or len(node.inputs[0].shape) != 4 or len(node.outputs) != 2:
        raise Unsupported("it needs an input of rank 4 and two outputs")
    window, activation = _options(node.options)
    addend = FLOAT_ADDEND if node.outputs[1].dtype == "float32" else 0.0
    return Parsed(MaxIndices(window, addend), (0,), activation_epilogue(activation))


def _parse_unpooling(node: TfliteNode) -> Parsed:
    require_float(node.inputs[0], *node.outputs)
    require_type(INDICES, node.inputs[1])
    if (
        node.inputs[0] is None
        or node.inputs[1] is None
        or len(node.inputs[0].shape) != 4
        or node.inputs[0].shape != node.inputs[1].shape
    ):
        raise Unsupported("it needs values and indices of one shape of rank 4")
    return Parsed(Unpooling(_options(node.options)[0]), (0, 1))


_INDICES = "an index is a float and counts by rows of the window; XNNPACK's is an integer's bits and counts by columns"
TFLITE = (
    TfliteOp("MaxPoolingWithArgmax2D", _parse_pooling, custom=True, results=(0, ""), unlike_litert=_INDICES),
    TfliteOp("MaxUnpooling2D", _parse_unpooling, custom=True, unlike_litert=_INDICES),
    TfliteOp("custom_call.MaxUnpooling2D", _parse_unpooling, custom=True),
)
