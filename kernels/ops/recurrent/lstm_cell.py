"""The cell that both forms of LSTM share: the gates' sums in one dispatch, gates and state in another."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ...operation import Launch, Lowering, PackedArray
from ...tensor import TensorId, slices
from ..convolution.conv import Convolution, launch_convolution
from ..movement.concat import launch_concat
from ..window import VALID, Window

GATES = ("FORGET", "INPUT", "NEW", "OUTPUT")
"""The gates in the order in which the kernel computes them; NEW is the value that the input gate lets in."""


@dataclass(frozen=True)
class Cell:
    """The sizes and options of an LSTM cell.

    ``columns`` has for each of GATES the number of its block of ``units`` sums; -1 for an input gate that is one minus
    the forget gate.

    ``vectors`` is (12, units), four rows each, for GATES: peephole weights (none for NEW), and the factors and the
    addends of normalized sums; None if there are neither. ``clip`` 0 means that the state is not clipped.
    """

    units: int
    columns: tuple[int, int, int, int]
    activation: int
    vectors: np.ndarray | None = field(compare=False, default=None)
    peepholes: bool = False
    normalized: bool = False
    clip: float = 0.0


def launch_sums(
    lowering: Lowering,
    rows: tuple[TensorId, TensorId],
    tensors: tuple[TensorId, TensorId],
    layer: tuple[np.ndarray, np.ndarray | None],
) -> list[Launch]:
    """Two dispatches. The first writes the two tensors ``rows`` side by side to ``tensors[0]``. The second multiplies
    that by the weights of ``layer``, of shape (sums, width), adds its bias, and writes ``tensors[1]``.
    """
    joined, sums = tensors
    join = launch_concat(lowering, rows[0], rows[1], joined, 3)
    return [join, launch_layer(lowering, joined, sums, layer)]


def launch_layer(
    lowering: Lowering, source: TensorId, destination: TensorId, layer: tuple[np.ndarray, np.ndarray | None]
) -> Launch:
    """One dispatch: the product with (outputs, inputs) weights, plus the bias."""
    weights, bias = layer
    convolution = Convolution(Window((1, 1), (1, 1), padding=VALID), weights[:, None, None], bias)
    return launch_convolution(replace(lowering, outputs=(destination,)), source, convolution)


def launch_cell(
    lowering: Lowering, cell: Cell, gates: TensorId, before: TensorId, writes: dict[str, TensorId]
) -> Launch:
    """One dispatch, one work-group per row.

    ``writes`` has "dst", the activation; "cell", the state after (it may be ``before``); and "state", if the activation
    is a state too.
    """
    size = slices(cell.units)

    def pack() -> np.ndarray:
        packed = np.zeros((12, size * 4), np.float32)
        if cell.vectors is not None:
            packed[:, : cell.units] = cell.vectors
        return packed.reshape(-1, 4)

    constants: dict[str, int | float] = dict(zip(GATES, cell.columns, strict=True))
    constants |= {
        "COUPLED": int(cell.columns[1] < 0), "PEEPHOLES": int(cell.peepholes), "NORMALIZED": int(cell.normalized),
        "ACTIVATION": cell.activation, "CLIP": float(cell.clip),
    }  # fmt: skip
    vectors = tuple(("float4", name, size) for name in ("sums", "kept", "opened"))
    local = (("float", "partial", lowering.group_size), *vectors)
    shape = lowering.shape(writes["dst"])
    if "state" not in writes:  # no argument of a kernel may be left out
        writes = writes | {"state": lowering.scratch(shape)}
    arrays = {"vectors": PackedArray(12 * size, pack)}
    return Launch("lstm", {"gates": gates, "before": before}, writes, shape[0], constants, arrays, local)
