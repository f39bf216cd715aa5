"""All macros of a kernel: its constants, and READ, WRITE, LOAD4, STORE4 and POSITION of each argument."""

from __future__ import annotations

from collections.abc import Mapping

from ..tensor import slices
from ..views import Plane, Table
from .dialect import Dialect
from .macro import SLICE, Macro, constant, literal
from .planes import texel_read
from .reads import Lines, read_lines, stored_and_applied, with_input_ops
from .source import Argument, Buffer, KernelSource, storage_of
from .texts import keeps_weights, loads_fragments, multiplies_octets, tile_function, with_integers
from .warpgroups import warpgroup_macros
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
        accesses += _shape_lines(argument)
        if "r" in argument.access:
            input_ops = source.input_ops if argument.name == "src" else ()
            accesses += with_input_ops(read_lines(argument, buffers, load), input_ops)
        if "w" in argument.access:
            accesses.append(write_macro(argument, source, dialect, buffers))
    lines += [with_integers(str(line)) for line in accesses] if source.integers else accesses
    lines += _half_reads(source, dialect, buffers)
    if loads_fragments(source.name):
        lines += [*_fragment_macros(source, dialect, buffers), *stored_and_applied(source.input_ops)]
    if multiplies_octets(source.name):
        lines += warpgroup_macros(source, dialect, buffers)
    return [str(line) for line in lines]


def _half_reads(source: KernelSource, dialect: Dialect, buffers: Mapping[str, Buffer]) -> list[Macro | str]:
    """READ_HALVES of each argument that a kernel reads so: halves as they lie in memory, or made of floats."""
    body, lines = tile_function(source.name).body, list[Macro | str]()
    for argument in source.arguments:
        name = f"READ_HALVES_{argument.name}"
        if f"{name}(" not in body:
            continue
        made = Macro(name, SLICE, f"TO_HALVES(READ_{argument.name}({', '.join(SLICE)}))")
        if dialect.words is None or not _holds_halves(argument):
            lines.append(made)
        else:
            stored = read_lines(argument, buffers, dialect.load_words, "READ_HALVES")
            lines += ["#ifdef MATRIX_UNITS", *stored, "#else", made, "#endif"]
    return lines


def _shape_lines(argument: Argument) -> list[Macro | str]:
    """A tensor's constants (batch, height, width, channels, slices, number of slices) and POSITION, which finds a
    numbered slice. Tables and planes have none.
    """
    name, view = argument.name, argument.view
    if isinstance(view, Table | Plane):
        return []
    batch, height, width, channels = view.shape
    height, width = argument.resized.size if argument.resized is not None else (height, width)
    values = dict(
        B=batch, H=height, W=width, C=channels, S=slices(channels), COUNT=batch * height * width * slices(channels)
    )
    position = [
        f"int s_ = (i_) % {name}_S",
        f"int x_ = (i_) / {name}_S % {name}_W",
        f"int y_ = (i_) / ({name}_S * {name}_W) % {name}_H",
        f"int b_ = (i_) / ({name}_S * {name}_W * {name}_H)",
    ]
    constants = [constant(f"{name}_{key}", value) for key, value in values.items()]
    return [*constants, Macro(f"POSITION_{name}", ("i_", *SLICE), "; ".join(position))]


