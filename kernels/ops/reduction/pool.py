"""AVERAGE_POOL_2D, which divides by the number of pixels inside the input, and MAX_POOL_2D."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ..arguments import activation_epilogue, require_float
from ..window import VALID, Window
from .reduce import lower_reduction


@dataclass(frozen=True)
class Pooling(Operation):
    window: Window
    _: KW_ONLY
    maximum: bool

    def keeps_steps(self) -> bool:
        return self.maximum

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        batch, height, width, channels = shapes[0]
        return [(batch, *self.window.output_size(height, width), channels)]

    def lower(self, lowering: Lowering) -> list[Launch]:
        _, height, width, _ = lowering.shape(lowering.inputs[0])
        _, rows, columns, _ = lowering.shape(lowering.outputs[0])
        window = self.window
        whole = window.size == (height, width) and (rows, columns) == (1, 1) and window.padding == VALID
        if whole and not self.maximum:  # a mean over all pixels: one work-group per slice instead of one invocation
            return lower_reduction(lowering, frozenset({1, 2}))
        constants = window.clipped(height, width) | {"MAXIMUM": int(self.maximum)}
        return [lowering.launch("pool", ("src",), constants)]


def _parse(node: TfliteNode, *, maximum: bool) -> Parsed:
    require_float(*node.inputs, *node.outputs)
    if node.inputs[0] is None or len(node.inputs[0].shape) != 4:
        raise Unsupported("input must have rank 4")
    size = node.options.FilterHeight(), node.options.FilterWidth()
    window = Window(size, (node.options.StrideH(), node.options.StrideW()), padding=node.options.Padding())
    return Parsed(Pooling(window, maximum=maximum), (0,), activation_epilogue(node.options.FusedActivationFunction()))


TFLITE = (
    TfliteOp("AVERAGE_POOL_2D", partial(_parse, maximum=False), max_version=3, rescales=False),
    TfliteOp("MAX_POOL_2D", partial(_parse, maximum=True), max_version=3, moves_values=True),
)
