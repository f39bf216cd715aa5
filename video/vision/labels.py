"""The names of a model's classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import framebind as fb


def read_labels(path: Path | None, classes: int, known: Sequence[str] = ()) -> list[str]:
    """The name of each class: the lines of a text file, or ``known`` names, or "class" and a number.

    ``known`` are those in the model's own file (``ModelMetadata.classes``); if they are too few or too many, they
    belong to something else. Class 0 may be left out if that is the background. Raises SourceError for a text file of
    another length.
    """
    names = list(known) if path is None else _lines(path)
    if len(names) == classes - 1:
        names.insert(0, "background")
    if len(names) == classes:
        return names
    if path is None:
        return [f"class {number}" for number in range(classes)]
    raise fb.SourceError(
        f"the labels '{path}' have {len(names)} lines, but the model has {classes} classes: give it the file of "
        "labels that belongs to the model, a line for each class"
    )


def names_without_background(path: Path | None, known: Sequence[str] = ()) -> list[str]:
    """The names in a text file, or else the ``known`` ones, without a first one that is the background ("???",
    "background").

    Empty if there are none. Raises SourceError.
    """
    names = list(known) if path is None else _lines(path)
    return names[1:] if names and names[0].strip().lower() in ("???", "background") else names


def class_names(path: Path | None, classes: int | None, known: Sequence[str], usual: Sequence[str] = ()) -> list[str]:
    """The names of a detector's classes: those of a text file, or the ``known`` or ``usual`` ones, or numbers.

    If the outputs do not have the number of classes, it is None, and ``add_names`` adds those that turn up. Raises
    SourceError.
    """
    if classes is None:
        return names_without_background(path, known)
    return read_labels(path, classes, known or usual)


def add_names(names: list[str], numbers: Sequence[int]) -> None:
    """Add to ``names`` those of classes that it lacks: "class" and a number."""
    names += [f"class {number}" for number in range(len(names), max(numbers, default=-1) + 1)]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise fb.SourceError(f"the labels '{path}' cannot be read as lines of text: {error}") from error
