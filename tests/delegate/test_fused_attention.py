"""Attention as exporters spell it: one step that reads heads where they were computed; near-misses keep their steps."""

from __future__ import annotations

from collections.abc import Callable

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
def test_what_resembles_attention_is_left_alone(spelling: Callable[[Model, int], list[int]]) -> None:
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


class Plain(Formula):
    """Queries, keys and values of two heads, each on its own, and perhaps a mask."""

    SHAPES = ((1, 2, 8, 16), (1, 2, 12, 16), (1, 2, 12, 16))
    SCORES = (1, 2, 8, 12)

    def __init__(self, *mask: tuple[int, ...]) -> None:
        super().__init__(*self.SHAPES, *mask)

    def product(self, first: int, second: int, shape: tuple[int, ...], *, turned: bool = False) -> int:
        return self.add("BATCH_MATMUL", first, second, shape=shape, adjX=False, adjY=turned)

    def scores(self, *shape: int) -> int:
        return self.reshape(self.product(0, 1, self.SCORES, turned=True), *(shape or self.SCORES))

    def attention(self, scores: int, v: int = 2) -> bytes:
        shares = self.reshape(self.add("SOFTMAX", scores, beta=1.0), *self.SCORES)
        return self.model(self.product(shares, v, (1, 2, 8, 16)))


def noise(model: Plain) -> list[np.ndarray]:
    random = np.random.default_rng(3)
    return [random.normal(0, 1, model.shape(tensor)).astype(np.float32) for tensor in model.inputs]


MASKS = [(12,), (8, 12), (2, 8, 12), (2, 1, 12), (1, 1, 1, 12), (1, 2, 1, 12)]


@pytest.mark.parametrize("shape", MASKS)
def test_a_mask_of_any_rank_is_added_to_the_scores(gpu: Device, shape: tuple[int, ...]) -> None:
    model = Plain(shape)
    made = model.attention(model.add("ADD", model.scores(), 3))
    assert "attention" in kernels_of(made)
    assert error_on(gpu, made, noise(model)) < 1e-5


def test_a_constant_mask_of_two_dimensions_is_copied_nowhere(gpu: Device) -> None:
    """One of the past only, as text models have it."""
    model = Plain()
    past = np.where(np.tri(8, 12, 4, dtype=bool), 0, -1e9)
    made = model.attention(model.add("ADD", model.scores(), model.constant(past)))
    assert kernels_of(made) == ["attention"]
    assert error_on(gpu, made, noise(model)) < 1e-5


def test_scaled_values_are_scaled_before(gpu: Device) -> None:
    model = Plain()
    made = model.attention(model.scores(), model.add("MUL", 2, model.constant(0.5)))
    assert "attention" in kernels_of(made)
    assert error_on(gpu, made, noise(model)) < 1e-5


def softmax_of_all_scores(model: Plain) -> int:
    return model.scores(1, 2, 96)


def softmax_of_half_rows(model: Plain) -> int:
    return model.scores(1, 2, 16, 6)


def masked_rows_of_all_heads(model: Plain) -> int:
    return model.add("ADD", model.scores(16, 12), model.constant(np.arange(16).reshape(16, 1) % 5 * np.eye(1, 12)))


def one_number_for_each_query(model: Plain) -> int:
    return model.add("ADD", model.scores(), model.constant(np.arange(8).reshape(8, 1)))


def one_number(model: Plain) -> int:
    return model.add("ADD", model.scores(), model.constant(3))


OTHER_ROWS = [
    softmax_of_all_scores, softmax_of_half_rows, masked_rows_of_all_heads, one_number_for_each_query, one_number
]  # fmt: skip


@pytest.mark.parametrize("scores", OTHER_ROWS, ids=lambda each: each.__name__)
def test_scores_that_are_not_a_row_for_each_query_keep_their_steps(gpu: Device, scores: Callable[[Plain], int]) -> None:
    model = Plain()
    made = model.attention(scores(model))
    assert "attention" not in kernels_of(made)
    assert error_on(gpu, made, noise(model)) < 1e-5


def test_a_layer_that_divides_the_rows_of_queries_is_no_attention(gpu: Device) -> None:
    """FULLY_CONNECTED reads its input as rows of the length that the weights have."""
    f = Formula((1, 4, 32), (12, 16), (12, 16))
    scores = f.add("FULLY_CONNECTED", 0, 1, shape=(8, 12), keepNumDims=False)
    product = f.add("BATCH_MATMUL", f.add("SOFTMAX", scores, beta=1.0), 2, shape=(8, 16), adjX=False, adjY=False)
    model, random = f.model(product), np.random.default_rng(1)
    assert "attention" not in kernels_of(model)
    inputs = [random.normal(0, 1, f.shape(tensor)).astype(np.float32) for tensor in f.inputs]
    assert error_on(gpu, model, inputs) < 1e-5
