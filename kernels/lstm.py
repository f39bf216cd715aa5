"""LSTM in its basic form: one step of a cell, whose state comes in and goes out as tensors.

Inputs: x, the activation before, weights (4 * units, inputs + units), bias, the state before. Outputs: the activation,
the state, and what LiteRT keeps on the way: x beside the activation before, and the sums of the four gates. Formulas:
TensorFlow Lite's reference LstmCell.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .conv import Convolution, constant, launch_convolution
from .elementwise import require_float
from .layout import slices
from .operator import Launch, Lowering, Operator, Parsed, TensorInfo, Unsupported
from .window import VALID, Window

BASIC, TANH = 1, 4
"""Numbers of the schema: LSTMKernelType and ActivationFunctionType."""


@dataclass(frozen=True)
class BasicLstm:
    """``weights`` is (4 * units, inputs + units), ``bias`` (4 * units,)."""

    weights: np.ndarray = field(compare=False)
    bias: np.ndarray = field(compare=False)


def _parse(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    if options is None or options.KernelType() != BASIC:
        raise Unsupported("only the basic kernel (5 inputs, 4 outputs) is supported, not the full LSTM")
    require_float(*inputs, *outputs)
    if options.FusedActivationFunction() != TANH or options.CellClip() or options.ProjClip():
        raise Unsupported("its activation function must be TANH, and nothing may be clipped")
    weights, bias = constant(inputs[2], "weights"), constant(inputs[3], "bias").reshape(-1)
    if weights.ndim != 2 or weights.shape[0] % 4 or bias.size != weights.shape[0] or len(outputs) != 4:
        raise Unsupported(
            f"weights {weights.shape} and {bias.size} biases are not those of four gates, or outputs lack"
        )
    if any(tensor is None or tensor.variable for tensor in (inputs[0], inputs[1], inputs[4])):
        raise Unsupported("its state is a variable tensor, which is kept on the CPU")
    return Parsed(BasicLstm(weights, bias), (0, 1, 4))


def _output_shapes(attributes: BasicLstm, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    gates, width = attributes.weights.shape
    rows, units = shapes[0][0], gates // 4
    if shapes[0] != (rows, width - units) or shapes[1:] != [(rows, units)] * 2:
        raise ValueError(f"inputs of shapes {shapes} do not fit weights of shape {attributes.weights.shape}")
    return [(rows, units), (rows, units), (rows, width), (rows, gates)]


def _lower(lowering: Lowering) -> list[Launch]:
    """Three dispatches: x beside the activation, the gates' sums, the cell."""
    attributes: BasicLstm = lowering.attributes
    source, before, state = lowering.inputs
    activation, next_state, joined, gates = lowering.outputs
    rows, _, _, width = lowering.shape(joined)
    join = Launch(
        "concat",
        {"first": source, "second": before},
        {"dst": joined},
        lowering.tiles(rows * slices(width)),
        {"AXIS": 3},
    )
    convolution = Convolution(Window((1, 1), (1, 1), padding=VALID), attributes.weights[:, None, None], attributes.bias)
    sums = launch_convolution(replace(lowering, outputs=(gates,)), joined, convolution)
    tiles = lowering.tiles(rows * slices(lowering.shape(activation)[3]))
    reads, writes = {"gates": gates, "before": state}, {"dst": activation, "state": next_state}
    return [join, sums, Launch("lstm", reads, writes, tiles)]


OPERATORS = (Operator("LSTM", _parse, _output_shapes, _lower, max_version=4),)