def _fragment_macros(source: KernelSource, dialect: Dialect, buffers: Mapping[str, Buffer]) -> list[Macro | str]:
    """Macros that load fragments of "src" and "weights" and multiply them: as bytes if both are bytes; as halves if
    both are halves and the device has matrix units; else as floats.
    """
    src, weights = (next(a for a in source.arguments if a.name == name) for name in ("src", "weights"))
    computed = source.input_ops or (src.resized is not None and src.resized.bilinear)
    words = dialect.words
    if storage_of(weights) == "u16":
        if computed or storage_of(src) != "u16":
            raise ValueError(f"{source.name} multiplies bytes, and its source holds others")
        emulated = [*_FLOAT_FRAGMENTS, *_EMULATED_BYTES, *_NO_PAIRS]
        units = [*_word_fragments(src, weights, dialect, buffers), *_BYTES, *_NO_PAIRS] if words else emulated
        return ["#ifdef MATRIX_UNITS", *units, "#else", *emulated, "#endif"]
    if words is None or not _holds_halves(weights):
        return [*_FLOATS, *_NO_PAIRS, "#ifdef MATRIX_UNITS", "#undef RINGED", constant("RINGED", 0), "#endif"]
    load_weights = read_lines(weights, buffers, dialect.load_words, "FRAGMENT")
    if computed or not _holds_halves(src):
        if not keeps_weights(source.name):
            return [*_FLOATS, *_NO_PAIRS]
        own = ("WEIGHTS", "weights", "MULTIPLY_FRAGMENTS", "MULTIPLY_ROWS")
        pairs = [line for line in _FLOATS if not any(word in str(line) for word in own)]
        pairs += [
            constant("WEIGHTS", words[0]),
            constant("FROM_WEIGHTS", "half4_of"),
            *load_weights,
            *_local_weights(weights, dialect, buffers),
            *_PAIRS,
        ]
        return ["#ifdef MATRIX_UNITS", *pairs, "#else", *_FLOATS, *_NO_PAIRS, "#endif"]
    halves = [*_word_fragments(src, weights, dialect, buffers), *_HALVES]
    return ["#ifdef MATRIX_UNITS", *halves, "#else", *_FLOATS, "#endif", *_NO_PAIRS]


def _word_fragments(src: Argument, weights: Argument, dialect: Dialect, buffers: Mapping[str, Buffer]) -> Lines:
    """Macros for fragments of two words: four halves or eight bytes."""
    assert dialect.words is not None
    kind, zero, pointer = dialect.words
    return [
        constant("FRAGMENT", kind),
        constant("WEIGHTS", kind),
        constant("FROM_WEIGHTS", "half4_of"),
        constant("NO_FRAGMENT", zero),
        Macro("LOCAL_FRAGMENTS", ("array_",), f"(({pointer})array_)"),
        *read_lines(src, buffers, dialect.load_words, "FRAGMENT"),
        *read_lines(weights, buffers, dialect.load_words, "FRAGMENT"),
        *_local_weights(weights, dialect, buffers),
        constant("RINGED", 1),
    ]


def _local_weights(weights: Argument, dialect: Dialect, buffers: Mapping[str, Buffer]) -> Lines:
    """Macros for weights of halves in local memory, where copies of 16 bytes bring them."""
    assert dialect.words is not None
    source = dialect.load_words(weights, buffers[weights.memory], f"{weights.name}_offset + 2 * (j_)")
    return [
        Macro("LOCAL_WEIGHTS", ("array_",), f"(({dialect.words[2]})array_)"),
        Macro("COPY_FRAGMENTS_weights", ("j_", "array_", "i_"), f"copy_async((array_) + (i_), &({source}))"),
    ]


