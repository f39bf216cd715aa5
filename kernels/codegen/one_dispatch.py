"""Sources of programs: all kernels of a model in one text, which runs its steps in one dispatch.

The text is a loop over the steps, with barriers between all work-groups. The steps are a table, one row of ints per
step: the number of its kernel, its group count, the group that begins, whether all groups wait before it, and the
offsets of its buffer arguments. So another plan of the arena compiles nothing. Each group copies the table to local
memory if there is room: else each step's first look at its row is a cache miss, for which all groups wait.
"""

from __future__ import annotations

from dataclasses import dataclass

from .source import Argument, KernelSource

HEAD = 4
"""Ints of a row before the offsets."""
NOTHING = -1
"""The kernel number of a row that only waits at the barrier."""


@dataclass(frozen=True)
class ProgramSource:
    """The kernels of a program. The ``memory`` of their arguments is the name of a buffer of the program. Each texture
    has a name of its own, and so has each picture in planes, for its parameters.
    """

    kernels: tuple[KernelSource, ...]
    group_size: int
    """The work-group size of them all."""
    steps: int
    """Rows of the table."""
    local_bytes: int
    """Local memory that a work-group has on the device."""

    @property
    def memories(self) -> dict[str, list[Argument]]:
        """The buffers, in the order in which they are bound, each with all arguments that lie in it."""
        found: dict[str, list[Argument]] = {}
        for kernel in self.kernels:
            for memory, arguments in kernel.memories.items():
                found.setdefault(memory, []).extend(arguments)
        return found

    @property
    def textures(self) -> list[Argument]:
        """The textures, in the order in which they are bound."""
        return [argument for kernel in self.kernels for argument in kernel.textures]

    @property
    def pictures(self) -> list[Argument]:
        """The arguments with parameters, in the order in which these are passed."""
        return [argument for kernel in self.kernels for argument in kernel.pictures]

    @property
    def pools(self) -> dict[str, tuple[str, int]]:
        """The shared local arrays (type, count) by name. The n-th largest array of a type is the same memory in every
        kernel.
        """
        pools: dict[str, tuple[str, int]] = {}
        for kernel in self.kernels:
            for name, (kind, _, count) in zip(pool_names(kernel), kernel.shared, strict=True):
                pools[name] = (kind, max(count, pools.get(name, (kind, 0))[1]))
        return pools

    @property
    def nbytes(self) -> int:
        """Local memory that the kernels and the barrier need, without the table's copy."""
        return sum(count * {"float4": 16}.get(kind, 4) for kind, count in self.pools.values()) + 16

    @property
    def copies_table(self) -> bool:
        """Whether local memory has room for the table."""
        return self.nbytes + 4 * self.steps * self.row <= self.local_bytes

    @property
    def row(self) -> int:
        """Ints in a row of the table, a multiple of four."""
        return -(-(HEAD + max(len(kernel.buffers) for kernel in self.kernels)) // 4) * 4


def pool_names(kernel: KernelSource) -> list[str]:
    """The name of the pool of each local array of a kernel. Arrays of a type are numbered by size, largest first."""
    largest_first = sorted(range(len(kernel.shared)), key=lambda i: -kernel.shared[i][2])
    names = [""] * len(kernel.shared)
    for place, i in enumerate(largest_first):
        kind = kernel.shared[i][0]
        before = sum(kernel.shared[other][0] == kind for other in largest_first[:place])
        names[i] = f"pool_{kind}_{before}"
    return names
