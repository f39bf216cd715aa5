"""Writes the times of the stages of frames, for chrome://tracing or https://ui.perfetto.dev (Trace Event Format)."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

import framebind as fb

_THREADS = {1: "CPU", 2: "GPU"}


class Trace:
    """A file of trace events. Each is written at once, so that a long run takes no memory.

    They go to a file beside ``path``, which takes its place in ``close``. Raises SourceError if it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unfinished = path.with_name(f"{path.stem[:40]}.{secrets.token_hex(4)}.unfinished{path.suffix}")
        with self._written():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._unfinished.open("x", encoding="utf-8")
        names = [
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": thread, "args": {"name": name}}
            for thread, name in _THREADS.items()
        ]
        self._write("[\n" + ",\n".join(map(json.dumps, names)))

    def add(self, frame: int, stages: Sequence[fb.StageTime]) -> None:
        """Write the stages of one frame."""
        for stage in stages:
            for thread, span in ((1, stage.cpu), (2, stage.gpu)):
                if span is not None:
                    event = {
                        "name": stage.name, "ph": "X", "pid": 1, "tid": thread, "ts": span[0] / 1e3,
                        "dur": (span[1] - span[0]) / 1e3, "args": {"frame": frame},
                    }  # fmt: skip
                    self._write(",\n" + json.dumps(event))

    def close(self) -> None:
        """End the file and put it in its place. May be called more than once."""
        if not self._file.closed:
            self._write("\n]\n")
            with self._written():
                self._file.close()
                self._unfinished.replace(self._path)

    def _write(self, text: str) -> None:
        with self._written():
            self._file.write(text)

    @contextlib.contextmanager
    def _written(self) -> Iterator[None]:
        """Raise SourceError, and remove the unfinished file, if writing within the block fails."""
        try:
            yield
        except OSError as error:
            self._unfinished.unlink(missing_ok=True)
            raise fb.SourceError(f"the profile '{self._path}' cannot be written: {error.strerror}") from error
