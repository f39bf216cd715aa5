"""Rewrite of launches: the launch that reads a vector computes it in a prologue, once per work-group."""

from __future__ import annotations

from dataclasses import replace

from .launches import GATE, LabelledLaunch, Lowered, PrologueLaunch, largest_arrays
from .partial_sums import SUMS_READ

MOST_GROUPS = 256
"""The most work-groups that compute the vector. With more, a separate dispatch costs less."""
MOST_PICTURES = 2
"""The most pictures of a batch, because each work-group computes the vectors of all. Eight took 17 us, 2.1 each, on an
H200 on 2026-11-22 (selfie_segmentation, a dispatch per step); a separate step takes less from the third picture on.
"""


def compute_where_read(lowered: Lowered, entry: LabelledLaunch, *, most_groups: int = MOST_GROUPS) -> None:
    """Let the only launch that reads the vector compute it, if its epilogue reads it and it has few work-groups."""
    launch = entry.launch
    if not launch.fusion.fits_in_prologue:
        return
    vector = launch.writes[GATE]
    reader = lowered.only_reader(vector)
    if reader is None or reader.prologue is not None:
        return
    pictures = lowered.shapes[vector][0]
    slices_read = sum(lowered.slice_count(tensor) for tensor in launch.reads.values())
    if reader.launch.group_count > most_groups or pictures > MOST_PICTURES:
        return
    if slices_read > SUMS_READ * lowered.target.group_size:
        return
    names = {*launch.constants, *launch.arrays, *launch.reads}
    taken = {*reader.launch.constants, *reader.launch.arrays, *reader.launch.reads, *reader.launch.writes}
    if taken & names or vector in reader.launch.reads.values():
        return
    gate = ("float4", GATE, lowered.slice_count(vector))
    merged = replace(
        reader.launch,
        reads=reader.launch.reads | launch.reads,
        constants=reader.launch.constants | launch.constants | {"PICTURES": pictures},
        arrays=reader.launch.arrays | launch.arrays,
        local=largest_arrays(reader.launch.local, launch.local, (gate,)),
    )
    prologue = PrologueLaunch(launch.kernel, vector, entry.epilogue)
    label = f"{entry.label} + {reader.label}"
    lowered.replace(entry, reader, replace(reader, launch=merged, prologue=prologue, label=label))
