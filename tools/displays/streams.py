"""The figures of the streams on a terminal: a table that changes, or, in a file or a pipe, lines from time to time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from rich.live import Live
from rich.table import Table

from ...video.live.figures import Snapshot
from ..common.console import counted, make_console, plain

_COLOURS = {"live": "green", "waiting": "yellow", "opening": "yellow", "failed": "red", "ended": "dim"}
_LINES_EVERY = 10.0
"""Seconds between the lines of a stream if the output is no terminal."""


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
    with Live(as_table(snapshots()), console=console, auto_refresh=False) as live:
        yield lambda: live.update(as_table(snapshots()), refresh=True)


def as_line(each: Snapshot) -> str:
    """The figures as a line of text."""
    latency = "" if each.latency_median is None else f", {each.latency_median} ms ({each.latency_p95} ms for 95%)"
    counts = f"{each.dropped} dropped, {each.damaged} damaged, {each.reconnects} reconnects"
    decoder = f", decoded by {each.decoder}" if each.decoder else ""
    results = f"{counted(each.results, 'result')}, {each.fps} frames/s"
    return f"{each.name}: {each.state}{decoder}, {results}{latency}, {counts}"


def as_table(snapshots: Sequence[Snapshot]) -> Table:
    """The figures as a table, and below it what a person should know."""
    table = Table(caption=plain("\n".join(each.status for each in snapshots if each.status)), caption_justify="left")
    table.add_column("stream", overflow="fold")
    for column in ("state", "decoder", "size"):
        table.add_column(column)
    for column in ("frames/s", "latency ms", "95% ms", "results", "dropped", "damaged", "reconnects"):
        table.add_column(column, justify="right")
    for each in snapshots:
        size = "" if each.size is None else f"{each.size[0]}x{each.size[1]}"
        latencies = ("" if value is None else f"{value:.1f}" for value in (each.latency_median, each.latency_p95))
        state = plain(each.state)
        state.stylize(_COLOURS.get(each.state, ""))
        counts = (each.results, each.dropped, each.damaged, each.reconnects)
        table.add_row(plain(each.name), state, each.decoder, size, f"{each.fps:.1f}", *latencies, *map(str, counts))
    return table
