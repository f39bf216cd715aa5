"""Small networks for the kernels that no operator alone is lowered to: what passes fuse, and what takes much work.

Each is a model of a few operators, spelled as converters spell it, which LiteRT computes too. Which kernels run depends
on the device. ``tests/tools/test_networks.py`` holds that together they are all kernels, with matrix units and without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....video.tflite_writer import G, Op, T, build
from .formulas import Formula
from .operator_models import Array, options, values

RELU6 = 3
Network = Callable[[], tuple[bytes, list[Array]]]
"""A model's bytes and its inputs."""


class Layers(Formula):
    """A model of layers with random weights, of which each keeps the size of the numbers that it reads."""

    def weights(self, *shape: int, fan_in: int) -> int:
        """Constant weights, of numbers that halves hold."""
        given = values(*shape, seed=len(self._tensors)) * math.sqrt(3 / fan_in)
        return self.constant(given.astype(np.float16))

    def convolution(self, x: int, out: int, size: int = 1, activation: int = 0) -> int:
        """A convolution with a bias, whose output has the input's height and width."""
        depth = self.shape(x)[3]
        weights = self.weights(out, size, size, depth, fan_in=size * size * depth)
        return self._window("CONV_2D", x, weights, out, activation)

    def depthwise(self, x: int, size: int = 3, activation: int = 0) -> int:
        """A depthwise convolution with a bias, whose output has the input's height and width."""
        depth = self.shape(x)[3]
        weights = self.weights(1, size, size, depth, fan_in=size * size)
        return self._window("DEPTHWISE_CONV_2D", x, weights, depth, activation, depthMultiplier=1)

    def _window(self, name: str, x: int, weights: int, out: int, activation: int, **fields: Any) -> int:
        bias, shape = self.constant(values(out) / 4), (*self.shape(x)[:3], out)
        window: Any = {"padding": 0, "strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
        return self.add(name, x, weights, bias, shape=shape, fusedActivationFunction=activation, **window, **fields)

    def transposed(self, x: int, out: int) -> int:
        """A transposed convolution that doubles the height and the width."""
        batch, height, width, depth = self.shape(x)
        shape = (batch, 2 * height, 2 * width, out)
        weights = self.weights(out, 2, 2, depth, fan_in=depth)
        given = self.constant(shape, "int32")
        return self.add("TRANSPOSE_CONV", given, weights, x, shape=shape, padding=0, strideH=2, strideW=2)

    def mean_of_pixels(self, x: int) -> int:
        """The mean of each channel."""
        batch, _, _, depth = self.shape(x)
        return self.add("MEAN", x, self.constant((1, 2), "int32"), shape=(batch, 1, 1, depth), keepDims=True)

    def instance_norm(self, x: int) -> int:
        """x * factor + (beta - mean * factor), for each channel."""
        depth, mean = self.shape(x)[3], self.mean_of_pixels(x)
        variance = self.mean_of_pixels(self.add("SQUARED_DIFFERENCE", x, mean))
        inverse = self.add("RSQRT", self.add("ADD", variance, self.constant(1e-3)))
        factor = self.add("MUL", inverse, self.constant(1 + values(depth) / 2))
        offset = self.add("SUB", self.constant(values(depth)), self.add("MUL", mean, factor))
        return self.add("ADD", self.add("MUL", x, factor), offset)

    def layer_norm(self, x: int) -> int:
        """(x - mean) / sqrt(variance + epsilon), for each row."""
        difference = self.add("SUB", x, self.mean(x))
        variance = self.add("ADD", self.mean(self.add("SQUARE", difference)), self.constant(1e-3))
        return self.add("MUL", difference, self.add("RSQRT", variance))


class Sampler:
    """PyTorch's grid_sample of a picture at columns and rows, tensors of a formula, as litert-torch spells it.

    ``width`` is the first column beyond the picture, for a spelling that is wrong.
    """

    def __init__(self, f: Formula, sources: Sequence[int] = (0, 1, 2), width: int = 0) -> None:
        self.formula, (self._picture, *self._at) = f, sources
        picture, self._places = f.shape(sources[0]), f.shape(sources[1])
        self._sizes = (width or picture[3], picture[2])
        self._zero, self._none, self._one = (
            self.formula.constant(0.0),
            self.formula.constant(0, "int32"),
            self.formula.constant(1.0),
        )
        self._planes = [self.formula.constant(number, "int32") for number in np.indices((*self._places, 1))[:2]]
        self.low = [self.formula.add("FLOOR", place) for place in self._at]
        self._high = [self.formula.add("ADD", low, self._one) for low in self.low]

    def _inside(self, position: int, size: int) -> int:
        least = self.formula.add("GREATER_EQUAL", position, self._zero, dtype="bool")
        return self.formula.add(
            "LOGICAL_AND", least, self._below(position, self.formula.constant(float(size))), dtype="bool"
        )

    def _below(self, position: int, bound: int) -> int:
        return self.formula.add("LESS", position, bound, dtype="bool")

    def _index(self, position: int, size: int, holds: int) -> int:
        whole = self.formula.add("CAST", position, dtype="int32", inDataType=0, outDataType=2)
        kept = self.formula.add("SELECT_V2", holds, whole, self._none, dtype="int32")
        behind = self.formula.add("ADD", kept, self.formula.constant(size, "int32"), dtype="int32")
        chosen = self.formula.add("SELECT", self._below(kept, self._none), behind, kept, dtype="int32")
        return self.formula.reshape(chosen, *self._places, 1, dtype="int32")

    def _corner(self, column: int, row: int) -> int:
        """The pixel of a corner times its weight."""
        x, y = (self.low[0], self._high[0])[column], (self.low[1], self._high[1])[row]
        holds = self.formula.add(
            "LOGICAL_AND", self._inside(x, self._sizes[0]), self._inside(y, self._sizes[1]), dtype="bool"
        )
        weights = [
            self.formula.add("SUB", place, low) if second else self.formula.add("SUB", high, place)
            for second, place, low, high in zip((column, row), self._at, self.low, self._high, strict=True)
        ]
        weight = self.formula.add("SELECT_V2", holds, self.formula.add("MUL", *weights), self._zero)
        joined = [*self._planes, self._index(y, self._sizes[1], holds), self._index(x, self._sizes[0], holds)]
        indices = self.formula.add("CONCATENATION", *joined, shape=(*self._places, 4), dtype="int32", axis=4)
        return self.formula.add(
            "MUL", self.formula.add("GATHER_ND", self._picture, indices, shape=self._places), weight
        )

    def sampled(self, order: Sequence[tuple[int, int]] = ((0, 0), (1, 0), (0, 1), (1, 1))) -> int:
        """The sum of the corners."""
        first, *rest = [self._corner(*corner) for corner in order]
        for term in rest:
            first = self.formula.add("ADD", first, term)
        return first


def attention(tokens: int = 70, heads: int = 3, depth: int = 32) -> tuple[bytes, list[Array]]:
    """Two windows of tokens: a layer norm, queries, keys and values side by side, a mask, and a layer."""
    width = heads * depth
    f, shape = Layers((2, tokens, width), (1, heads, tokens, tokens)), (2, heads, tokens, depth)
    every = f.reshape(f.layer_norm(0), 2, 1, tokens, width)
    split = f.reshape(f.convolution(every, 3 * width), 2, tokens, 3, heads, depth)
    turned, sizes = f.transpose(split, 2, 0, 3, 1, 4), f.constant((1, *shape), "int32")
    begins = [f.constant((number, 0, 0, 0, 0), "int32") for number in range(3)]
    parts = [f.add("SLICE", turned, begin, sizes, shape=(1, *shape)) for begin in begins]
    q, k, v = (f.reshape(part, *shape) for part in parts)
    q = f.add("MUL", q, f.constant(depth**-0.5))
    scores = f.add("BATCH_MATMUL", q, k, shape=(2, heads, tokens, tokens), adjX=False, adjY=True)
    shares = f.add("SOFTMAX", f.add("ADD", scores, 1), beta=1.0)
    product = f.add("BATCH_MATMUL", shares, v, shape=shape, adjX=False, adjY=False)
    joined = f.reshape(f.transpose(product, 0, 2, 1, 3), 2, 1, tokens, width)
    mask = np.where(values(1, heads, tokens, tokens) > 0.5, -1e9, 0).astype(np.float32)
    return f.model(f.convolution(joined, width)), [values(2, tokens, width) * 3, mask]


def windows(heads: int = 2, depth: int = 32) -> tuple[bytes, list[Array]]:
    """Attention within six windows of a picture: layers make queries, keys and values of its rows, and join heads."""
    width, rows, shape = heads * depth, 6 * 16, (6, heads, 16, depth)
    f = Layers((1, 8, 12, width))
    split = f.transpose(f.reshape(f.layer_norm(0), 2, 4, 3, 4, width), 0, 2, 1, 3, 4)
    layers = [f.weights(units, width, fan_in=width) for units in (3 * width, width)]
    every = f.add(
        "FULLY_CONNECTED", f.reshape(split, rows, width), layers[0], shape=(rows, 3 * width), keepNumDims=True
    )
    turned, sizes = (
        f.transpose(f.reshape(every, 6, 16, 3, heads, depth), 2, 0, 3, 1, 4),
        f.constant((1, *shape), "int32"),
    )
    begins = [f.constant((number, 0, 0, 0, 0), "int32") for number in range(3)]
    q, k, v = (f.reshape(f.add("SLICE", turned, begin, sizes, shape=(1, *shape)), *shape) for begin in begins)
    scores = f.add("BATCH_MATMUL", q, k, shape=(6, heads, 16, 16), adjX=False, adjY=True)
    shares = f.add("SOFTMAX", f.add("MUL", scores, f.constant(depth**-0.5)), beta=1.0)
    product = f.add("BATCH_MATMUL", shares, v, shape=shape, adjX=False, adjY=False)
    joined = f.reshape(f.transpose(product, 0, 2, 1, 3), rows, width)
    result = f.add("FULLY_CONNECTED", joined, layers[1], shape=(rows, width), keepNumDims=True)
    picture = f.transpose(f.reshape(result, 2, 3, 4, 4, width), 0, 2, 1, 3, 4)
    return f.model(f.add("ADD", 0, f.reshape(picture, 1, 8, 12, width))), [values(1, 8, 12, width)]


def samples() -> tuple[bytes, list[Array]]:
    """Bilinear samples of a picture, of which some are outside of it."""
    picture, places = (2, 6, 9, 10), (2, 6, 8, 7)
    f = Formula(picture, places, places)
    around = [values(*places, seed=size) * (size / 2 + 1) + size / 2 for size in picture[:1:-1]]
    return f.model(Sampler(f).sampled()), [values(*picture), *around]


def deformable_attention(width: int = 8, first: tuple[int, int] = (4, 5)) -> tuple[bytes, list[Array]]:
    """Two heads' weighted samples of two maps, the ``first`` of this height and width, whose pixels are rows of one
    tensor, for each of five queries.
    """
    heads, queries, count, sizes = 2, 5, 3, (first, (2, 3))
    pixels, channels = sum(map(math.prod, sizes)), heads * width
    f = Formula(
        (1, pixels, channels), (1, queries, heads, len(sizes) * count, 2), (1, queries, heads, len(sizes) * count)
    )
    shape, begin, samples = (heads, width, queries, count), 0, list[int]()
    for level, (rows, columns) in enumerate(sizes):
        part = _part(f, 0, (0, begin, 0), (1, rows * columns, channels))
        picture = f.reshape(f.transpose(part, 0, 2, 1), heads, width, rows, columns)
        places = _part(f, 1, (0, 0, 0, level * count, 0), (1, queries, heads, count, 2))
        turned = f.transpose(f.reshape(places, queries, heads, count, 2), 1, 0, 2, 3)
        at: list[int] = []
        for axis, size in enumerate((columns, rows)):
            place = f.reshape(_part(f, turned, (0, 0, 0, axis), (heads, queries, count, 1)), heads, 1, queries, count)
            every = f.add("TILE", place, f.constant((1, width, 1, 1), "int32"), shape=shape)
            at.append(f.add("SUB", f.add("MUL", every, f.constant(float(size))), f.constant(0.5)))
        samples.append(Sampler(f, (picture, *at)).sampled())
        begin += rows * columns
    together = (*shape[:3], len(sizes) * count)
    weights = f.reshape(f.transpose(2, 0, 2, 1, 3), heads, 1, queries, len(sizes) * count)
    weighted = f.add("MUL", f.add("CONCATENATION", *samples, shape=together, axis=3), weights)
    total = f.add("SUM", weighted, f.constant((3,), "int32"), shape=shape[:3], keepDims=False)
    inputs = [values(*f.shape(tensor), seed=tensor) for tensor in f.inputs]
    inputs[1] = inputs[1] * 0.7 + 0.5  # of which some are outside of the maps
    return f.model(f.transpose(f.reshape(total, 1, channels, queries), 0, 2, 1)), inputs


def _part(f: Formula, x: int, begin: Sequence[int], shape: Sequence[int]) -> int:
    return f.add("SLICE", x, f.constant(begin, "int32"), f.constant(shape, "int32"), shape=shape)


def dense_convolutions() -> tuple[bytes, list[Array]]:
    """5x5 over a picture, 3x3 over channels and a sum; SiLU; a transposed convolution; halves between them."""
    f = Layers((1, 88, 90, 3))
    first = f.convolution(0, 64, 5, RELU6)
    second = f.convolution(first, 64, 3)
    both = f.add("ADD", f.add("MUL", second, f.add("LOGISTIC", second)), first)
    return f.model(f.transposed(f.convolution(both, 72, 3), 48)), [values(1, 88, 90, 3)]


def style() -> tuple[bytes, list[Array]]:
    """9x9 over a picture, and residual blocks of 3x3 with instance normalizations."""
    f = Layers((1, 80, 84, 3))
    x = f.add("RELU", f.instance_norm(f.convolution(0, 16, 9)))
    for _ in range(2):
        y = f.add("RELU", f.instance_norm(f.convolution(x, 24, 3)))
        x = f.add("ADD", f.instance_norm(f.convolution(y, 16, 3)), x)
    return f.model(f.convolution(x, 3, 9)), [values(1, 80, 84, 3)]


def bottlenecks() -> tuple[bytes, list[Array]]:
    """MobileNet's: expanded to six times the channels, filtered, reduced and added, with squeeze and excite."""
    f = Layers((1, 14, 18, 24))
    x = 0
    for _ in range(2):
        y = f.depthwise(f.convolution(x, 144, activation=RELU6), activation=RELU6)
        x = f.add("ADD", f.convolution(y, 24), x)
    y = f.depthwise(f.convolution(x, 96, activation=RELU6), 5, activation=RELU6)
    squeezed = f.convolution(f.mean_of_pixels(y), 24, activation=1)
    gate = f.add("LOGISTIC", f.convolution(squeezed, 96))
    return f.model(f.convolution(f.add("MUL", y, gate), 40)), [values(1, 14, 18, 24)]


def large_bottleneck() -> tuple[bytes, list[Array]]:
    """MobileNet's block over many pixels with few channels."""
    f = Layers((1, 64, 68, 12))
    y = f.depthwise(f.convolution(0, 48, activation=RELU6), activation=RELU6)
    return f.model(f.add("ADD", f.convolution(y, 12), 0)), [values(1, 64, 68, 12)]


def wide_convolutions() -> tuple[bytes, list[Array]]:
    """3x3 over 64 channels, twice, and a sum: enough products for Winograd's transforms."""
    f = Layers((1, 54, 58, 64))
    return f.model(f.add("ADD", f.convolution(f.convolution(0, 64, 3, RELU6), 64, 3), 0)), [values(1, 54, 58, 64)]


def separable_pairs() -> tuple[bytes, list[Array]]:
    """Depthwise filters with 1x1 layers behind them, and what they read added, as in BlazeFace."""
    f = Layers((1, 16, 20, 28))
    x = 0
    for _ in range(4):
        x = f.add("RELU", f.add("ADD", f.convolution(f.depthwise(x), 28), x))
    return f.model(x), [values(1, 16, 20, 28)]


def movements() -> tuple[bytes, list[Array]]:
    """A picture cut into windows, of which half of the channels are put together again around a GELU."""
    f = Formula((2, 12, 15, 24))
    split = f.transpose(f.reshape(0, 2, 3, 4, 5, 3, 24), 0, 1, 3, 2, 4, 5)
    rows = f.reshape(split, 30, 12, 24)
    part: Any = (30, 12, 12)
    half = f.add("SLICE", rows, f.constant((0, 0, 8), "int32"), f.constant(part, "int32"), shape=part)
    back = f.transpose(f.reshape(f.add("GELU", half, approximate=False), 2, 3, 5, 4, 3, 12), 0, 5, 1, 3, 2, 4)
    return f.model(f.reshape(back, 2, 12, 12, 15)), [values(2, 12, 15, 24)]


def correlation() -> tuple[bytes, list[Array]]:
    """The products of all pixels of two pictures, as RAFT compares them, and of these with a third tensor."""
    f = Formula((1, 70, 40), (1, 50, 40), (1, 50, 36))
    products = f.add("BATCH_MATMUL", f.add("NEG", 0), 1, shape=(1, 70, 50), adjX=False, adjY=True)
    scaled = f.add("MUL", products, f.constant(40**-0.5))
    result = f.add("BATCH_MATMUL", f.add("TANH", scaled), 2, shape=(1, 70, 36), adjX=False, adjY=False)
    return f.model(result), [values(*f.shape(tensor), seed=tensor) for tensor in f.inputs]


def selection() -> tuple[bytes, list[Array]]:
    """The hundred largest of each row's scores, and their places."""
    rows, count, best = 3, 5000, 100
    tensors = [T("scores", (rows, count)), T("k", (), best, "int32"), T("values", (rows, best))]
    tensors += [T("indices", (rows, best), dtype="int32"), T("places", (rows, best))]
    operators = [Op("TOPK_V2", [0, 1], [2, 3], options("TopKV2")), Op("CAST", [3], [4], options("Cast"))]
    return build(G(tensors, operators, [0], [2, 4])), [values(rows, count)]


NETWORKS: dict[str, Network] = {
    "attention": attention, "samples": samples, "dense convolutions": dense_convolutions, "movements": movements,
    "style": style, "bottlenecks": bottlenecks, "separable pairs": separable_pairs, "selection": selection,
    "deformable attention": deformable_attention, "correlation": correlation, "windows": windows,
    "large bottleneck": large_bottleneck, "wide convolutions": wide_convolutions,
}  # fmt: skip
"""The networks by name."""
