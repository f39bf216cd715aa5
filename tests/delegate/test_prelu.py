"""Activation functions with a slope for each sign, in the spellings of exporters: each is one operation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from framebind.interop.device import Device
from framebind.tools.certify.cases.formulas import Formula
from support.formulas import error_on, kernels_of

SHAPE = (1, 4, 6, 8)
SLOPES = np.linspace(-0.5, 1.5, 8, dtype=np.float32)
Spelling = Callable[[Formula, int], int]


def negated(f: Formula, x: int) -> int:
    """litert-torch's: max(x, 0) - max(-x, 0) * a."""
    below = f.add("RELU", f.add("MUL", x, f.constant(-1)))
    return f.add("SUB", f.add("RELU", x), f.add("MUL", below, f.constant(SLOPES.reshape(1, 1, 1, 8))))


def negated_once(f: Formula, x: int) -> int:
    """relu(x) + a * -relu(-x), with one slope."""
    below = f.add("NEG", f.add("RELU", f.add("NEG", x)))
    return f.add("ADD", f.add("MUL", f.constant(0.3), below), f.add("RELU", x))


def bounds(f: Formula, x: int) -> int:
    """max(x, 0) + a * min(0, x)."""
    zero = f.constant(0)
    return f.add("ADD", f.add("MAXIMUM", x, zero), f.add("MUL", f.constant(SLOPES), f.add("MINIMUM", zero, x)))


def larger(f: Formula, x: int) -> int:
    return f.add("MAXIMUM", f.add("MUL", x, f.constant(0.25)), x)


def smaller(f: Formula, x: int) -> int:
    """min(x, 3 * x): the steeper one below 0 is divided into place."""
    return f.add("MINIMUM", x, f.add("DIV", x, f.constant(0.25)))


def chosen(f: Formula, x: int) -> int:
    above = f.add("GREATER", x, f.constant(0), dtype="bool")
    return f.add("SELECT_V2", above, x, f.add("MUL", x, f.constant(SLOPES)))


def chosen_below(f: Formula, x: int) -> int:
    below = f.add("GREATER_EQUAL", f.constant(0), x, dtype="bool")
    return f.add("SELECT_V2", below, f.add("MUL", x, f.constant(SLOPES)), x)


def halves_of_a_size(f: Formula, x: int) -> int:
    """a * (x - |x|) / 2 + relu(x), as Keras 1 wrote it."""
    below = f.add("MUL", f.add("SUB", x, f.add("ABS", x)), f.constant(SLOPES / 2))
    return f.add("ADD", f.add("RELU", x), below)


def always_true(f: Formula, x: int) -> int:
    """max(x, 0) is never below 0, so that the choice is always the first."""
    condition = f.add("LESS_EQUAL", f.constant(0), f.add("RELU", x), dtype="bool")
    return f.add("SELECT_V2", condition, f.add("MAXIMUM", x, f.add("MUL", x, f.constant(0.125))), f.add("NEG", x))


SPELLINGS = (
    negated, negated_once, bounds, larger, smaller, chosen, chosen_below, halves_of_a_size, always_true
)  # fmt: skip


def test_every_spelling_is_one_operation(gpu: Device) -> None:
    f = Formula(SHAPE)
    model = f.model(*(spelling(f, f.add("NEG", 0)) for spelling in SPELLINGS))
    assert kernels_of(model) == ["copy"] * len(SPELLINGS)
    values = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    values[0, 0, 0] = 0
    assert error_on(gpu, model, [values]) < 1e-6


def shifted(f: Formula, x: int) -> int:
    """A pattern that is not linear below 0."""
    return f.add("SUB", f.add("RELU", x), f.add("RELU", f.add("SUB", f.constant(1), x)))


def doubled(f: Formula, x: int) -> int:
    """Twice a PReLU."""
    return f.add("ADD", f.add("ABS", x), x)


def of_two(f: Formula, x: int) -> int:
    return f.add("SUB", f.add("RELU", x), f.add("RELU", f.add("COS", x)))


def stepped(f: Formula, x: int) -> int:
    """x / 2 and a step of the same height: truth values are numbers here."""
    above = f.add("CAST", f.add("GREATER", x, f.constant(0), dtype="bool"))
    return f.add("ADD", f.add("MUL", x, f.constant(0.5)), f.add("MUL", above, f.constant(0.5)))


def kept(f: Formula, x: int) -> int:
    """A pattern whose inner tensor is read elsewhere, too."""
    inside = f.add("RELU", x)
    return f.add("ADD", f.add("SUB", inside, f.add("MUL", f.add("RELU", f.add("NEG", x)), f.constant(0.5))),
                 f.add("EXP", inside))  # fmt: skip


@pytest.mark.parametrize("spelling", [shifted, doubled, of_two, stepped, kept], ids=lambda v: v.__name__)
def test_what_only_looks_like_it_stays(gpu: Device, spelling: Spelling) -> None:
    f = Formula(SHAPE)
    model = f.model(spelling(f, f.add("NEG", 0)))
    assert len(kernels_of(model)) > 1
    assert error_on(gpu, model, [np.random.default_rng(1).normal(0, 1, SHAPE).astype(np.float32)]) < 1e-5


def test_slopes_of_channels_first_belong_to_the_layer_before_the_transposition(gpu: Device) -> None:
    """The slopes, one a channel, move to the end with the channels, without a table of all pixels."""
    f = Formula(SHAPE)
    first = f.transpose(f.add("NEG", 0), 0, 3, 1, 2)
    slopes = f.constant(SLOPES.reshape(8, 1, 1))
    below = f.add("MUL", f.add("RELU", f.add("NEG", first)), slopes)
    model = f.model(f.add("ABS", f.transpose(f.add("SUB", f.add("RELU", first), below), 0, 2, 3, 1)))
    assert kernels_of(model) == ["copy"]
    assert error_on(gpu, model, [np.random.default_rng(2).normal(0, 1, SHAPE).astype(np.float32)]) < 1e-6
