"""The rows of results: one schema for all tasks, in Python, in JSONL and in Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

Row = TypedDict(
    "Row",
    {
        "source": str,
        "time": float | None,
        "frame": int,
        "class": str | None,
        "score": float | None,
        "box": list[float] | None,
        "points": list[list[float]] | None,
        "point_scores": list[float] | None,
        "share": float | None,
    },
)
"""A thing that was found in a frame, or, if all fields behind ``frame`` are None, a frame in which nothing was found.

``source`` is the video as it was named, ``time`` the frame's seconds on the video's clock (None if it has none),
``frame`` the number of the frame from the first one that was read. ``score`` is from 0 to 1; ``box`` is left, top,
right, bottom, and ``points`` are x, y, in pixels of the picture; ``share`` is the part of the picture, from 0 to 1,
that the class covers.
"""

COLUMNS: tuple[str, ...] = tuple(Row.__annotations__)
"""The names of a row's fields, in order."""


def make_rows(source: str, time: float | None, frame: int, found: Sequence[dict[str, Any]]) -> list[Row]:
    """The rows of a frame: one for each thing that a task found, or one that says that there is none."""
    return [_row(source, time, frame, each) for each in found or [{}]]


def _row(source: str, time: float | None, frame: int, found: dict[str, Any]) -> Row:
    row: Any = dict.fromkeys(COLUMNS)
    row.update(found, source=source, time=time, frame=frame)
    return row


def make_columns(rows: Iterable[Row]) -> dict[str, list[Any]]:
    """The rows as a list of values for each column."""
    listed = list(rows)
    return {name: [row.get(name) for row in listed] for name in COLUMNS}
