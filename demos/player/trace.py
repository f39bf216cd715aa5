"""Writes the times of the stages of frames, for chrome://tracing or https://ui.perfetto.dev (Trace Event Format)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import framebind as fb

_THREADS = {1: "CPU", 2: "GPU"}


class Trace:
    """A file of trace events. Each is written at once, so that a long run takes no memory.

    Raises SourceError if the file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w", encoding="utf-8")
        except OSError as error:
            raise fb.SourceError(f"the profile '{path}' cannot be written: {error.strerror}") from error
        names = [
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": thread, "args": {"name": name}}
            for thread, name in _THREADS.items()
        ]
        self._file.write("[\n" + ",\n".join(map(json.dumps, names)))

    def add(self, frame: int, stages: Sequence[fb.StageTime]) -> None:
        """Write the stages of one frame."""
        for stage in stages:
            for thread, span in ((1, stage.cpu), (2, stage.gpu)):
                if span is not None:
                    event = {
                        "name": stage.name, "ph": "X", "pid": 1, "tid": thread, "ts": span[0] / 1e3,
                        "dur": (span[1] - span[0]) / 1e3, "args": {"frame": frame},
                    }  # fmt: skip
                    self._file.write(",\n" + json.dumps(event))

    def close(self) -> None:
        """End the file."""
        self._file.write("\n]\n")
        self._file.close()
