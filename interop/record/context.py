"""Contexts: the part of one that command lists, barriers and devices use, and those that are current on each thread."""

from __future__ import annotations

import threading
from typing import Any, Generic, Protocol, TypeVar


class Context(Protocol):
    """A context of an API, with the queue or stream that runs everything of one device."""

    @property
    def software(self) -> bool:
        """Whether the device is the CPU."""
        ...

    @property
    def closed(self) -> bool:
        """Whether the context was closed; ``check`` raises then."""
        ...

    def check(self) -> None:
        """Raise DeviceError unless the calling thread may use the context now."""
        ...

    def close(self) -> None:
        """Destroy it, if it is ours. May be called more than once."""
        ...


C = TypeVar("C", bound=Context)
"""The API's contexts."""


class CurrentContexts(threading.local, Generic[C]):
    """A stack of the contexts that the calling thread made or made current.

    For OpenCL and CUDA, whose drivers keep no current context of our kind.
    """

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


cuda_contexts: CurrentContexts[Any] = CurrentContexts()
"""The CudaContexts that are current."""
cl_contexts: CurrentContexts[Any] = CurrentContexts()
"""The ClContexts that are current, apart from their class, so that who asks for one does not import pyopencl."""
