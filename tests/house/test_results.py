"""The files of benchmarks/results: what each must say of itself, and the commits that they and the pages name."""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
FILES = sorted(RESULTS.rglob("*.json"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COUNTED = {"counts", "drivers", "precision", "trust"}
"""Folders of counts and of errors, which one run gives: there is no time that differs from run to run."""
COMMIT = re.compile(r"(?<![\w.#-])(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,40}(?![\w.])|(?<=commit )[0-9]{7}\b")
"""Words that can only be commits: hexadecimal with digits and letters, or digits behind "commit"."""
FIGURE = re.compile(r"(?<![\w.,-])\d[\d.,]*%?(?![\w-])")
NO_FIGURES = re.compile(r"`[^`]*`|\b\d{4}-\d\d-\d\d\b|\bcommit \w+")
"""Parts of a note that are no figures: commands, dates and commits."""


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def notes_of(content: Any) -> Iterator[str]:
    """The values of all fields "note", at any depth."""
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        if key == "note":
            yield value
        elif isinstance(value, (dict, list)):
            yield from notes_of(value)


def faults(content: dict[str, Any], folder: str) -> list[str]:
    """The faults of a file of results in this folder."""
    machine = content.get("machine") or [each["device"]["gpu"] for each in content.get("devices", [])]
    wrong = [name for name in ("date", "commit", "command") if not content.get(name)]
    wrong += [] if machine else ["machine"]
    wrong += [f"figures in a note: {note}" for note in notes_of(content) if FIGURE.search(NO_FIGURES.sub("", note))]
    if folder == "medians":
        wrong += [] if content.get("samples") == "none kept" else ["the mark that samples were not kept"]
    elif folder not in COUNTED:
        wrong += [] if all(map(has_samples, measured_in(content))) else ["samples of each figure"]
    return wrong


def measured_in(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The series of a file, or its rows without those that were not measured."""
    return content.get("series") or [row for row in content["rows"] if not row.get("why_not")]


def has_samples(row: dict[str, Any]) -> bool:
    """A series has a list of numbers, a row one for each of its figures."""
    lists = list(row["samples"].values()) if isinstance(row["samples"], dict) else [row["samples"]]
    return bool(lists) and all(values and all(type(each) in (int, float) for each in values) for values in lists)


@pytest.mark.parametrize("path", FILES, ids=[path.relative_to(RESULTS).as_posix() for path in FILES])
def test_a_result_has_samples_or_says_that_it_has_none(path: Path) -> None:
    assert not faults(read(path), path.relative_to(RESULTS).parts[0])


def test_what_a_result_lacks_is_found() -> None:
    """The check itself: files as they were before samples were kept."""
    known = {"machine": "GPU", "date": "2026-11-24", "commit": "1234abc", "command": "benchmarks/frames.sh"}
    measured = {**known, "series": [{"labels": {"model": "m"}, "samples": [0.5, 0.25]}]}
    row = {"rate": 2.0, "samples": {"rate": [1.0, 3.0]}}
    assert not faults(measured, "frames.json")
    assert not faults({**known, "rows": [row, {"why_not": "no time"}]}, "video")
    assert not faults({**known, "rows": [["m", 0.5]], "samples": "none kept"}, "medians")
    assert faults({**known, "rows": [{**row, "samples": {}}]}, "video") == ["samples of each figure"]
    assert faults({**known, "series": [{"samples": []}]}, "frames.json") == ["samples of each figure"]
    assert faults({**known, "rows": [["m", 0.5]]}, "medians") == ["the mark that samples were not kept"]
    assert faults({"series": measured["series"]}, "frames.json") == ["date", "commit", "command", "machine"]
    note = "Streams take 0.124 and 0.129 ms"
    assert faults({**measured, "note": note}, "frames.json") == [f"figures in a note: {note}"]
    note = "From commit 1234567, 2026-11-22, 640x480: `frames --runs 30`"
    assert not faults({**measured, "note": note}, "frames.json")


@functools.cache
def history() -> frozenset[str]:
    """All commits that lead to this tree. Skips the test if there is no such history to ask."""
    try:
        shallow = subprocess.run(
            ["git", "rev-parse", "--is-shallow-repository", "--show-toplevel"], cwd=ROOT, capture_output=True, text=True
        )
    except FileNotFoundError:
        pytest.skip("git is not installed: there is no history to ask")
    if shallow.returncode or Path(shallow.stdout.split("\n")[1]).resolve() != ROOT.resolve():
        pytest.skip("not a git repository, such as a source archive: there is no history to ask")
    if shallow.stdout.startswith("true"):
        pytest.skip("a shallow clone: older commits cannot be asked for")
    commits = subprocess.run(["git", "rev-list", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    return frozenset(commits.stdout.split())


def test_commits_that_pages_and_results_name_are_in_the_history() -> None:
    """Commits lead to a branch: a clone has no other ones, which somebody's repository may have."""
    texts = {path: path.read_text(encoding="utf-8") for path in PAGES}
    texts |= {path: f"commit {read(path).get('commit', '')}\n{path.read_text(encoding='utf-8')}" for path in FILES}
    cited = {word: named(path) for path, text in texts.items() for word in COMMIT.findall(text)}
    assert len(cited) > 50
    commits = history()
    assert not {word: page for word, page in cited.items() if not any(each.startswith(word) for each in commits)}


def test_a_commit_is_told_from_other_words() -> None:
    text = "commit 0161590 and a6af284, 1280x720; 2000000 frames, `669888e`, defaced, 0x5f74753a, 1.5f74753"
    assert COMMIT.findall(text) == ["0161590", "a6af284", "669888e"]
