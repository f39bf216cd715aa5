"""LSTM: one step of a cell. The full form, whose state is kept in variable tensors, is in full_lstm.py.

In the basic form the state comes in and goes out as tensors. Inputs: x, the activation before, weights (4 * units,
inputs + units), bias, the state before. Outputs: the activation, the state, and what LiteRT keeps on the way: x beside
the activation before, and the sums of the four gates (input, new value, forget, output). Formulas: TensorFlow Lite's
reference LstmCell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...operation import Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import TensorInfo
from ..arguments import constant, require_float
from .full_lstm import TANH, FullLstm, full_shapes, lower_full, parse_full
from .lstm_cell import Cell, launch_cell, launch_sums

BASIC = 1
"""Of the schema's LSTMKernelType; the full form is 0."""
COLUMNS = (2, 0, 1, 3)
"""Where the sums of the cell's gates (forget, input, new, output) are."""


@dataclass(frozen=True)
class BasicLstm:
    """``weights`` is (4 * units, inputs + units), ``bias`` (4 * units,)."""

    weights: np.ndarray = field(compare=False)
    bias: np.ndarray = field(compare=False)


def _parse(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    if options is None:
        raise Unsupported("it has no options")
    if options.KernelType() != BASIC:
        return parse_full(options, inputs, outputs)
    require_float(*inputs, *outputs)
    if options.FusedActivationFunction() != TANH or options.CellClip() or options.ProjClip():
        raise Unsupported("its basic form has the activation function TANH, and clips nothing")
    weights, bias = constant(inputs[2], "weights"), constant(inputs[3], "bias").reshape(-1)
    if weights.ndim != 2 or weights.shape[0] % 4 or bias.size != weights.shape[0] or len(outputs) != 4:
        raise Unsupported(
            f"weights {weights.shape} and {bias.size} biases are not those of four gates, or outputs lack"
        )
    if any(inputs[i] is None for i in (0, 1, 4)):
        raise Unsupported("its input or one of its states is left out")
    return Parsed(BasicLstm(weights, bias), (0, 1, 4))


def _output_shapes(attributes: BasicLstm | FullLstm, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    if isinstance(attributes, FullLstm):
        return full_shapes(attributes, shapes)
    gates, width = attributes.weights.shape
    rows, units = shapes[0][0], gates // 4
    if shapes[0] != (rows, width - units) or shapes[1:] != [(rows, units)] * 2:
        raise ValueError(f"inputs of shapes {shapes} do not fit weights of shape {attributes.weights.shape}")
    return [(rows, units), (rows, units), (rows, width), (rows, gates)]


def _lower(lowering: Lowering) -> list[Launch]:
    """Three dispatches: x beside the activation, the gates' sums, the cell."""
    if isinstance(lowering.attributes, FullLstm):
        return lower_full(lowering)
    attributes: BasicLstm = lowering.attributes
    source, before, state = lowering.inputs
    activation, next_state, joined, gates = lowering.outputs
    launches = launch_sums(lowering, (source, before), (joined, gates), (attributes.weights, attributes.bias))
    cell = Cell(attributes.weights.shape[0] // 4, COLUMNS, TANH)
    return [*launches, launch_cell(lowering, cell, gates, state, {"dst": activation, "cell": next_state})]


OPERATORS = (Operator("LSTM", _parse, _output_shapes, _lower, max_version=4, stateful=True),)
