"""Attention as exporters spell it: one step that reads heads where they were computed; near-misses keep their steps."""

from __future__ import annotations

import numpy as np
import pytest

from framebind.interop.device import Device
from framebind.tools.certify.cases.formulas import Formula
from support.formulas import error_on, kernels_of

TOKENS, HEADS, DEPTH = 9, 3, 8


class Model(Formula):
    """Tokens that have queries, keys and values of all heads side by side, and a mask."""

    def __init__(self, depth: int = DEPTH, windows: int = 2) -> None:
        self.depth, self.windows = depth, windows
        super().__init__((windows, TOKENS, 3 * HEADS * depth), (1, HEADS, TOKENS, TOKENS))

    def parts(self) -> list[int]:
        """Queries, keys and values as (windows, heads, tokens, channels)."""
        split = self.reshape(0, self.windows, TOKENS, 3, HEADS, self.depth)
        turned = self.transpose(split, 2, 0, 3, 1, 4)
        shape = (self.windows, HEADS, TOKENS, self.depth)
        sizes = self.constant((1, *shape), "int32")
        begins = [self.constant((number, 0, 0, 0, 0), "int32") for number in range(3)]
        slices = [self.add("SLICE", turned, begin, sizes, shape=(1, *shape)) for begin in begins]
        return [self.reshape(part, *shape) for part in slices]

    def scores(self, q: int, k: int, *, turned: bool = True) -> int:
        shape = (self.windows, HEADS, TOKENS, TOKENS)
        if turned:
            k = self.transpose(k, 0, 1, 3, 2)
        return self.add("BATCH_MATMUL", q, k, shape=shape, adjX=False, adjY=not turned)

    def joined(self, shares: int, v: int) -> int:
        product = self.add(
            "BATCH_MATMUL", shares, v, shape=(self.windows, HEADS, TOKENS, self.depth), adjX=False, adjY=False
        )
        return self.reshape(self.transpose(product, 0, 2, 1, 3), self.windows, TOKENS, HEADS * self.depth)

    def softmax(self, scores: int) -> int:
        return self.add("SOFTMAX", scores, beta=1.0)


def values(model: Model) -> list[np.ndarray]:
    random = np.random.default_rng(5)
    tokens = random.normal(0, 1, (model.windows, TOKENS, 3 * HEADS * model.depth))
    mask = np.where(random.random((1, HEADS, TOKENS, TOKENS)) > 0.7, -1e9, 0)
    return [tokens.astype(np.float32), mask.astype(np.float32)]


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_attention_is_one_step(gpu: Device, turned: bool, masked: bool) -> None:
    model = Model()
    q, k, v = model.parts()
    scores = model.scores(model.add("MUL", q, model.constant(0.5)), k, turned=turned)
    scores = model.add("DIV", scores, model.constant(0.8))
    if masked:
        scores = model.add("ADD", scores, 1)
    made = model.model(model.joined(model.softmax(scores), v))
    assert kernels_of(made) == ["attention"]
    assert error_on(gpu, made, values(model)) < 1e-5


def test_one_query_of_all_windows_has_few_keys(gpu: Device) -> None:
    """Products without batches, the first as a layer with computed weights, as SegFormer has them."""
    f = Formula((1, 40, 16), (12, 16), (12, 8))
    scores = f.add("FULLY_CONNECTED", f.reshape(0, 40, 16), 1, shape=(40, 12), keepNumDims=True)
    product = f.add("BATCH_MATMUL", f.add("SOFTMAX", scores, beta=1.0), 2, shape=(40, 8), adjX=False, adjY=False)
    model, random = f.model(product), np.random.default_rng(1)
    assert kernels_of(model) == ["attention"]
    inputs = [random.normal(0, 1, shape).astype(np.float32) for shape in ((1, 40, 16), (12, 16), (12, 8))]
    assert error_on(gpu, model, inputs) < 1e-5


def scaled_mask(model: Model, scores: int) -> list[int]:
    """The mask is scaled with the scores."""
    return [model.softmax(model.add("MUL", model.add("ADD", scores, 1), model.constant(0.5)))]


def read_scores(model: Model, scores: int) -> list[int]:
    """The scores are an output as well."""
    return [model.softmax(scores), scores]


