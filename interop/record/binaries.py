"""Compiled programs that somebody keeps, and what was measured of them: whoever compiles asks here first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Binaries(Protocol):
    """Binaries by the text of which a driver made them. Whoever keeps them makes sure that it was the same driver."""

    def find(self, text: str) -> bytes | None: ...
    def reject(self, text: str) -> None:
        """The driver does not take the binary."""
        ...

    def keep(self, text: str, binary: Callable[[], bytes | None]) -> None:
        """A program of this text is in use; ``binary`` fetches its binary, None where the driver has none to give."""
        ...

    def known_number(self, what: str) -> int | None:
        """A whole number that was measured, or None where none is kept."""
        ...

    def keep_number(self, what: str, number: int) -> None: ...


_current: ContextVar[Binaries | None] = ContextVar("binaries", default=None)


@contextmanager
def kept_in(binaries: Binaries | None) -> Iterator[None]:
    """Within the block, programs are made of these binaries where there are such, and offered to be kept."""
    token = _current.set(binaries)
    try:
        yield
    finally:
        _current.reset(token)


def find(text: str) -> bytes | None:
    """The binary of a text, where one is kept."""
    binaries = _current.get()
    return binaries.find(text) if binaries is not None else None


def reject(text: str) -> None:
    """Report that the driver does not take the binary of a text."""
    binaries = _current.get()
    if binaries is not None:
        binaries.reject(text)


def keep(text: str, binary: Callable[[], bytes | None]) -> None:
    """Offer a program in use to whoever keeps binaries."""
    binaries = _current.get()
    if binaries is not None:
        binaries.keep(text, binary)


def known_number(what: str) -> int | None:
    """What an earlier start has measured, where that is kept. It may be wrong by now: try it."""
    binaries = _current.get()
    return binaries.known_number(what) if binaries is not None else None


def keep_number(what: str, number: int) -> None:
    """Offer what was measured to whoever keeps binaries."""
    binaries = _current.get()
    if binaries is not None:
        binaries.keep_number(what, number)
