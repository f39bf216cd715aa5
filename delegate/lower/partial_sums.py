"""Rewrite of launches: the launch that writes pixels also sums them, and their squares."""

from __future__ import annotations

from dataclasses import replace

from ...kernels.operation import FusedOp
from ...kernels.tensor import TensorId, slices
from .launches import LabelledLaunch, Lowered, largest_arrays

SUMS_READ = 16
"""The most slices of partial sums that an invocation reads. Each work-group that needs the sum reads them all."""
MOST_SLICES = 8
"""The most slices for which an invocation has its own sums."""
SUM_SHARES = 8
"""The number of invocations that share the sum of a slice, if the slices are few."""
LONG_SUM = 32
"""The number of terms from which on several invocations share a work-group's sum, even if none is idle. Steps of 128
terms took 5.9 to 7.7 us, and 3.4 to 4.4 with shared sums (selfie_segmentation, H200, OpenCL, 2026-11-22,
``benchmarks/inside.py``).
"""


def sum_where_written(lowered: Lowered, entry: LabelledLaunch, *, sums_read: float = SUMS_READ) -> None:
    """Let the last launch that writes a summand add up its pixels (and their squares if needed), if it can and there
    are few enough sums.
    """
    fusion = entry.launch.fusion
    if not (fusion.is_row_sum or (fusion.is_moments and lowered.target.halves)):
        return
    moments = 2 if fusion.is_moments else 1
    writer, summand_ops = _last_writer(lowered, entry)
    if writer is None or writer.partial_sums is not None:
        return
    launch, own = writer.launch, writer.launch.fusion.slice_ownership
    group_size = lowered.target.group_size
    batch, _, _, channels = lowered.shapes[writer.destination]
    if own is None or own.count > MOST_SLICES:
        return
    if batch != 1 or moments * launch.group_count * slices(channels) > sums_read * group_size:
        return
    terms = -(-own.lanes // own.step) * (group_size // own.lanes)
    idle = group_size if terms >= LONG_SUM else group_size // 2
    shares = SUM_SHARES if slices(channels) * SUM_SHARES <= idle else 1
    ownership = {"OWNED_LANES": own.lanes, "OWNED_STEP": own.step, "OWNED_SLICES": own.count}
    sums = entry.destination
    merged = replace(
        launch,
        writes=launch.writes | {"partial_sums": sums},
        constants=launch.constants | ownership | {"SUM_SHARES": shares, "MOMENTS": moments},
        local=largest_arrays(launch.local, (("float4", "partial", group_size * own.count),)),
    )
    if lowered.replace(entry, writer, replace(writer, launch=merged, partial_sums=summand_ops)):
        lowered.shapes[sums] = (1, launch.group_count, 2 * moments - 1, channels)


def _last_writer(lowered: Lowered, entry: LabelledLaunch) -> tuple[LabelledLaunch | None, tuple[FusedOp, ...]]:
    """The only launch that writes a summed tensor, if all operands of its operations are written earlier; and the
    operations that turn its values into the summands.
    """
    source, input_ops = entry.launch.reads["src"], entry.input_ops
    ways: list[tuple[TensorId, tuple[FusedOp, ...]]] = [(source, input_ops)]
    if len(input_ops) == 1 and input_ops[0].operand is not None and isinstance(source, int):
        other = input_ops[0].operand
        if lowered.shapes[source] == lowered.shapes[other]:
            ways.append((other, (replace(input_ops[0], operand=source, swapped=not input_ops[0].swapped),)))
    for tensor, summand_ops in ways:
        writer = lowered.only_writer(tensor)
        if writer is None or writer.destination != tensor:
            continue
        later = lowered.launches[lowered.launches.index(writer) :]
        not_yet_written = {lowered.parent(i) for launch in later for i in launch.launch.writes.values()}
        if not any(op.operand is not None and lowered.parent(op.operand) in not_yet_written for op in summand_ops):
            return writer, summand_ops
    return None, ()
