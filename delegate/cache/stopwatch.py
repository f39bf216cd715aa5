"""A stopwatch for the phases of an initialization."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, ParamSpec, TypeVar, get_args

P = ParamSpec("P")
T = TypeVar("T")
Phase = Literal["read", "claim", "transform", "lower", "pack", "plan", "compile", "upload", "record"]


class Stopwatch:
    """Seconds by phase. The time of a phase within another one counts only for the inner phase.

    "read": the flatbuffer. "claim": its operators are parsed, and each is lowered by itself. "transform": passes.
    "lower": launches. "pack": constants in device layout. "plan": memory, and the steps that follow. "compile":
    kernels. "upload": GPU memory and copies to it. "record": command lists.
    """

    def __init__(self) -> None:
        self.seconds: dict[Phase, float] = dict.fromkeys(get_args(Phase), 0.0)
        self._phases: list[Phase | None] = []
        self._since = 0.0

    def pause(self) -> AbstractContextManager[None]:
        """Count the time within the block for no phase, except for phases within it."""
        return self._count_for(None)

    def phase(self, name: Phase) -> AbstractContextManager[None]:
        """Count the time within the block for ``name``."""
        return self._count_for(name)

    def time(self, name: Phase, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function`` and count its time for ``name``."""
        with self.phase(name):
            return function(*args, **kwargs)

    @contextmanager
    def _count_for(self, name: Phase | None) -> Iterator[None]:
        self._count()
        self._phases.append(name)
        try:
            yield
        finally:
            self._count()
            self._phases.pop()

    def _count(self) -> None:
        now = time.perf_counter()
        current = self._phases[-1] if self._phases else None
        if current is not None:
            self.seconds[current] += now - self._since
        self._since = now
