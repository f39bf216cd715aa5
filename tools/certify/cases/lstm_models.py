"""Models of one full LSTM, whose states are variable tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....video.tflite_writer import G, Op, T, build
from .operator_models import options

X, ACTIVATION, CELL = 0, 1, 2
"""Numbers of the input and of the two states in these models; the output is the subgraph's."""


@dataclass(frozen=True)
class Form:
    """Parts and sizes of an LSTM. ``outputs`` other than ``units`` need a projection."""

    rows: int = 1
    width: int = 3
    units: int = 4
    outputs: int = 4
    coupled: bool = False
    peepholes: bool = False
    projected: bool = False
    projection_bias: bool = False
    normalized: bool = False
    activation: int = 4
    cell_clip: float = 0.0
    projection_clip: float = 0.0
    short: bool = False
    """Set for the form of the LSTM with 20 inputs in place of 24."""
    weights: str = "float32"
    """The type in which matrices are stored; "rounded" are int8's numbers in float32."""

    def __str__(self) -> str:
        words = [f"{self.rows}x{self.width}x{self.units}x{self.outputs}"]
        words += [name for name in ("coupled", "peepholes", "projected", "normalized", "short") if getattr(self, name)]
        words += ["bias"] * self.projection_bias + [f"activation{self.activation}"] * (self.activation != 4)
        words += [f"clip{self.cell_clip}"] * bool(self.cell_clip) + [f"pclip{self.projection_clip}"] * bool(
            self.projection_clip
        )
        return " ".join([*words, *[self.weights] * (self.weights != "float32")])


class _Parts:
    """Tensors and operators as they are added, and the LSTM's inputs."""

    def __init__(self, form: Form) -> None:
        self.form, self.generator = form, np.random.default_rng(form.units * 7 + form.width)
        self.tensors = [
            T("x", (form.rows, form.width)),
            T("activation", (form.rows, form.outputs), variable=True),
            T("cell", (form.rows, form.units), variable=True),
        ]
        self.operators: list[Op] = []

    def constant(self, name: str, shape: Sequence[int], there: bool = True) -> int:
        """The number of a constant, or -1 if it is left out; matrices have the form's own type."""
        if not there:
            return -1
        values = self.generator.normal(size=shape).astype(np.float32)
        if len(shape) == 1 or self.form.weights == "float32":
            self.tensors.append(T(name, shape, values))
        elif self.form.weights == "float16":
            self.tensors += [T(f"{name} half", shape, values.astype(np.float16), "float16"), T(name, shape)]
            self.operators.append(Op("DEQUANTIZE", [len(self.tensors) - 2], [len(self.tensors) - 1]))
        else:
            scale = np.abs(values).max() / np.float32(127)
            stored = np.rint(values / scale).astype(np.int8)
            if self.form.weights == "int8":
                self.tensors.append(T(name, shape, stored, "int8", scales=[float(scale)], zero_points=[0]))
            else:
                self.tensors.append(T(name, shape, stored.astype(np.float32) * scale))
        return len(self.tensors) - 1


def lstm(form: Form, *, after: str = "", beside: str = "") -> bytes:
    """The model's bytes; ``after`` is an operator that reads the result, ``beside`` one that reads x instead."""
    return build(graph(form, after, beside))


def graph(form: Form, after: str = "", beside: str = "") -> G:
    parts = _Parts(form)
    units, width, outputs = form.units, form.width, form.outputs
    has = [not (form.coupled and gate == 0) for gate in range(4)]
    inputs = [X]
    inputs += [parts.constant(f"for x {i}", (units, width), has[i]) for i in range(4)]
    inputs += [parts.constant(f"for state {i}", (units, outputs), has[i]) for i in range(4)]
    inputs += [parts.constant(f"peephole {i}", (units,), form.peepholes and has[i]) for i in range(3)]
    inputs += [parts.constant(f"bias {i}", (units,), has[i]) for i in range(4)]
    inputs.append(parts.constant("projection", (outputs, units), form.projected))
    inputs.append(parts.constant("projection bias", (outputs,), form.projection_bias))
    inputs += [ACTIVATION, CELL]
    if not form.short:
        inputs += [parts.constant(f"factor {i}", (units,), form.normalized and has[i]) for i in range(4)]
    parts.tensors.append(T("y", (form.rows, outputs)))
    result = len(parts.tensors) - 1
    table = options(
        "LSTM", fusedActivationFunction=form.activation, cellClip=form.cell_clip, projClip=form.projection_clip
    )
    parts.operators.append(Op("LSTM", inputs, [result], table, version=1 if form.weights != "int8" else 3))
    if after or beside:
        parts.tensors.append(T("z", (form.rows, outputs if after else width)))
        parts.operators.append(Op(after or beside, [result if after else X], [result + 1]))
        result += 1
    return G(parts.tensors, parts.operators, [X], [result])


FORMS = [
    Form(rows, width, units, units, coupled=coupled, peepholes=peepholes, normalized=normalized)
    for rows, width, units in ((1, 3, 5), (2, 8, 4))
    for coupled in (False, True)
    for peepholes in (False, True)
    for normalized in (False, True)
] + [
    Form(2, 5, 12, 12, short=True), Form(1, 4, 130, 130, normalized=True, peepholes=True), Form(3, 1, 1, 1),
    Form(2, 3, 6, 4, projected=True), Form(1, 4, 8, 3, projected=True, projection_bias=True),
    Form(2, 3, 5, 7, projected=True, coupled=True, peepholes=True, projection_clip=0.4),
    Form(2, 3, 5, 7, projected=True, projection_bias=True, normalized=True, peepholes=True, projection_clip=0.9),
    Form(1, 7, 8, 8, projected=True, short=True, projection_clip=0.25, cell_clip=0.3),
    Form(2, 3, 5, 5, cell_clip=0.5), Form(2, 3, 5, 5, cell_clip=0.2, coupled=True, normalized=True),
    Form(2, 3, 5, 5, activation=2, cell_clip=2.0), Form(2, 3, 5, 5, activation=1, cell_clip=2.0),
    Form(2, 3, 5, 5, activation=3, peepholes=True), Form(1, 3, 6, 6, activation=1, projected=True, cell_clip=1.0),
    Form(2, 3, 5, 5, weights="float16"), Form(1, 3, 6, 4, projected=True, weights="float16", peepholes=True),
]  # fmt: skip
