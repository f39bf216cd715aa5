"""Nodes that read only constants are computed when a program is made."""

from __future__ import annotations

import numpy as np

from framebind.interop.device import Device
from framebind.tools.certify.cases.formulas import Formula
from support.formulas import error_on, kernels_of


def table(f: Formula, height: int, width: int) -> int:
    """A table whose pixels are gathered, turned, weighted and summed."""
    values = np.random.default_rng(3).normal(0, 1, (7, 7, 1, 8))
    places = np.indices((height, width, 1))
    columns = [f.constant(numbers % 7, "int32") for numbers in places[:2]]
    indices = f.add("CONCATENATION", *columns, shape=(height, width, 2), dtype="int32", axis=2)
    gathered = f.add("GATHER_ND", f.constant(values), indices, shape=(height, width, 1, 8))
    turned = f.transpose(gathered, 2, 3, 0, 1)
    weighted = f.add("MUL", turned, f.constant(np.linspace(0, 1, width)[None]))
    return f.add("SUB", f.constant(1), f.add("ADD", weighted, turned))


def test_a_table_of_positions_is_no_step(gpu: Device) -> None:
    f = Formula((1, 8, 9, 10))
    model = f.model(f.add("ADD", 0, table(f, 9, 10)))
    assert kernels_of(model) == ["copy"]
    assert error_on(gpu, model, [np.ones((1, 8, 9, 10), np.float32)]) < 1e-6


def test_what_is_huge_or_leaves_the_model_is_computed_on_the_device() -> None:
    f = Formula((1, 8, 9, 10))
    positions = table(f, 9, 10)
    assert len(kernels_of(f.model(f.add("ADD", 0, positions), positions))) > 1
    f = Formula((1, 8, 512, 512))
    assert len(kernels_of(f.model(f.add("ADD", 0, table(f, 512, 512))))) > 1
