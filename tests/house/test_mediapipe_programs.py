"""The programs of docs/programs/mediapipe, which are those of MediaPipe with another import, run in one process."""

from __future__ import annotations

import re
import subprocess
import sys

from support.environment import ROOT

PROGRAMS = sorted((ROOT / "docs" / "programs" / "mediapipe").glob("*.py"))
PRINTED = {
    "air_draw": "[1-4] points", "blink_counter": "0 blinks in 4 frames with a face", "curl_counter": ".* curls, .*",
    "face_blur": "4 faces blurred", "finger_counter": r"Left hand: \d fingers", "head_pose": r"turned by \d+ degrees",
    "puppet": r'\{"jawOpen": 0.49, .*', "sign_features": "4 frames of 1662 values, 1152 of the last one are known",
    "virtual_background": "100% of the picture .* 160x120 pixels", "volume_by_hand": "volume 100%",
}  # fmt: skip


def test_each_program_runs() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/mediapipe_programs.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert [*printed] == [*PRINTED] == [program.stem for program in PROGRAMS]
    for name, pattern in PRINTED.items():
        assert re.fullmatch(pattern, printed[name]), (name, printed[name])


def test_only_imports_are_changed() -> None:
    """Each line that names framebind is an import, and says which one of MediaPipe's it takes the place of."""
    for program in PROGRAMS:
        lines = [line for line in program.read_text(encoding="utf-8").splitlines() if "framebind" in line]
        assert lines, program
        for line in lines:
            ours, _, theirs = line.partition("  # ")
            assert "mediapipe" in theirs and ours.split()[0] in ("import", "from"), line
            if ours != "import framebind.mp as mp" and ours != "from framebind import mp":
                assert ours.replace("framebind.mp", "mediapipe") == theirs, line
