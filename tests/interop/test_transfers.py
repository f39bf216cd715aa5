"""The guard of transfers: each thread has its own, and nested ones are undone in order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import framebind as fb
from framebind.interop.transfers import Transfers


def copy(nbytes: int = 4) -> None:
    fb.transfers.count("upload", nbytes, "a test's copy")


class CountedMeanwhile:
    """A count that, when it is read, lets another thread count a reason that was not there before."""

    calls = 1

    def __init__(self, transfers: Transfers) -> None:
        self._transfers = transfers

    @property
    def bytes(self) -> int:
        other = threading.Thread(target=self._transfers.count, args=("upload", 4, "another"))
        other.start()
        other.join(0.05)
        return 4


def test_counts_are_read_while_another_thread_counts() -> None:
    transfers = Transfers()
    meanwhile: Any = CountedMeanwhile(transfers)
    transfers.by_reason[("upload", "first")] = meanwhile
    assert transfers.bytes == 4 and transfers.calls in (1, 2)


def test_two_threads_have_a_guard_each() -> None:
    """Both are inside their blocks at once, and the one that entered first leaves first."""
    both_inside, first_is_out = threading.Barrier(2), threading.Event()
    results: dict[str, list[str]] = {"disallow": [], "allow": []}

    def tried(mode: str) -> None:
        try:
            copy()
            results[mode].append("copied")
        except fb.TransferError:
            results[mode].append("refused")

    def first() -> None:
        with fb.transfer_guard("disallow"):
            both_inside.wait(10)
            tried("disallow")
        tried("disallow")
        first_is_out.set()

    def second() -> None:
        with fb.transfer_guard("allow"):
            both_inside.wait(10)
            tried("allow")
            assert first_is_out.wait(10)
            tried("allow")
        tried("allow")

    _on_threads(first, second)
    assert results == {"disallow": ["refused", "copied"], "allow": ["copied"] * 3}
    assert (fb.transfers.calls, fb.transfers.bytes) == (4, 16), "what is refused is not counted"


def test_a_guard_does_not_reach_other_threads_and_the_counter_does() -> None:
    with fb.transfer_guard("disallow"):
        _on_threads(copy)
        with pytest.raises(fb.TransferError, match="a test's copy"):
            copy()
    assert fb.transfers.bytes == 4


def test_the_innermost_guard_holds_and_an_error_undoes_it() -> None:
    with fb.transfer_guard("disallow", exempt=("a test's copy",)):
        copy()
        with pytest.raises(fb.TransferError), fb.transfer_guard("disallow"):
            copy()
        copy()
        with fb.transfer_guard("allow"):
            copy()
    assert fb.transfers.calls == 3


def _on_threads(*functions: Callable[[], None]) -> None:
    """Run each function on a thread of its own to the end, and raise what one of them raised."""
    errors: list[BaseException] = []

    def guarded(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not errors and not any(thread.is_alive() for thread in threads), errors
