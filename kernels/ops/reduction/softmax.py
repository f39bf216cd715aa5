"""SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION, each over the last axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...operation import Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import TensorInfo, slices
from ..arguments import activation_epilogue, require_float

KINDS = ("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION")

MANY_PIXELS = 4096
"""From so many pixels on, there is work enough for one invocation a pixel."""


@dataclass(frozen=True)
class Normalize:
    """``kind`` is one of KINDS; ``beta`` multiplies what SOFTMAX exponentiates."""

    kind: str
    beta: float = 1.0


def _parse(kind: str, options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_float(inputs[0], *outputs)
    if inputs[0] is None or not inputs[0].shape:
        raise Unsupported("it needs an input of rank 1 or more")
    beta = float(options.Beta()) if kind == "SOFTMAX" and options is not None else 1.0
    epilogue = activation_epilogue(options.FusedActivationFunction()) if kind == "L2_NORMALIZATION" and options else ()
    return Parsed(Normalize(kind, beta), (0,), epilogue)


def _lower(lowering: Lowering) -> list[Launch]:
    attributes: Normalize = lowering.attributes
    batch, height, width, channels = lowering.shape(lowering.inputs[0])
    pixels = batch * height * width
    cooperative = pixels < MANY_PIXELS and slices(channels) >= 8
    constants: dict[str, int | float] = {
        "KIND": KINDS.index(attributes.kind), "BETA": attributes.beta, "PIXELS": pixels, "COOPERATIVE": int(cooperative)
    }  # fmt: skip
    shared = (("float", "partial", lowering.group_size if cooperative else 1),)
    group_count = pixels if cooperative else lowering.group_count(pixels)
    reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
    return [Launch("normalization", reads, writes, group_count, constants, {}, shared)]


def _operator(kind: str) -> Operator:
    return Operator(kind, lambda *a: _parse(kind, *a), lambda _, shapes: [shapes[0]], _lower, max_version=4)


OPERATORS = tuple(map(_operator, KINDS))
