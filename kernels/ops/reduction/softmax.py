"""SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION, each over the last axis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import LARGEST_RANK, slices
from ..arguments import activation_epilogue, finite, require_float, widening

KINDS = ("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION")

MANY_PIXELS = 4096
"""The fewest pixels for which one invocation per pixel is work enough. Not measured."""


@dataclass(frozen=True)
class Normalize(Operation):
    """``kind`` is one of KINDS; ``beta`` multiplies what SOFTMAX exponentiates."""

    limits_errors: ClassVar[bool] = True

    kind: str
    beta: float = 1.0

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [shapes[0]]

    def lower(self, lowering: Lowering) -> list[Launch]:
        batch, height, width, channels = lowering.shape(lowering.inputs[0])
        pixels = batch * height * width
        cooperative = pixels < MANY_PIXELS and slices(channels) >= 8
        constants: dict[str, int | float] = {
            "KIND": KINDS.index(self.kind), "BETA": self.beta, "PIXELS": pixels, "COOPERATIVE": int(cooperative)
        }  # fmt: skip
        local = (("float", "partial", lowering.group_size if cooperative else 1),)
        group_count = pixels if cooperative else lowering.group_count(pixels)
        reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
        return [Launch("normalization", reads, writes, group_count, constants, {}, local)]


def _parse(node: TfliteNode, *, kind: str) -> Parsed:
    require_float(node.inputs[0], *node.outputs)
    if node.inputs[0] is None or not node.inputs[0].shape:
        raise Unsupported("it needs an input of rank 1 or more")
    if kind == "SOFTMAX" and node.options is None:
        raise Unsupported("it has no options, and LiteRT takes 0 for its beta")
    beta = finite(node.options.Beta(), "beta") if kind == "SOFTMAX" else 1.0
    epilogue = (
        activation_epilogue(node.options.FusedActivationFunction())
        if kind == "L2_NORMALIZATION" and node.options
        else ()
    )
    return Parsed(Normalize(kind, beta), (0,), epilogue)


TFLITE = tuple(
    TfliteOp(
        kind, partial(_parse, kind=kind), max_version=4, max_rank=LARGEST_RANK,
        results=(widening("int8", "uint8") if kind == "SOFTMAX" else 0,), keeps_declared_type=kind == "SOFTMAX",
    )
    for kind in KINDS
)  # fmt: skip
