"""LSTM: one step of a cell. The full form, whose state is kept in variable tensors, is in full_lstm.py.

In the basic form the state comes in and goes out as tensors. Inputs: x, the activation before, weights (4 * units,
inputs + units), bias, the state before. Outputs: the activation, the state, and two intermediate results that LiteRT
also gives: x and the previous activation side by side, and the sums of the four gates (input, new value, forget,
output). Formulas: TensorFlow Lite's reference LstmCell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ..arguments import INFINITE_SUMS, constant, member, require_float
from .full_lstm import TANH, parse_full
from .lstm_cell import Cell, launch_cell, launch_sums

COLUMNS = (2, 0, 1, 3)
"""The positions of the sums of the cell's gates (forget, input, new, output)."""


@dataclass(frozen=True)
class BasicLstm(Operation):
    """``weights`` is (4 * units, inputs + units), ``bias`` (4 * units,)."""

    limits_errors: ClassVar[bool] = True

    weights: np.ndarray = field(compare=False)
    bias: np.ndarray = field(compare=False)

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        gates, width = self.weights.shape
        rows, units = shapes[0][0], gates // 4
        if shapes[0] != (rows, width - units) or shapes[1:] != [(rows, units)] * 2:
            raise ValueError(f"inputs of shapes {shapes} do not fit weights of shape {self.weights.shape}")
        return [(rows, units), (rows, units), (rows, width), (rows, gates)]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """Three dispatches: x beside the activation, the gates' sums, the cell."""
        source, before, state = lowering.inputs
        activation, next_state, joined, gates = lowering.outputs
        launches = launch_sums(lowering, (source, before), (joined, gates), (self.weights, self.bias))
        cell = Cell(self.weights.shape[0] // 4, COLUMNS, TANH)
        return [*launches, launch_cell(lowering, cell, gates, state, {"dst": activation, "cell": next_state})]


def _parse(node: TfliteNode) -> Parsed:
    if node.options is None:
        raise Unsupported("it has no options")
    if member(("full", "basic"), node.options.KernelType(), "LSTM kernel type") == "full":
        return parse_full(node)
    require_float(*node.inputs, *node.outputs)
    if node.options.FusedActivationFunction() != TANH or node.options.CellClip() or node.options.ProjClip():
        raise Unsupported("its basic form has the activation function TANH, and clips nothing")
    weights, bias = constant(node.inputs[2], "weights"), constant(node.inputs[3], "bias").reshape(-1)
    if weights.ndim != 2 or weights.shape[0] % 4 or bias.size != weights.shape[0] or len(node.outputs) != 4:
        raise Unsupported(
            f"weights {weights.shape} and {bias.size} biases are not those of four gates, or outputs lack"
        )
    if any(node.inputs[i] is None for i in (0, 1, 4)):
        raise Unsupported("its input or one of its states is left out")
    return Parsed(BasicLstm(weights, bias), (0, 1, 4))


TFLITE = (
    TfliteOp(
        "LSTM", _parse, max_version=4, optional=range(1, 24), stateful=True, keeps_declared_type=True,
        unlike_litert=INFINITE_SUMS,
    ),
)  # fmt: skip
