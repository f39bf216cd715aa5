"""The videos and photographs that a command line names: files, folders, patterns, and lists of them."""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import framebind as fb

from ..work import PICTURES, is_photograph
from . import remote
from .remote import find, is_url

log = logging.getLogger("framebind")

SUFFIXES = frozenset(
    ".mp4 .m4v .mov .mkv .webm .avi .ts .mts .m2ts .mpg .mpeg .wmv .flv .3gp .ogv .gif .mxf .vob".split()
)
"""Suffixes of the files in folders that are videos. A file that is named itself may have any."""
TAKEN = SUFFIXES | PICTURES
"""Suffixes of the files in folders that are processed."""


@dataclass(frozen=True)
class Input:
    """A video or a photograph, and its results' place in the output folder: as the file lies in the named folder."""

    source: Path | str
    """A path, or a URL."""
    place: Path


def find_inputs(named: Iterable[str], output: str = "") -> list[Input]:
    """The videos and photographs behind names: files, folders with all below them, patterns ("clips/*.mp4"), "@list".

    Each may be a path or a URL; see ``remote`` for these. What lies below ``output`` is left out if that is a folder
    inside of a named one: results of an earlier run are no videos to process.

    Each video once, in the order of the names. Raises SourceError for a name behind which there is nothing.
    """
    found: dict[str, Input] = {}
    for name in named:
        for each in _behind(name, output):
            found.setdefault(name_of(each.source), each)
    return list(found.values())


def name_of(source: Path | str) -> str:
    """The name that a video has in every folder: its whole path, or its URL without secrets."""
    return remote.name_of(source) if isinstance(source, str) else str(source.resolve())


def result_place(place: Path) -> Path:
    """The path of an input's results without what they end in: clip.mp4 gives clip, clip.mkv gives clip-mkv.

    A photograph's is its own name, photo.jpg, which its painted picture has. So inputs of one folder that differ in
    their suffix have results of their own, whichever of them are there.
    """
    if is_photograph(place):
        return place
    suffix = place.suffix.lower()
    return place.with_suffix("") if suffix in ("", ".mp4") else place.with_name(f"{place.stem}-{suffix[1:]}")


def numbered(place: Path, number: int) -> Path:
    """The place of results of another input of the same name: clip-2, photo-2.jpg."""
    stem, suffix = (place.stem, place.suffix) if is_photograph(place) else (place.name, "")
    return place.with_name(f"{stem}-{number}{suffix}")


def _behind(name: str, output: str) -> list[Input]:
    if not name:
        raise fb.SourceError("'' is no name of a video: . is the current folder")
    if name.startswith("@"):
        return _listed(Path(name[1:]), output)
    name = remote.plain_url(name)
    path = Path(name)
    if is_url(name):
        inner = f"{output.rstrip('/')}/" if output.startswith(name.rstrip("/") + "/") else None
        if not (videos := [each for each in find(name, TAKEN) if inner is None or not each[0].startswith(inner)]):
            raise fb.SourceError(
                f"there is no photograph and no video at '{fb.video.masked_address(name)}', and none that matches "
                "it as a pattern"
            )
        return [Input(url, place) for url, place in videos]
    if path.is_dir():
        if not (videos := _outside(_files_below(path), path, output)):
            raise fb.SourceError(f"folder '{path}' holds no video or photograph ({' '.join(sorted(TAKEN))})")
        return [Input(video, video.relative_to(path)) for video in videos]
    if path.is_file():
        return [Input(path, Path(path.name))]
    if not (files := _outside(_matches(path), _fixed_part(path), output)):
        raise fb.SourceError(
            f"there is no file or folder '{fb.video.masked_address(name)}', and no file that matches it as a pattern"
        )
    return [Input(file, Path(file.name)) for file in files]


def _files_below(folder: Path) -> list[Path]:
    """The videos and photographs in a folder and in those below it.

    Links to folders are not followed: they may lead in circles. Names with a dot before them are left out: they
    are hidden, as macOS's "._clip.mp4", which are no videos.
    """

    def note(error: OSError) -> None:
        log.warning("folder '%s' is left out: %s", error.filename, error.strerror)

    files: list[Path] = []
    for inside, folders, names in os.walk(folder, onerror=note):
        folders[:] = [each for each in folders if not each.startswith(".")]
        files += [Path(inside, each) for each in names if not each.startswith(".")]
    return sorted(each for each in files if each.suffix.lower() in TAKEN and each.is_file())


def _matches(pattern: Path) -> list[Path]:
    """The files that match a pattern. "**" follows no link to a folder, as ``glob`` does."""
    try:
        found = Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor)))
        return sorted(each for each in found if each.is_file() and not each.name.startswith("."))
    except ValueError:  # it is no pattern
        return []


def _fixed_part(pattern: Path) -> Path:
    """The folder of a pattern, above everything that is to be matched."""
    while glob.has_magic(str(pattern)):
        pattern = pattern.parent
    return pattern


def _outside(files: Iterable[Path], folder: Path, output: str) -> list[Path]:
    """The files that are not in the output folder, if that is inside of the folder that was named."""
    place = None if is_url(output) or not output else Path(output).resolve()
    if place is None or folder.resolve() not in place.parents:
        return list(files)
    return [each for each in files if not each.resolve().is_relative_to(place)]


def _listed(path: Path, output: str) -> list[Input]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise fb.SourceError(f"the list '{path}' cannot be read: {error}") from error
    names = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not names or any(name.startswith("@") for name in names):
        raise fb.SourceError(f"the list '{path}' has no name of a video on a line of its own, or that of another list")
    return [each for name in names for each in _behind(name, output)]
