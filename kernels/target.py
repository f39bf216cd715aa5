"""The facts about a device that a lowering may use, and the decisions that can be tuned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class TuningChoice(Generic[T]):
    """A decision of a lowering: by rule, unless the candidates were measured on the device (delegate/run/tuner.py).

    ``key`` names everything that the candidates depend on, except the target; equal keys are decided once.
    ``candidates`` differ from one another; the first is the rule's.
    """

    key: str
    candidates: tuple[T, ...]


@dataclass(frozen=True)
class Target:
    """The device that an operation is lowered for: its sizes, its limits, and the decisions that were measured on it.

    ``group_size`` is the number of invocations of a work-group, ``invocations`` the number of resident invocations that
    fill the device. ``matrix_units``: it multiplies fragments of matrices, and weights may be halves. ``tuned`` has the
    number of the fastest candidate by key, if it was measured.
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
        """The candidate that was measured to be the fastest, or else the rule's candidate."""
        return choice.candidates[self.tuned.get(choice.key, 0)]
