"""Macros of products that whole warpgroups compute from local memory (wgmma of compute capability 9.0).

An octet is eight values, 16 bytes of halves. ``MULTIPLY_TILE(sum, i, region, at, apart, row, ring, from, next)`` adds
to the sums number i, ``sum[i * EIGHTS]`` and following, the product of 64 pixels and 8 * EIGHTS columns over two terms
of an octet each. The pixels' first term is at ``at`` in ``region``: eight neighbouring octets, and eight more every
``row`` octets. The second is ``apart`` octets behind. The columns' terms are at ``from`` in ``ring``, and ``next``
behind. Lane 4r + t of warp w gets the sums of the pixels 16w + r and 16w + r + 8 for the columns 2t and 2t + 1 of each
eight.

``COPY_STAGE(weights, j, array, i, count, arrivals, n)`` lets one invocation copy ``count`` octets of a table, from
number j on, to number i on of a local array. AWAIT_STAGE(arrivals, n, phase) waits until they are there: in phase 0 for
the first such copy of n, in phase 1 for the next, and so on in turn. PREPARE_ARRIVALS(arrivals, count) comes before
them, and RELEASE_ARRIVALS(arrivals, count) behind all waits of the group. ``COPY_OCTET(src, b, y, x, n, array, i)``
starts to copy octet n of a pixel, or zeros if that is outside; COMMIT_COPIES and AWAIT_COPIES are those of
COPY_FRAGMENTS. SHOW_COPIES, before a barrier, lets products see what this invocation copied so. BEGIN_PRODUCTS,
COMMIT_PRODUCTS and AWAIT_PRODUCTS(n) are around products, as for copies.
"""

from __future__ import annotations

from collections.abc import Mapping

from .dialect import Dialect
from .macro import Macro, constant
from .reads import Lines, read_lines
from .source import Buffer, KernelSource

PIXEL = ("b_", "y_", "x_", "n_", "array_", "i_")
STAGE = ("j_", "array_", "i_", "count_", "arrivals_", "n_")
PRODUCT = ("sum_", "i_", "array_", "at_", "apart_", "row_", "ring_", "from_", "next_")
INSIDE = "(y_) >= 0 && (y_) < src_H && (x_) >= 0 && (x_) < src_W && "
NEAREST = "b_, clamp(y_, 0, src_H - 1), clamp(x_, 0, src_W - 1), "


def warpgroup_macros(source: KernelSource, dialect: Dialect, buffers: Mapping[str, Buffer]) -> Lines:
    """The macros for a kernel of halves: products of warpgroups if the device has them, else emulated ones."""
    src, weights = (next(a for a in source.arguments if a.name == name) for name in ("src", "weights"))
    if dialect.words is None:
        return _EMULATED
    eights, octets = dict(source.constants)["EIGHTS"], dict(source.constants)["OCTETS"]
    copied = dialect.load_words(weights, buffers[weights.memory], f"{weights.name}_offset + 2 * (j_)")
    halves: Lines = [
        *read_lines(src, buffers, dialect.load_words, "WORDS"),
        Macro("COPY_STAGE_weights", STAGE, f"copy_stage((array_) + (i_), &({copied}), count_, (arrivals_) + (n_))"),
        Macro("COPY_OCTET_src", PIXEL, _copy(bool(octets))),
        Macro("MULTIPLY_TILE", PRODUCT, _product(int(eights))),
    ]
    return ["#ifdef WARPGROUPS", *halves, "#else", *_EMULATED, "#endif"]


def _copy(whole: bool) -> str:
    """Copies an octet at once if each is ``whole`` and its address a multiple of 16 bytes, else slice by slice."""
    if whole:
        last = "min((n_) * 2, src_S - 2)"
        return f"copy_octet((array_) + (i_), &WORDS_src({NEAREST}{last}), {INSIDE}(n_) * 2 < src_S)"
    slice_copies = (
        f"copy_slice((array_) + (i_), {n}, &WORDS_src({NEAREST}min((n_) * 2 + {n}, src_S - 1)), "
        f"{INSIDE}(n_) * 2 + {n} < src_S)"
        for n in range(2)
    )
    return f"{{ {'; '.join(slice_copies)}; }}"


def _product(eights: int) -> str:
    """The instruction, whose sums are operands by name."""
    registers = 4 * eights
    sums = ", ".join(f"%{i}" for i in range(registers))
    operands = ", ".join(f'"+f"(sum_[(i_) * EIGHTS + {i}].{lane})' for i in range(eights) for lane in "xyzw")
    matrices = '"l"(octet_matrix(array_, at_, apart_, row_)), "l"(octet_matrix(ring_, from_, next_, 8))'
    return (
        f'asm volatile(SM_90A "wgmma.mma_async.sync.aligned.m64n{8 * eights}k16.f32.f16.f16 '
        f'{{{sums}}}, %{registers}, %{registers + 1}, 1, 1, 1, 0, 0;" : {operands} : {matrices})'
    )


_EMULATED: Lines = [
    Macro(
        "COPY_STAGE_weights",
        STAGE,
        "for (int k_ = LOCAL; k_ < 2 * (count_); k_ += GROUP) "
        "{ (array_)[2 * (i_) + k_] = LOAD4_weights(2 * (j_) + k_); }",
    ),
    Macro(
        "COPY_OCTET_src",
        PIXEL,
        "{ "
        + " ".join(
            f"(array_)[2 * (i_) + {n}] = {INSIDE}(n_) * 2 + {n} < src_S ? "
            f"READ_src({NEAREST}min((n_) * 2 + {n}, src_S - 1)) : F4(0.0f);"
            for n in range(2)
        )
        + " }",
    ),
    constant("MULTIPLY_TILE", "MULTIPLY_OCTETS"),
]
"""Macros for devices without such products: octets are two float4."""
