"""Consoles of commands and demos. What they print is plain text: names of files, tensors and devices come from outside.

Rich reads square brackets as markup and colons as emoji, and a terminal obeys control characters: none of them may
come from a name.
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
"""Control characters (C0, DEL, C1) except for the end of a line, and bytes of names that are no UTF-8."""


def make_console(**settings: Any) -> Console:
    """Make a console that takes strings as they are. ``settings`` are rich's, such as ``stderr`` or ``width``."""
    return Console(markup=False, emoji=False, highlight=False, **settings)


def plain(text: object) -> Text:
    """Make text for a console or a table. Control characters stand in it as Python writes them."""
    return Text(printable(str(text)))


def printable(text: str) -> str:
    r"""Write control characters as Python does (``\x1b``), so that a terminal shows them and does not obey them."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def counted(number: int, noun: str) -> str:
    """Write a number with its noun: "1 step", "2 steps"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@contextlib.contextmanager
def progress_bar(what: str, total: int, done: int = 0) -> Iterator[Callable[..., None]]:
    """Show on stderr how many of ``total`` are done, and the time that is left, until the block ends.

    Yields the function that counts one more; it takes a note, which is then shown behind the bar.
    """
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=make_console(stderr=True)) as progress:
        task = progress.add_task("", total=total, completed=done)

        def advance(note: str = "") -> None:
            progress.update(task, advance=1, description=note)

        yield advance
