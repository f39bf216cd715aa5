"""Chains of operators that only move values: one copy, or none; and layers of one tensor: one step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from framebind.delegate.transform.layouts import Layout, dense, inverse
from framebind.interop.device import Device
from framebind.tools.certify.cases.formulas import Formula
from support.formulas import error_on, kernels_of

SHAPE = (1, 4, 6, 8)
Chain = Callable[[Formula, int], int]


def there_and_back(f: Formula, x: int) -> int:
    """Channels first and last again, as PyTorch's exports do around a function."""
    first = f.reshape(f.transpose(x, 0, 3, 1, 2), 1, 8, 24)
    return f.transpose(f.add("GELU", first, approximate=False), 0, 2, 1)


def windows(f: Formula, x: int) -> int:
    """A picture cut into windows of 2x3, then half of the channels of each."""
    split = f.transpose(f.reshape(x, 1, 2, 2, 2, 3, 8), 0, 1, 3, 2, 4, 5)
    rows = f.reshape(split, 4, 6, 8)
    return f.add("SLICE", rows, f.constant((0, 0, 4), "int32"), f.constant((4, 6, 4), "int32"), shape=(4, 6, 4))


def part_of_parts(f: Formula, x: int) -> int:
    """The second of three tensors side by side, which is cut out again."""
    parts = [f.add(name, x) for name in ("ABS", "NEG", "EXP")]
    joined = f.transpose(f.add("CONCATENATION", *parts, shape=(1, 4, 6, 24), axis=3), 0, 3, 1, 2)
    part = f.add(
        "SLICE", joined, f.constant((0, 8, 0, 0), "int32"), f.constant((1, 8, 4, 6), "int32"), shape=(1, 8, 4, 6)
    )
    return f.transpose(part, 0, 2, 3, 1)


def across_parts(f: Formula, x: int) -> int:
    """Channels of two tensors side by side."""
    joined = f.add("CONCATENATION", f.add("ABS", x), f.add("EXP", x), shape=(1, 4, 6, 16), axis=3)
    return f.add("SLICE", joined, f.constant((0, 0, 0, 3), "int32"), f.constant((1, 4, 6, 8), "int32"), shape=SHAPE)


def positions(f: Formula, x: int) -> int:
    """A table is added to channels that are first, and last again."""
    table = f.constant(np.random.default_rng(7).normal(0, 1, (1, 8, 4, 6)))
    return f.transpose(f.add("SUB", table, f.transpose(x, 0, 3, 1, 2)), 0, 2, 3, 1)


def row_table(f: Formula, x: int) -> int:
    """A table with a value per column has one per channel then, and is as small."""
    added = f.add("ADD", f.transpose(x, 0, 3, 1, 2), f.constant(np.arange(6)))
    return f.transpose(added, 0, 2, 3, 1)


def uneven_table(f: Formula, x: int) -> int:
    """A table that a reshape cuts between its repetitions stays where it is: it would grow."""
    added = f.add("ADD", f.reshape(f.transpose(x, 0, 3, 1, 2), 1, 16, 12), f.constant(np.arange(12)))
    return f.transpose(f.reshape(added, *SHAPE[:1], 8, 4, 6), 0, 2, 3, 1)


def uneven(f: Formula, x: int) -> int:
    """Columns that are no whole number of the digits before."""
    return f.transpose(f.reshape(f.transpose(x, 0, 2, 1, 3), 1, 16, 12), 0, 2, 1)


def backwards(f: Formula, x: int) -> int:
    return f.transpose(f.add("REVERSE_V2", x, f.constant((2,), "int32")), 0, 2, 3, 1)


