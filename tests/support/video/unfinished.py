"""Waiting for a worker of ``process`` that is in the middle of a video."""

from __future__ import annotations

import time
from pathlib import Path

from framebind.video.results.outputs import UNFINISHED


def wait_for_work(output: Path) -> tuple[int, Path]:
    """Wait until a worker is in the middle of a video. Returns its process and the folder that it writes."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for unfinished in output.glob(f"{UNFINISHED}*"):
            if list(unfinished.iterdir()):
                return int(unfinished.name.removeprefix(UNFINISHED).split("-")[0]), unfinished
        time.sleep(0.01)
    raise AssertionError("no worker began")
