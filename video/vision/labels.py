"""The names of a model's classes."""

from __future__ import annotations

from pathlib import Path

import framebind as fb


def read_labels(path: Path | None, classes: int) -> list[str]:
    """The name of each class: the lines of a text file, or "class" and a number if there is no file.

    A file may leave out class 0 if that is the background. Raises SourceError for a file of another length.
    """
    if path is None:
        return [f"class {number}" for number in range(classes)]
    names = _lines(path)
    if len(names) == classes - 1:
        names.insert(0, "background")
    if len(names) != classes:
        raise fb.SourceError(
            f"the labels '{path}' have {len(names)} lines, but the model has {classes} classes: give it the file of "
            "labels that belongs to the model, a line for each class"
        )
    return names


def names_without_background(path: Path | None) -> list[str]:
    """The names in a text file, a line each, without the first one if that is the background ("???", "background").

    Empty if there is no file. Raises SourceError.
    """
    names = [] if path is None else _lines(path)
    return names[1:] if names and names[0].strip().lower() in ("???", "background") else names


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise fb.SourceError(f"the labels '{path}' cannot be read as lines of text: {error}") from error
