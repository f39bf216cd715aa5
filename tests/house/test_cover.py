"""The choice of operator cases: each feature of a kernel has a case, and each chosen case has a reason."""

from __future__ import annotations

import pytest

from covers import cover, runs_of, unreached
from framebind.tools.certify.cases.operator_cases import CASES
from framebind.tools.certify.cases.runs import Run
from null_programs import compile_run
from support.cases import required
from support.cases.cover import ROOT, chosen_runs
from support.tiers import Tier


def test_what_is_tested_elsewhere_is_there() -> None:
    for name, path in (required.KERNELS_ELSEWHERE | required.OPERATORS_ELSEWHERE).items():
        assert (ROOT / path).is_file(), f"{name}: there is no {path}"
    assert required.KERNELS_ELSEWHERE.keys() <= required.kernel_texts().keys()


def test_a_new_switch_demands_cases() -> None:
    """A kernel that nobody wrote a case for: its switch is required on and off, its tensors in both kinds of views."""
    text = "KERNEL { if (FANCY == 1 && LOCAL == 0) { WRITE(dst, READ(src, 0, 0, 0, c % STRIDE != 0)); } }"
    assert required.required_of_kernel("new", text) == {
        ("new", "FANCY == 1", True), ("new", "FANCY == 1", False), ("new", "src", "Dense"), ("new", "src", "Sliced"),
        ("new", "dst", "Dense"), ("new", "dst", "Sliced"),
    }  # fmt: skip


def test_a_cover_takes_few_cases_and_gives_reasons() -> None:
    a, b, c, d = (Run(case) for case in CASES[:4])
    chosen = cover({a: {(1,)}, b: {(1,), (2,), (3,)}, c: {(3,), (4,)}, d: {(4,)}})
    assert chosen == {b: [(1,), (2,), (3,)], c: [(4,)]}


@pytest.mark.parametrize("tier", ["quick", "default", "all"])
def test_every_operator_runs_on_desktop_gl(tier: Tier) -> None:
    assert {run.case.operator for run in chosen_runs(tier, "gl")} == {case.operator for case in CASES}


@pytest.mark.parametrize("operator", sorted({case.operator for case in CASES}))
def test_every_case_compiles_and_the_chosen_ones_reach_what_all_reach(operator: str) -> None:
    """Nothing is left to the CPU (null device), the shapes are LiteRT's, and both texts can be written."""
    for run in runs_of(operator):
        compiled = compile_run(run)
        assert compiled.unsupported == {} and compiled.sources, str(run)
    assert not unreached(operator), "\n".join(["run scripts/choose_cases.py:", *unreached(operator)])
