"""Shapes of a partition's tensors, from those that its inputs have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...interop.errors import ModelError
from ...kernels.tensor import LARGEST_RANK
from ..claim.claims import Claims
from ..claim.partition_graph import output_shapes
from .messages import tensor_label

Shape = tuple[int, ...]
"""A TFLite shape, of any rank."""


@dataclass(frozen=True)
class Shapes:
    """``given`` are the shapes of the partition's inputs, ``known`` those of all its tensors that follow.

    ``nothing_to_compute``: all outputs have no elements.
    """

    given: Mapping[int, Shape]
    known: Mapping[int, Shape]
    nothing_to_compute: bool


def infer_shapes(
    claims: Claims, operators: Sequence[int], outputs: Sequence[int], given: Mapping[int, Shape]
) -> Shapes:
    """The shapes of all tensors of these operators. Raises ModelError if the inputs' shapes do not fit the model."""
    try:
        known = output_shapes(claims, operators, dict(given))
    except ValueError as error:
        raise ModelError(f"the model does not take input shapes {list(given.values())}: {error}") from error
    deep = [tensor for tensor, shape in known.items() if len(shape) > LARGEST_RANK]
    if deep:
        raise ModelError(
            f"{tensor_label(deep[0], claims.tensors[deep[0]])} has the shape {known[deep[0]]}: the GPU takes at most "
            f"{LARGEST_RANK} dimensions; give the model other inputs, or run it without the delegate"
        )
    empty = [tensor for tensor, shape in known.items() if 0 in shape]
    if empty and not all(tensor in empty for tensor in outputs):
        raise ModelError(
            f"{tensor_label(empty[0], claims.tensors[empty[0]])} has the shape {known[empty[0]]}: the GPU computes "
            "nothing of an empty tensor; give the model other inputs, or run it without the delegate"
        )
    return Shapes(given, known, bool(empty))


def check_baked_shapes(claims: Claims, current: Mapping[int, Shape]) -> None:
    """Raise ModelError if a shape that became a constant of the program is another one now."""
    for tensor, shape in claims.baked_shapes.items():
        if current[tensor] != shape:
            raise ModelError(
                f"{tensor_label(tensor, claims.tensors[tensor])} cannot become {current[tensor]}: its shape is part of "
                "the program on the GPU, because an operator of the model reads it; resize the inputs before the "
                "delegate is applied, or run the model without it"
            )
