"""The description of the work on each video: plain values, so that it travels to other processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from ..flags import GpuFlags
from .tasks import TaskName

Save = Literal["video", "jsonl"]
SAVED: tuple[Save, ...] = get_args(Save)


@dataclass(frozen=True)
class Work:
    """The task, its model, the files that are saved, and the part of each video."""

    task: TaskName
    model: str = ""
    """A .tflite file or a known model; the task's own if empty."""
    save: tuple[Save, ...] = ("video",)
    suffix: str = ".mp4"
    codec: str | None = None
    quality: int | None = None
    every: int = 1
    """Every how many frames one is taken."""
    start: float = 0.0
    end: float | None = None
    """Seconds of the first frame, and of the first one that is left out."""
    origin: float | None = None
    """Second that is 0 in saved videos, which have no sound then: they are parts of longer ones. None: ``start``."""
    flags: GpuFlags = field(default_factory=GpuFlags)

    def outputs(self, place: Path) -> list[Path]:
        """The files that it writes for a place without a suffix."""
        suffixes = {"video": self.suffix, "jsonl": ".jsonl"}
        return [place.with_name(place.name + suffixes[each]) for each in self.save]
