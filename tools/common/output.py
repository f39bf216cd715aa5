"""Output of commands: tables for people, in colours if the output is a terminal, JSON for programs, and files."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.table import Table

import framebind as fb

from .console import make_console, plain

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def print_json(content: Any) -> None:
    """Print dicts, lists, strings, numbers and None as JSON."""
    print(json.dumps(content, indent=2))


def write_file(path: Path, text: str) -> None:
    """Write a file of text, as ``write_bytes`` does."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, and rename it when the disk has all of it. An older file stays until then.

    Raises SourceError if it cannot be written.
    """
    place = path.resolve()  # a symbolic link stays one
    if place.exists() and not place.is_file():
        raise fb.SourceError(f"the file '{path}' cannot be written: something else than a file is there")
    unfinished = place.with_name(f"{place.stem[:40]}.{secrets.token_hex(4)}.unfinished{place.suffix}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(place)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise fb.SourceError(f"the file '{path}' cannot be written: {error.strerror}") from error


def print_table(table: Table) -> None:
    """Print a table, as wide as the terminal, or as COLUMNS says."""
    make_console().print(table)


def print_line(line: str) -> None:
    """Print a line of text without wrapping it."""
    make_console(soft_wrap=True).print(plain(line))


@contextlib.contextmanager
def needing_no_reader() -> Iterator[None]:
    """Within the block text is printed that says what was done: a pipe whose reader has gone is no failure."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        leave_stdout()


def leave_stdout() -> None:
    """Write to nowhere from now on what goes to stdout, or Python tries again at its end to write what it still has."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def make_table(title: str, *columns: str, lines: bool = False) -> Table:
    """An empty table with these columns, for ``add_row``; ``lines`` between its rows."""
    table = Table(title=title, title_justify="left", show_lines=lines)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def add_row(table: Table, *cells: object, style: str = "") -> None:
    """Add a row of plain text."""
    table.add_row(*map(plain, cells), style=style)


def print_figures(title: str, texts: tuple[str, ...], figures: tuple[str, ...], rows: list[list[str]]) -> None:
    """Print a table whose columns ``texts`` come first, and ``figures``, aligned to the right, after them.

    No cell is broken into lines: a table that is wider than the terminal stays so.
    """
    table = Table(title=title, title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
    for column in texts:
        table.add_column(column, no_wrap=True)
    for column in figures:
        table.add_column(column, no_wrap=True, justify="right")
    for row in rows:
        add_row(table, *row)
    console = make_console()
    natural = console.measure(table, options=console.options.update(width=1000)).maximum
    make_console(width=max(console.width, natural), height=console.height).print(table)
