"""What decides a kernel's text: its arguments and how each lies in memory, constants, local arrays, links."""

from __future__ import annotations

from dataclasses import dataclass

from .layout import SLICE_BYTES, Access, Picture, Sliced, Table, View

PICTURE_PARAMETERS = 16
"""How many floats a Picture argument takes by value: four float4 (see layout.picture_parameters)."""


@dataclass(frozen=True)
class Argument:
    """A named argument of a kernel. Arguments with the same ``memory`` are parts of one buffer; a Picture has its own.

    ``splat`` says that a tensor with one channel is read as that value in all four lanes (a broadcast operand),
    ``narrow`` that a tensor with fewer channels than what is written is read as zeros after its last slice.
    """

    name: str
    view: View
    access: Access
    memory: str
    splat: bool = False
    narrow: bool = False

    @property
    def unit(self) -> int:
        """Bytes per step of the argument's offset: a slice's, or a float's."""
        if isinstance(self.view, Sliced | Table):
            return SLICE_BYTES[self.view.storage]
        return 4


@dataclass(frozen=True)
class KernelSource:
    """Everything that decides a kernel's text. ``links`` are (expression in v and w, name of the argument read as w
    or ""); they are applied to what is written to "dst", and those of ``reading`` to what is read of "src".

    By value a kernel takes one int per buffer argument (its offset in units) and PICTURE_PARAMETERS floats per Picture,
    each in the order of ``arguments``.
    """

    name: str
    arguments: tuple[Argument, ...]
    group: int
    tiles: int
    constants: tuple[tuple[str, int | float], ...] = ()
    shared: tuple[tuple[str, str, int], ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    reading: tuple[tuple[str, str], ...] = ()

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
