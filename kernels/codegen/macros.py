"""All macros of a kernel: its constants, and READ, WRITE, LOAD4, STORE4 and POSITION of each argument."""

from __future__ import annotations

from collections.abc import Mapping

from ..views import Plane, Sliced, Table
from .dialect import Dialect
from .macro import Macro, constant, literal
from .planes import texel_read
from .reads import read_lines, stored_and_applied, with_input_ops
from .shapes import shape_lines
from .source import Argument, Buffer, KernelSource
from .texts import loads_fragments, with_integers
from .writes import write_macro


def definitions(source: KernelSource, dialect: Dialect, elements: Mapping[str, str]) -> list[str]:
    """The lines that define a kernel's constants and the access macros of every argument.

    ``elements`` are the types of the elements of each buffer in the text: see ``Dialect.element``.
    """
    buffers = {
        memory: Buffer(memory, elements[memory], read_only=all(a.access == "r" for a in arguments))
        for memory, arguments in source.memories.items()
    }
    lines: list[Macro | str] = [constant("GROUP", source.group_size), constant("GROUP_COUNT", source.group_count)]
    if source.integers:
        lines += dialect.integer_words
    lines += [constant(name, literal(int(value) if source.integers else value)) for name, value in source.constants]
    load = dialect.load_integers if source.integers else dialect.load
    accesses: list[Macro | str] = []
    for argument in (*source.arguments, *(source.prologue.arguments if source.prologue else ())):
        if isinstance(argument.view, Plane):
            accesses.append(texel_read(argument, buffers.get(argument.memory), dialect))
            continue
        accesses += shape_lines(argument)
        if "r" in argument.access:
            input_ops = source.input_ops if argument.name == "src" else ()
            accesses += with_input_ops(read_lines(argument, buffers, load), input_ops)
        if "w" in argument.access:
            accesses.append(write_macro(argument, source, dialect, buffers))
    lines += [with_integers(str(line)) for line in accesses] if source.integers else accesses
    if loads_fragments(source.name):
        lines += [*_fragment_macros(source, dialect, buffers), *stored_and_applied(source.input_ops)]
    return [str(line) for line in lines]


def _fragment_macros(source: KernelSource, dialect: Dialect, buffers: Mapping[str, Buffer]) -> list[Macro | str]:
    """Macros that load fragments of "src" and "weights", and multiply them: as floats; or as halves, if all is halves
    and there are units.
    """
    floats = [
        constant("FRAGMENT", "float4"),
        constant("NO_FRAGMENT", "F4(0.0f)"),
        Macro("LOCAL_FRAGMENTS", ("array_",), "array_"),
        constant("FRAGMENT_src", "READ_src"),
        constant("FRAGMENT_weights", "LOAD4_weights"),
        Macro("TO_FRAGMENT", ("v_",), "(v_)"),
        constant("MULTIPLY_FRAGMENTS", "MULTIPLY_FLOATS"),
    ]
    src, weights = (next(a for a in source.arguments if a.name == name) for name in ("src", "weights"))
    computed = source.input_ops or (src.resized is not None and src.resized.bilinear)
    if dialect.words is None or computed or not (_holds_halves(src) and _holds_halves(weights)):
        return [*floats]
    halves = [
        constant("FRAGMENT", dialect.words[0]),
        constant("NO_FRAGMENT", dialect.words[1]),
        Macro("LOCAL_FRAGMENTS", ("array_",), f"(({dialect.words[2]})array_)"),
        Macro("TO_FRAGMENT", ("v_",), "words_of(v_)"),
        constant("MULTIPLY_FRAGMENTS", "MULTIPLY_HALVES"),
    ]
    loads = [
        *read_lines(src, buffers, dialect.load_words, "FRAGMENT"),
        *read_lines(weights, buffers, dialect.load_words, "FRAGMENT"),
    ]
    return ["#ifdef MATRIX_UNITS", *halves, *loads, "#else", *floats, "#endif"]


def _holds_halves(argument: Argument) -> bool:
    return isinstance(argument.view, Sliced | Table) and argument.view.storage == "f16"
