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
from .jobs import Job


@contextlib.contextmanager
def copied(job: Job, work: Work) -> Iterator[tuple[Path, Path, Work]]:
    """Fetch a job's video, if it is behind a URL, to a folder that is removed at the end of the block.

    Yields the path of the video, that of the results, which is in the same folder if they are to be put behind a URL,
    and the work, which has the video's name.
    """
    if not job.upload and not isinstance(job.source, str):
        yield job.source, job.place, work
        return
    with tempfile.TemporaryDirectory(prefix=f"{UNFINISHED}{os.getpid()}-") as name:
        source, place = job.source, Path(name) / "results" / job.place.name if job.upload else job.place
        if isinstance(source, str):
            work = replace(work, named=source)
            fetched = Path(name) / PurePosixPath(urlsplit(source).path).name
            remote.fetch(source, fetched)
            source = fetched
        yield source, place, work


def put_outputs(job: Job, work: Work, place: Path) -> list[str]:
    """Put the results behind their URLs. Returns these; none if the results stay where they are."""
    if not job.upload:
        return []
    urls = [str(each) for each in outputs_of(job, work)]
    for made, url in zip(work.outputs(place), urls, strict=True):
        remote.put(made, url)
    return [fb.video.masked_address(url) for url in urls]


def outputs_of(job: Job, work: Work) -> list[Path | str]:
    """The paths or URLs of a job's results."""
    paths = work.of(job.source).outputs(job.place)
    return [remote.join_url(job.upload, path.as_posix()) if job.upload else path for path in paths]
