"""What decides a kernel's text: its arguments and how each lies in memory, constants, local arrays, links."""

from __future__ import annotations

from dataclasses import dataclass

from ..views import SLICE_BYTES, Access, Picture, Resize, Sliced, Table, View

PICTURE_PARAMETERS = 16
"""How many floats a Picture argument takes by value: four float4 (see layout.picture_parameters)."""


@dataclass(frozen=True)
class Argument:
    """A named argument of a kernel. Arguments with the same ``memory`` are parts of one buffer; a Picture has its own.

    ``broadcast_channel`` says that a tensor with one channel is read as that value in all four lanes (a broadcast
    operand),
    ``zero_extended`` that a tensor with fewer channels than what is written is read as zeros after its last slice,
    ``max_pool_2x2`` that what is read of it is the largest of 2x2 pixels, ``resized`` that it is read as if it were
    resized.
    """

    name: str
    view: View
    access: Access
    memory: str
    broadcast_channel: bool = False
    zero_extended: bool = False
    max_pool_2x2: bool = False
    resized: Resize | None = None

    @property
    def unit(self) -> int:
        """Bytes per step of the argument's offset: a slice's, or a float's."""
        if isinstance(self.view, Sliced | Table):
            return SLICE_BYTES[self.view.storage]
        return 4


FusedTexts = tuple[tuple[str, str], ...]
"""Elementwise steps, each an expression in v and w and the name of the argument that is read as w, or ""."""


@dataclass(frozen=True)
class Prologue:
    """A kernel whose tile 0 each work-group of another one computes before its own tile. What it writes, after
    ``epilogue``, is in local memory: ``arguments`` are that tensor (view Local, memory the local array's name), once
    written by this kernel, and read by the other. Its other arguments are the other kernel's too.
    """

    name: str
    arguments: tuple[Argument, ...]
    epilogue: FusedTexts


@dataclass(frozen=True)
class KernelSource:
    """Everything that decides a kernel's text. ``epilogue`` are applied to what is written to the first argument
    that is
    written, and those of ``input_ops`` to what is read of "src". Where ``partial_sums`` is not None, each work-group
    adds up what it writes there, after these links, by slices, as row GROUP_ID of the argument "partial_sums" (see
    partial_sums.kern).

    By value a kernel takes one int per buffer argument (its offset in units) and PICTURE_PARAMETERS floats per Picture,
    each in the order of ``arguments``.
    """

    name: str
    arguments: tuple[Argument, ...]
    group_size: int
    group_count: int
    constants: tuple[tuple[str, int | float], ...] = ()
    shared: tuple[tuple[str, str, int], ...] = ()
    epilogue: FusedTexts = ()
    input_ops: FusedTexts = ()
    partial_sums: FusedTexts | None = None
    prologue: Prologue | None = None

    @property
    def destination(self) -> str:
        """The name of the first argument that is written."""
        return next((a.name for a in self.arguments if "w" in a.access), "")

    @property
    def buffers(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if not isinstance(a.view, Picture))

    @property
    def pictures(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if isinstance(a.view, Picture))

    @property
    def memories(self) -> dict[str, list[Argument]]:
        """The buffers that a kernel is bound to, in binding order, each with the arguments that lie in it."""
        memories: dict[str, list[Argument]] = {}
        for argument in self.buffers:
            memories.setdefault(argument.memory, []).append(argument)
        return memories
