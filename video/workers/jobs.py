"""Jobs, and what is reported of them: small values that travel between processes. Frames never do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import framebind as fb


@dataclass(frozen=True)
class Job:
    """A video or a part of one, and the path of its results without a suffix."""

    source: Path | str
    """A path, or a URL."""
    place: Path
    upload: str = ""
    """The URL of the folder below which results are put, at ``place``; "" if that is a path here."""
    part_seconds: float | None = None
    """A video that is much longer than this is divided into parts of this length; None: it stays whole."""
    part: fb.video.VideoPart | None = None
    """The part of the video that is processed; None for all that the work names."""
    parts: tuple[Job, ...] = ()
    """The parts whose results are joined to those of the video, if that is what is to be done."""


@dataclass(frozen=True)
class Progress:
    """A job under way: the share of it that is done, 0 to 1."""

    job: Job
    share: float


@dataclass(frozen=True)
class Divided:
    """A job that is replaced by its parts."""

    job: Job
    parts: tuple[Job, ...]


@dataclass(frozen=True)
class Finished:
    """A job that is done. ``result`` is what ``Session.process`` returns, or has the reason as ``error``."""

    job: Job
    result: dict[str, Any]


@dataclass(frozen=True)
class Lost:
    """A job whose worker died. It is done again."""

    job: Job


Event = Progress | Divided | Finished | Lost
Report = Callable[[Event], None]
