"""``scripts/fuzz_structure.py``: the same mutants in each run, without a fault, and faults that it must tell apart."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framebind.interop.device import Device
from support.environment import ROOT

SCRIPT = ROOT / "scripts" / "fuzz_structure.py"
FOUND = ("crash", "hang", "odd exception", "wrong result", "memory")


def run(road: str, count: int, folder: Path) -> str:
    """The output of the script in a process of its own: drivers of this one would not survive its forks."""
    summary = folder / "summary.json"
    command = [sys.executable, str(SCRIPT), "--road", road, "--seed", "3", "--count", str(count), "--processes", "2"]
    command += ["--keep", str(folder / "faults"), "--summary", str(summary)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(summary.read_text(encoding="utf-8"))
    assert found["run"] == found["asked"] == sum(found["outcomes"].values()) == count
    assert found["faults"] == [] and not (folder / "faults").exists()
    return done.stdout


def test_mutants_are_read_claimed_and_lowered(tmp_path: Path) -> None:
    printed = run("null", 200, tmp_path)
    assert "lowered" in printed and "refused by the reader" in printed


@pytest.mark.parametrize("gpu", ["gl"], indirect=True)
def test_mutants_are_run(gpu: Device, tmp_path: Path) -> None:
    printed = run("gl", 20, tmp_path)
    assert gpu.traits.api == "opengl" and "the same" in printed


@pytest.fixture
def script() -> Iterator[dict[str, Any]]:
    """The names of the script, where a test puts others."""
    names = runpy.run_path(str(SCRIPT))["batches"].__globals__
    before = dict(names)
    yield names
    names.update(before)


def _fake(content: bytes, road: str) -> str:
    if content == b"crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if content == b"hang":
        time.sleep(60)
    if content == b"memory":
        return f"the same {len(bytearray(300 << 20))}"
    return "the same" if road == "null" else ""


def test_a_process_that_dies_takes_one_mutant_with_it(script: dict[str, Any]) -> None:
    script.update(outcome_of=_fake, on_litert=lambda _: [], SECONDS={"null": 1}, PATIENCE=1, RESIDENT=200 << 20)
    mutants = [b"fine", b"crash", b"fine", b"hang", b"memory", b"fine"]
    outcomes = dict(script["batches"](mutants, "null"))
    kinds = [outcomes[number].split(":")[0] for number in range(len(mutants))]
    assert kinds == ["the same", "crash", "the same", "hang", "memory", "the same"]


def test_a_crash_of_litert_alone_is_litert_s(script: dict[str, Any]) -> None:
    script.update(
        outcome_of=_fake, on_litert=lambda content: _fake(content, ""), SECONDS={"null": 1, "LiteRT": 1}, PATIENCE=1
    )
    outcomes = dict(script["batches"]([b"crash", b"hang", b"fine"], "null"))
    assert outcomes == {0: "LiteRT's own crash", 1: "LiteRT's own hang", 2: "the same"}
    assert set(script["FAULTS"]) == set(FOUND)
