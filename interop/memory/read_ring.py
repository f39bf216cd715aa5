"""Copies of a buffer to the host that are taken later: the CPU waits for none of them when it starts them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ..arrays import filled_array
from ..errors import BindingError
from ..transfers import transfers
from ..uncopied import Uncopied


class HostCopy(Protocol):
    """Memory of the host for one copy of a buffer."""

    def begin(self) -> None:
        """Start to copy what the work submitted so far leaves in the buffer. Waits for nothing."""
        ...

    @property
    def is_done(self) -> bool:
        """Whether the copy that was started is complete. Never waits."""
        ...

    def fill(self, array: np.ndarray) -> None:
        """Wait until the copy is complete, and fill a C-contiguous array with its first bytes."""
        ...

    def release(self) -> None:
        """Free the memory. A copy that was started is lost."""
        ...


class ReadRing(Uncopied):
    """Copies of a buffer's content on their way to the host, as ``read_ring`` of a buffer makes it.

    All calls are made where the buffer could be read: in its context. A copy allocates nothing.

    Attributes
    ----------
    slots : int
        The most copies that are on their way at once.

    Examples
    --------
    >>> with fb.GlContext.headless():
    ...     buffer = fb.GlBuffer.from_array(np.zeros(2, np.float32))
    ...     with buffer.read_ring() as ring:
    ...         ring.push()
    ...         buffer.write(np.ones(2, np.float32))
    ...         ring.push()
    ...         print(ring.take(), ring.take(), len(ring))
    [0. 0.] [1. 1.] 0
    """

    def __init__(self, buffer: Any, copies: Sequence[HostCopy], check: Callable[[], object], reason: str) -> None:
        """``check`` raises unless the calling thread may use ``buffer`` now."""
        self.slots = len(copies)
        self._buffer, self._copies, self._check, self._reason = buffer, copies, check, reason
        self._free, self._pending = deque(copies), deque[HostCopy]()

    def __len__(self) -> int:
        """The number of copies on their way."""
        return len(self._pending)

    def push(self) -> None:
        """Start a copy of what the work submitted so far leaves in the buffer. It is counted now.

        Raises
        ------
        BindingError
            If ``slots`` copies are on their way, or the buffer or the ring is released.
        DeviceError
            If the buffer's context is not current on this thread.
        """
        self._check()
        if not self._free:
            state = f"{self.slots} copies of {self._buffer.label} are on their way: take() one first"
            raise BindingError(
                state if self._copies else f"the ring of {self._buffer.label} is released: make a new one"
            )
        transfers.count("download", self._buffer.nbytes, self._reason)
        self._free[0].begin()
        self._pending.append(self._free.popleft())

    def take(self, out: np.ndarray | None = None, *, wait: bool = True) -> np.ndarray[Any, Any] | None:
        """The oldest copy on its way.

        Parameters
        ----------
        out : numpy.ndarray, optional
            A writable C-contiguous array of any shape and dtype, which is filled with the copy's first bytes. Without
            it, a new array of the buffer's shape and dtype.
        wait : bool
            Wait until the copy is complete.

        Returns
        -------
        numpy.ndarray or None
            ``out``, or the new array; None if the copy is not complete and ``wait`` is False.

        Raises
        ------
        BindingError
            If no copy is on its way, ``out`` cannot be filled, or the buffer is released.
        DeviceError
            If the buffer's context is not current on this thread.
        """
        self._check()
        if not self._pending:
            raise BindingError(f"no copy of {self._buffer.label} is on its way: push() starts one")
        copy = self._pending[0]
        if not wait and not copy.is_done:
            return None
        out = np.empty(self._buffer.shape, self._buffer.dtype) if out is None else out
        array = filled_array(out, self._buffer.label)
        self._buffer.check_range(0, array.nbytes)
        copy.fill(array)
        self._free.append(self._pending.popleft())
        return out

    def clear(self) -> None:
        """Let go of the copies on their way: nobody takes them."""
        self._free.extend(self._pending)
        self._pending.clear()

    def release(self) -> None:
        """Free the memory. May be called more than once."""
        self._pending.clear()
        self._free.clear()
        copies, self._copies = self._copies, ()
        for copy in copies:
            copy.release()

    def __enter__(self) -> ReadRing:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<ReadRing of {self._buffer.label}: {len(self)} of {self.slots} on their way>"
