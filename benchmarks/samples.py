"""Reads and writes the files of benchmarks/results: every sample of a measurement, and how it was taken.

A file is JSON with the fields of ``Measured``. The scripts of this folder write one with ``--json FILE``; its commit is
"" until ``benchmarks/report.py add`` fills it in, as a lent machine may have no repository.
"""

from __future__ import annotations

import datetime
import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

Label = str | int
DIGITS = 4
"""Significant digits of a sample that is kept."""


@dataclass(frozen=True)
class Series:
    """Samples of one figure, in the unit of the file; ``labels`` say of what: model, on, figure, batch ..."""

    labels: dict[str, Label]
    samples: list[float]

    @property
    def median(self) -> float:
        return float(np.median(self.samples))

    @property
    def p99(self) -> float:
        """The time that 99% of the samples keep below; of fewer than 100 it is close to the largest."""
        return float(np.percentile(self.samples, 99))


@dataclass(frozen=True)
class Measured:
    """A measurement. ``date`` is YYYY-MM-DD, ``commit`` the tree that was measured, ``command`` measures it again."""

    kind: str
    machine: str
    driver: str
    date: str
    commit: str
    command: str
    unit: str
    series: list[Series]


def measured(kind: str, devices: Iterable[tuple[str, str]], unit: str, series: list[Series]) -> Measured:
    """A measurement of today by the program that runs; ``devices`` has names and drivers."""
    machine, driver = machine_and_driver(devices)
    return Measured(kind, machine, driver, today(), "", command_line(sys.argv), unit, series)


def command_line(arguments: Sequence[str]) -> str:
    """The command that measures again, without the name of the file that it wrote."""
    words = list(arguments[1:])
    if "--json" in words:
        place = words.index("--json")
        del words[place : place + 2]
    script = Path(arguments[0]).resolve()
    return shlex.join([script.relative_to(Path(__file__).resolve().parents[1]).as_posix(), *words])


def machine_and_driver(devices: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """The machine, by the shortest name that an API gives its device, and the drivers' versions.

    NVIDIA's OpenGL adds a bus and an instruction set behind a slash.
    """
    known = list(devices)
    machine = min((device.partition("/")[0] for device, _ in known if device), key=len, default="no GPU")
    return machine, "; ".join(dict.fromkeys(driver for _, driver in known if driver))


def today() -> str:
    return datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()


def merged(parts: Sequence[Measured], commit: str) -> Measured:
    """Several measurements of one kind, commit and machine as one; series of equal labels become one.

    Raises ValueError for others.
    """
    first = parts[0]
    if len({(part.kind, part.machine, part.unit) for part in parts}) > 1:
        raise ValueError("these files are not of one kind, machine and unit")
    drivers = dict.fromkeys(driver for part in parts for driver in part.driver.split("; "))
    commands = ", ".join(dict.fromkeys(part.command for part in parts))
    found: dict[tuple[tuple[str, Label], ...], list[float]] = {}
    for each in (each for part in parts for each in part.series):
        found.setdefault(tuple(each.labels.items()), []).extend(each.samples)
    series = [Series(dict(labels), numbers) for labels, numbers in found.items()]
    date = max(part.date for part in parts)
    return Measured(first.kind, first.machine, "; ".join(drivers), date, commit, commands, first.unit, series)


def read(path: Path) -> Measured:
    """The measurement of a file. Raises TypeError for a file of another form."""
    return from_fields(json.loads(path.read_text(encoding="utf-8")))


def from_fields(fields: dict[str, Any]) -> Measured:
    series = [Series(**each) for each in fields["series"]]
    known: dict[str, Any] = {**fields, "series": series}
    return Measured(**known)


def write(path: Path, measurement: Measured) -> None:
    """Write a file: one series a line, samples with DIGITS significant digits."""
    fields = asdict(measurement)
    lines = ",\n".join(f"    {json.dumps(_rounded(each))}" for each in fields.pop("series"))
    text = json.dumps(fields, indent=2).removesuffix("\n}")
    path.write_text(f'{text},\n  "series": [\n{lines}\n  ]\n}}\n', encoding="utf-8")


def _rounded(series: dict[str, Any]) -> dict[str, Any]:
    return {**series, "samples": [float(f"{sample:.{DIGITS}g}") for sample in series["samples"]]}


def from_benchmark(printed: dict[str, Any]) -> Measured:
    """The measurement that ``python -m framebind benchmark --json`` printed: of bound frames, or of read ones."""
    runs = [run for run in printed["runs"] if run["latency"] is not None]
    kind = "frames" if any(run["io"] == "bound" for run in runs) else "read"
    devices = [(run["statistics"]["device"], run["statistics"]["driver"]) for run in runs if run["statistics"]]
    series = [
        Series({"model": run["model"], "on": run["on"], "figure": figure}, samples)
        for run in runs
        for figure, samples in run["samples"].items()
    ]
    machine, driver = machine_and_driver(devices)
    return Measured(kind, machine, driver, today(), "", printed["environment"]["command"], "ms", series)
