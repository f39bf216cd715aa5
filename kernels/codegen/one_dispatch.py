"""All kernels of a program in one text: a loop over its steps, in one dispatch, with barriers of the whole device.

Which steps there are is a table, one row of ints a step: the number of its kernel, its tiles, the group that begins,
whether all groups wait for one another before it, and the offsets of its buffer arguments. So another plan of the arena
compiles nothing. Each group copies the table to local memory where that has room, as each step's first look at its row
is a cache miss otherwise, which all groups wait for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .dialect import tile_text
from .source import Argument, KernelSource

HEAD = 4
"""Ints of a row before the offsets."""
NOTHING = -1
"""As a row's kernel: a step that does nothing but wait."""


@dataclass(frozen=True)
class ProgramSource:
    """Kernels whose arguments name, as ``memory``, the buffers of the whole program, and pictures by own names.

    ``group`` is the work-group size of them all, ``steps`` how many rows the table has, ``local_bytes`` the local
    memory of a work-group on the device.
    """

    kernels: tuple[KernelSource, ...]
    group_size: int
    steps: int
    local_bytes: int

    @property
    def memories(self) -> dict[str, list[Argument]]:
        """The buffers, in the order in which they are bound, each with all arguments that lie in it."""
        found: dict[str, list[Argument]] = {}
        for kernel in self.kernels:
            for memory, arguments in kernel.memories.items():
                found.setdefault(memory, []).extend(arguments)
        return found

    @property
    def pictures(self) -> list[Argument]:
        """The pictures, in the order in which they are bound."""
        return [argument for kernel in self.kernels for argument in kernel.pictures]

    @property
    def pools(self) -> dict[str, tuple[str, int]]:
        """Local arrays (type, count) by name: the n-th largest of a type of every kernel is the same memory."""
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
    """The pool that each of a kernel's local arrays is: the largest of a type is the first of that type."""
    largest_first = sorted(range(len(kernel.shared)), key=lambda i: -kernel.shared[i][2])
    names = [""] * len(kernel.shared)
    for place, i in enumerate(largest_first):
        kind = kernel.shared[i][0]
        before = sum(kernel.shared[other][0] == kind for other in largest_first[:place])
        names[i] = f"pool_{kind}_{before}"
    return names


def renamed(number: int, kernel: KernelSource) -> list[str]:
    """Macros that give a kernel's helpers and local arrays the names that they have in the program."""
    helpers, _ = tile_text(kernel)
    own = re.findall(r"^\w+ (\w+)\(", helpers, re.MULTILINE) + [f"order_{a.name}" for a in kernel.pictures]
    macros = [f"#define {name} {name}_{number}" for name in own]
    pools = zip(kernel.shared, pool_names(kernel), strict=True)
    return macros + [f"#define {name} {pool}" for (_, name, _), pool in pools]


def undefined(macros: list[str]) -> list[str]:
    """What takes back the macros that a text defines."""
    names = re.findall(r"^#define (\w+)", "\n".join(macros), re.MULTILINE)
    return [f"#undef {name}" for name in names]
