"""Launches that need no dispatch of their own: sums that the writer of the summands makes; vectors, and resized
tensors, that readers make.

A squeeze-and-excite block is then no step at all. The work-groups that write its pixels also write the sum of theirs,
by slices; those that read its gate add these up and compute it, each for itself, before their own tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ...interop.device import Traits
from ...kernels.operation import FusedOp, Unsupported
from ...kernels.tensor import Shape, TensorId, TensorInfo, slices
from ...kernels.views import Resize
from .launches import GATE, LabelledLaunch, LocalVector, Lowered, check_launch, only_resizes

SUMS_READ = 16
"""Slices of sums that an invocation reads at most: each work-group reads them all."""
MOST_SLICES = 8
"""For as many slices each invocation can have sums of its own."""
SUM_SHARES = 8
"""Among how many invocations the sum of a slice is divided, where slices are few."""
MOST_TILES = 256
"""More work-groups than these would spend more on computing a vector than a dispatch of its own costs."""
RESIZE_READERS = {"conv": "SLICE_STEP", "matrix_conv": "COLUMN_TILES"}
"""The kernels that may resize what they read, and the constant that says how often they read it for a tap."""
MOST_MIXES = 4
"""How often a pixel that is mixed of four is computed at most."""
Shared = tuple[tuple[str, str, int], ...]


def merge_launches(lowered: Lowered, tensors: Mapping[int, TensorInfo], kept: set[int], traits: Traits) -> None:
    """Drop each launch that others can do; ``kept`` are tensors that are needed in memory."""
    for entry in list(lowered.launches):
        if entry.launch.is_row_sum:
            _sum_where_written(lowered, entry, tensors, traits)
    for entry in list(lowered.launches):
        if entry.launch.fits_in_prologue and entry.launch.writes[GATE] not in kept:
            _compute_where_read(lowered, entry, tensors, traits)
    for entry in list(lowered.launches):
        if (resize := only_resizes(entry)) is not None and entry.launch.writes["dst"] not in kept:
            _resize_where_read(lowered, entry, resize, tensors, traits)


def _sum_where_written(
    lowered: Lowered, entry: LabelledLaunch, tensors: Mapping[int, TensorInfo], traits: Traits
) -> None:
    """Let the last launch that writes a summand add up the pixels, if it can and there will not be too many sums."""
    sums = entry.launch.writes["dst"]
    writer, epilogue = _last_writer(lowered, entry)
    if writer is None or writer.partial_sums is not None:
        return
    launch, own = writer.launch, writer.launch.slice_ownership
    batch, _, _, channels = lowered.shapes[next(iter(launch.writes.values()))]
    if own is None or own.count > MOST_SLICES:
        return
    if batch != 1 or launch.group_count * slices(channels) > SUMS_READ * traits.group_size:
        return
    shares = SUM_SHARES if slices(channels) * SUM_SHARES <= traits.group_size // 2 else 1
    partial_sums = {"OWNED_LANES": own.lanes, "OWNED_STEP": own.step, "OWNED_SLICES": own.count, "SUM_SHARES": shares}
    merged = replace(
        launch,
        writes=launch.writes | {"partial_sums": sums},
        constants=launch.constants | partial_sums,
        shared=_together(launch.shared, (("float4", "partial", traits.group_size * own.count),)),
    )
    if _replace(lowered, entry, writer, replace(writer, launch=merged, partial_sums=epilogue), tensors, traits):
        lowered.shapes[sums] = (1, launch.group_count, 1, channels)


def _last_writer(lowered: Lowered, entry: LabelledLaunch) -> tuple[LabelledLaunch | None, tuple[FusedOp, ...]]:
    """The only launch that writes, first, a tensor that is summed, when all else that is added to it or multiplied is
    there; and the links that then make the summands of that tensor.
    """
    source, epilogue = entry.launch.reads["src"], entry.input_ops
    ways: list[tuple[TensorId, tuple[FusedOp, ...]]] = [(source, epilogue)]
    if len(epilogue) == 1 and epilogue[0].operand is not None and isinstance(source, int):
        turned = replace(epilogue[0], operand=source, swapped=not epilogue[0].swapped)
        ways += [(epilogue[0].operand, (turned,))] * (lowered.shapes[source] == lowered.shapes[epilogue[0].operand])
    for tensor, applied in ways:
        writer = _only(e for e in lowered.launches if tensor in e.launch.writes.values())
        if writer is None or next(iter(writer.launch.writes.values())) != tensor:
            continue
        later = lowered.launches[lowered.launches.index(writer) :]
        unknown = {i for e in later for i in e.launch.writes.values()}
        if not any(op.operand in unknown for op in applied):
            return writer, applied
    return None, ()


def _compute_where_read(
    lowered: Lowered, entry: LabelledLaunch, tensors: Mapping[int, TensorInfo], traits: Traits
) -> None:
    """Let the only launch that reads the vector compute it, where its links read it and it has few tiles."""
    launch, vector = entry.launch, entry.launch.writes[GATE]
    reader = _only(e for e in lowered.launches if vector in e.reads)
    if reader is None or reader.local is not None or vector in lowered.aliases:
        return
    taken = {*reader.launch.constants, *reader.launch.arrays, *reader.launch.reads, *reader.launch.writes}
    names = {*launch.constants, *launch.arrays, *launch.reads}
    read = sum(_slices(lowered.shapes[i]) for i in launch.reads.values())
    if reader.launch.group_count > MOST_TILES or read > SUMS_READ * traits.group_size:
        return
    if taken & names or vector in reader.launch.reads.values():
        return
    merged = replace(
        reader.launch,
        reads=reader.launch.reads | launch.reads,
        constants=reader.launch.constants | launch.constants,
        arrays=reader.launch.arrays | launch.arrays,
        shared=_together(reader.launch.shared, launch.shared, (("float4", GATE, _slices(lowered.shapes[vector])),)),
    )
    local = LocalVector(launch.kernel, vector, entry.epilogue)
    label = f"{entry.label} + {reader.label}"
    _replace(lowered, entry, reader, replace(reader, launch=merged, local=local, label=label), tensors, traits)


def _resize_where_read(
    lowered: Lowered, entry: LabelledLaunch, resize: Resize, tensors: Mapping[int, TensorInfo], traits: Traits
) -> None:
    """Let the only launch that reads the resized tensor resize what it reads, where it computes no pixel often."""
    source, resized = entry.launch.reads["src"], entry.launch.writes["dst"]
    reader = _only(e for e in lowered.launches if resized in e.reads)
    if reader is None or reader.launch.kernel not in RESIZE_READERS or reader.reads.count(resized) != 1:
        return
    shared = resized in lowered.aliases or any(part.parent == resized for part in lowered.aliases.values())
    constants = reader.launch.constants
    times = constants["KERNEL_H"] * constants["KERNEL_W"] * constants[RESIZE_READERS[reader.launch.kernel]]
    if shared or reader.launch.reads["src"] != resized or (resize.bilinear and times > MOST_MIXES):
        return
    merged = replace(reader.launch, reads=reader.launch.reads | {"src": source}, resized=resize)
    label = f"{entry.label} + {reader.label}"
    _replace(lowered, entry, reader, replace(reader, launch=merged, label=label), tensors, traits)


def _slices(shape: Shape) -> int:
    return shape[0] * shape[1] * shape[2] * slices(shape[3])


def _only(entries: Iterable[LabelledLaunch]) -> LabelledLaunch | None:
    found = list(entries)
    return found[0] if len(found) == 1 else None


def _together(*arrays: Shared) -> Shared:
    """Local arrays of launches that use them one after the other: of one name and type, the largest."""
    largest: dict[tuple[str, str], int] = {}
    for kind, name, count in (array for some in arrays for array in some):
        largest[kind, name] = max(count, largest.get((kind, name), 0))
    return tuple((kind, name, count) for (kind, name), count in largest.items())


def _replace(
    lowered: Lowered,
    dropped: LabelledLaunch,
    old: LabelledLaunch,
    new: LabelledLaunch,
    tensors: Mapping[int, TensorInfo],
    traits: Traits,
) -> bool:
    """Put ``new`` in the place of two launches, unless it takes more than the device has; whether so."""
    try:
        check_launch(new, tensors, traits)
    except Unsupported:
        return False
    lowered.launches = [new if entry is old else entry for entry in lowered.launches if entry is not dropped]
    return True
