"""The protocol of a store of compiled programs and measured numbers, which outlives the process."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

_PLACE = re.compile(r"(module [0-9a-f]{64}) (kernel_[0-9]{1,6}|program)")


class BinaryStore(Protocol):
    """Compiled programs, keyed by the text that the driver compiled, or by the source of which our code makes the text.

    The store makes sure that driver and code are the same. A device gets its store with each call that compiles
    (``Device.compile`` and ``Device.record``); without one it compiles every text.
    """

    def find(self, key: str) -> bytes | None:
        """The binary of a program; None if there is none."""
        ...

    def reject(self, key: str) -> None:
        """Forget the binary of a program. Called if there is none, or if the driver does not accept it."""
        ...

    def keep(self, key: str, binary: Callable[[], bytes | None]) -> None:
        """Note that a program is in use. ``binary`` is called when the store is written. It returns the binary, or None
        if the driver gives none out.
        """
        ...

    def known_number(self, what: str) -> int | None:
        """A whole number that an earlier start measured; None if there is none. It may be wrong by now: try it."""
        ...

    def keep_number(self, what: str, number: int) -> None:
        """Keep a whole number that was measured."""
        ...


class Place(NamedTuple):
    """The place of a kernel in a store: the key of the compiled text that has it, and its name there."""

    module: str
    name: str


def find_place(store: BinaryStore, key: str) -> Place | None:
    """The kept place of the kernel of this key; None if there is none. What is no place is forgotten."""
    kept = store.find(key)
    match = _PLACE.fullmatch(kept.decode("ascii", "replace")) if kept else None
    if match is None:
        store.reject(key)
        return None
    return Place(match[1], match[2])


def keep_place(store: BinaryStore, key: str, place: Place, binary: Callable[[], bytes | None]) -> None:
    """Keep the place of the kernel of this key, and the compiled text once."""
    store.keep(key, " ".join(place).encode)
    store.keep(place.module, binary)
