"""PAD, PADV2 and MIRROR_PAD of up to four dimensions, channels included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...operation import Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import TensorInfo, bhwc_axis, slices
from ..arguments import constant, require_movable

MODES = ("constant", "reflect", "symmetric")


@dataclass(frozen=True)
class Pad:
    """``amounts`` is (before, after) for each dimension of the TFLite shape."""

    amounts: tuple[tuple[int, int], ...]
    mode: str = "constant"
    value: float = 0.0


def _parse(mirror: bool, options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    source, table = inputs[0], constant(inputs[1], "paddings")
    if source is None or table.shape != (len(source.shape), 2) or table.min() < 0:
        raise Unsupported(f"paddings of shape {table.shape} do not fit the input, or are negative")
    amounts = tuple((int(before), int(after)) for before, after in table)
    mode = ("reflect", "symmetric")[options.Mode()] if mirror else "constant"
    limit = {"constant": 0, "reflect": -1, "symmetric": 0}[mode]
    if mirror and any(max(pair) > size + limit for pair, size in zip(amounts, source.shape, strict=True)):
        raise Unsupported(f"paddings {amounts} are larger than the input {source.shape} has pixels to mirror")
    value = float(constant(inputs[2], "padding value").reshape(-1)[0]) if len(inputs) > 2 and inputs[2] else 0.0
    return Parsed(Pad(amounts, mode, value))


def _output_shapes(attributes: Pad, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [tuple(size + sum(pair) for size, pair in zip(shapes[0], attributes.amounts, strict=True))]


def _lower(lowering: Lowering) -> list[Launch]:
    attributes: Pad = lowering.attributes
    before = [0, 0, 0, 0]
    for axis, pair in enumerate(attributes.amounts):
        before[bhwc_axis(axis, len(attributes.amounts))] = pair[0]
    constants: dict[str, int | float] = {f"BEFORE_{name}": n for name, n in zip("BHWC", before, strict=True)}
    constants |= {"MODE": MODES.index(attributes.mode), "VALUE": float(attributes.value)}
    batch, rows, columns, channels = lowering.shape(lowering.outputs[0])
    group_count = lowering.group_count(batch * rows * columns * slices(channels))
    return [Launch("pad", {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}, group_count, constants)]


OPERATORS = (
    Operator("PAD", lambda *a: _parse(False, *a), _output_shapes, _lower, max_version=6),
    Operator("PADV2", lambda *a: _parse(False, *a), _output_shapes, _lower, max_version=6),
    Operator("MIRROR_PAD", lambda *a: _parse(True, *a), _output_shapes, _lower, max_version=3),
)
