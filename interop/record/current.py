"""The contexts that are current on each thread. For OpenCL and CUDA, which have no current context of our kind."""

from __future__ import annotations

import threading
from typing import Generic, Protocol, TypeVar


class _Closable(Protocol):
    @property
    def closed(self) -> bool: ...


C = TypeVar("C", bound=_Closable)
"""The API's contexts."""


class CurrentContexts(threading.local, Generic[C]):
    """A stack of the contexts that the calling thread made or made current."""

    def __init__(self) -> None:
        self._contexts: list[C] = []

    def last(self) -> C | None:
        """The context that is current on the calling thread: the last one that is not closed."""
        while self._contexts and self._contexts[-1].closed:
            self._contexts.pop()
        return self._contexts[-1] if self._contexts else None

    def put(self, context: C) -> None:
        """Make a context current on the calling thread."""
        self.remove(context)
        self._contexts.append(context)

    def remove(self, context: C) -> None:
        """Remove a context from the calling thread, so that the one before it is current."""
        if context in self._contexts:
            self._contexts.remove(context)
