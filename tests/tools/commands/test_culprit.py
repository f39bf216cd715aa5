"""The command culprit: the operator that makes a difference is found, also if it takes two of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import framebind as fb
from framebind.__main__ import app
from framebind.tools.commands.culprit import NOWHERE, Culprit, Difference, comparison, find, largest_error
from framebind.tools.measure.inputs import Inputs
from support.tiny_models import G, Op, T, build, chain


class Model:
    """A model whose operators ``wrong`` are off by 1 if they are on the GPU, all of them together."""

    def __init__(self, *wrong: int, cpu_too: bool = False) -> None:
        self.wrong, self.cpu_too, self.runs = wrong, cpu_too, 0

    def __call__(self, first: int, last: int) -> Difference:
        self.runs += 1
        differs = self.cpu_too or all(first <= operator <= last for operator in self.wrong)
        return Difference("y", float(differs), 0.5)


@pytest.mark.parametrize("operator", [0, 1, 63, 98, 99])
def test_one_operator_is_found_in_few_runs(operator: int) -> None:
    model = Model(operator)
    found = find(model, 0, 99)
    assert isinstance(found, Culprit) and (found.first, found.last) == (operator, operator)
    assert model.runs < 20


def test_operators_that_differ_only_together_are_found() -> None:
    found = find(Model(12, 40), 0, 99)
    assert isinstance(found, Culprit) and (found.first, found.last) == (12, 40) and found.difference.error == 1
    assert found.rest is not None and not found.rest.exceeds


def test_a_model_within_the_tolerance_has_no_culprit() -> None:
    found = find(Model(100), 0, 99)
    assert found == Difference("y", 0.0, 0.5)


def test_a_difference_between_litert_s_own_kernels_is_said() -> None:
    with pytest.raises(fb.ModelError, match="with no operator on the GPU: output 'y' is off by 1"):
        find(Model(cpu_too=True), 0, 99)


def test_nan_differs_from_numbers_and_not_from_nan() -> None:
    nan = np.array([np.nan, 1.0, np.inf], np.float32)
    assert largest_error(nan, nan.copy()) == 0
    assert largest_error(nan, np.array([np.nan, 1.5, np.inf], np.float32)) == 0.5
    assert largest_error(nan, np.ones(3, np.float32)) == np.inf


def test_the_null_device_is_wrong_from_the_first_result_that_is_not_zero(tmp_path: Path) -> None:
    """The null device computes zeros: right for x - x and its square root, wrong for the cosine of it."""
    tensors = [T(name, (1, 2, 2, 4)) for name in ("x", "none", "root", "one", "y")]
    names = (("SUB", [0, 0]), ("SQRT", [1]), ("COS", [2]), ("EXP", [3]))
    operators = [Op(name, inputs, [number + 1]) for number, (name, inputs) in enumerate(names)]
    path = tmp_path / "model.tflite"
    path.write_bytes(build(G(tensors, operators, [0], [4])))
    ops, measure = comparison(path, fb.GpuDelegateOptions(backend="null"), Inputs(), 0, None)
    found = find(measure, 0, len(ops) - 1)
    assert isinstance(found, Culprit) and ops[found.last].name == "COS" and found.first == found.last
    assert measure(NOWHERE, NOWHERE).error == 0
    assert found.rest is not None and found.rest.exceeds, "EXP gives zeros, too"


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_smaller_tolerance_finds_what_contributes_most(context: fb.GlContext, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(chain("EXP", "RELU"))
    done = CliRunner().invoke(app, ["culprit", str(path)], catch_exceptions=False)
    assert done.exit_code == 0 and "No operator makes a difference" in done.stdout
    done = CliRunner().invoke(app, ["culprit", str(path), "--tolerance", "0", "--json"], catch_exceptions=False)
    assert done.exit_code == 1 and json.loads(done.stdout)["operators"] == [{"index": 0, "name": "EXP"}]
