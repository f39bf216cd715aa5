"""Sources of kernels: all that decides a kernel's text, and the values that it takes besides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..views import SLICE_BYTES, Access, Picture, Resize, Sliced, Table, View

PICTURE_PARAMETERS = 16
"""Floats that a Picture argument takes by value: four float4 (see kernels/views.py: picture_parameters)."""


@dataclass(frozen=True)
class Argument:
    """A named argument of a kernel. Arguments with the same ``memory`` lie in one buffer; a Picture has its own."""

    name: str
    view: View
    access: Access
    memory: str
    broadcast_channel: bool = False
    """The tensor has one channel, which is read into all four lanes."""
    zero_extended: bool = False
    """The tensor has fewer channels than the one that is written: zeros are read after its last slice."""
    max_pool_2x2: bool = False
    """A read gives the largest of 2x2 pixels."""
    resized: Resize | None = None
    """A read gives a pixel of the resized tensor."""

    @property
    def unit(self) -> int:
        """Bytes per step of the argument's offset: a slice's, or a float's."""
        if isinstance(self.view, Sliced | Table):
            return SLICE_BYTES[self.view.storage]
        return 4


def holds_integers(argument: Argument) -> bool:
    """Whether a tensor lies in memory as int32, one int4 per slice."""
    return isinstance(argument.view, Sliced) and argument.view.storage == "i32"


@dataclass(frozen=True)
class Buffer:
    """A buffer as a kernel's text names it: the type of its elements, and whether the kernel only reads it."""

    name: str
    element: str
    read_only: bool


class TileText(NamedTuple):
    """A kernel's text: helper functions, and the body of its tile function in braces."""

    helpers: str
    body: str


FusedTexts = tuple[tuple[str, str], ...]
"""Fused operations: each an expression in v and w, and the name of the argument that is read as w, or ""."""


@dataclass(frozen=True)
class Prologue:
    """A kernel of one tile, which each work-group of another kernel computes before its own tile.

    Its result, after ``epilogue``, is in local memory. ``arguments`` are that tensor twice (view Local, memory the
    local array's name): written by this kernel, and read by the other. Its other arguments are the other kernel's too.
    """

    name: str
    arguments: tuple[Argument, ...]
    epilogue: FusedTexts


@dataclass(frozen=True)
class KernelSource:
    """Everything that decides a kernel's text.

    By value a kernel takes one int per buffer argument (its offset in units of the argument) and PICTURE_PARAMETERS
    floats per Picture, each in the order of ``arguments``.
    """

    name: str
    arguments: tuple[Argument, ...]
    group_size: int
    group_count: int
    constants: tuple[tuple[str, int | float], ...] = ()
    shared: tuple[tuple[str, str, int], ...] = ()
    """Arrays in local memory: type, name and number of elements."""
    epilogue: FusedTexts = ()
    """Applied to what is written to ``destination``."""
    input_ops: FusedTexts = ()
    """Applied to what is read of "src"."""
    partial_sums: FusedTexts | None = None
    """If not None, each work-group adds up, per slice, what it writes to ``destination``, after these operations. Its
    sums are row GROUP_ID of the argument "partial_sums" (see partial_sums.kern).
    """
    prologue: Prologue | None = None
    integers: bool = False
    """It computes on int32: its text, its epilogue and its accesses have int4 in the place of float4."""

    @property
    def destination(self) -> str:
        """The name of the first argument that is written."""
        return next((a.name for a in self.arguments if "w" in a.access), "")

    @property
    def buffers(self) -> tuple[Argument, ...]:
        """The arguments that lie in buffers."""
        return tuple(a for a in self.arguments if not isinstance(a.view, Picture))

    @property
    def pictures(self) -> tuple[Argument, ...]:
        """The arguments that are textures."""
        return tuple(a for a in self.arguments if isinstance(a.view, Picture))

    @property
    def memories(self) -> dict[str, list[Argument]]:
        """The buffers that a kernel is bound to, in binding order, each with the arguments that lie in it."""
        memories: dict[str, list[Argument]] = {}
        for argument in self.buffers:
            memories.setdefault(argument.memory, []).append(argument)
        return memories
