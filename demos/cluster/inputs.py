"""The videos that a command line names: files, folders, patterns, and lists of them."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import framebind as fb

from .remote import find, is_url

SUFFIXES = frozenset(
    ".mp4 .m4v .mov .mkv .webm .avi .ts .mts .m2ts .mpg .mpeg .wmv .flv .3gp .ogv .gif .mxf .vob".split()
)
"""Suffixes of the files in folders that are videos. A file that is named itself may have any."""


@dataclass(frozen=True)
class Input:
    """A video, and where its results go below the output folder: as the file lies below the folder that was named."""

    source: Path | str
    """A path, or a URL."""
    place: Path


def find_inputs(named: Iterable[str]) -> list[Input]:
    """The videos behind names: files, folders with all below them, patterns ("clips/*.mp4"), "@list" of names.

    Each may be a path or a URL; see ``remote`` for these.

    Each video once, in the order of the names. Raises SourceError for a name behind which there is nothing.
    """
    found: dict[str, Input] = {}
    for name in named:
        for each in _behind(name):
            found.setdefault(name_of(each.source), each)
    return list(found.values())


def name_of(source: Path | str) -> str:
    """The name that a video has in every folder: its whole path, or its URL."""
    return source if isinstance(source, str) else str(source.resolve())


def _behind(name: str) -> list[Input]:
    path = Path(name)
    if name.startswith("@"):
        return _listed(Path(name[1:]))
    if is_url(name):
        if not (videos := find(name, SUFFIXES)):
            raise fb.SourceError(f"there is no video at '{name}', and none that matches it as a pattern")
        return [Input(url, place) for url, place in videos]
    if path.is_dir():
        videos = sorted(each for each in path.rglob("*") if each.suffix.lower() in SUFFIXES and each.is_file())
        if not videos:
            raise fb.SourceError(f"folder '{path}' holds no video ({' '.join(sorted(SUFFIXES))})")
        return [Input(video, video.relative_to(path)) for video in videos]
    if path.is_file():
        return [Input(path, Path(path.name))]
    matches = sorted(Path(match) for match in glob.glob(name, recursive=True))
    files = [match for match in matches if match.is_file()]
    if not files:
        raise fb.SourceError(f"there is no file or folder '{name}', and no file that matches it as a pattern")
    return [Input(file, Path(file.name)) for file in files]


def _listed(path: Path) -> list[Input]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise fb.SourceError(f"the list '{path}' cannot be read: {error}") from error
    names = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith(("#", "@"))]
    return [each for name in names for each in _behind(name)]
