"""LSTM in its full form: any of coupled gates, peepholes, layer normalization, projection and clips.

Inputs: x, four weights for x and four for the activation before, three peephole weights, four biases, projection and
its bias, the two states (variable tensors, which the operator writes), four factors of normalized sums. Gates come in
the order input, forget, new value, output. Without weights for the input gate, that gate is one minus the forget gate.
Formulas: TensorFlow Lite's reference LSTM (lstm_eval, the float step). Peepholes see the previous state, but that of
the output gate sees the new one. A normalized sum is (sum - mean) / sqrt(variance + 1e-8) over a row, times its factor,
plus the gate's bias.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ...operation import FusedOp, Launch, Lowering, Operation, Parsed, TfliteNode, Unsupported
from ...tensor import TensorInfo, bhwc
from ..arguments import constant, require_float
from .lstm_cell import Cell, launch_cell, launch_layer, launch_sums

FOR_X, FOR_STATE, PEEPHOLES, BIASES, PROJECTION, STATES, FACTORS = 1, 5, 9, 12, 16, 18, 20
"""The position of the first input of each group."""
TANH = 4
ORDER = (1, 0, 2, 3)
"""The positions of the cell's gates (forget, input, new, output) in each group of four inputs."""


@dataclass(frozen=True)
class FullLstm(Operation):
    """``weights`` is (gates * units, inputs + outputs), ``bias`` (gates * units,) or None if sums are normalized.

    ``projection`` is (outputs, units), or None if outputs and units are the same. ``projection_clip`` 0: no clip.
    """

    limits_errors: ClassVar[bool] = True

    cell: Cell
    weights: np.ndarray = field(compare=False)
    bias: np.ndarray | None = field(compare=False)
    projection: np.ndarray | None = field(compare=False, default=None)
    projection_bias: np.ndarray | None = field(compare=False, default=None)
    projection_clip: float = 0.0

    @property
    def outputs(self) -> int:
        return self.cell.units if self.projection is None else self.projection.shape[0]

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        rows, outputs, units = shapes[0][0], self.outputs, self.cell.units
        width = self.weights.shape[1] - outputs
        needed = [(rows, 1, 1, width), (rows, 1, 1, outputs), (rows, 1, 1, units)]
        if [bhwc(shape) for shape in shapes] != needed:
            raise ValueError(
                f"an input and states of shapes {shapes} are not of {width}, {outputs} and {units} values a row"
            )
        return [(rows, outputs)]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """Three dispatches, or five with a projection. Each writes a state after the last one that reads it."""
        source, activation, state = lowering.inputs
        (output,) = lowering.outputs
        rows = lowering.shape(output)[0]
        sums, width = self.weights.shape
        tensors = lowering.scratch((rows, 1, 1, width)), lowering.scratch((rows, 1, 1, sums))
        launches = launch_sums(lowering, (source, activation), tensors, (self.weights, self.bias))
        if self.projection is None:
            writes = {"dst": output, "state": activation, "cell": state}
            return [*launches, launch_cell(lowering, self.cell, tensors[1], state, writes)]
        hidden = lowering.scratch((rows, 1, 1, self.cell.units))
        writes = {"dst": hidden, "cell": state}
        projection = self.projection, self.projection_bias
        project = launch_layer(lowering, hidden, activation, projection)
        if clip := self.projection_clip:
            project = replace(project, epilogue=(FusedOp("CLIP", values=(-clip, clip)),))
        copy = Launch("copy", {"src": activation}, {"dst": output}, lowering.groups_for(output))
        return [*launches, launch_cell(lowering, self.cell, tensors[1], state, writes), project, copy]


def parse_full(node: TfliteNode) -> Parsed:
    """The operation; its runtime inputs are x, the activation and the cell's state."""
    inputs = _all_inputs(node)
    _check_runtime(inputs, node.outputs[0])
    gates = _gates(inputs)
    for_x, for_state = _gate_weights(inputs, gates)
    units, fed_back = for_state[0].shape
    normalized = inputs[FACTORS + 1] is not None
    biases = [_vector(inputs[BIASES + i], units) for i in gates]
    cell = _cell(node.options, inputs, gates, units, normalized=normalized)
    projection = _projection(inputs[PROJECTION], units, fed_back)
    operation = FullLstm(
        cell,
        np.concatenate([np.concatenate(pair, 1) for pair in zip(for_x, for_state, strict=True)]),
        None if normalized else np.concatenate(biases),
        projection,
        None if inputs[PROJECTION + 1] is None else _vector(inputs[PROJECTION + 1], fed_back),
        0.0 if projection is None else _clip(node.options.ProjClip()),
    )
    return Parsed(operation, (0, STATES, STATES + 1))


