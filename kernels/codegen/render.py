"""KernelSource and ProgramSource to text: one kernel text, a compiler per dialect."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .dialect import Dialect, TextOfKernels
from .macros import definitions
from .one_dispatch import ProgramSource, pool_names
from .source import Argument, KernelSource, TileText
from .texts import tile_text


def render(source: KernelSource, dialect: Dialect) -> str:
    """The text of one kernel."""
    elements = _elements(source.memories, dialect)
    return dialect.kernel(source, elements, definitions(source, dialect, elements), tile_text(source))


def render_together(sources: Sequence[KernelSource], dialect: TextOfKernels) -> tuple[str, list[str]]:
    """One text of several kernels, and the name of each source's kernel: "kernel_0", "kernel_1" and so on.

    The macros of a kernel are defined before it and undefined after it. Sources that differ in nothing but what their
    text leaves out share a kernel.
    """
    lines, numbers, names = list[str](), dict[str, int](), list[str]()
    for source in sources:
        elements, tile = _elements(source.memories, dialect), tile_text(source)
        macros, entry = definitions(source, dialect, elements), dialect.entry(source, elements, tile)
        known, own = len(numbers), "\n".join([*macros, *entry])
        number = numbers.setdefault(own, known)
        names.append(f"kernel_{number}")
        if number == known:
            macros = [f"#define {source.name} kernel_{number}", *_own_names(number, source, tile), *macros]
            lines += [*macros, *entry, *_undefined(macros)]
    return dialect.with_prelude(lines), names


def render_program(source: ProgramSource, dialect: Dialect) -> str:
    """The text of a program that runs all its steps in one dispatch.

    Every kernel is a function, whose macros are defined before it and undefined after it.
    """
    elements, functions = _elements(source.memories, dialect), list[str]()
    for number, kernel in enumerate(source.kernels):
        tile = tile_text(kernel)
        macros = _names_in_program(number, kernel, tile) + dialect.picture_macros(kernel)
        macros += definitions(kernel, dialect, elements)
        functions += [*macros, *dialect.tile_function(source, number, tile), *_undefined(macros)]
    return dialect.program(source, elements, functions)


def _elements(memories: Mapping[str, Sequence[Argument]], dialect: Dialect) -> dict[str, str]:
    return {memory: dialect.element(arguments) for memory, arguments in memories.items()}


def _own_names(number: int, kernel: KernelSource, tile: TileText) -> list[str]:
    """Macros that give a kernel's functions names of their own in a text of several kernels."""
    own = re.findall(r"^\w+ (\w+)\(", tile.helpers, re.MULTILINE) + [f"order_{a.name}" for a in kernel.pictures]
    return [f"#define {name} {name}_{number}" for name in own]


def _names_in_program(number: int, kernel: KernelSource, tile: TileText) -> list[str]:
    """Macros that give a kernel's functions and local arrays the names that they have in the program."""
    pools = zip(kernel.shared, pool_names(kernel), strict=True)
    return _own_names(number, kernel, tile) + [f"#define {name} {pool}" for (_, name, _), pool in pools]


def _undefined(macros: Sequence[str]) -> list[str]:
    """Directives that take back the macros that a text defines."""
    names = re.findall(r"^#define (\w+)", "\n".join(macros), re.MULTILINE)
    return [f"#undef {name}" for name in names]
