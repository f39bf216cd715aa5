"""Random graphs of 3 to 12 operators in every storage: claimed and lowered, and compared with LiteRT's kernels."""

from __future__ import annotations

import numpy as np
import pytest

from framebind.interop.device import Device
from framebind.kernels.registry import OPERATORS
from framebind.tools.certify.graphs.comparison import case_of, compare
from framebind.tools.certify.graphs.recipe import Recipe, drafted, draw, recipe_from, to_text
from framebind.tools.certify.worker import run_on_device
from null_programs import program_on_null
from shrink import shrink
from support.model_runs import backend_of
from support.stray_reads import stray_reads
from support.unordered_steps import unordered_steps

GRAPHS = 300
"""Graphs of seeds from 0. All are lowered in each session; the tiers say how many run on which device."""
CHUNK = 50


@pytest.mark.parametrize("first", range(0, GRAPHS, CHUNK))
def test_every_operator_of_a_graph_is_claimed_and_lowered(first: int) -> None:
    for seed in range(first, first + CHUNK):
        recipe = draw(seed)
        reasons, program = program_on_null(case_of(recipe).model, "f16" if recipe.half else "f32")
        assert reasons == {}, str(recipe)
        assert program is not None and program.record().steps, str(recipe)
        assert stray_reads(program) == [], str(recipe)
        assert unordered_steps(program.steps) == [], str(recipe)


def test_steps_in_another_order_read_what_is_not_there() -> None:
    _, program = program_on_null(case_of(draw(0)).model)
    assert program is not None and stray_reads(program) == []
    assert unordered_steps(program.record_steps().steps, barriers=())
    program.compiled.lowered.launches.reverse()
    assert stray_reads(program)


@pytest.mark.parametrize("gpu", ["gl", "cl:pocl"], indirect=True)
@pytest.mark.parametrize("seed", range(GRAPHS))
def test_graph(gpu: Device, seed: int) -> None:
    recipe = draw(seed)
    case = case_of(recipe)
    backend = backend_of(gpu)
    (results,), reasons = run_on_device(case.model, [[case.input]], backend, half=recipe.half)
    found = compare(case, results)
    assert reasons == [] and found.passed, f"{found}: {recipe}"


def test_graphs_are_of_every_kind() -> None:
    """The seeds reach what the generator is for, and a seed gives the same graph each time."""
    recipes = [draw(seed) for seed in range(GRAPHS)]
    assert {recipe.storage for recipe in recipes} == {"float32", "float16", "dynamic", "int8", "int16"}
    assert {len(recipe.steps) for recipe in recipes} == set(range(3, 13))
    for axis, largest in enumerate((3, 3, 7, 17)):
        assert {recipe.shape[axis] for recipe in recipes} == set(range(1, largest + 1))
    drafts = [drafted(recipe) for recipe in recipes]
    operators = {operator.name for draft in drafts for operator in draft.operators}
    assert len(operators) >= 40 and operators <= OPERATORS.keys()
    assert any(len(draft.outputs()) > 1 for draft in drafts) and any(recipe.half for recipe in recipes)
    assert all(recipe_from(to_text(recipe)) == recipe for recipe in recipes)


def test_a_wrong_result_is_beyond_its_bound() -> None:
    """One value of an output, off by about 40 steps or half of the largest value, is found in every storage."""
    found = set[str]()
    for seed in range(40):
        recipe = draw(seed)
        case = case_of(recipe)
        if recipe.half or recipe.storage in found:
            continue
        wrong = [value.copy() for value in case.expected]
        flat = wrong[0].reshape(-1)
        flat[0] = flat[0] // 2 + 40 if flat.dtype.kind == "i" else flat[0] + np.abs(flat).max() * np.float32(0.5)
        assert compare(case, case.expected).passed
        if not compare(case, wrong).passed:
            found.add(recipe.storage)
    assert found == {"float32", "float16", "dynamic", "int8", "int16"}


def test_a_failing_graph_is_shrunk() -> None:
    """A device that fails wherever a graph has SOFTMAX on two channels or more: the shrunk graph has little else."""

    def fails(recipe: Recipe) -> bool:
        draft = drafted(recipe)
        return any(op.name == "SOFTMAX" and draft.shape(op.inputs[0])[-1] > 1 for op in draft.operators)

    recipe = next(draw(seed) for seed in range(GRAPHS) if fails(draw(seed)))
    least = shrink(recipe, fails)
    assert fails(least) and len(drafted(least).operators) <= 2 and np.prod(least.shape) <= np.prod(recipe.shape)
