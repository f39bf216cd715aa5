"""Kernel texts: ``.kern`` files by name, the preludes, and a kernel's helpers and tile function.

A ``.kern`` file holds optional helper functions and then one tile function, ``KERNEL { ... }``, which computes the tile
number ``GROUP_ID`` with ``GROUP`` invocations; ``LOCAL`` is the number of this one. It is C that all compilers accept:
``F4(x)`` and ``F4V(a, b, c, d)`` make a float4; ``1.0f``, never ``1.0``; no pointers, no casts, no ``#`` or ``##``,
always braces. Helper functions take and return values only. Memory is reached through these alone:

    READ(src, b, y, x, s)          one slice (float4) of a tensor, whatever memory and storage it has
    WRITE(dst, b, y, x, s, value)  the same, after the epilogue (fused operations); a statement
    LOAD4(table, i)                float4 number i of a table of constants
    STORE4(dst, i, value)          the i-th four values of a Quantized tensor in memory order; all it can be written by
    FRAGMENT(src, b, y, x, s), FRAGMENT(table, i)   the same as READ and LOAD4, of the type FRAGMENT (kernels of matrix
                                   units only), for MULTIPLY_FRAGMENTS; NO_FRAGMENT is zeros
    STORED(src, b, y, x, s), APPLIED(src, b, y, x, s, v)   the two halves of FRAGMENT(src, ...), for a PROLOGUE between
                                   them: what is stored, and v after the operations on what is read
    LOCAL_FRAGMENTS(array)[i]      fragment number i in a local array of float4
    COPY_FRAGMENTS(weights, j, array, i)   starts to copy the fragments 2j and 2j + 1 of a table to 2i and 2i + 1 of a
                                   local array. COMMIT_COPIES ends a set of copies, and AWAIT_COPIES(n) waits for all
                                   but the last n sets of this invocation. Without matrix units they are plain copies
    MULTIPLY_ROWS(sum, a, b, v), MULTIPLY_ROW_PAIRS   MULTIPLY_FRAGMENTS with weights as rows: see prelude.fragments
    SUMS, TO_SUMS(v), FROM_SUMS(sum)   the type of their sums, float4 or, of bytes, int4; of a float4, and the reverse
    WEIGHTS, FROM_WEIGHTS(v)       the type of FRAGMENT(weights, ...) in kernels that keep weights as they are stored;
                                   a float4 of these
    LOCAL_WEIGHTS(array)[i], RINGED   fragment number i of weights there; whether they are halves, as its size assumes
    MULTIPLY_TILE, COPY_OCTET(src, ...), COPY_STAGE(weights, ...)   products of whole warpgroups: see warpgroups.py
    TO_FRAGMENT(v), FROM_FRAGMENT(v)   a float4 as a fragment, and the reverse
    POSITION(dst, i, b, y, x, s)   declares the ints b, y, x, s: where item number i of a tensor's slices lies
    UNROLL, UNROLL2, UNROLL4       before a loop: all its rounds, two or four at once, if a compiler can be told so
    UNROLL1                        the same of a loop that CUDA's compiler would unroll for nothing
    OPAQUE(n)                      n, of which NVIDIA's GLSL compiler does not know that it is constant: a loop of so
                                   many rounds stays one
    AWAIT_INPUTS                   what stands before it reads tables of constants only, and may run while the kernel
                                   before still does; a kernel without it begins with it
    PROLOGUE                       the place of the prologue, if the kernel has one; else it begins with it. What the
                                   prologue does before it awaits its inputs comes first in either case
    ALLOW_NEXT                     from here on the next kernel may start, and do the same
    add_across(value, mask)        the value and that of invocation LOCAL ^ mask of the same SUBGROUP, added up
    largest_across(value, mask)    the same of the larger of two floats
    HALVES, NO_HALVES, TO_HALVES(v), READ_HALVES(src, b, y, x, s), NTH_HALVES(a, b, c, d, n), MULTIPLY_HALVES   four
                                   values as halves for matrix units: zeros, of a float4, read, one of each of four
    dst_B dst_H dst_W dst_C dst_S dst_COUNT   a tensor's batch, height, width, channels, slices, and B*H*W*S

Python generates the rest around the text: declarations, access macros, constants. The storage of a tensor is decided in
those macros only (``reads.py``, ``writes.py``).
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

from .source import KernelSource, TileText

HERE = Path(__file__).parent
"""The folder of the preludes and barriers."""
PROLOGUE = "PROLOGUE;"
"""The place of a kernel's prologue in its text."""
OPS = HERE.parent / "ops"
"""The folder below which every .kern file lies."""


@functools.cache
def kernel_files() -> dict[str, Path]:
    """The kernel texts by name. Names are unique across the folders below ``ops/``."""
    found: dict[str, Path] = {}
    for path in sorted(OPS.rglob("*.kern")):
        if path.stem in found:
            raise ValueError(f"{path} and {found[path.stem]} have the same name")
        found[path.stem] = path
    return found


class Definition(NamedTuple):
    """A macro or a function of a prelude, with the names that its text uses; or a line that every kernel gets, without
    a name.
    """

    name: str
    text: str
    uses: frozenset[str]


def prelude(extension: str, text: str) -> str:
    """The macros and helpers that a text uses, directly or through others: an API's own ones, and the common ones.

    All of them would take half of the time in which a compiler makes a small kernel.
    """
    reached = _reached_names(extension)
    used = reached[""].union(*(reached[name] for name in _names(text) & reached.keys()))
    return "\n".join(each.text for each in _definitions(extension) if each.name in used)


