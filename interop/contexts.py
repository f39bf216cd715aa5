"""The bases of contexts of every API, and those that are current on each thread."""

from __future__ import annotations

import contextlib
import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar

from .errors import DeviceError
from .forks import check_process, track
from .uncopied import Uncopied

if TYPE_CHECKING:
    from typing_extensions import Self

log = logging.getLogger("framebind")
C = TypeVar("C", bound="BaseContext")
"""The API's contexts."""


class BaseContext(Uncopied):
    """Base of GlContext, ClContext and CudaContext: a device with what runs its work in order.

    A context is current on the thread that made it until it is closed. ``with`` makes it current and closes it.
    """

    software: bool
    """Whether the device is the CPU."""

    def __init__(self) -> None:
        self.closed = False
        self.closing: list[Callable[[], None]] = []
        """Functions that ``close`` calls first. They stop threads and free memory that the context has to outlive."""
        track(self)

    @abstractmethod
    def make_current(self) -> None:
        """Make it current on the calling thread."""

    @abstractmethod
    def release(self) -> None:
        """Make it not current on the calling thread."""

    @abstractmethod
    def check(self) -> None:
        """Raise DeviceError unless the calling thread may use the context now."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until the device has done everything submitted in this context."""

    @abstractmethod
    def _close(self) -> None:
        """Free what the context has, destroy it if it is ours, and make it not current."""

    @abstractmethod
    def _described(self) -> str:
        """The device in a few words."""

    def close(self) -> None:
        """Wait for the context's work, free what the library made in it, and destroy it if it is ours.

        The context that was current before it is current again. May be called more than once.
        """
        if self.closed:
            return
        for stop in tuple(self.closing):
            stop()
        self._close()

    def _raise_closed(self) -> NoReturn:
        check_process()
        raise DeviceError(
            f"{self} is closed: make a new {type(self).__name__}, and the objects and programs in it anew"
        )

    def __enter__(self) -> Self:
        self.make_current()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._described()}{', closed' if self.closed else ''}>"


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

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Make the contexts current again after the block that were before it."""
        before = [*self._contexts]
        try:
            yield
        finally:
            self._contexts[:] = before


cuda_contexts: CurrentContexts[Any] = CurrentContexts()
"""The CudaContexts that are current."""
cl_contexts: CurrentContexts[Any] = CurrentContexts()
"""The ClContexts that are current, apart from their class, so that who asks for one does not import pyopencl."""


class SharedContext(BaseContext):
    """Base of ClContext and CudaContext, which any thread may use, and several threads at once."""

    name: str
    """The device's name."""
    _current: ClassVar[CurrentContexts[Any]]
    """The contexts of the API that are current on each thread."""
    _none_is_current: ClassVar[str]
    """The error of ``current`` if there is none."""

    @classmethod
    def current(cls) -> Self:
        """The context that is current on the calling thread.

        Raises
        ------
        DeviceError
            If there is none.
        """
        context = cls._current.last()
        if context is None:
            raise DeviceError(cls._none_is_current)
        return context

    @classmethod
    def is_current(cls) -> bool:
        """Whether such a context is current on the calling thread."""
        return cls._current.last() is not None

    def make_current(self) -> None:
        """Make it current on the calling thread, for delegates that are applied there from now on."""
        self.check()
        self._current.put(self)

    @contextlib.contextmanager
    def made_current(self) -> Iterator[None]:
        """Within the block it is current on the calling thread. Afterwards the previous context is current again.

        Raises DeviceError if it is closed.
        """
        with self._current.restored():
            self.make_current()
            yield

    def release(self) -> None:
        """Let the context before this one be current on the calling thread. Objects and programs in it stay usable."""
        self._current.remove(self)

    def check(self) -> None:
        """Check that it can be used. Any thread may use it.

        Raises
        ------
        DeviceError
            If it is closed.
        """
        if self.closed:
            self._raise_closed()

    def _close(self) -> None:
        try:
            self._finish_and_free()
        except DeviceError as error:  # a lost device: what it had to do is lost, and there is nothing to wait for
            log.warning(f"{self} is closed, and what it had to do is lost: {error}")
        self.closed = True
        self.release()

    @abstractmethod
    def _finish_and_free(self) -> None:
        """Wait for all work, and free what is the context's own. Raises DeviceError if the device is lost."""

    def _described(self) -> str:
        return self.name
