"""The record of a batch: a line of JSON per video that is done, so that an interrupted batch goes on where it was."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import framebind as fb

NAME = "framebind-process.jsonl"
MAX_BYTES = 256 << 20
"""Largest record that is read: some million videos."""


def identity(path: Path) -> dict[str, Any]:
    """The facts that tell a video from another one of the same name: place, bytes, time of the last change."""
    status = path.stat()
    return {"source": str(path.resolve()), "bytes": status.st_size, "changed_ns": status.st_mtime_ns}


class Manifest:
    """The record in an output folder. A line has the video's ``identity``, the work, and its result."""

    def __init__(self, folder: Path, work: dict[str, Any], *, resume: bool) -> None:
        """``work`` is what each video goes through: a video that went through something else is not done."""
        self._work = json.loads(json.dumps(work, default=str))
        self._path = folder / NAME
        self._done: dict[str, dict[str, Any]] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if resume:
                self._read()
            self._file = self._path.open("a", encoding="utf-8")
        except OSError as error:
            raise fb.SourceError(f"'{self._path}' cannot be written: {error.strerror}") from error

    def _read(self) -> None:
        if not self._path.is_file() or self._path.stat().st_size > MAX_BYTES:
            return
        for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                row = json.loads(line)
                self._done[str(row["video"]["source"])] = row
            except (ValueError, KeyError, TypeError):
                continue  # the last line of a process that was killed

    def is_done(self, path: Path, outputs: list[Path]) -> bool:
        """Whether this very file went through the same work without an error, and its outputs are there."""
        row = self._done.get(str(path.resolve()))
        return (
            row is not None
            and row["video"] == identity(path)
            and row.get("work") == self._work
            and not row.get("error")
            and all(output.exists() for output in outputs)
        )

    def add(self, path: Path, result: dict[str, Any]) -> None:
        """Write a video's line to the disk."""
        video = identity(path) if path.exists() else {"source": str(path)}
        self._file.write(json.dumps({"video": video, "work": self._work, **result}) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
