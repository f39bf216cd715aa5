"""Copies of what lies behind URLs: a worker reads and writes files of its own."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import framebind as fb

from ..results.outputs import UNFINISHED
from ..work import Work
from . import remote
from .units import Unit


@contextlib.contextmanager
def copied(unit: Unit, work: Work) -> Iterator[tuple[Path, Path, Work]]:
    """Fetch a unit's video, if it is behind a URL, to a folder that is removed at the end of the block.

    Yields the path of the video, that of the results, which is in the same folder if they are to be put behind a URL,
    and the work, which has the video's name.
    """
    if not unit.upload and not isinstance(unit.source, str):
        yield unit.source, unit.place, work
        return
    with tempfile.TemporaryDirectory(prefix=f"{UNFINISHED}{os.getpid()}-") as name:
        source, place = unit.source, Path(name) / "results" / unit.place.name if unit.upload else unit.place
        if isinstance(source, str):
            work = replace(work, named=source)
            fetched = Path(name) / PurePosixPath(urlsplit(source).path).name
            remote.fetch(source, fetched)
            source = fetched
        yield source, place, work


def put_outputs(unit: Unit, work: Work, place: Path) -> list[str]:
    """Put the results behind their URLs. Returns these; none if the results stay where they are."""
    if not unit.upload:
        return []
    urls = [str(each) for each in outputs_of(unit, work)]
    for made, url in zip(work.outputs(place), urls, strict=True):
        remote.put(made, url)
    return [fb.video.masked_address(url) for url in urls]


def outputs_of(unit: Unit, work: Work) -> list[Path | str]:
    """The paths or URLs of a unit's results."""
    paths = work.of(unit.source).outputs(unit.place)
    return [remote.join_url(unit.upload, path.as_posix()) if unit.upload else path for path in paths]