_ROWS_OF_FLOATS = "MULTIPLY_ROWS_OF_FLOATS(sum_, a_, b_, v_)"
_COPIES = "{ (array_)[2 * (i_)] = LOAD4_weights(2 * (j_)); (array_)[2 * (i_) + 1] = LOAD4_weights(2 * (j_) + 1); }"
_FLOAT_FRAGMENTS: Lines = [
    constant("FRAGMENT", "float4"),
    constant("WEIGHTS", "float4"),
    Macro("FROM_WEIGHTS", ("v_",), "(v_)"),
    constant("NO_FRAGMENT", "F4(0.0f)"),
    constant("RINGED", 1),
    Macro("LOCAL_FRAGMENTS", ("array_",), "array_"),
    constant("FRAGMENT_src", "READ_src"),
    constant("FRAGMENT_weights", "LOAD4_weights"),
    Macro("LOCAL_WEIGHTS", ("array_",), "array_"),
    Macro("COPY_FRAGMENTS_weights", ("j_", "array_", "i_"), _COPIES),
]
_FLOAT_SUMS: Lines = [
    constant("SUMS", "float4"),
    Macro("TO_SUMS", ("v_",), "(v_)"),
    Macro("FROM_SUMS", ("v_",), "(v_)"),
]
_INTEGER_SUMS: Lines = [
    constant("SUMS", "int4"),
    constant("TO_SUMS", "ints_of"),
    constant("FROM_SUMS", "floats_of"),
]
_FLOATS: Lines = [
    *_FLOAT_FRAGMENTS,
    *_FLOAT_SUMS,
    Macro("TO_FRAGMENT", ("v_",), "(v_)"),
    Macro("FROM_FRAGMENT", ("v_",), "(v_)"),
    constant("MULTIPLY_FRAGMENTS", "MULTIPLY_FLOATS"),
    Macro("MULTIPLY_ROWS", ("sum_", "a_", "b_", "v_"), _ROWS_OF_FLOATS),
]
"""Macros for kernels whose fragments are floats."""
_HALVES: Lines = [
    *_FLOAT_SUMS,
    Macro("TO_FRAGMENT", ("v_",), "words_of(v_)"),
    Macro("FROM_FRAGMENT", ("v_",), "half4_of(v_)"),
    constant("MULTIPLY_FRAGMENTS", "MULTIPLY_HALVES"),
    Macro("MULTIPLY_ROWS", ("sum_", "a_", "b_", "v_"), "sum_ = multiply_rows_of_halves(sum_, a_, b_, v_)"),
]
_BYTES: Lines = [
    *_INTEGER_SUMS,
    Macro("MULTIPLY_FRAGMENTS", ("sum_", "p_", "q_", "w_"), "sum_ = multiply_bytes(sum_, p_, q_, w_)"),
    Macro("MULTIPLY_ROWS", ("sum_", "a_", "b_", "v_"), "sum_ = multiply_rows_of_bytes(sum_, a_, b_, v_)"),
]
_EMULATED_BYTES: Lines = [
    *_INTEGER_SUMS,
    constant("MULTIPLY_FRAGMENTS", "MULTIPLY_BYTES"),
    Macro("MULTIPLY_ROWS", ("sum_", "a_", "b_", "v_"), "MULTIPLY_ROWS_OF_BYTES(sum_, a_, b_, v_)"),
]
"""Macros of the products of halves and of bytes, and of their sums."""
_PAIRS: Lines = [
    constant("PAIRS", 1),
    constant("FITS_PAIR", "fits_pair"),
    constant("TO_PAIR", "pair_of"),
    Macro(
        "MULTIPLY_PAIRS",
        ("sum_", "p_", "q_", "w_"),
        "sum_ = multiply_halves(sum_, second_halves(p_), second_halves(q_), w_); "
        "sum_ = multiply_halves(sum_, first_halves(p_), first_halves(q_), w_)",
    ),
    Macro("MULTIPLY_FRAGMENTS", ("sum_", "p_", "q_", "w_"), "MULTIPLY_FLOATS(sum_, p_, q_, half4_of(w_))"),
    Macro(
        "MULTIPLY_ROW_PAIRS",
        ("sum_", "a_", "b_", "v_"),
        "sum_ = multiply_rows_of_halves(sum_, a_, b_, second_halves(v_)); "
        "sum_ = multiply_rows_of_halves(sum_, a_, b_, first_halves(v_))",
    ),
    Macro(
        "MULTIPLY_ROWS",
        ("sum_", "a_", "b_", "v_"),
        "float4 low_ = half4_of(a_); float4 high_ = half4_of(b_); MULTIPLY_ROWS_OF_FLOATS(sum_, low_, high_, v_)",
    ),
]
"""Macros for kernels that keep floats as pairs of halves. Their functions are in the preludes."""
_NO_PAIRS: Lines = [
    constant("PAIRS", 0),
    Macro("FITS_PAIR", ("v_",), "false"),
    Macro("TO_PAIR", ("v_",), "(v_)"),
    Macro("MULTIPLY_PAIRS", ("sum_", "p_", "q_", "w_"), ""),
    Macro("MULTIPLY_ROW_PAIRS", ("sum_", "a_", "b_", "v_"), ""),
]


def _holds_halves(argument: Argument) -> bool:
    return storage_of(argument) == "f16"
