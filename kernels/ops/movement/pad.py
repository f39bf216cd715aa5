"""PAD, PADV2 and MIRROR_PAD of up to four dimensions, channels included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import TensorId, bhwc_axis
from ..arguments import constant, require_movable

MODES = ("constant", "reflect", "symmetric")


@dataclass(frozen=True)
class Pad(Operation):
    """``amounts`` is (before, after) for each dimension of the TFLite shape; ``mode`` is one of MODES."""

    amounts: tuple[tuple[int, int], ...]
    mode: str = "constant"
    value: float = 0.0
    may_be_identity: ClassVar[bool] = True

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [tuple(size + sum(pair) for size, pair in zip(shapes[0], self.amounts, strict=True))]

    def lower(self, lowering: Lowering) -> list[Launch]:
        before = [0, 0, 0, 0]
        for axis, pair in enumerate(self.amounts):
            before[bhwc_axis(axis, len(self.amounts))] = pair[0]
        return [launch_pad(lowering, lowering.inputs[0], lowering.outputs[0], before, self.mode, self.value)]

    def keeps_steps(self) -> bool:
        return self.value == 0


def launch_pad(
    lowering: Lowering,
    source: TensorId,
    destination: TensorId,
    before: Sequence[int],
    mode: str = "constant",
    value: float = 0.0,
) -> Launch:
    """One dispatch. ``before`` is the padding before the first value along each axis of BHWC."""
    constants: dict[str, int | float] = {f"BEFORE_{name}": n for name, n in zip("BHWC", before, strict=True)}
    constants |= {"MODE": MODES.index(mode), "VALUE": float(value)}
    return Launch("pad", {"src": source}, {"dst": destination}, lowering.groups_for(destination), constants)


def _amounts(node: TfliteNode) -> tuple[tuple[int, int], ...]:
    require_movable(node.inputs[:1], node.outputs)
    source, table = node.inputs[0], constant(node.inputs[1], "paddings")
    if source is None or table.shape != (len(source.shape), 2) or table.min() < 0:
        raise Unsupported(f"paddings of shape {table.shape} do not fit the input, or are negative")
    return tuple((int(before), int(after)) for before, after in table)


def _parse(node: TfliteNode) -> Parsed:
    amounts, given = _amounts(node), node.inputs[2] if len(node.inputs) > 2 else None
    value = 0.0 if given is None else float(constant(given, "padding value").reshape(-1)[0])
    return Parsed(Pad(amounts, "constant", value))


def _parse_mirror(node: TfliteNode) -> Parsed:
    amounts, mode = _amounts(node), ("reflect", "symmetric")[node.options.Mode()]
    shape, limit = node.inputs[0].shape if node.inputs[0] else (), {"reflect": -1, "symmetric": 0}[mode]
    if any(max(pair) > size + limit for pair, size in zip(amounts, shape, strict=True)):
        raise Unsupported(f"paddings {amounts} are larger than the input {shape} has pixels to mirror")
    return Parsed(Pad(amounts, mode))


TFLITE = (
    TfliteOp("PAD", _parse, max_version=6, inputs=2, moves_values=True),
    TfliteOp("PADV2", _parse, max_version=6, inputs=3),
    TfliteOp("MIRROR_PAD", _parse_mirror, max_version=3, inputs=2, moves_values=True),
)
