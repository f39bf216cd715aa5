"""AVERAGE_POOL_2D, which divides by the number of pixels inside the input, and MAX_POOL_2D."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...operation import Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import TensorInfo, slices
from ..arguments import activation_epilogue, require_float
from ..window import VALID, Window
from .reduce import lower_reduction


@dataclass(frozen=True)
class Pooling:
    window: Window
    maximum: bool


def _parse(maximum: bool, options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_float(*inputs, *outputs)
    if inputs[0] is None or len(inputs[0].shape) != 4:
        raise Unsupported("input must have rank 4")
    size = options.FilterHeight(), options.FilterWidth()
    window = Window(size, (options.StrideH(), options.StrideW()), padding=options.Padding())
    return Parsed(Pooling(window, maximum), (0,), activation_epilogue(options.FusedActivationFunction()))


def _output_shapes(attributes: Pooling, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    batch, height, width, channels = shapes[0]
    return [(batch, *attributes.window.output_size(height, width), channels)]


def _lower(lowering: Lowering) -> list[Launch]:
    attributes: Pooling = lowering.attributes
    _, height, width, _ = lowering.shape(lowering.inputs[0])
    batch, rows, columns, channels = lowering.shape(lowering.outputs[0])
    window = attributes.window
    whole = window.size == (height, width) and (rows, columns) == (1, 1) and window.padding == VALID
    if whole and not attributes.maximum:  # a mean over all pixels: one work-group a slice instead of one invocation
        return lower_reduction(lowering, frozenset({1, 2}))
    constants = window.constants(height, width) | {"MAXIMUM": int(attributes.maximum)}
    group_count = lowering.group_count(batch * rows * columns * slices(channels))
    return [Launch("pool", {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}, group_count, constants)]


OPERATORS = (
    Operator("AVERAGE_POOL_2D", lambda *a: _parse(False, *a), _output_shapes, _lower, max_version=3),
    Operator("MAX_POOL_2D", lambda *a: _parse(True, *a), _output_shapes, _lower, max_version=3),
)
