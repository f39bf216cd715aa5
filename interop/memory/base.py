"""The base of all GPU memory: what buffers and pictures of every API have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from ..arrays import ArrayLayout
from ..uncopied import Uncopied

if TYPE_CHECKING:
    from typing_extensions import Self

C = TypeVar("C")
"""The API's contexts."""


class BaseMemory(Uncopied, Generic[C]):
    """Base of buffers and pictures: memory that is owned or borrowed, given up on release or at the end of a ``with``
    block.
    """

    label: str
    format: str
    size: tuple[int, int]
    nbytes: int
    offset = 0
    layout: ArrayLayout | None = None
    released: Any
    """True once the memory is released. A bool because each run reads it; a property of memory that others may release.
    """

    @abstractmethod
    def release(self) -> None:
        """Free the memory, or let go of it if it is borrowed. May be called more than once."""

    @abstractmethod
    def upload(self, context: C, array: np.ndarray, reason: str, offset: int = 0) -> None:
        """Copy an array into the memory, in a context that need not be current. Counted. For devices."""

    @abstractmethod
    def download(self, context: C, out: np.ndarray, reason: str, offset: int = 0) -> None:
        """Fill an array from the memory, in a context that need not be current. Counted. For devices."""

    @abstractmethod
    def _current_context(self) -> C:
        """The context that is current on the calling thread, which must be one in which the memory can be used.

        Raises BindingError if the memory is released, DeviceError for the context.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.label}{', released' if self.released else ''}>"