def _all_inputs(node: TfliteNode) -> list[TensorInfo | None]:
    """The 24 inputs; models without normalized sums have 20."""
    if len(node.inputs) not in (20, 24) or len(node.outputs) != 1:
        raise Unsupported(
            f"a full LSTM has 20 or 24 inputs and 1 output, not {len(node.inputs)} and {len(node.outputs)}"
        )
    require_float(*node.inputs, *node.outputs)
    return [*node.inputs, *[None] * (24 - len(node.inputs))]


def _gates(inputs: list[TensorInfo | None]) -> list[int]:
    """The gates that have weights, in the cell's order, by their places in a group of four inputs."""
    coupled = inputs[FOR_X] is None
    if coupled != (inputs[FOR_STATE] is None):
        raise Unsupported("its input gate has weights for x or for the activation alone")
    return [i for i in ORDER if not (coupled and i == 0)]


def _gate_weights(inputs: list[TensorInfo | None], gates: Sequence[int]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The weights of each gate: for x, (units, inputs), and for the activation, (units, outputs)."""
    for_x, for_state = ([_matrix(inputs[start + i], "weights") for i in gates] for start in (FOR_X, FOR_STATE))
    (units, width), fed_back = for_x[0].shape, for_state[0].shape[1]
    if {w.shape for w in for_x} != {(units, width)} or {w.shape for w in for_state} != {(units, fed_back)}:
        raise Unsupported("the weights of its gates are not all of one shape")
    return for_x, for_state


def _projection(tensor: TensorInfo | None, units: int, fed_back: int) -> np.ndarray | None:
    """The weights (outputs, units) of the projection, or None. ``fed_back`` values return to the gates."""
    weights = None if tensor is None else _matrix(tensor, "projection weights")
    if (units if weights is None else weights.shape[0]) != fed_back:
        raise Unsupported(f"its activation does not have the {fed_back} values that the gates' weights take")
    if weights is not None and weights.shape[1] != units:
        raise Unsupported(f"projection weights of shape {weights.shape} do not take {units} values")
    return weights


def _check_runtime(inputs: list[TensorInfo | None], output: TensorInfo) -> None:
    source, *states = inputs[0], inputs[STATES], inputs[STATES + 1]
    if source is None or len(source.shape) != 2:
        raise Unsupported("its input must have rank 2")
    if any(state is None or not state.variable for state in states) or states[0] is states[1]:
        raise Unsupported("its states must be two variable tensors")
    for tensor in (source, *states, output):
        if tensor is not None and tensor.stored_dtype:
            raise Unsupported(f"tensor '{tensor.name}' is {tensor.stored_dtype}: only weights may be quantized")


def _cell(options: Any, inputs: list[TensorInfo | None], gates: Sequence[int], units: int, *, normalized: bool) -> Cell:
    """The cell, its vectors in the order of the cell's gates."""
    number = int(options.FusedActivationFunction())
    if not 1 <= number <= TANH:  # with none, LiteRT shows what its scratch memory happens to hold
        raise Unsupported(f"its activation function is number {number} of the schema, not one of RELU to TANH")
    vectors = np.zeros((3, 4, units), np.float32)
    peepholes = inputs[PEEPHOLES + 2] is not None
    for place, gate in enumerate(ORDER):
        if gate not in gates:
            continue
        if peepholes and gate != 2:
            vectors[0, place] = _vector(inputs[PEEPHOLES + (2 if gate == 3 else gate)], units)
        if normalized:
            vectors[1, place] = _vector(inputs[FACTORS + gate], units)
            vectors[2, place] = _vector(inputs[BIASES + gate], units)
    columns = tuple(gates.index(gate) if gate in gates else -1 for gate in ORDER)
    forget, let_in, new, output = columns
    return Cell(
        units, (forget, let_in, new, output), number, vectors.reshape(12, units), peepholes, normalized,
        _clip(options.CellClip()),
    )  # fmt: skip


def _clip(value: float) -> float:
    """The limit of a clip; 0 for no clip. TensorFlow Lite does not clip if the number is not positive."""
    if not math.isfinite(value):
        raise Unsupported(f"it clips at {value}")
    return max(float(value), 0.0)


def _matrix(tensor: TensorInfo | None, what: str) -> np.ndarray:
    values = constant(tensor, what)
    if values.ndim != 2 or 0 in values.shape:
        raise Unsupported(f"{what} of shape {values.shape} are no matrix")
    return values


def _vector(tensor: TensorInfo | None, size: int) -> np.ndarray:
    values = constant(tensor, "biases, peephole weights and factors").reshape(-1)
    if values.size != size:
        raise Unsupported(f"tensor '{tensor.name if tensor else ''}' has {values.size} values for {size} units")
    return values
