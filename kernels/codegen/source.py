"""Sources of kernels: everything that decides a kernel's text, and the values that are passed to it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

from ..views import (  # fmt: skip
    SAMPLE_BYTES,
    SLICE_BYTES,
    Access,
    Picture,
    Plane,
    PlanePicture,
    Resize,
    Sampled,
    Sliced,
    Storage,
    Strided,
    Table,
    View,
    parameter_count,
)


@dataclass(frozen=True)
class Argument:
    """A named argument of a kernel. Arguments with the same ``memory`` lie in one buffer; a texture has its own."""

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
    picture: str = ""
    """The name of the argument of which it is a plane."""
    number: int = 0
    """The number of the plane there."""
    takes_stride: bool = False
    """The stride of its pixels is a parameter of the kernel: see strides.py."""

    @property
    def unit(self) -> int:
        """The unit of the argument's offset in bytes: the size of a slice, of a plane's number, or of a float."""
        if isinstance(self.view, Sliced | Table):
            return SLICE_BYTES[self.view.storage]
        if isinstance(self.view, Strided):
            return self.view.itemsize
        return SAMPLE_BYTES[self.view.format] if isinstance(self.view, Plane) and not self.is_texture else 4

    @property
    def is_texture(self) -> bool:
        """True if the argument's memory is a texture."""
        return isinstance(self.view, Picture) or (isinstance(self.view, Plane) and self.view.is_texture)

    @property
    def has_memory(self) -> bool:
        """True for an argument that is itself a buffer or a texture. A picture in planes is neither: its planes are."""
        return not isinstance(self.view, PlanePicture)

    @property
    def quads(self) -> int:
        """The number of float4 parameters (crop, mean, std, sizes) that a kernel receives for a picture; 0 for other
        views.
        """
        return parameter_count(self.view) // 4


def storage_of(argument: Argument) -> Storage | None:
    """The storage of a tensor in slices, or of a table of constants; None for other views."""
    return argument.view.storage if isinstance(argument.view, Sliced | Table) else None


def holds_integers(argument: Argument) -> bool:
    """Whether a tensor lies in memory as int32, one int4 per slice."""
    return storage_of(argument) == "i32"


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

    Its result, after ``epilogue``, stays in local memory. ``arguments`` are that result twice (view Local; ``memory``
    is the name of the local array): as this kernel writes it, and as the other kernel reads it. Its other arguments are
    listed with those of the other kernel.
    """

    name: str
    arguments: tuple[Argument, ...]
    epilogue: FusedTexts


@dataclass(frozen=True)
class KernelSource:
    """Everything that decides a kernel's text.

    A kernel takes by value one int for each buffer argument (its offset in units of the argument), one more for each
    that ``takes_stride``, and the floats of each of ``pictures`` (see kernels/views.py: parameter_count). All three
    follow the order of ``arguments``.
    """

    name: str
    arguments: tuple[Argument, ...]
    group_size: int
    group_count: int
    constants: tuple[tuple[str, int | float], ...] = ()
    shared: tuple[tuple[str, str, int], ...] = ()
    """Arrays in local memory: type, name and number of elements."""
    epilogue: FusedTexts = ()
    """Operations on the values that are written to ``destination``."""
    input_ops: FusedTexts = ()
    """Operations on the values that are read of "src"."""
    partial_sums: FusedTexts | None = None
    """Operations after which each work-group adds up, per slice, what it writes to ``destination``; None if it does
    not. Its sums are row GROUP_ID of the argument "partial_sums" (see partial_sums.kern).
    """
    prologue: Prologue | None = None
    integers: bool = False
    """True if the kernel computes on int32: in its text, epilogue and access macros int4 replaces float4."""

    @property
    def local_bytes(self) -> int:
        """The bytes of its arrays in local memory."""
        return sum(count * (16 if kind == "float4" else 4) for kind, _, count in self.shared)

    @property
    def destination(self) -> str:
        """The name of the first argument that is written."""
        return next((a.name for a in self.arguments if "w" in a.access), "")

    @functools.cached_property
    def buffers(self) -> tuple[Argument, ...]:
        """The arguments that lie in buffers."""
        return tuple(a for a in self.arguments if a.has_memory and not a.is_texture)

    @functools.cached_property
    def textures(self) -> tuple[Argument, ...]:
        """The arguments that are textures: pictures, and planes of pictures."""
        return tuple(a for a in self.arguments if a.is_texture)

    @functools.cached_property
    def pictures(self) -> tuple[Argument, ...]:
        """The arguments that are sampled or stored at places, by parameters: textures, and pictures in planes."""
        return tuple(a for a in self.arguments if isinstance(a.view, Sampled))

    @functools.cached_property
    def memories(self) -> dict[str, list[Argument]]:
        """The buffers that a kernel is bound to, in binding order, each with the arguments that lie in it."""
        memories: dict[str, list[Argument]] = {}
        for argument in self.buffers:
            memories.setdefault(argument.memory, []).append(argument)
        return memories
