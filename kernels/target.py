"""What a lowering may know of the device it is for, and the decisions that can be tuned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class TuningChoice(Generic[T]):
    """A decision that a rule takes, unless it was measured on the device (delegate/tune.py).

    ``key`` names all that the candidates depend on besides the Grid: what asks the same is decided once.
    ``candidates`` differ from one another; the first is the rule's.
    """

    key: str
    candidates: tuple[T, ...]


@dataclass(frozen=True)
class Target:
    """How a device is filled: the invocations of a work-group, and how many at once keep the whole device busy.

    ``tuned`` has the number of the fastest candidate by question, where it was measured.
    ``matrix_units``: it multiplies fragments of matrices, and what is lowered for it may have weights in 16 bits.
    """

    group_size: int
    invocations: int
    matrix_units: bool = False
    tuned: Mapping[str, int] = field(default_factory=dict)
    max_group_size: int = 1024
    """The largest work-group."""
    name: str = "the device"
    """The device in messages."""
    local_bytes: int = 1 << 15
    """The most local memory of a work-group."""
    max_buffer_bytes: int = 1 << 27
    """The largest buffer that a kernel can address."""
    max_memories: int = 8
    """The most buffers that one kernel may use."""

    def take(self, choice: TuningChoice[T]) -> T:
        """The candidate that was measured to be the fastest, or else the rule's."""
        return choice.candidates[self.tuned.get(choice.key, 0)]
