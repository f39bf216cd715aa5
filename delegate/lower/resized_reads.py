"""Rewrite of launches: the launch that reads a resized tensor resizes it while reading."""

from __future__ import annotations

from dataclasses import replace

from .launches import LabelledLaunch, Lowered, only_resizes

MOST_MIXES = 4
"""The most times that one pixel may be mixed from four others. Beyond, a separate dispatch costs less."""


def resize_where_read(lowered: Lowered, entry: LabelledLaunch) -> None:
    """Let the only launch that reads the resized tensor resize it while reading, if it computes no pixel often."""
    resize = only_resizes(entry)
    if resize is None:
        return
    resized = entry.destination
    reader = lowered.only_reader(resized)
    if reader is None or reader.reads.count(resized) != 1 or reader.launch.reads.get("src") != resized:
        return
    times = reader.launch.fusion.reads_per_value
    if times is None or (resize.bilinear and times > MOST_MIXES):
        return
    merged = replace(reader.launch, reads=reader.launch.reads | {"src": entry.launch.reads["src"]}, resize=resize)
    label = f"{entry.label} + {reader.label}"
    lowered.replace(entry, reader, replace(reader, launch=merged, label=label))
