"""Rewrite of launches: a resized tensor that the launch that reads it resizes where it reads it."""

from __future__ import annotations

from dataclasses import replace

from .launches import LabelledLaunch, Lowered, only_resizes

MOST_MIXES = 4
"""The most times that a pixel may be mixed of four others; with more, a dispatch that resizes costs less."""
RESIZE_READERS = {"conv": "SLICE_STEP", "matrix_conv": "COLUMN_TILES"}
"""The kernels that may resize what they read, and the constant that says how often they read it for a tap."""


def resize_where_read(lowered: Lowered, entry: LabelledLaunch) -> None:
    """Let the only launch that reads the resized tensor resize what it reads, if it computes no pixel often."""
    resize = only_resizes(entry)
    if resize is None:
        return
    resized = entry.destination
    reader = lowered.only_reader(resized)
    if reader is None or reader.reads.count(resized) != 1 or reader.launch.reads.get("src") != resized:
        return
    times = _reads_per_value(reader)
    if times is None or (resize.bilinear and times > MOST_MIXES):
        return
    merged = replace(reader.launch, reads=reader.launch.reads | {"src": entry.launch.reads["src"]}, resized=resize)
    label = f"{entry.label} + {reader.label}"
    lowered.replace(entry, reader, replace(reader, launch=merged, label=label))


def _reads_per_value(reader: LabelledLaunch) -> float | None:
    constants, step = reader.launch.constants, RESIZE_READERS.get(reader.launch.kernel)
    return None if step is None else constants["KERNEL_H"] * constants["KERNEL_W"] * constants[step]