@functools.cache
def _reached_names(extension: str) -> dict[str, frozenset[str]]:
    """The names that each name of a prelude uses, directly or through others, and itself. Without a name: what every
    kernel gets.
    """
    uses = {"": frozenset[str]()}
    for each in _definitions(extension):
        uses[each.name] = uses.get(each.name, frozenset()) | each.uses
    uses = {name: used & uses.keys() for name, used in uses.items()}
    reached: dict[str, frozenset[str]] = {}
    for name in uses:
        found, waiting = {name}, uses[name]
        while waiting:
            found |= waiting
            waiting = frozenset().union(*(uses[used] for used in waiting)) - found
        reached[name] = frozenset(found)
    return reached


@functools.cache
def _definitions(extension: str) -> tuple[Definition, ...]:
    """The definitions of a prelude, in order. A name may have several, one for each type or condition."""
    whole = "".join((HERE / f"prelude.{part}").read_text() for part in (extension, "fragments", "kern"))
    return tuple(
        Definition(part["macro"] or part["function"] or "", part[0], _names(part[0]))
        for part in _DEFINITION.finditer(re.sub(r"^//.*\n|^\n", "", whole, flags=re.MULTILINE))
    )


_DEFINITION = re.compile(
    r"#define (?P<macro>\w+).*?(?<!\\)$|\w+ (?P<function>\w+)\((?:[^\n]*\}$|.*?^\}$)|[^\n]+", re.MULTILINE | re.DOTALL
)


def _names(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[A-Za-z_]\w*", text))


def barrier(extension: str) -> str:
    """The functions of the barrier between groups."""
    return (HERE / f"barrier.{extension}").read_text()


@functools.cache
def tile_function(name: str) -> TileText:
    """A kernel's own helpers and body, with access written per argument: READ(src, becomes READ_src(."""
    text = kernel_files()[name].read_text()
    helpers, marker, body = text.partition("KERNEL ")
    if not marker:
        raise ValueError(f"{name}.kern has no KERNEL")
    return TileText(
        helpers,
        re.sub(
            r"\b(READ|READ_HALVES|WRITE|LOAD4|STORE4|POSITION|FRAGMENT|STORED|APPLIED|COPY_FRAGMENTS|COPY_OCTET|COPY_STAGE)\((\w+),\s*",
            r"\1_\2(",
            body,
        ),
    )


def awaits_inputs(source: KernelSource) -> bool:
    """Whether a kernel's text, or that of its prologue, awaits its inputs itself."""
    first = source.name if source.prologue is None else source.prologue.name
    return "AWAIT_INPUTS" in tile_function(first).body


def loads_fragments(name: str) -> bool:
    """Whether a kernel's text loads fragments for matrix units."""
    return "FRAGMENT_" in tile_function(name).body


def multiplies_octets(name: str) -> bool:
    """Whether a kernel's text multiplies by whole warpgroups."""
    return "MULTIPLY_TILE" in tile_function(name).body


def keeps_weights(name: str) -> bool:
    """Whether a kernel's text keeps weights as they are stored, beside floats: to multiply these as pairs of halves, or
    to have more registers left.
    """
    return any(word in tile_function(name).body for word in ("PAIRS == 1", "FROM_WEIGHTS"))


INTEGER_KERNELS = frozenset(
    "arg_extreme choose concat copy cumsum gather gather_nd integer_of_halves integer_reduce one_hot pad quantize "
    "reduce_window reshape slice_at split_integer strided_copy update_slice".split()
)
"""The kernels whose text is right for int32 too: most of them move or choose values. And those for int32 only."""
_INTEGER_WORDS = {
    "float": "int", "float4": "int4", "F4": "I4", "F4V": "I4V", "TO_F": "TO_I", "added": "WRAP_ADD",
    "multiplied": "WRAP_MUL", "larger": "max", "smaller": "min",
}  # fmt: skip


def with_integers(text: str) -> str:
    """The int32 form of a text that moves, chooses or joins values: int4 replaces float4, and integer literals replace
    float ones.
    """
    text = re.sub(rf"\b({'|'.join(_INTEGER_WORDS)})\b", lambda word: _INTEGER_WORDS[word[0]], text)
    return re.sub(r"\b(\d+)\.0f\b", r"\1", text)


def tile_text(source: KernelSource) -> TileText:
    """A kernel's helpers and body, with its prologue before the tile and its partial sums after it."""
    helpers, body = tile_function(source.name)
    if source.integers:
        return TileText(with_integers(helpers), with_integers(body))
    parts = [body]
    if source.prologue is not None:
        before, prologue = tile_function(source.prologue.name)
        parts = _with_prologue(body, prologue)
        helpers = before + helpers
    elif PROLOGUE in body:
        parts = [body.replace(PROLOGUE, "")]
    if source.partial_sums is not None:
        before, sums = tile_function("partial_sums")
        start = (
            "float4 partial_sums[MOMENTS * OWNED_SLICES]; "
            "for (int j = 0; j < MOMENTS * OWNED_SLICES; j++) { partial_sums[j] = F4(0.0f); }"
        )
        parts = [start, *parts, sums]
        helpers = before + helpers
    return TileText(helpers, parts[0] if len(parts) == 1 else "\n".join(["{", *parts, "}"]))


def _with_prologue(body: str, prologue: str) -> list[str]:
    """The prologue before the body, or at the PROLOGUE mark inside it. The part of the prologue before AWAIT_INPUTS
    always comes first.
    """
    if PROLOGUE not in body:
        return [prologue, body]
    before, awaits, after = prologue.partition("AWAIT_INPUTS;")
    if not awaits:
        return [body.replace(PROLOGUE, prologue)]
    return [before.strip().removeprefix("{"), body.replace(PROLOGUE, "{" + after.strip().removesuffix("}") + "}")]
