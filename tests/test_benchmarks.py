"""The benchmarks run as programs, and count what the engine counts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import framebind as fb
from conftest import ROOT

FindModel = Callable[[str], Path]
GOLDEN = Path(__file__).parent / "golden.txt"

# There is a GL driver; the benchmarks then make a desktop context of their own.
pytestmark = [pytest.mark.usefixtures("context"), pytest.mark.parametrize("context", ["gl"], indirect=True)]


def output(script: str, *arguments: object) -> str:
    command = [sys.executable, str(ROOT / "benchmarks" / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_counts(model_path: FindModel) -> None:
    (line,) = [line for line in GOLDEN.read_text().splitlines() if line.startswith("face_detection_front f16:")]
    dispatches, barriers = line.split()[2:4]
    text = output("counts.py", model_path("face_detection_front"))
    rows = [line.split() for line in text.splitlines() if " f16 " in line]
    assert [row[2:4] for row in rows] == [[dispatches, barriers]]
    calls, others = map(int, rows[0][4:6])
    # Dispatches and barriers are calls, and so is the barrier at the end; nothing is called beside what is recorded.
    assert calls > int(dispatches) + int(barriers) and others == 0


def test_timings(model_path: FindModel, context: fb.GlContext, tmp_path: Path) -> None:
    file = tmp_path / "timings.json"
    options = ("--runs", 2, "--profile", "--compare", "litert-cpu", "--json", file)
    text = output("timings.py", model_path("face_detection_front"), *options)
    figures = json.loads(file.read_text())
    assert figures["environment"]["driver"] == context.gl.version and context.gl.version in text
    rows = {row["on"]: row for row in figures["milliseconds"]}
    assert list(rows) == ["gpu f32", "gpu f16", "litert-cpu"]
    for on, row in rows.items():
        assert on in text and 0 < row["min"] <= row["median"] <= row["p95"]
    for on in ("gpu f32", "gpu f16"):
        row = rows[on]
        assert 0 < row["submit"] <= row["p95"] and row["stream"] > 0
        times = [took for _, took in row["steps"]]
        assert len(times) > 50 and times == sorted(times, reverse=True) and min(times) >= 0 < max(times)
