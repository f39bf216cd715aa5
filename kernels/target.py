"""The facts about a device that a lowering may use, and the decisions that can be tuned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class TuningChoice(Generic[T]):
    """A decision of a lowering. The rule decides, unless the candidates were measured on the device
    (delegate/run/tuner.py).

    ``key`` is the kernel's name, and then everything that the candidates depend on, except the target; equal keys are
    decided once. ``candidates`` are all different. The first is the one that the rule takes.
    """

    key: str
    candidates: tuple[T, ...]

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self.key.partition(" ")[0]


@dataclass(frozen=True)
class Target:
    """The device that an operation is lowered for: its sizes, its limits, and the decisions that were measured on it.

    ``group_size`` is the number of invocations of a work-group, ``invocations`` the number of resident invocations that
    fill the device. ``matrix_units``: it multiplies fragments of matrices, if weights are halves. ``tuned`` has the
    number of the fastest candidate by key, if it was measured.

    Candidates are kept by target (``lru_cache``), so its mappings are never changed. They count in comparisons, and not
    in hashes.
    """

    group_size: int
    invocations: int
    matrix_units: bool = False
    tuned: Mapping[str, int] = field(default_factory=dict, hash=False)
    warpgroup_bytes: int = 0
    """The most local memory of a work-group whose warpgroups multiply matrices in it; 0 if the device has none."""
    warpgroup_invocations: int = 0
    """The most invocations per compute unit, on average, of steps of which only large ones use some."""
    halves: bool = False
    """Tensors that tolerate it, and weights, are kept in 16 bits."""
    max_group_size: int = 1024
    """The largest work-group."""
    early_launches: bool = False
    """Kernels start before the end of the one before them, so that they may load constants meanwhile."""
    name: str = "the device"
    """The device in messages."""
    local_bytes: int = 1 << 15
    """The most local memory of a work-group."""
    max_buffer_bytes: int = 1 << 27
    """The largest buffer that a kernel can address."""
    max_memories: int = 8
    """The most buffers that one kernel may use."""
    fixed: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Decisions by kernel, such as a tile. They replace those of the rule and of measurements, for comparisons of all
    tiles on a device. A tile of "matrix_conv" works without matrix units too, because the kernel emulates them.
    """

    def take(self, choice: TuningChoice[T]) -> T:
        """The fixed decision, or the candidate that was measured to be the fastest, or else the rule's candidate."""
        rule = choice.candidates[self.tuned.get(choice.key, 0)]
        return self.decide(choice.kernel, rule)

    def decide(self, kernel: str, rule: T) -> T:
        """The fixed decision for a kernel, or else the ``rule``'s."""
        return self.fixed.get(kernel, rule)
