"""Units of work and what is reported of them: small values that travel between processes. Frames never do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_ATTEMPTS = 3
"""Attempts at a unit, after which it counts as one that no worker survives."""


@dataclass(frozen=True)
class Unit:
    """A video, and the path of its results without a suffix."""

    source: Path
    place: Path


@dataclass(frozen=True)
class Progress:
    """A unit under way: the share of it that is done, 0 to 1."""

    unit: Unit
    share: float


@dataclass(frozen=True)
class Finished:
    """A unit that is done. ``result`` is what ``Session.process`` returns, or has the reason as ``error``."""

    unit: Unit
    result: dict[str, Any]


@dataclass(frozen=True)
class Lost:
    """A unit whose worker died. It is done again."""

    unit: Unit


Event = Progress | Finished | Lost
Report = Callable[[Event], None]


def given_up(unit: Unit, why: str) -> Finished:
    """The result of a unit that no worker survived."""
    return Finished(unit, {"error": f"WorkerDied: {why}, {MAX_ATTEMPTS} times, and {unit.source} is given up"})
