"""Layer, RMS and instance normalizations in the spellings of exporters, and what only resembles them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from framebind.interop.device import Device
from framebind.tools.certify.cases.formulas import Formula
from support.formulas import error_on, kernels_of

Spelling = Callable[[Formula, int, Sequence[int]], int]
EPSILON = 1e-3
GAMMA = np.linspace(0.5, 1.5, 13, dtype=np.float32)


def inverse(f: Formula, square: int, *, root: bool = False, keep: bool = True) -> int:
    """1 / sqrt(mean + epsilon) of a square."""
    shifted = f.add("ADD", f.mean(square, keep=keep), f.constant(EPSILON))
    return f.add("DIV", f.constant(1), f.add("SQRT", shifted)) if root else f.add("RSQRT", shifted)


def litert_torch(f: Formula, x: int, shape: Sequence[int]) -> int:
    """The form of litert-torch, without kept dimensions: x * r + (0 - r * m), with reshapes between."""
    rows = (*shape[:-1], 1)
    mean = f.mean(x, keep=False)
    r = inverse(f, f.add("SQUARED_DIFFERENCE", x, f.reshape(mean, *rows)), keep=False)
    offset = f.add("SUB", f.constant(0), f.add("MUL", r, mean))
    return f.add("ADD", f.add("MUL", x, f.reshape(r, *rows)), f.reshape(offset, *rows))


def keras(f: Formula, x: int, shape: Sequence[int]) -> int:
    """x * (r * gamma) + (beta - m * (r * gamma))."""
    mean = f.mean(x)
    factor = f.add("MUL", inverse(f, f.add("SQUARED_DIFFERENCE", x, mean)), f.constant(GAMMA[: shape[-1]]))
    offset = f.add("SUB", f.constant(GAMMA[-shape[-1] :] - 1), f.add("MUL", mean, factor))
    return f.add("ADD", f.add("MUL", x, factor), offset)


def negated_mean(f: Formula, x: int, shape: Sequence[int]) -> int:
    """x * f + f * -m."""
    mean = f.mean(x)
    factor = f.add("MUL", inverse(f, f.add("SQUARED_DIFFERENCE", x, mean)), f.constant(GAMMA[: shape[-1]]))
    return f.add("ADD", f.add("MUL", x, factor), f.add("MUL", factor, f.add("NEG", mean)))


def centred(f: Formula, x: int, shape: Sequence[int]) -> int:
    """d = x - m; d * r, scaled and shifted afterwards."""
    difference = f.add("SUB", x, f.mean(x))
    y = f.add("MUL", difference, inverse(f, f.add("MUL", difference, difference)))
    return f.add("ADD", f.add("MUL", y, f.constant(GAMMA[: shape[-1]])), f.constant(GAMMA[-shape[-1] :]))


def quotient(f: Formula, x: int, shape: Sequence[int]) -> int:
    """(x - m) / sqrt(v + epsilon), with a power of two."""
    difference = f.add("SUB", x, f.mean(x))
    shifted = f.add("ADD", f.mean(f.add("POW", difference, f.constant(2))), f.constant(EPSILON))
    return f.add("DIV", difference, f.add("SQRT", shifted))


def root_mean_square(f: Formula, x: int, shape: Sequence[int]) -> int:
    return f.add("MUL", x, inverse(f, f.add("SQUARE", x), root=True))


SPELLINGS: list[Spelling] = [litert_torch, keras, negated_mean, centred, quotient, root_mean_square]


def model_of(spelling: Spelling, shape: Sequence[int]) -> bytes:
    f = Formula(shape)
    return f.model(spelling(f, 0, shape))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_one_step(spelling: Spelling) -> None:
    for shape in ((2, 5, 13), (2, 3, 5, 12), (3, 4)):
        assert kernels_of(model_of(spelling, shape)) == ["layer_norm"]


@pytest.mark.parametrize(
    ("spelling", "shape"), [(litert_torch, (2, 3, 5, 7)), (keras, (9, 13)), (negated_mean, (2, 5, 8))]
)
def test_a_normalization_of_rows_far_from_zero_is_that_of_litert(
    gpu: Device, spelling: Spelling, shape: Sequence[int]
) -> None:
    x = np.random.default_rng(0).normal(30, 1, shape).astype(np.float32)
    assert error_on(gpu, model_of(spelling, shape), [x]) < 1e-5


def of_rows_first(f: Formula, x: int, shape: Sequence[int]) -> int:
    """Along another dimension."""
    difference = f.add("SUB", x, f.mean(x, -2))
    shifted = f.add("ADD", f.mean(f.add("SQUARE", difference), -2), f.constant(EPSILON))
    return f.add("MUL", difference, f.add("RSQRT", shifted))


def of_another_mean(f: Formula, x: int, shape: Sequence[int]) -> int:
    """The mean of something else, by the variance around the right one."""
    difference = f.add("SUB", x, f.mean(f.add("ABS", x)))
    return f.add("MUL", difference, inverse(f, f.add("SQUARED_DIFFERENCE", x, f.mean(x))))


def of_a_square_matrix(f: Formula, x: int, shape: Sequence[int]) -> int:
    """The scale of row i is applied to column i."""
    mean = f.mean(x, keep=False)
    difference = f.add("SUB", x, f.reshape(mean, shape[0], 1))
    return f.add("MUL", difference, inverse(f, f.add("SQUARE", difference), keep=False))


@pytest.mark.parametrize("spelling", [of_rows_first, of_another_mean, of_a_square_matrix])
def test_what_resembles_a_normalization_is_left_alone(gpu: Device, spelling: Spelling) -> None:
    model = model_of(spelling, (7, 7))
    assert "layer_norm" not in kernels_of(model)
    assert error_on(gpu, model, [np.random.default_rng(0).normal(3, 1, (7, 7)).astype(np.float32)]) < 1e-5


def test_a_mean_that_something_else_reads_stays() -> None:
    f = Formula((2, 5, 13))
    mean = f.mean(0)
    y = f.add("MUL", f.add("SUB", 0, mean), inverse(f, f.add("SQUARED_DIFFERENCE", 0, mean)))
    assert "layer_norm" not in kernels_of(f.model(y, mean))
    assert "layer_norm" not in kernels_of(f.model(f.add("ADD", y, mean)))


def of_planes(f: Formula, x: int, shape: Sequence[int]) -> int:
    """litert-torch's InstanceNorm2d: each picture's channels are channels of one."""
    batch, channels, height, width = shape
    one = f.reshape(x, 1, batch * channels, height, width) if batch > 1 else x
    axes, planes = f.constant((0, 2, 3), "int32"), (1, batch * channels, 1, 1)
    difference = f.add("SUB", one, f.add("MEAN", one, axes, shape=planes, keepDims=True))
    square = f.add("MUL", difference, difference)
    variance = f.add("MEAN", square, axes, shape=planes[1:2], keepDims=False)
    shifted = f.reshape(f.add("ADD", variance, f.constant(EPSILON)), *planes)
    result = f.add("MUL", difference, f.add("RSQRT", shifted), fusedActivationFunction=1)
    return f.reshape(result, *shape) if batch > 1 else result


@pytest.mark.parametrize("batch", [1, 2])
def test_a_normalization_of_planes_has_channels_last(gpu: Device, batch: int) -> None:
    """The transpositions on either side go, and the sum with what was normalized before is in the same step."""
    f = Formula((batch, 4, 5, 6))
    shape = (batch, 6, 4, 5)
    first = of_planes(f, f.transpose(f.add("ABS", 0), 0, 3, 1, 2), shape)
    second = of_planes(f, f.transpose(f.add("EXP", 0), 0, 3, 1, 2), shape)
    scaled = f.add("MUL", second, f.constant(GAMMA[:6].reshape(6, 1, 1)))
    model = f.model(f.transpose(f.add("ADD", first, scaled), 0, 2, 3, 1))
    assert sorted(kernels_of(model)) == 2 * ["copy"] + 2 * ["instance_norm"] + 2 * ["moments"]
    assert error_on(gpu, model, [np.random.default_rng(0).normal(1, 1, (batch, 4, 5, 6)).astype(np.float32)]) < 1e-5


def test_a_mean_of_planes_that_something_else_reads_stays() -> None:
    f = Formula((1, 3, 4, 5))
    mean = f.add("MEAN", 0, f.constant((2, 3), "int32"), shape=(1, 3, 1, 1), keepDims=True)
    difference = f.add("SUB", 0, mean)
    square = f.add("MEAN", f.add("SQUARE", difference), f.constant((2, 3), "int32"), shape=(1, 3, 1, 1), keepDims=True)
    y = f.add("DIV", difference, f.add("SQRT", f.add("ADD", square, f.constant(EPSILON))))
    assert "instance_norm" in kernels_of(f.model(y))
    assert "instance_norm" not in kernels_of(f.model(y, mean))
