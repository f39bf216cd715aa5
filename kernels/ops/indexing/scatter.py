"""SCATTER_ND and SPARSE_TO_DENSE: values at given places of a tensor that has one value everywhere else."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import INDEX_DTYPES, TensorInfo, slices, strides_of
from ..arguments import constant, require_float, require_movable, require_type, shape_constant
from .gather_nd import MOST_COORDINATES, coordinate_constants

MOST_COMPARISONS = 1 << 26
"""The most coordinates that all invocations read: each compares its place with every index. A limit, not measured."""


@dataclass(frozen=True)
class Scatter(Operation):
    """A tensor of the shape ``destination`` that is ``fill``, with values at the places that indices name.

    An index has ``depth`` coordinates, one for each of the first dimensions. A value is a part of the tensor; with
    ``single`` it is one number for all indices. Values of the same place are added up (``adds``), or the last one is
    taken. Indices outside the tensor are ignored.
    """

    destination: tuple[int, ...]
    depth: int
    _: KW_ONLY
    adds: bool
    fill: float = 0.0
    single: bool = False

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Indices have the shape (..., depth). With one coordinate the last dimension may be missing."""
        (indices, values), depth = shapes, self.depth
        numbers = indices[:-1] if self.adds or len(indices) > 1 else indices
        if math.prod(indices) != math.prod(numbers) * depth:
            raise ValueError(f"indices of shape {indices} do not have {depth} coordinates each")
        parts = (*numbers, *self.destination[depth:]) if self.adds else () if self.single else (math.prod(numbers),)
        if values != parts:
            raise ValueError(f"values of shape {values} do not fit indices of shape {indices}")
        return [self.destination]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """One dispatch; every invocation looks at all indices."""
        inner = math.prod(self.destination[self.depth :])
        strides = tuple(stride // inner for stride in strides_of(self.destination))
        constants: dict[str, int | float] = {
            "DEPTH": self.depth, "INNER": inner, "ROWS": math.prod(lowering.shape(lowering.inputs[0])) // self.depth,
            "ADDS": int(self.adds), "SINGLE": int(self.single), "FILL": self.fill,
        }  # fmt: skip
        constants |= coordinate_constants(self.destination[: self.depth], strides)
        return [lowering.launch("scatter", ("indices", "updates"), constants)]


def _shape_of(tensor: TensorInfo | None) -> tuple[int, ...]:
    """The shape of the output, which is a constant input. Raises Unsupported if it is computed, or too long."""
    return tuple(int(n) for n in shape_constant(tensor, "shape").reshape(-1))


def _checked(operation: Scatter, indices: TensorInfo) -> Scatter:
    """The operation, if the number of comparisons is within the limit. Raises Unsupported otherwise."""
    destination = operation.destination
    if not 1 <= operation.depth <= min(len(destination), MOST_COORDINATES):
        raise Unsupported(f"indices of {operation.depth} coordinates do not fit the shape {destination}")
    written = math.prod(destination[:-1]) * slices(destination[-1])
    if written * math.prod(indices.shape) > MOST_COMPARISONS:
        raise Unsupported(f"indices of shape {indices.shape} are too many for a result of shape {destination}")
    return operation


def _parse_scatter(node: TfliteNode) -> Parsed:
    indices, values = node.inputs[:2]
    require_type(INDEX_DTYPES, indices)
    require_float(values, *node.outputs)
    if indices is None or values is None or not (indices.shape and values.shape):
        raise Unsupported("it needs values and indices of rank 1 or more")
    scatter = Scatter(_shape_of(node.inputs[2]), indices.shape[-1], adds=True)
    return Parsed(_checked(scatter, indices), (0, 1))


def _parse_sparse(node: TfliteNode) -> Parsed:
    indices, values = node.inputs[0], node.inputs[2]
    require_type(INDEX_DTYPES, indices)
    require_movable([values, node.inputs[3]], node.outputs)
    if indices is None or values is None or len(indices.shape) > 2:
        raise Unsupported("it needs values, and indices of rank 0 to 2")
    fill = constant(node.inputs[3], "default value").reshape(-1)
    if fill.size != 1:
        raise Unsupported(f"its default value has {fill.size} values, not one")
    depth = indices.shape[1] if len(indices.shape) == 2 else 1
    destination = _shape_of(node.inputs[1])
    if len(destination) != depth:
        raise Unsupported(f"indices of {depth} coordinates do not fit the shape {destination}")
    scatter = Scatter(destination, depth, adds=False, fill=float(fill[0]), single=values.shape == ())
    return Parsed(_checked(scatter, indices), (0, 2))


_IGNORED = "LiteRT stops at a computed index outside the result; the GPU cannot, and ignores it"
TFLITE = (
    TfliteOp(
        "SCATTER_ND", _parse_scatter, max_version=1, inputs=3, takes_integers=True, unlike_litert=_IGNORED, results=(1,)
    ),
    TfliteOp(
        "SPARSE_TO_DENSE", _parse_sparse, max_version=3, inputs=4, takes_integers=True, unlike_litert=_IGNORED,
        results=(2,),
    ),
)  # fmt: skip
