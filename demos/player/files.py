"""Checks of the files that a run is asked to write."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import typer


def check_written(written: Sequence[Path], *, source: str, model: str) -> None:
    """Refuse to write a file that is also read, is in a folder of pictures that is read, or is named twice.

    ``source`` and ``model`` are anything that --source and --model take. Raises BadParameter.
    """
    places = [path.resolve() for path in written]
    for path, place in zip(written, places, strict=True):
        if places.count(place) > 1:
            raise typer.BadParameter(f"'{path}' would be written twice: give each file once")
        is_read = any(_is_same(path, read) for read in (source, source.removeprefix("synthetic:"), model))
        if is_read or (path.exists() and _is_same(path.parent, source)):
            raise typer.BadParameter(f"'{path}' is read and would be replaced: write to another file")


def _is_same(one: Path, other: str) -> bool:
    """Whether both are the same file or folder, by whatever names; False if one of them does not exist."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False
