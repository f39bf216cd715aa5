"""The figures of the streams on a terminal: a table that changes, or, in a file or a pipe, lines from time to time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table

from ...video.live.figures import Snapshot
from ..common.console import counted, make_console, plain, printable

_COLOURS = {"live": "green", "waiting": "yellow", "opening": "yellow", "failed": "red", "ended": "dim"}
_TROUBLES = ("failed", "waiting", "opening")
_LINES_EVERY = 10.0
"""Seconds between the lines of a stream if the output is no terminal."""
_ALL = ("state", "decoder", "size", "frames/s", "ms", "95% ms", "results", "dropped", "damaged", "reconnects")
_FEW = ("state", "frames/s", "ms", "95% ms", "dropped")
_TEXTS = ("state", "decoder", "size")
"""Columns of a wide and of a narrow terminal, and those that are no numbers."""
_GAP = 2
"""Spaces before each column."""
_LEAST_NAME = 30
"""Letters of a stream's name for which a column of figures gives way."""
_FRAME_LINES = 6
"""Lines of the display that are no stream's: two above the streams, and below them a blank one, one for those that have
no room, the summary, and the cursor.
"""


@contextlib.contextmanager
def shown(snapshots: Callable[[], Sequence[Snapshot]]) -> Iterator[Callable[[], None]]:
    """Show the figures on stderr until the block ends. Yields the function that shows them anew."""
    console = make_console(stderr=True)
    if not console.is_terminal:
        last = time.perf_counter()

        def print_lines() -> None:
            nonlocal last
            if time.perf_counter() - last >= _LINES_EVERY:
                last = time.perf_counter()
                for each in snapshots():
                    console.print(plain(as_line(each)), soft_wrap=True)

        yield print_lines
        return

    def display() -> RenderableType:
        return as_display(snapshots(), *console.size)

    with Live(display(), console=console, auto_refresh=False) as live:
        yield lambda: live.update(display(), refresh=True)


def as_line(each: Snapshot) -> str:
    """The figures as a line of text."""
    latency = "" if each.latency_median is None else f", {each.latency_median} ms ({each.latency_p95} ms for 95%)"
    counts = f"{each.dropped} dropped, {each.damaged} damaged, {each.reconnects} reconnects"
    decoder = f", decoded by {each.decoder}" if each.decoder else ""
    results = f"{counted(each.results, 'result')}, {each.fps} frames/s"
    return f"{each.name}: {each.state}{_since(each)}{decoder}, {results}{latency}, {counts}"


def as_display(snapshots: Sequence[Snapshot], width: int, height: int) -> RenderableType:
    """A table of the figures, a summary, and what a person should know, for a terminal of that size.

    If there is no room for all streams, those that are in trouble come first.
    """
    by_trouble = sorted(snapshots, key=lambda each: each.state not in _TROUBLES)
    notes = [note for each in by_trouble if (note := _note(each))]
    lines_of_notes = sum(_lines(note, width) for note in notes)
    most = max(height - _FRAME_LINES - min(lines_of_notes, height // 3), 1)
    rate = sum(each.fps for each in snapshots)
    live = sum(each.state == "live" for each in snapshots)
    texts = [f"{live} of {counted(len(snapshots), 'stream')} live, {rate:.1f} frames/s"]
    if (left := len(snapshots) - most) > 0:
        texts.insert(0, f"and {counted(left, 'more stream')}, for which there is no room")
    room = height - _FRAME_LINES - min(len(snapshots), most)
    for note in notes:
        room -= _lines(note, width)
        if room >= 0:
            texts.append(note)
    return Group(_table(by_trouble[:most] if left > 0 else snapshots, width), *map(plain, texts))


def _table(snapshots: Sequence[Snapshot], width: int) -> Table:
    """The figures, with one line for each stream. Without room for all figures, those that matter most of the time."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    rows = [_cells(each) for each in snapshots]
    for columns in (_ALL, _FEW):
        widths = [max(len(column), *(len(row[column]) for row in rows)) for column in columns]
        room = width - sum(widths) - _GAP * len(widths)
        if room >= min(max(len(each.name) for each in snapshots), _LEAST_NAME):
            break
    table.add_column("stream", no_wrap=True)
    for column in columns:
        table.add_column(column, no_wrap=True, justify="left" if column in _TEXTS else "right")
    for each, row in zip(snapshots, rows, strict=True):
        cells = [plain(row[column], _COLOURS[each.state] if column == "state" else "") for column in columns]
        table.add_row(_short(each.name, room), *cells)
    return table


def _cells(each: Snapshot) -> dict[str, str]:
    """The texts of a stream's row by column."""
    latencies = ["" if value is None else f"{value:.1f}" for value in (each.latency_median, each.latency_p95)]
    return {
        "state": f"{each.state} rec" if each.is_recorded else each.state, "decoder": each.decoder,
        "size": "" if each.size is None else f"{each.size[0]}x{each.size[1]}", "frames/s": f"{each.fps:.1f}",
        "ms": latencies[0], "95% ms": latencies[1], "results": str(each.results), "dropped": str(each.dropped),
        "damaged": str(each.damaged), "reconnects": str(each.reconnects),
    }  # fmt: skip


def _short(name: str, longest: int) -> str:
    """A name with its middle left out if it is too long: addresses differ at their ends."""
    text = printable(name).replace("\n", "\\n")
    if len(text) <= longest:
        return text
    head = max(longest // 3, 0)
    return f"{text[:head]}…{text[len(text) - max(longest - head - 1, 1) :]}"


def _since(each: Snapshot) -> str:
    return "" if each.since is None else time.strftime(" since %H:%M:%S", time.localtime(each.since))


def _note(each: Snapshot) -> str:
    """A line about a stream: since when there is no picture and why, and what was lost. "" if there is nothing."""
    since = _since(each).strip() if each.state in _TROUBLES else ""
    counts = ((each.damaged, "damaged packet"), (each.reconnects, "reconnect"))
    parts = [since, each.status, ", ".join(counted(number, noun) for number, noun in counts if number)]
    text = " ".join("; ".join(part for part in parts if part).split())
    return f"{_short(each.name, _LEAST_NAME)}: {text}" if text else ""


def _lines(text: str, width: int) -> int:
    """Lines that a text takes, with one more where words are wrapped."""
    return 1 if len(text) <= width else len(text) // width + 2
