"""FULLY_CONNECTED: a convolution with a 1x1 window; or a matrix product, if its weights are computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...operation import Collapsed, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import LARGEST_RANK
from ..arguments import activation_epilogue, computed_bias, optional_bias, require_float, widening
from ..movement.reshape import launch_reshape
from ..window import VALID, Window
from .conv import Convolution, launch_convolution, launch_of_halves
from .matmul import launch_product


@dataclass(frozen=True)
class FullyConnected(Operation):
    """Rows of ``inputs`` values times weights, plus a bias.

    ``weights`` is (units, inputs), or None if they are computed; then they are the second input. The first input is
    flattened to rows. ``keep_dimensions``: the output keeps all dimensions of the first input but the last. ``scales``
    and ``integer_weights`` are those of Convolution.
    """

    weights: np.ndarray | None = field(compare=False)
    bias: np.ndarray | None = field(compare=False, default=None)
    keep_dimensions: bool = False
    scales: tuple[float, ...] = ()
    integer_weights: bool = False

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        units, length = shapes[1] if self.weights is None else self.weights.shape
        if self.keep_dimensions:
            if shapes[0][-1:] != (length,):
                raise ValueError(f"rows of an input of shape {shapes[0]} do not have {length} values")
            return [(*shapes[0][:-1], units)]
        return [(math.prod(shapes[0]) // length, units)]

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        """Rows of one matrix."""
        *rows, units = self.output_shapes(shapes)[0]
        length = (shapes[1] if self.weights is None else self.weights.shape)[1]
        count = math.prod(rows)
        return [Collapsed(self, ((count, length), *shapes[1:]), ((count, units),))]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """One dispatch, after a reshape unless the rows are the channels of pixels already."""
        weights = self.weights
        units, length = _flat(lowering.shape(lowering.inputs[1])) if weights is None else weights.shape
        source, launches = lowering.inputs[0], []
        batch, rows, columns, _ = lowering.shape(lowering.outputs[0])
        if lowering.shape(source) != (batch, rows, columns, length):
            flat = lowering.scratch((batch, rows, columns, length))
            launches.append(launch_reshape(lowering, source, flat))
            source = flat
        if weights is None:
            shapes = ((batch * rows * columns, length), (units, length))
            product = launch_product(lowering, (source, lowering.inputs[1]), shapes, (False, True), self.bias)
            return [*launches, product]
        window = Window((1, 1), (1, 1), padding=VALID)
        convolution = Convolution(
            window, weights.reshape(units, 1, 1, length), self.bias, integer_weights=self.integer_weights
        )
        launch = launch_convolution(lowering, source, convolution)
        return [*launches, replace(launch, halves=launch_of_halves(lowering, source, convolution, launch))]


def _parse(node: TfliteNode) -> Parsed:
    require_float(*node.inputs, *node.outputs)
    source, weights = node.inputs[0], node.inputs[1]
    if source is None or weights is None or len(weights.shape) != 2:
        raise Unsupported("weights must have rank 2")
    if node.options.WeightsFormat():
        raise Unsupported("only the default weights format is supported")
    units, length = weights.shape
    bias, keeps = optional_bias(node.inputs, units), bool(node.options.KeepNumDims())
    operation = FullyConnected(weights.constant, bias, keeps, weights.scales if weights.constant is not None else ())
    if length == 0 or math.prod(source.shape) % length:
        raise Unsupported(f"input {source.shape} is no number of rows of {length} values")
    runtime = (0,) if weights.constant is not None else (0, 1)
    epilogue = (*computed_bias(node.inputs, units), *activation_epilogue(node.options.FusedActivationFunction()))
    return Parsed(operation, runtime, epilogue)


def _flat(shape: tuple[int, ...]) -> tuple[int, int]:
    """The (rows, values) of a matrix whose BHWC form is ``shape``."""
    return shape[0], shape[3]


TFLITE = (
    TfliteOp(
        "FULLY_CONNECTED", _parse, max_version=14, inputs=2, optional=(2,), channel_axis=0, real_integers=(2,),
        max_rank=LARGEST_RANK, results=(widening("uint8"),),
    ),
)  # fmt: skip
