"""Outcomes of checks, and the file that keeps them while a certification runs, so that it can be resumed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from .checks import Subject
from .devices import Device

Status = Literal["passed", "wrong", "error", "left to the CPU", "crashed", "hung"]
FOLDERS = re.compile(r"(?<![\w.])(?:[A-Za-z]:[\\/]|/)(?:[^\\/\n'\",:]+[\\/])+")
"""The folders of a path in a text."""
FAILURES: tuple[Status, ...] = ("wrong", "error", "left to the CPU", "crashed", "hung")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a check. ``error`` and ``bound`` are None if nothing was compared; ``seconds`` is the time of the
    first run with compilation; ``on_cpu`` is the number of operators that the GPU left to the CPU.
    """

    subject: Subject
    status: Status
    error: float | None = None
    bound: float | None = None
    seconds: float = 0.0
    reason: str = ""
    on_cpu: int = 0

    def row(self) -> dict[str, Any]:
        """The outcome as JSON's types."""
        return asdict(self)


def without_folders(text: str) -> str:
    """A message with only the names of files, because folders may have the name of a user."""
    return FOLDERS.sub("", text)


def outcome_from(row: dict[str, Any]) -> Outcome:
    """The outcome that ``Outcome.row`` returned."""
    fields: dict[str, Any] = row | {"subject": Subject(**row["subject"])}
    return Outcome(**fields)


class Journal:
    """A file with a line per outcome, appended as they come, so that no outcome is lost if a run is killed.

    The first line has the plan: devices, subjects and versions. A journal of another plan is not continued.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def plan(self) -> dict[str, Any] | None:
        """The plan of an unfinished certification; None if there is none that can be read."""
        try:
            with self.path.open(encoding="utf-8") as file:
                return json.loads(file.readline())
        except (OSError, ValueError):
            return None

    def begin(self, plan: dict[str, Any]) -> None:
        """Start anew."""
        self.path.write_text(json.dumps(plan), encoding="utf-8")

    def add_device(self, device: Device) -> None:
        """Append a device: the outcomes of its name are its own."""
        self._append([device.name, "device", asdict(device)])

    def add(self, device: str, outcome: Outcome) -> None:
        """Append an outcome."""
        self._append([device, "outcome", outcome.row()])

    def _append(self, line: list[Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(line))  # the newline comes first: the line before may have been cut off

    def read(self) -> tuple[dict[str, Device], dict[str, list[Outcome]]]:
        """The devices and the outcomes so far, by name of the device. A last line that was cut off is left out."""
        devices: dict[str, Device] = {}
        found: dict[str, list[Outcome]] = {}
        for line in self.path.read_text(encoding="utf-8").splitlines()[1:]:
            try:
                name, what, row = json.loads(line)
            except ValueError:
                continue
            if what == "device":
                devices[name] = Device(**row)
            else:
                found.setdefault(name, []).append(outcome_from(row))
        return devices, found


def worst(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The outcome that comes nearest to its bound, or is furthest beyond it."""
    compared = [outcome for outcome in outcomes if outcome.error is not None and outcome.bound is not None]
    return max(compared, key=lambda o: (o.error or 0.0) / (o.bound or 1e-12), default=None)
