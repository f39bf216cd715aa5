"""Cases that hypothesis draws: any operator, with shapes and attributes of its own if one is written here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from framebind.kernels.registry import OPERATORS
from framebind.tools.certify.cases.operator_cases import BINARY, CASES, COMPARISONS, POSITIVE, UNARY
from framebind.tools.certify.cases.operator_models import Const, ModelCase, ints, options, values

Shape = tuple[int, ...]
Draw = st.DrawFn
SHAPE = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)
JUMPING = ("CEIL", "FLOOR", "ROUND", "SIGN", "FLOOR_DIV", "FLOOR_MOD")
"""They are compared for equality or not at all near a jump: their inputs are kept away from it."""


def narrowed(draw: Draw, shape: Shape) -> Shape:
    """A shape that broadcasts to this one."""
    ones = draw(st.sets(st.integers(0, len(shape) - 1)))
    return tuple(1 if i in ones else n for i, n in enumerate(shape))[draw(st.integers(0, len(shape) - 1)) :]


def unary(draw: Draw, name: str) -> ModelCase:
    x = values(*draw(SHAPE))
    if name in POSITIVE:
        x = np.abs(x) * 4 + 0.1
    return ModelCase(name, "", (x * (40 if name in JUMPING else 3),), exact=name in JUMPING)


def binary(draw: Draw, name: str) -> ModelCase:
    shape = draw(SHAPE)
    v, w = values(*shape), values(*narrowed(draw, shape), seed=1)
    if name in ("DIV", "FLOOR_DIV", "FLOOR_MOD"):
        v, w = v * 5, np.where(w < 0, w - 0.5, w + 0.5).astype(np.float32)
    if name == "POW":
        v = np.abs(v) + 0.1
    return ModelCase(name, "", (v, Const(w) if draw(st.booleans()) else w), draw(st.sampled_from(BINARY[name])))


def comparison(draw: Draw, name: str) -> ModelCase:
    shape = draw(SHAPE)
    v, w = np.round(values(*shape) * 2), np.round(values(*narrowed(draw, shape), seed=1) * 2)
    return ModelCase(name, "", (v, w), options(COMPARISONS[name]), dtype="bool", exact=True)


def reduction(draw: Draw, name: str) -> ModelCase:
    shape = draw(SHAPE)
    axes = draw(st.sets(st.integers(-len(shape), -1), min_size=1))
    keep = draw(st.booleans()) or len(axes) == len(shape)
    return ModelCase(name, "", (1 + values(*shape) / 4, ints(*axes)), options("Reducer", keepDims=keep))


def transpose(draw: Draw, name: str) -> ModelCase:
    shape = draw(SHAPE)
    return ModelCase(name, "", (values(*shape), ints(*draw(st.permutations(range(len(shape)))))), exact=True)


def tile(draw: Draw, name: str) -> ModelCase:
    shape = draw(SHAPE)
    multiples = draw(st.lists(st.integers(1, 3), min_size=len(shape), max_size=len(shape)))
    return ModelCase(name, "", (values(*shape), ints(*multiples)), exact=True)


def strided_slice(draw: Draw, name: str) -> ModelCase:
    shape = draw(SHAPE)
    first = [draw(st.integers(0, n - 1)) for n in shape]
    last = [draw(st.integers(b + 1, n)) for b, n in zip(first, shape, strict=True)]
    steps, mask = [draw(st.integers(1, 3)) for _ in shape], st.integers(0, 15)
    table = options("StridedSlice", beginMask=draw(mask), endMask=draw(mask))
    return ModelCase(name, "", (values(*shape), ints(*first), ints(*last), ints(*steps)), table, exact=True)


def pad(draw: Draw, name: str) -> ModelCase:
    shape = draw(SHAPE)
    amounts = [[draw(st.integers(0, 3)), draw(st.integers(0, 3))] for _ in shape]
    return ModelCase(name, "", (values(*shape), Const(np.array(amounts, np.int32))), options("Pad"), exact=True)


def softmax(draw: Draw, name: str) -> ModelCase:
    table = options("Softmax", beta=draw(st.floats(0.125, 4, width=32)))
    return ModelCase(name, "", (values(*draw(SHAPE)) * 5,), table)


def cumulative_sum(draw: Draw, name: str) -> ModelCase:
    shape = draw(SHAPE)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    table = options("Cumsum", exclusive=draw(st.booleans()), reverse=draw(st.booleans()))
    return ModelCase(name, "", (values(*shape), Const(np.array(axis, np.int32))), table)


def concatenation(draw: Draw, name: str) -> ModelCase:
    shape = draw(SHAPE)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    place = axis % len(shape)
    inputs = tuple(values(*shape[:place], n, *shape[place + 1 :], seed=i) for i, n in enumerate(sizes))
    return ModelCase(name, "", inputs, options("Concatenation", axis=axis), exact=True)


def gather(draw: Draw, name: str) -> ModelCase:
    shape = draw(SHAPE)
    axis = draw(st.integers(0, len(shape) - 1))
    taken = draw(st.lists(st.integers(0, shape[axis] - 1), min_size=1, max_size=9))
    indices = np.array(taken, np.int32)
    inputs = (values(*shape), Const(indices) if draw(st.booleans()) else indices)
    return ModelCase(name, "", inputs, options("Gather", axis=axis), exact=True)


def largest(draw: Draw, name: str) -> ModelCase:
    x = np.round(values(*draw(SHAPE)) * draw(st.sampled_from([2, 1000])))
    inputs = (x, Const(np.array(draw(st.integers(1, x.shape[-1])), np.int32)))
    return ModelCase(name, "", inputs, options("TopKV2"), 2, dtypes=("float32", "int32"), exact=True)


def window(draw: Draw, dilated: bool) -> dict[str, int]:
    """A window's options, but for its size."""
    stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3)) if dilated else 1
    fields = {"padding": draw(st.integers(0, 1)), "strideH": stride, "strideW": draw(st.integers(1, 3))}
    if dilated:
        fields |= {"dilationHFactor": dilation, "dilationWFactor": draw(st.integers(1, 3))}
    return fields | {"fusedActivationFunction": draw(st.integers(0, 3))}