def read_shares(model: Model, scores: int) -> list[int]:
    """The shares are an output as well."""
    shares = model.softmax(scores)
    return [shares, shares]


def other_function(model: Model, scores: int) -> list[int]:
    return [model.softmax(model.add("ABS", scores))]


@pytest.mark.parametrize("spelling", [scaled_mask, read_scores, read_shares, other_function])
def test_what_resembles_attention_is_left_alone(spelling: object) -> None:
    assert callable(spelling)
    model = Model()
    q, k, v = model.parts()
    shares, *others = spelling(model, model.scores(q, k))
    kernels = kernels_of(model.model(model.joined(shares, v), *others))
    assert kernels.count("matmul") == 2 and "attention" not in kernels


def test_heads_of_no_whole_slices_are_left_alone(gpu: Device) -> None:
    model = Model(depth=6, windows=1)
    q, k, v = model.parts()
    made = model.model(model.joined(model.softmax(model.scores(q, k)), v))
    assert "attention" not in kernels_of(made)
    assert error_on(gpu, made, values(model)) < 1e-5


@pytest.mark.parametrize("side", ["transposed", "adjoint"])
def test_attention_of_columns_is_one_step(gpu: Device, side: str) -> None:
    """YOLO11's: channels first, values times the softmax turned, and what is added to the result with channels last."""
    f = Formula((1, 4, 5, 64), (1, 4, 5, 32))
    heads, depth, width, pixels = 2, 8, 16, 20
    columns = f.reshape(f.transpose(f.add("ABS", 0), 0, 3, 1, 2), 1, heads, 32, pixels)

    def part(begin: int, size: int) -> int:
        shape = (1, heads, size, pixels)
        at = f.constant((0, 0, begin, 0), "int32")
        return f.add("SLICE", columns, at, f.constant(shape, "int32"), shape=shape)

    q, k, v = part(0, depth), part(depth, depth), part(2 * depth, width)
    square = (1, heads, pixels, pixels)
    scores = f.add("BATCH_MATMUL", f.transpose(q, 0, 1, 3, 2), k, shape=square, adjX=False, adjY=False)
    shares = f.add("SOFTMAX", f.add("MUL", scores, f.constant(0.3)), beta=1.0)
    if side == "transposed":
        shares = f.transpose(shares, 0, 1, 3, 2)
    product = f.add("BATCH_MATMUL", v, shares, shape=(1, heads, width, pixels), adjX=False, adjY=side == "adjoint")
    picture = f.reshape(product, 1, heads * width, 4, 5)
    beside = f.transpose(f.add("SIN", 1), 0, 3, 1, 2)
    model = f.model(f.transpose(f.add("ADD", picture, beside), 0, 2, 3, 1))
    assert sorted(kernels_of(model)) == ["attention", "copy", "copy"]
    random = np.random.default_rng(5)
    inputs = [random.normal(0, 1, (1, 4, 5, channels)).astype(np.float32) for channels in (64, 32)]
    assert error_on(gpu, model, inputs) < 1e-5


def test_columns_times_a_softmax_that_is_not_turned_are_no_attention(gpu: Device) -> None:
    """The sums are over the queries."""
    f = Formula((1, 2, 8, 20))
    scores = f.add("BATCH_MATMUL", f.transpose(0, 0, 1, 3, 2), 0, shape=(1, 2, 20, 20), adjX=False, adjY=False)
    shares = f.add("SOFTMAX", scores, beta=1.0)
    model = f.model(f.add("BATCH_MATMUL", 0, shares, shape=(1, 2, 8, 20), adjX=False, adjY=False))
    assert "attention" not in kernels_of(model)
    assert error_on(gpu, model, [np.random.default_rng(5).normal(0, 1, (1, 2, 8, 20)).astype(np.float32)]) < 1e-5


def test_a_long_chain_before_attention_is_followed_for_some_steps() -> None:
    """A file may have any number of reshapes."""
    model = Model(windows=1)
    q, k, v = model.parts()
    for _ in range(1500):
        q = model.reshape(model.reshape(q, 1, HEADS, TOKENS * DEPTH), 1, HEADS, TOKENS, DEPTH)
    kernels = kernels_of(model.model(model.joined(model.softmax(model.scores(q, k)), v)))
    assert "attention" in kernels