@pytest.mark.parametrize(
    ("chain", "copies"),
    [
        (there_and_back, 0),
        (part_of_parts, 0),
        (across_parts, 1),
        (positions, 0),
        (row_table, 0),
        (uneven_table, 2),
        (windows, 1),
        (uneven, 2),
        (backwards, 1),
    ],
    ids=lambda v: getattr(v, "__name__", str(v)),
)
def test_a_chain_is_one_copy_or_none(gpu: Device, chain: Chain, copies: int) -> None:
    f = Formula(SHAPE)
    model = f.model(f.add("ABS", chain(f, f.add("NEG", 0))))
    kernels = kernels_of(model)
    assert kernels.count("strided_copy") == copies and kernels.count("copy") <= (3 if chain is across_parts else 1)
    assert error_on(gpu, model, [np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)]) < 1e-5


def test_a_part_has_the_rank_from_before_a_reshape(gpu: Device) -> None:
    """A reshape that adds a dimension of 1 is taken out; the part behind it still has a cut for that dimension."""
    shape = (1, 24, 8)
    f = Formula(shape)
    rows = f.reshape(f.add("NEG", 0), 1, 1, 24, 8)
    part = f.add("SLICE", rows, f.constant((0, 0, 6, 0), "int32"), f.constant((1, 1, 12, 8), "int32"),
                 shape=(1, 1, 12, 8))  # fmt: skip
    model = f.model(f.add("ABS", f.transpose(part, 0, 1, 3, 2)))
    assert kernels_of(model).count("strided_copy") == 1
    assert error_on(gpu, model, [np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)]) < 1e-5


def test_tensors_side_by_side_are_joined_along_the_axis_of_their_rank(gpu: Device) -> None:
    """A concatenation of rank 5 has four dimensions for kernels, and another axis; the tensors keep their rank."""
    shape, wide, part = (3, 2, 2, 1, 4), (3, 2, 4, 1, 4), (3, 2, 3, 1, 4)
    f = Formula(shape)
    joined = f.add("CONCATENATION", f.add("ABS", 0), f.add("NEG", 0), shape=wide, axis=2)
    cut = f.add("SLICE", joined, f.constant((0, 0, 1, 0, 0), "int32"), f.constant(part, "int32"), shape=part)
    model = f.model(f.add("EXP", cut), f.transpose(joined, 1, 4, 0, 2, 3))
    assert error_on(gpu, model, [np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)]) < 1e-5


@pytest.mark.parametrize("shape", [(6, 4), (1, 6, 1, 4), (3, 2, 1, 1, 4)], ids=len)
def test_a_function_of_a_part_reads_it_through_a_change_of_rank(gpu: Device, shape: tuple[int, ...]) -> None:
    """A reshape that changes nothing for kernels is taken out, so that the function has another rank than its value."""
    f = Formula(shape)
    functions = f.add("MUL", f.add("EXP", f.reshape(0, 6, 1, 4)), f.constant(np.arange(4)))
    part = f.add("SLICE", functions, f.constant((1, 0, 1), "int32"), f.constant((3, 1, 2), "int32"), shape=(3, 1, 2))
    values = np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)
    assert error_on(gpu, f.model(part), [values]) < 1e-5


def test_a_constant_of_one_of_many_batches_is_not_moved(gpu: Device) -> None:
    """Kernels of rank 5 have one batch for the first two dimensions, and can repeat a constant for both only."""
    f = Formula((3, 2, 4, 4))
    scaled = f.add("MUL", f.transpose(0, 1, 0, 2, 3), f.constant(np.arange(1, 4).reshape(3, 1, 1)))
    values = np.random.default_rng(0).normal(0, 1, (3, 2, 4, 4)).astype(np.float32)
    assert error_on(gpu, f.model(f.reshape(scaled, 2, 3, 1, 4, 4)), [values]) < 1e-5


def test_what_something_else_reads_is_computed_once(gpu: Device) -> None:
    """The function of a transposed tensor that has another reader stays behind the transposition."""
    f = Formula(SHAPE)
    turned = f.transpose(f.add("NEG", 0), 0, 2, 1, 3)
    model = f.model(f.add("ABS", turned), f.add("EXP", f.transpose(turned, 0, 2, 1, 3)))
    assert kernels_of(model).count("strided_copy") == 1
    assert error_on(gpu, model, [np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)]) < 1e-5


