"""The record of a batch: a line of JSON per video that is done, so that an interrupted batch goes on where it was."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import framebind as fb

from . import remote
from .inputs import name_of

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

NAME = "framebind-process.jsonl"
MAX_LINE = 1 << 20
"""Longest line that is read, in characters."""

SECONDS_BETWEEN_PUTS = 30.0
"""Seconds after which the record of an output folder behind a URL is put there again: it is one object."""


def identity(source: Path | str) -> dict[str, Any]:
    """The facts that tell a video from another one of the same name: place, bytes, time of the last change."""
    if isinstance(source, str):
        return remote.identity(source)
    status = source.stat()
    return {"source": str(source.resolve()), "bytes": status.st_size, "changed_ns": status.st_mtime_ns}


class _Entry(NamedTuple):
    """The last line of a video, as far as it matters."""

    video: dict[str, Any]
    is_same_work: bool
    begun: list[str] | None
    """The outputs that were begun, if no line says that they were finished."""
    has_failed: bool


class Manifest:
    """The record in an output folder. A line has the video's ``identity``, the work, and its result.

    Before that it has a line that says which outputs were begun, so that those of a run that was killed are known. One
    process at a time writes it: others are refused (not on Windows, and not behind URLs).

    The record of a folder behind a URL is a temporary file, which is put there from time to time.
    """

    def __init__(self, folder: Path | str, work: dict[str, Any], *, resume: bool) -> None:
        """``work`` is what each video goes through: a video that went through something else is not done."""
        self._work = json.loads(json.dumps(work, default=str))
        self._url, self._was_put = "", time.monotonic()
        self._known: dict[str, _Entry] = {}
        self._places: dict[str, Path] = {}
        """The paths of results in the output folder, without a suffix, by the videos' names."""
        self._stack = contextlib.ExitStack()
        if isinstance(folder, str):
            remote.check_output(folder)
            self._url = remote.join_url(folder, NAME)
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="framebind-")))
            if remote.exists(self._url):
                remote.fetch(self._url, folder / NAME)
        self._path = folder / NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if resume:
                self._read()
            self._file = self._path.open("a", encoding="utf-8")
            _lock(self._file)
            if not _ends_a_line(self._path):
                self._file.write("\n")
        except BlockingIOError as error:
            raise fb.SourceError(
                f"another run writes into '{folder}': wait for it, or take another --output"
            ) from error
        except (FileExistsError, NotADirectoryError) as error:
            raise fb.SourceError(f"'{folder}' is no folder: results need one, take another --output") from error
        except OSError as error:
            raise fb.SourceError(f"'{self._path}' cannot be written: {error.strerror}") from error

    def _read(self) -> None:
        if not self._path.is_file():
            return
        with self._path.open(encoding="utf-8", errors="replace") as file:
            while line := file.readline(MAX_LINE):
                try:
                    row = json.loads(line)
                    source, is_same = str(row["video"]["source"]), row.get("work") == self._work
                    if "place" in row:
                        self._places[source] = _checked_place(row["place"])
                    self._known[source] = _Entry(row["video"], is_same, row.get("begun"), bool(row.get("error")))
                except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                    continue  # the last line of a process that was killed

    def is_done(self, source: Path | str, outputs: Sequence[Path | str]) -> bool:
        """True if this very file went through the same work without an error, and its outputs are there."""
        known = self._known.get(name_of(source))
        return (
            known is not None
            and known.begun is None
            and known.is_same_work
            and not known.has_failed
            and known.video == identity(source)
            and all(remote.exists(each) if isinstance(each, str) else each.exists() for each in outputs)
        )

    def may_replace(self, source: Path | str, output: Path | str) -> bool:
        """True if a file that is there is what an earlier run made of this video by the same work, or had begun."""
        known = self._known.get(name_of(source))
        if known is None or known.has_failed:
            return False
        return known.is_same_work if known.begun is None else name_of(output) in known.begun

    def place_of(self, source: Path | str) -> Path | None:
        """The path in the output folder that an earlier run gave the video's results; None if there was none."""
        return self._places.get(name_of(source))

    def begin(self, planned: Sequence[tuple[Path | str, Path, Sequence[Path | str]]]) -> None:
        """Write lines for videos, the places of their results and their outputs, before any work is done."""
        for source, place, outputs in planned:
            begun = [name_of(each) for each in outputs]
            self._write({"video": {"source": name_of(source)}, "place": place.as_posix(), "begun": begun})
        self._flush()
        if self._url and planned:
            self._put()

    def add(self, source: Path | str, result: dict[str, Any]) -> None:
        """Write a video's line to the disk."""
        try:
            video = identity(source)
        except (OSError, fb.SourceError):  # it is gone
            video = {"source": name_of(source)}
        self._write({"video": video, "work": self._work, **result})
        self._flush()
        if self._url and time.monotonic() - self._was_put > SECONDS_BETWEEN_PUTS:
            self._put()

    def _write(self, row: dict[str, Any]) -> None:
        with self._said():
            self._file.write(json.dumps(row) + "\n")

    def _flush(self) -> None:
        with self._said():
            self._file.flush()
            os.fsync(self._file.fileno())

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        """Within the block an error of the disk is a SourceError."""
        try:
            yield
        except OSError as error:
            raise fb.SourceError(
                f"the record '{self._path}' cannot be written: {error.strerror}. When that is mended, the same command "
                "with --resume goes on"
            ) from error

    def _put(self) -> None:
        remote.put(self._path, self._url)
        self._was_put = time.monotonic()

    def close(self) -> None:
        """Close the record. Raises SourceError if it cannot be put behind its URL."""
        with self._stack:
            with self._said():
                self._file.close()
                if not self._path.stat().st_size:  # the command was refused: it leaves nothing
                    self._path.unlink()
                    return
            if self._url:
                self._put()


def _checked_place(text: Any) -> Path:
    """A place that a record has. Raises ValueError if it is outside of the output folder."""
    place = Path(str(text))
    if not place.name or place.is_absolute() or ".." in place.parts:
        raise ValueError(f"'{place}' is outside of the output folder")
    return place


def _ends_a_line(path: Path) -> bool:
    """True if the next line of a file may follow. A process that was killed may have written half of one."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def _lock(file: TextIO) -> None:
    """Lock a file until it is closed, if its file system can. Raises BlockingIOError if another process has done so."""
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise
    except OSError:  # a network's file system that knows no locks
        pass
