"""The protocol of a dialect: everything in a kernel's text that depends on the shading language.

A dialect is one file like opencl.py and its prelude. The record of an API (interop/NAME/backend.py) names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from .one_dispatch import ProgramSource
from .source import Argument, Buffer, KernelSource, TileText


class Dialect(Protocol):
    """A language in which kernels are written. Its texts define what prelude.kern and the kernels use."""

    @property
    def name(self) -> str:
        """The key of its texts: "glsl"."""
        ...

    @property
    def words(self) -> tuple[str, str, str] | None:
        """The operands of matrix units, four halves as two words: the type, its zero, and the type of a pointer to it
        in local memory. None if the dialect has no matrix units.
        """
        ...

    def element(self, arguments: Sequence[Argument]) -> str:
        """The type of a buffer's elements in declarations. ``arguments`` are all that lie in the buffer."""
        ...

    def load(self, argument: Argument, buffer: Buffer, index: str) -> str:
        """The expression that loads slice number ``index`` of the buffer as a float4, counted in slices of the
        argument's storage. A Quantized argument gives four integers, and ``index`` counts fours. A Strided argument
        gives one number.
        """
        ...

    @property
    def integer_words(self) -> Sequence[str]:
        """Macros for kernels that compute on int32. I4 and I4V make an int4 from one or four ints. IS_LESS and IS_EQUAL
        give 0 or 1 per lane. WRAP_ADD, WRAP_SUB and WRAP_MUL keep the low 32 bits.
        """
        ...

    def load_integers(self, argument: Argument, buffer: Buffer, index: str) -> str:
        """The expression that loads a slice as ``load`` does, but as an int4. Floats in the buffer must be whole
        numbers.
        """
        ...

    def store_integers(self, argument: Argument, buffer: Buffer, index: str, value: str) -> str:
        """The statements that store an int4, without the last semicolon. ``value`` is a variable."""
        ...

    def store(self, argument: Argument, buffer: Buffer, index: str, value: str) -> str:
        """The statements that store a float4, without the last semicolon. ``value`` is a variable. In a Strided
        argument they store one number.
        """
        ...

    def load_words(self, argument: Argument, buffer: Buffer, index: str) -> str:
        """The expression of a slice of halves as ``words``."""
        ...

    def load_sample(self, argument: Argument, buffer: Buffer, index: str) -> str:
        """The expression of a number of a Plane in a buffer as a float from 0 to 1."""
        ...

    def kernel(self, source: KernelSource, elements: Mapping[str, str], macros: Sequence[str], tile: TileText) -> str:
        """The text of one kernel. ``macros`` and ``tile`` stand between the declarations and the entry point."""
        ...

    def picture_macros(self, kernel: KernelSource) -> list[str]:
        """Macros that give a kernel's pictures their names in a program of several kernels."""
        ...

    def tile_function(self, source: ProgramSource, number: int, tile: TileText) -> list[str]:
        """One kernel of a program as a function, after its macros."""
        ...

    def program(self, source: ProgramSource, elements: Mapping[str, str], functions: Sequence[str]) -> str:
        """The text of a program that runs all steps in one dispatch. ``functions`` are its kernels."""
        ...


class TextOfKernels(Dialect, Protocol):
    """A dialect in which several kernels can be one text."""

    def entry(self, source: KernelSource, elements: Mapping[str, str], tile: TileText) -> list[str]:
        """The lines of a kernel after its macros: helper functions, and the entry point ``source.name``."""
        ...

    def with_prelude(self, lines: Sequence[str]) -> str:
        """The text of these lines, after what they use of the prelude."""
        ...