def convolution(draw: Draw, name: str) -> ModelCase:
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    batch, channels, out = (draw(st.integers(1, n)) for n in (2, 9, 9))
    depthwise = name == "DEPTHWISE_CONV_2D"
    multiplier = draw(st.integers(1, 3))
    fields = window(draw, dilated=True)
    if depthwise:
        out, fields["strideW"], fields["depthMultiplier"] = channels * multiplier, fields["strideH"], multiplier
    table = options("DepthwiseConv2D" if depthwise else "Conv2D", **fields)
    x = values(batch, draw(st.integers(10, 13)), draw(st.integers(10, 13)), channels)
    weights = values(1, *kernel, out) if depthwise else values(out, *kernel, channels)
    return ModelCase(name, "", (x, weights if draw(st.booleans()) else Const(weights), Const(values(out))), table)


def pooling(draw: Draw, name: str) -> ModelCase:
    kernel = (draw(st.integers(1, 5)), draw(st.integers(1, 5)))
    table = options("Pool2D", filterHeight=kernel[0], filterWidth=kernel[1], **window(draw, dilated=False))
    shape = (draw(st.integers(1, 2)), draw(st.integers(5, 9)), draw(st.integers(5, 9)), draw(st.integers(1, 9)))
    return ModelCase(name, "", (values(*shape),), table)


def product(draw: Draw, name: str) -> ModelCase:
    rows, depth, columns = (draw(st.integers(1, 13)) for _ in range(3))
    turned = draw(st.booleans()), draw(st.booleans())
    batches = draw(st.lists(st.integers(1, 3), max_size=2).map(tuple))
    left, right = ((depth, rows) if turned[0] else (rows, depth)), ((columns, depth) if turned[1] else (depth, columns))
    table = options("BatchMatMul", adjX=turned[0], adjY=turned[1])
    return ModelCase(name, "", (values(*batches, *left), values(*batches, *right, seed=1)), table)


GENERATORS: dict[str, Callable[[Draw, str], ModelCase]] = {
    **dict.fromkeys((*UNARY, *POSITIVE), unary), **dict.fromkeys(BINARY, binary),
    **dict.fromkeys(COMPARISONS, comparison),
    **dict.fromkeys(("SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"), reduction),
    "TRANSPOSE": transpose, "TILE": tile, "STRIDED_SLICE": strided_slice, "PAD": pad, "SOFTMAX": softmax,
    "CUMSUM": cumulative_sum, "CONCATENATION": concatenation, "GATHER": gather, "TOPK_V2": largest,
    "CONV_2D": convolution, "DEPTHWISE_CONV_2D": convolution, "AVERAGE_POOL_2D": pooling, "MAX_POOL_2D": pooling,
    "BATCH_MATMUL": product,
}  # fmt: skip

LISTED = {name: [case for case in CASES if case.operator == name] for name in OPERATORS}
"""The cases of each operator. For those without a generator here hypothesis takes any of them."""


@st.composite
def drawn_case(draw: Draw) -> ModelCase:
    """Any operator that has cases."""
    name = draw(st.sampled_from(sorted(name for name, cases in LISTED.items() if cases)))
    return GENERATORS[name](draw, name) if name in GENERATORS else draw(st.sampled_from(LISTED[name]))
