"""Damaged bundles end in framebind's errors: a part of ``scripts/fuzz_bundles.py``, the same in each run."""

from __future__ import annotations

import subprocess
import sys

from support.environment import ROOT

COUNT = 120
ONCE_WRONG = 3067
"""A mutant whose landmarks lay at one place, so that its mask's matrix had no inverse."""


def fuzz(first: int, count: int) -> str:
    command = [sys.executable, "scripts/fuzz_bundles.py", "--first", str(first), "--count", str(count)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_damaged_bundles_are_refused_or_run() -> None:
    said = fuzz(ONCE_WRONG - COUNT + 1, COUNT)
    assert f"{COUNT} mutants: 0 wrong" in said and "ModelError" in said and " found" in said