def test_a_function_of_a_part_is_not_computed_of_the_whole() -> None:
    f = Formula(SHAPE)
    part = f.add("SLICE", f.add("NEG", 0), f.constant((0, 0, 0, 0), "int32"), f.constant((1, 4, 6, 4), "int32"),
                 shape=(1, 4, 6, 4))  # fmt: skip
    assert kernels_of(f.model(f.add("EXP", part))) == ["strided_copy"]


def test_columns_and_rows_of_places_are_one_copy_each(gpu: Device) -> None:
    """RAFT's places of samples: a pair, repeated and shifted by a table, of which each half is scaled on its own."""
    f = Formula((1, 2, 3, 2))
    places = f.reshape(f.transpose(f.add("NEG", 0), 0, 2, 1, 3), 6, 1, 1, 2)
    table = f.constant(np.random.default_rng(3).normal(0, 1, (1, 4, 5, 2)))
    shifted = f.add("ADD", places, table)
    halves: list[int] = []
    for half, factor in enumerate((0.5, 0.25)):
        begin = f.constant((0, 0, 0, half), "int32")
        part = f.add("SLICE", shifted, begin, f.constant((6, 4, 5, 1), "int32"), shape=(6, 4, 5, 1))
        scaled = f.add("SUB", f.add("MUL", part, f.constant(factor)), f.constant(1))
        halves.append(f.reshape(f.add("MUL", scaled, f.constant(3)), 6, 1, 4, 5))
    model = f.model(*halves)
    assert kernels_of(model) == ["copy", "strided_copy", "strided_copy"]
    assert error_on(gpu, model, [np.random.default_rng(0).normal(0, 1, (1, 2, 3, 2)).astype(np.float32)]) < 1e-5


def test_a_sum_of_values_that_were_moved_alike_is_computed_before(gpu: Device) -> None:
    """Blocks with channels first between layers with channels last: the sums are in the layers' steps."""
    f = Formula(SHAPE)
    first = f.transpose(f.add("ABS", 0), 0, 3, 1, 2)
    for name in ("SIN", "COS"):
        block = f.add(name, f.add("NEG", f.transpose(first, 0, 2, 3, 1)))
        first = f.add("RELU", f.add("SUB", first, f.transpose(block, 0, 3, 1, 2)))
    model = f.model(f.add("EXP", f.transpose(first, 0, 2, 3, 1)))
    assert set(kernels_of(model)) == {"copy"} and len(kernels_of(model)) <= 4
    assert error_on(gpu, model, [np.random.default_rng(6).normal(0, 1, SHAPE).astype(np.float32)]) < 1e-5


def test_layers_that_drop_dimensions_take_no_copies(gpu: Device) -> None:
    """Two layers of rows of (1, 5, 8), of which the first makes a matrix: the rows stay where they are."""
    f, random = Formula((1, 5, 8)), np.random.default_rng(9)
    x = f.add("ABS", 0)
    first, second = (f.constant(random.normal(0, 1, shape)) for shape in ((12, 8), (8, 12)))
    hidden = f.add("TANH", f.add("FULLY_CONNECTED", x, first, shape=(5, 12), keepNumDims=False))
    layer = f.add("FULLY_CONNECTED", hidden, second, shape=(5, 8), keepNumDims=False)
    model = f.model(f.add("ADD", x, f.reshape(layer, 1, 5, 8)), f.add("EXP", x))
    assert sorted(kernels_of(model)) == ["conv", "conv", "copy", "copy"]
    assert error_on(gpu, model, [random.normal(0, 1, (1, 5, 8)).astype(np.float32)]) < 1e-5


def test_a_part_without_values_and_one_backwards_are_left_where_they_are(gpu: Device) -> None:
    """Functions behind them do not pass: a copy of no values has no digits, and one backwards no digits of its own."""
    assert Layout((((4, -1),),), 3).before(((4, 6),), 0) is None
    assert Layout((((4, 1),),)).before(((0, 1),), 0) is None
    f = Formula(SHAPE)
    back = f.add("REVERSE_V2", f.add("SIN", f.transpose(0, 0, 2, 1, 3)), f.constant((2,), "int32"), shape=(1, 6, 4, 8))
    model = f.model(f.transpose(f.add("ADD", back, f.constant(np.arange(8))), 0, 2, 1, 3))
    assert error_on(gpu, model, [np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)]) < 1e-5


