"""The protocol of a dialect: all that one shading language has of its own when kernels are written in it.

An API is one more file like opencl.py, its prelude, and a row of ``DIALECTS``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from .cuda import CUDA
from .glsl import GLSL
from .one_dispatch import ProgramSource
from .opencl import OPENCL
from .source import Argument, Buffer, KernelSource, TileText


class Dialect(Protocol):
    """A language in which kernels are written. Its texts define what prelude.kern and the kernels use."""

    @property
    def words(self) -> tuple[str, str, str] | None:
        """The type of four halves as two words, its zero, and a pointer to it in local memory: what matrix units take.
        None if there are no units.
        """
        ...

    def element(self, arguments: Sequence[Argument]) -> str:
        """The type of a buffer's elements in declarations. ``arguments`` are all that lie in the buffer."""
        ...

    def load(self, argument: Argument, buffer: Buffer, index: str) -> str:
        """The expression of a slice as float4: number ``index`` of the buffer, counted in slices of the argument's
        storage; of a Quantized argument four integers, counted in fours. Of a Strided argument one number.
        """
        ...

    @property
    def integer_words(self) -> Sequence[str]:
        """Macros of kernels that compute on int32: I4 and I4V make an int4 of one or four; IS_LESS and IS_EQUAL compare
        to 0 and 1; WRAP_ADD, WRAP_SUB and WRAP_MUL keep the low 32 bits.
        """
        ...

    def load_integers(self, argument: Argument, buffer: Buffer, index: str) -> str:
        """The same as ``load``, as int4; floats are whole numbers then."""
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


DIALECTS: Mapping[str, Dialect] = {"glsl": GLSL, "opencl": OPENCL, "cuda": CUDA}
"""The dialects by name. The null device renders every kernel in all of them."""
