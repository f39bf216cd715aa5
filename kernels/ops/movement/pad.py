"""PAD, PADV2 and MIRROR_PAD, channels included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ...operation import Collapsed, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import LARGEST_RANK, TensorId, around_axis, bhwc_axis, bounds_of, merged_runs
from ..arguments import constant, is_exact, member, require_values, shape_constant

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

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        """One pad, if four dimensions are left once those without padding are merged; else one for each dimension."""
        marks = [axis if any(pair) else -1 for axis, pair in enumerate(self.amounts)]
        sizes, kept = merged_runs(shapes[0], marks)
        if len(sizes) <= 4:
            pad = replace(self, amounts=tuple((0, 0) if axis < 0 else self.amounts[axis] for axis in kept))
            return [Collapsed(pad, (sizes,), tuple(pad.output_shapes([sizes])))]
        steps, shape = list[Collapsed](), shapes[0]
        for axis, pair in enumerate(self.amounts):
            if any(pair):
                source, place = around_axis(shape, axis)
                pad = replace(self, amounts=tuple(pair if i == place else (0, 0) for i in range(4)))
                steps.append(Collapsed(pad, (source,), tuple(pad.output_shapes([source]))))
                shape = (*shape[:axis], shape[axis] + sum(pair), *shape[axis + 1 :])
        return steps

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
    require_values(node.inputs[:1], node.outputs)
    source, table = node.inputs[0], shape_constant(node.inputs[1], "paddings")
    if source is None or table.shape != (len(source.shape), 2) or table.min() < 0:
        raise Unsupported(f"paddings of shape {table.shape} do not fit the input, or are negative")
    return tuple((int(before), int(after)) for before, after in table)


def _parse(node: TfliteNode) -> Parsed:
    amounts, given = _amounts(node), node.inputs[2] if len(node.inputs) > 2 else None
    value = 0.0 if given is None else float(constant(given, "padding value").reshape(-1)[0])
    source = bounds_of(node.inputs[0]) if node.inputs[0] is not None else None
    bounds = None if source is None else (min(source[0], int(value)), max(source[1], int(value)))
    integers = given is not None and not is_exact(given)
    return Parsed(Pad(amounts, "constant", value), integers=integers, bounds=bounds)


def _parse_mirror(node: TfliteNode) -> Parsed:
    amounts, mode = _amounts(node), member(("reflect", "symmetric"), node.options.Mode(), "mirroring")
    shape, limit = node.inputs[0].shape if node.inputs[0] else (), {"reflect": -1, "symmetric": 0}[mode]
    if any(max(pair) > size + limit for pair, size in zip(amounts, shape, strict=True)):
        raise Unsupported(f"paddings {amounts} are larger than the input {shape} has pixels to mirror")
    return Parsed(Pad(amounts, mode))


TFLITE = (
    TfliteOp("PAD", _parse, max_version=6, inputs=2, max_rank=LARGEST_RANK, moves_values=True),
    TfliteOp("PADV2", _parse, max_version=6, inputs=3, max_rank=LARGEST_RANK),
    TfliteOp("MIRROR_PAD", _parse_mirror, max_version=3, inputs=2, max_rank=LARGEST_RANK, moves_values=True),
)
