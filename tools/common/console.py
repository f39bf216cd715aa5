"""Consoles of commands and demos. They print plain text, because names of files, tensors and devices are not trusted.
Rich interprets square brackets as markup and colons as emoji, and a terminal obeys control characters: a name must not
cause any of these.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters (C0, DEL, C1) except the end of a line, and bytes of names that are not UTF-8."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command whether it has failed: rich would end the process with 1."""
        raise BrokenPipeError


def make_console(**settings: Any) -> Console:
    """Make a console that takes strings as they are. ``settings`` are rich's, such as ``stderr`` or ``width``."""
    return _Console(markup=False, emoji=False, highlight=False, **settings)


def plain(text: object, style: str = "") -> Text:
    """Make text for a console or a table, in one of rich's styles, with control characters as Python's escapes."""
    return Text(printable(str(text)), style)


def printable(text: str) -> str:
    r"""Replace control characters by Python's escapes (``\x1b``), which a terminal shows and does not obey."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def counted(number: int, noun: str) -> str:
    """Write a number with its noun: "1 step", "2 steps"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@contextlib.contextmanager
def progress_bar(what: str, total: int, done: int = 0) -> Iterator[Callable[..., None]]:
    """Show on stderr how many of ``total`` are done, and the remaining time, until the block ends.

    Yields the function that counts one more; it takes a note, which is shown after the bar.
    """
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=make_console(stderr=True)) as progress:
        task = progress.add_task("", total=total, completed=done)

        def advance(note: str = "") -> None:
            progress.update(task, advance=1, description=note)

        yield advance
