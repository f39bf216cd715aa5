"""RESHAPE, SQUEEZE and EXPAND_DIMS: the same values in the same order, in another shape.

Complex numbers may be reshaped if the last dimension stays: its slices hold all real parts, then all imaginary ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ...operation import Fusion, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import LARGEST_RANK, TensorId, TensorInfo
from ..arguments import axis_of, index_constant, require_type, require_values


@dataclass(frozen=True)
class Reshape(Operation):
    """``destination`` may hold one -1, as in TFLite."""

    destination: tuple[int, ...]
    may_be_identity: ClassVar[bool] = True

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        total = math.prod(shapes[0])
        known = math.prod(n for n in self.destination if n != -1)
        destination = tuple(total // max(known, 1) if n == -1 else n for n in self.destination)
        if math.prod(destination) != total:
            raise ValueError(f"{shapes[0]} cannot be reshaped to {self.destination}")
        return [destination]

    def lower(self, lowering: Lowering) -> list[Launch]:
        return [launch_reshape(lowering, lowering.inputs[0], lowering.outputs[0])]

    def keeps_steps(self) -> bool:
        return True


def _parse_reshape(node: TfliteNode) -> Parsed:
    return _parsed(node, lambda _: Reshape(_destination(node)))


def _destination(node: TfliteNode) -> tuple[int, ...]:
    """The shape as LiteRT finds it: of integers of 32 bits, or else of the options, in which [0] and none are a
    scalar's.
    """
    given = node.inputs[1] if len(node.inputs) > 1 else None
    if given is not None and given.constant is None:
        raise Unsupported(f"tensor '{given.name}', its shape, is known only while the model runs")
    if given is not None and given.constant is not None and given.dtype == "int32":
        return tuple(given.constant.reshape(-1).tolist())
    shape = node.options.NewShapeAsNumpy().tolist() if node.options and node.options.NewShapeLength() else []
    return () if shape == [0] else tuple(shape)


def _parsed(node: TfliteNode, make: Callable[[TensorInfo], Operation]) -> Parsed:
    """The operation that ``make`` makes for the input. Raises Unsupported if it cannot move the input's values."""
    source = node.inputs[0]
    is_complex = source is not None and source.dtype == "complex64"
    if is_complex:
        require_type({"complex64"}, *node.outputs)
    else:
        require_values([source], node.outputs)
    if source is None:
        raise Unsupported("it needs an input")
    operation = make(source)
    if is_complex and operation.output_shapes([source.shape])[0][-1:] != source.shape[-1:]:
        raise Unsupported(f"tensor '{source.name}' is complex64, of which the GPU cannot change the last dimension")
    return Parsed(operation)


@dataclass(frozen=True)
class Squeeze(Operation):
    """The input without the dimensions ``axes``, which have size 1; without all of size 1 if ``axes`` is empty."""

    axes: tuple[int, ...]
    may_be_identity: ClassVar[bool] = True

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        axes = self.axes or [axis for axis, size in enumerate(shapes[0]) if size == 1]
        if any(shapes[0][axis] != 1 for axis in axes):
            raise ValueError(f"dimensions {axes} of {shapes[0]} do not all have size 1")
        return [tuple(size for axis, size in enumerate(shapes[0]) if axis not in axes)]

    def lower(self, lowering: Lowering) -> list[Launch]:
        return [launch_reshape(lowering, lowering.inputs[0], lowering.outputs[0])]


@dataclass(frozen=True)
class ExpandDimensions(Operation):
    """A new dimension of size 1 before dimension ``axis``."""

    axis: int
    may_be_identity: ClassVar[bool] = True

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [(*shapes[0][: self.axis], 1, *shapes[0][self.axis :])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        return [launch_reshape(lowering, lowering.inputs[0], lowering.outputs[0])]


def launch_reshape(lowering: Lowering, source: TensorId, destination: TensorId) -> Launch:
    """One dispatch that writes the values of ``source``, in their order, to ``destination``."""
    return Launch(
        "reshape",
        {"src": source},
        {"dst": destination},
        lowering.groups_for(destination),
        fusion=Fusion(is_reshape=True),
    )


def _parse_squeeze(node: TfliteNode) -> Parsed:
    given = node.options.SqueezeDimsAsNumpy().tolist() if node.options and node.options.SqueezeDimsLength() else []
    return _parsed(node, lambda source: Squeeze(tuple(sorted({axis_of(axis, len(source.shape)) for axis in given}))))


def _parse_expand(node: TfliteNode) -> Parsed:
    axis = index_constant(node.inputs[1], "axis").reshape(-1)[0]
    return _parsed(node, lambda source: ExpandDimensions(axis_of(axis, len(source.shape) + 1)))


TFLITE = (
    TfliteOp(
        "RESHAPE", _parse_reshape, max_version=1, max_rank=LARGEST_RANK, moves_values=True,
        fold=lambda _, inputs: inputs[0], keeps_declared_type=True,
    ),
    TfliteOp(
        "SQUEEZE", _parse_squeeze, max_version=2, max_rank=LARGEST_RANK, moves_values=True,
        fold=lambda _, inputs: inputs[0], keeps_declared_type=True,
    ),
    TfliteOp(
        "EXPAND_DIMS", _parse_expand, max_version=1, inputs=2, max_rank=LARGEST_RANK, moves_values=True,
        fold=lambda _, inputs: inputs[0],
    ),
)  # fmt: skip