def test_a_layer_adds_a_residual_of_another_shape(gpu: Device) -> None:
    """A layer of rows whose result is reshaped and added: the residual is reshaped instead, and has no step."""
    f, random = Formula((1, 5, 8)), np.random.default_rng(8)
    x = f.add("ABS", 0)
    rows = f.reshape(x, 5, 8)
    weights = f.constant(random.normal(0, 1, (8, 8)))
    layer = f.reshape(f.add("FULLY_CONNECTED", rows, weights, shape=(5, 8), keepNumDims=True), 1, 5, 8)
    model = f.model(f.add("SIN", f.add("ADD", x, layer)), f.add("EXP", x))
    assert len(kernels_of(model)) == 3
    assert error_on(gpu, model, [random.normal(0, 1, (1, 5, 8)).astype(np.float32)]) < 1e-5


def test_a_function_of_a_layer_that_is_cut_stays_with_the_layer() -> None:
    """The layer's kernel computes it, and the parts lie where the layer writes them."""
    f, random = Formula((1, 4, 6, 4)), np.random.default_rng(5)
    layer = f.add("CONV_2D", 0, f.constant(random.normal(0, 1, (8, 1, 1, 4))), f.constant(np.zeros(8)),
                  shape=SHAPE, strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1)  # fmt: skip
    active = f.add("TANH", layer)
    size = f.constant((1, 4, 6, 4), "int32")
    parts = [f.add("SLICE", active, f.constant((0, 0, 0, c), "int32"), size, shape=(1, 4, 6, 4)) for c in (0, 4)]
    assert kernels_of(f.model(*(f.add(name, part) for part in parts for name in ("ABS", "EXP")))) == ["conv"] + 4 * [
        "copy"
    ]


def test_layers_of_one_tensor_are_one_step(gpu: Device) -> None:
    f, random = Formula((2, 5, 8)), np.random.default_rng(4)
    x = f.add("ABS", 0)
    layers = [
        f.add("FULLY_CONNECTED", x, f.constant(random.normal(0, 1, (units, 8))), f.constant(random.normal(0, 1, units)),
              shape=(2, 5, units), keepNumDims=True)
        for units in (12, 4, 12)
    ]  # fmt: skip
    model = f.model(*(f.add("SOFTMAX", layer, beta=1.0) for layer in layers))
    assert kernels_of(model).count("conv") == 1
    assert error_on(gpu, model, [random.normal(0, 1, (2, 5, 8)).astype(np.float32)]) < 1e-5


def places(layout: Layout) -> np.ndarray:
    """The place of each value, in the order of the dimensions."""
    found = np.array([layout.base])
    for dimension in layout.dimensions:
        for size, stride in dimension:
            found = (found[:, None] + np.arange(size) * stride).reshape(-1)
    return found


@pytest.mark.parametrize("shape", [(24,), (4, 6), (2, 12), (2, 2, 6), (4, 3, 2), (3, 8)])
@pytest.mark.parametrize("digits", [((4, 1), (6, 4)), ((2, 3), (3, 1), (4, 6)), ((2, 0), (12, 2)), ((6, 4), (4, 1))])
def test_a_layout_before_a_copy_finds_the_same_values(
    shape: tuple[int, ...], digits: tuple[tuple[int, int], ...]
) -> None:
    moved = places(Layout((digits,), 5))
    found = dense(shape).before(digits, 5)
    if found is not None:
        assert (places(found) == moved).all()
    undone = inverse(digits, 0)
    if undone is not None:
        assert (places(Layout((digits,)))[places(Layout((undone,)))] == np.arange(24)).all()
    assert found is not None or shape in ((3, 8), (4, 3, 2), (4, 6), (2, 2, 6), (2, 12))
