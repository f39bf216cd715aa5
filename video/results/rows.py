"""The rows of results: one schema for all tasks, in Python, in JSONL and in Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

import framebind as fb

_Columns = TypedDict(
    "_Columns",
    {
        "source": str,
        "time": float | None,
        "frame": int,
        "class": str | None,
        "score": float | None,
        "box": list[float] | None,
        "points": list[list[float]] | None,
        "point_scores": list[float] | None,
        "corners": list[list[float]] | None,
        "share": float | None,
        "depths": list[float] | None,
        "world_points": list[list[float]] | None,
        "side": str | None,
        "blendshapes": list[float] | None,
        "mask": dict[str, Any] | None,
    },
)


class Row(_Columns, total=False):
    """A result in a frame, or a frame without results: then all fields after ``frame`` are None.

    ``source`` is the video as it was named, ``time`` the frame's seconds on the video's clock (None if it has none),
    ``frame`` the number of the frame from the first one that was read. ``score`` is from 0 to 1; ``box`` is left, top,
    right, bottom, and ``points`` are x, y, in pixels of the picture, as are the four ``corners`` of an oriented box;
    ``share`` is the part of the picture, from 0 to 1, that the class covers; ``mask`` is where, as COCO's run-length
    encoding, if masks were asked for so. ``depths`` are the points' z in pixels, negative towards the camera, and
    ``world_points`` their x, y, z in metres; ``side`` is that of a hand, and ``blendshapes`` are those of a face by the
    numbers of ``mp.tasks.vision.Blendshapes``. Rows of the task "raw" have a further key ``outputs``: an array for each
    output of the model.
    """

    outputs: dict[str, Any]


COLUMNS: tuple[str, ...] = tuple(_Columns.__annotations__)
"""The names of a row's fields, in order."""


def make_rows(source: str, time: float | None, frame: int | None, found: Sequence[dict[str, Any]]) -> list[Row]:
    """The rows of a frame: one for each result of a task, or one that says that there is none."""
    return [_row(source, time, frame, each) for each in found or [{}]]


def _row(source: str, time: float | None, frame: int | None, found: dict[str, Any]) -> Row:
    row: Any = dict.fromkeys(COLUMNS)
    if not source.isascii():  # bytes of a name that are no UTF-8 have no place in JSON and Parquet
        source = source.encode("utf-8", "backslashreplace").decode()
    row.update(found, source=fb.video.masked_address(source), time=time, frame=frame)
    return row


def make_columns(rows: Iterable[Row]) -> dict[str, list[Any]]:
    """The rows as a list of values for each column."""
    listed = list(rows)
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in listed] for name in COLUMNS}
    for row in listed:
        for name, values in row.get("outputs", {}).items():
            columns.setdefault(name, []).append(values)
    return columns
