"""Layers of random graphs: each adds one operator to a draft, with attributes drawn for the shape that it reads.

A layer is a function of a draft, a generator and the tensor to read. It returns the tensors that it computes, or none
if it does not apply to the shape: the graph is then without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..cases.operator_models import options
from .draft import Array, Draft, Shape

Generator = np.random.Generator
Layer = Callable[[Draft, Generator, int], list[int]]
LARGEST = 6000
"""Elements of the largest tensor that a layer may make: graphs test shapes, not sizes."""
SAME, VALID = 0, 1


def _window(rng: Generator, shape: Shape, strides: Sequence[int] = (1, 1, 1, 2)) -> tuple[dict[str, int], Shape, Shape]:
    """Options of a window, its size, and the height and width that it leaves; VALID only if the window fits."""
    size = tuple(int(n) for n in rng.integers(1, 4, 2))
    step = tuple(int(n) for n in rng.choice(strides, 2))
    padding = VALID if rng.random() < 0.4 and all(k <= n for k, n in zip(size, shape[1:3], strict=True)) else SAME
    left = tuple(
        -(-n // s) if padding == SAME else (n - k) // s + 1 for n, k, s in zip(shape[1:3], size, step, strict=True)
    )
    return {"padding": padding, "strideH": step[0], "strideW": step[1]}, size, left


def _activation(rng: Generator) -> int:
    return int(rng.choice([0, 0, 1, 3]))


def _weights(draft: Draft, rng: Generator, shape: Shape, axis: int, fan_in: int) -> int:
    values = rng.normal(0, 1 / np.sqrt(fan_in), shape).astype(np.float32)
    return draft.constant("weights", values, axis=axis)


def _bias(draft: Draft, rng: Generator, count: int, weights: int, source: int) -> list[int]:
    """A bias as the last input, or none. CONV_2D and DEPTHWISE_CONV_2D need one: LiteRT crashes without it."""
    if rng.random() < 0.2 and draft.entries[weights].axis == 0 and len(draft.shape(weights)) == 2:
        return []
    return [draft.constant("bias", rng.normal(0, 0.3, count).astype(np.float32), weights=weights, source=source)]


def convolution(draft: Draft, rng: Generator, x: int) -> list[int]:
    shape = draft.shape(x)
    if len(shape) != 4:
        return []
    fields, size, left = _window(rng, shape)
    out = int(rng.integers(1, 18))
    w = _weights(draft, rng, (out, *size, shape[3]), 0, size[0] * size[1] * shape[3])
    y = draft.activation((shape[0], *left, out))
    table = options("Conv2D", dilationHFactor=1, dilationWFactor=1, fusedActivationFunction=_activation(rng), **fields)
    draft.apply("CONV_2D", [x, w, *_bias(draft, rng, out, w, x)], [y], table)
    return [y]


def depthwise(draft: Draft, rng: Generator, x: int) -> list[int]:
    shape = draft.shape(x)
    if len(shape) != 4:
        return []
    fields, size, left = _window(rng, shape)
    fields["strideW"] = fields["strideH"]
    left = (left[0], _one_axis(shape[2], size[1], fields))
    multiplier = int(rng.choice([1, 1, 2, 3]))
    out = shape[3] * multiplier
    w = _weights(draft, rng, (1, *size, out), 3, size[0] * size[1])
    y = draft.activation((shape[0], *left, out))
    table = options(
        "DepthwiseConv2D", dilationHFactor=1, dilationWFactor=1, depthMultiplier=multiplier,
        fusedActivationFunction=_activation(rng), **fields,
    )  # fmt: skip
    draft.apply("DEPTHWISE_CONV_2D", [x, w, *_bias(draft, rng, out, w, x)], [y], table)
    return [y]


def _one_axis(size: int, kernel: int, fields: dict[str, int]) -> int:
    step = fields["strideW"]
    return -(-size // step) if fields["padding"] == SAME else (size - kernel) // step + 1


def transposed_convolution(draft: Draft, rng: Generator, x: int) -> list[int]:
    shape = draft.shape(x)
    step, out = int(rng.integers(1, 3)), int(rng.integers(1, 10))
    if len(shape) != 4:
        return []
    size = (step * shape[1], step * shape[2])
    if shape[0] * size[0] * size[1] * out > LARGEST:
        return []
    w = _weights(draft, rng, (out, 3, 3, shape[3]), 0, 9 * shape[3])
    target = draft.integers(shape[0], *size, out)
    y = draft.activation((shape[0], *size, out))
    table = options("TransposeConv", padding=SAME, strideH=step, strideW=step)
    bias = _bias(draft, rng, out, w, x)
    draft.apply("TRANSPOSE_CONV", [target, w, x, *bias], [y], table, 3 if bias else 1)
    return [y]


def dense(draft: Draft, rng: Generator, x: int) -> list[int]:
    shape = draft.shape(x)
    units = int(rng.integers(1, 18))
    w = _weights(draft, rng, (units, shape[-1]), 0, shape[-1])
    y = draft.activation((*shape[:-1], units))
    table = options("FullyConnected", keepNumDims=len(shape) != 2, fusedActivationFunction=_activation(rng))
    draft.apply("FULLY_CONNECTED", [x, w, *_bias(draft, rng, units, w, x)], [y], table)
    return [y]


def pool(name: str) -> Layer:
    def add(draft: Draft, rng: Generator, x: int) -> list[int]:
        shape = draft.shape(x)
        if len(shape) != 4:
            return []
        fields, size, left = _window(rng, shape)
        y = draft.activation((shape[0], *left, shape[3]), like=x)
        draft.apply(name, [x], [y], options("Pool2D", filterHeight=size[0], filterWidth=size[1], **fields))
        return [y]

    return add


def binary(name: str, table: str = "", *, like: bool = False, constant: bool = False) -> Layer:
    """An operator on the tensor and a constant that broadcasts, or (not ``constant``) another tensor of its shape."""

    def add(draft: Draft, rng: Generator, x: int) -> list[int]:
        shape = draft.shape(x)
        equal = [i for i, e in enumerate(draft.entries) if e.role == "activation" and e.shape == shape]
        kind = rng.integers(2 if constant else 0, 4)
        if kind <= 1:
            other = int(rng.choice(equal))
        else:
            narrow = shape if kind == 2 else tuple(n if i == len(shape) - 1 else 1 for i, n in enumerate(shape))
            values = rng.uniform(0.5, 1.5, narrow) * rng.choice([-1, 1], narrow)
            other = draft.constant("operand", values.astype(np.float32))
        y = draft.activation(shape, like=x if like else None)
        if like:
            draft.same.append((other, x))
        fields = {"fusedActivationFunction": _activation(rng)} if table else {}
        draft.apply(name, [x, other], [y], options(table, **fields) if table else None)
        return [y]

    return add


def unary(name: str, table: str = "", *, fixed: bool = False, **fields: Any) -> Layer:
    def add(draft: Draft, rng: Generator, x: int) -> list[int]:
        y = draft.activation(draft.shape(x))
        if fixed:
            draft.fixed[y] = name
        draft.apply(name, [x], [y], options(table, **fields) if table else None)
        return [y]

    return add


def prelu(draft: Draft, rng: Generator, x: int) -> list[int]:
    shape = draft.shape(x)
    if len(shape) != 4:
        return []
    alpha = draft.constant("operand", rng.uniform(-0.5, 0.5, (1, 1, shape[3])).astype(np.float32))
    y = draft.activation(shape)
    draft.apply("PRELU", [x, alpha], [y])
    return [y]


def concatenation(draft: Draft, rng: Generator, x: int) -> list[int]:
    shape = draft.shape(x)
    axis = int(rng.integers(1, len(shape))) if len(shape) > 1 else 0
    rest = shape[:axis] + shape[axis + 1 :]
    fitting = [
        i
        for i, e in enumerate(draft.entries)
        if e.role == "activation" and len(e.shape) == len(shape) and e.shape[:axis] + e.shape[axis + 1 :] == rest
    ]
    chosen = [x, *(int(i) for i in rng.choice(fitting, int(rng.integers(1, 3))))]
    size = sum(draft.shape(i)[axis] for i in chosen)
    if int(np.prod(rest)) * size > LARGEST:
        return []
    y = draft.activation((*shape[:axis], size, *shape[axis + 1 :]), like=x)
    draft.same += [(i, x) for i in chosen]
    sign = axis if rng.random() < 0.7 else axis - len(shape)
    draft.apply("CONCATENATION", chosen, [y], options("Concatenation", axis=sign))
    return [y]


def moved(draft: Draft, x: int, shape: Sequence[int]) -> int:
    """A tensor of that shape with the values of ``x``, moved: its scale is the same."""
    return draft.activation(shape, like=x)


def reshape(draft: Draft, rng: Generator, x: int) -> list[int]:
    shape = list(draft.shape(x))
    kind = rng.integers(3)
    if kind == 0:
        target = [shape[0], int(np.prod(shape[1:]))]
    elif kind == 1 and len(shape) == 4:
        target = [shape[0], shape[1] * shape[2], shape[3]]
    else:
        target = [shape[0], *(int(n) for n in rng.permutation(shape[1:]))]
    y = moved(draft, x, target)
    draft.apply("RESHAPE", [x, draft.integers(*target)], [y], options("Reshape", newShape=target))
    return [y]


def to_picture(draft: Draft, rng: Generator, x: int) -> list[int]:
    """A reshape to rank 4, so that windows apply again."""
    shape = draft.shape(x)
    if len(shape) == 4:
        return []
    target = [shape[0], *([1] * (4 - len(shape))), *shape[1:]]
    y = moved(draft, x, target)
    draft.apply("RESHAPE", [x, draft.integers(*target)], [y], options("Reshape", newShape=target))
    return [y]


def transpose(draft: Draft, rng: Generator, x: int) -> list[int]:
    shape = draft.shape(x)
    order = [0, *(int(i) for i in rng.permutation(np.arange(1, len(shape))))]
    y = moved(draft, x, [shape[i] for i in order])
    draft.apply("TRANSPOSE", [x, draft.integers(*order)], [y])
    return [y]


def pad(name: str) -> Layer:
    def add(draft: Draft, rng: Generator, x: int) -> list[int]:
        shape = draft.shape(x)
        amounts = np.zeros((len(shape), 2), np.int32)
        amounts[1:] = rng.integers(0, 3, (len(shape) - 1, 2))
        if name == "MIRROR_PAD":
            amounts = np.minimum(amounts, np.array(shape)[:, None] - 1).astype(np.int32)
        target = [int(n + a.sum()) for n, a in zip(shape, amounts, strict=True)]
        if np.prod(target) > LARGEST:
            return []
        y = moved(draft, x, target)
        table = options("MirrorPad", mode=0) if name == "MIRROR_PAD" else options("Pad")
        draft.apply(name, [x, draft.constant("integers", amounts)], [y], table)
        return [y]

    return add


def cut(draft: Draft, rng: Generator, x: int) -> list[int]:
    shape = draft.shape(x)
    begin = [int(rng.integers(0, n)) for n in shape]
    size = [int(rng.integers(1, n - b + 1)) for n, b in zip(shape, begin, strict=True)]
    begin[0], size[0] = 0, shape[0]
    y = moved(draft, x, size)
    draft.apply("SLICE", [x, draft.integers(*begin), draft.integers(*size)], [y], options("Slice"))
    return [y]


def strided_cut(draft: Draft, rng: Generator, x: int) -> list[int]:
    shape = draft.shape(x)
    begin = [0, *(int(rng.integers(0, n)) for n in shape[1:])]
    end = [shape[0], *(int(rng.integers(b + 1, n + 1)) for n, b in zip(shape[1:], begin[1:], strict=True))]
    steps = [1, *(int(n) for n in rng.integers(1, 3, len(shape) - 1))]
    y = moved(draft, x, [-(-(e - b) // s) for b, e, s in zip(begin, end, steps, strict=True)])
    tables = [draft.integers(*values) for values in (begin, end, steps)]
    draft.apply("STRIDED_SLICE", [x, *tables], [y], options("StridedSlice"))
    return [y]


def split(draft: Draft, rng: Generator, x: int) -> list[int]:
    shape = draft.shape(x)
    parts = int(rng.choice([n for n in (1, 2, 3, 4) if shape[-1] % n == 0]))
    found = [moved(draft, x, (*shape[:-1], shape[-1] // parts)) for _ in range(parts)]
    axis = draft.constant("integers", np.array(len(shape) - 1, np.int32))
    draft.apply("SPLIT", [axis, x], found, options("Split", numSplits=parts))
    return found


def reduce(name: str, *, like: bool = False) -> Layer:
    def add(draft: Draft, rng: Generator, x: int) -> list[int]:
        shape = draft.shape(x)
        if len(shape) != 4:
            return []
        axes = ([1, 2], [3], [1], [2])[rng.integers(4)]
        keep = bool(rng.integers(2))
        left = [1 if i in axes else n for i, n in enumerate(shape)]
        target = left if keep else [n for i, n in enumerate(left) if i not in axes]
        y = draft.activation(target, like=x if like else None)
        draft.apply(name, [x, draft.integers(*axes)], [y], options("Reducer", keepDims=keep))
        return [y]

    return add


def resize(name: str, kind: str) -> Layer:
    def add(draft: Draft, rng: Generator, x: int) -> list[int]:
        shape = draft.shape(x)
        size = [int(n) for n in rng.integers(1, 9, 2)]
        if len(shape) != 4 or shape[0] * size[0] * size[1] * shape[3] > LARGEST:
            return []
        corners, half = ((False, False), (True, False), (False, True))[rng.integers(3)]
        y = moved(draft, x, (shape[0], *size, shape[3]))
        table = options(f"Resize{kind}", alignCorners=corners, halfPixelCenters=half)
        draft.apply(name, [x, draft.integers(*size)], [y], table, 3)
        return [y]

    return add


def space_and_depth(draft: Draft, rng: Generator, x: int) -> list[int]:
    shape = draft.shape(x)
    if len(shape) != 4:
        return []
    b, h, w, c = shape
    if c % 4 == 0 and rng.random() < 0.7:
        y = moved(draft, x, (b, h * 2, w * 2, c // 4))
        draft.apply("DEPTH_TO_SPACE", [x], [y], options("DepthToSpace", blockSize=2))
    elif h % 2 == 0 and w % 2 == 0:
        y = moved(draft, x, (b, h // 2, w // 2, c * 4))
        draft.apply("SPACE_TO_DEPTH", [x], [y], options("SpaceToDepth", blockSize=2))
    else:
        return []
    return [y]


def tile(draft: Draft, rng: Generator, x: int) -> list[int]:
    shape = draft.shape(x)
    multiples = [1, *(int(n) for n in rng.integers(1, 3, len(shape) - 1))]
    target = [n * m for n, m in zip(shape, multiples, strict=True)]
    if np.prod(target) > LARGEST:
        return []
    y = moved(draft, x, target)
    draft.apply("TILE", [x, draft.integers(*multiples)], [y])
    return [y]


def gather(draft: Draft, rng: Generator, x: int) -> list[int]:
    shape = draft.shape(x)
    axis = int(rng.integers(1, len(shape))) if len(shape) > 1 else 0
    taken: Array = rng.integers(0, shape[axis], int(rng.integers(1, 6))).astype(np.int32)
    y = moved(draft, x, (*shape[:axis], len(taken), *shape[axis + 1 :]))
    draft.apply("GATHER", [x, draft.constant("integers", taken)], [y], options("Gather", axis=axis))
    return [y]


INTEGER: dict[str, Layer] = {
    "CONV_2D": convolution, "DEPTHWISE_CONV_2D": depthwise, "FULLY_CONNECTED": dense, "to rank 4": to_picture,
    "AVERAGE_POOL_2D": pool("AVERAGE_POOL_2D"), "MAX_POOL_2D": pool("MAX_POOL_2D"), "ADD": binary("ADD", "Add"),
    "SUB": binary("SUB", "Sub"), "MUL": binary("MUL", "Mul"), "LOGISTIC": unary("LOGISTIC", fixed=True),
    "LEAKY_RELU": unary("LEAKY_RELU", "LeakyRelu", alpha=0.2), "CONCATENATION": concatenation, "RESHAPE": reshape,
    "PAD": pad("PAD"), "SLICE": cut, "STRIDED_SLICE": strided_cut, "SPLIT": split, "MEAN": reduce("MEAN"),
    "RESIZE_NEAREST_NEIGHBOR": resize("RESIZE_NEAREST_NEIGHBOR", "NearestNeighbor"),
}  # fmt: skip
"""Layers of graphs in 16-bit integers, where LiteRT's own TANH, SOFTMAX and RESIZE_BILINEAR are not exact."""
BYTE: dict[str, Layer] = INTEGER | {
    "TRANSPOSE_CONV": transposed_convolution, "TRANSPOSE": transpose, "TANH": unary("TANH", fixed=True),
    "SOFTMAX": unary("SOFTMAX", "Softmax", fixed=True, beta=1.0), "HARD_SWISH": unary("HARD_SWISH"),
    "RESIZE_BILINEAR": resize("RESIZE_BILINEAR", "Bilinear"), "DEPTH AND SPACE": space_and_depth, "TILE": tile,
    "MAXIMUM": binary("MAXIMUM", like=True), "MINIMUM": binary("MINIMUM", like=True), "GATHER": gather,
    "MIRROR_PAD": pad("MIRROR_PAD"), "REDUCE_MAX": reduce("REDUCE_MAX", like=True), "PRELU": prelu,
    "RELU": unary("RELU"), "RELU6": unary("RELU6"),
}  # fmt: skip
"""Layers of graphs in 8-bit integers."""
FLOAT: dict[str, Layer] = BYTE | {
    "SUM": reduce("SUM"), "DIV": binary("DIV", "Div", constant=True),
    "SQUARED_DIFFERENCE": binary("SQUARED_DIFFERENCE"),
    "ABS": unary("ABS"), "NEG": unary("NEG"), "SIN": unary("SIN"), "ELU": unary("ELU"), "SQUARE": unary("SQUARE"),
    "GELU": unary("GELU", "Gelu", approximate=False), "L2_NORMALIZATION": unary("L2_NORMALIZATION", "L2Norm"),
    "LOG_SOFTMAX": unary("LOG_SOFTMAX"),
}  # fmt: skip
"""Layers of graphs of floats, whatever their weights are."""
