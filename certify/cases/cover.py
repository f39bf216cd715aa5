"""Operator cases chosen by cover: the fewest that together reach every feature that all of them reach.

Three covers differ in what counts as a feature. "features" reaches every fact of every operator, in f32 and in halves;
"signatures" a case of every kernel signature; "outlines" one of every kernel and kind of views. The choice is the same
in each process and session.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from ...kernels.codegen.source import KernelSource
from .compiled import Run, compile_run
from .features import Feature, features, option_features, outlines, signatures
from .operator_cases import CASES

Reasons = dict[Run, list[Feature]]
"""By chosen run, in the order of choice: the features for which it was chosen."""


def all_runs() -> list[Run]:
    """Every operator case in f32, then in halves, except those that are far from their result in halves."""
    return [Run(case) for case in CASES] + [Run(case, half=True) for case in CASES if case.halves]


def cover(reached: Mapping[Run, set[Feature]]) -> Reasons:
    """The greedy set cover: again and again the run that reaches most of what is missing, the first among equals."""
    missing = set().union(*reached.values())
    left, chosen = dict(reached), Reasons()
    while missing:
        best = max(left, key=lambda run: len(left[run] & missing))
        chosen[best] = sorted(left.pop(best) & missing, key=str)
        missing -= set(chosen[best])
        left = {run: found & missing for run, found in left.items() if found & missing}
    return chosen


@functools.cache
def covers() -> dict[str, Reasons]:
    """The chosen runs by name of the cover. It compiles the candidates on the null device, which takes seconds.

    Halves change how tensors lie in memory, and no more: the cases that f32 needs are their candidates.
    """
    plain = {run: compile_run(run).sources for run in all_runs() if not run.half}
    needed = {run.case for chosen in _by_operator(plain) for run in chosen}
    halves = {run: compile_run(run).sources for run in all_runs() if run.half and run.case in needed}
    sources = plain | halves
    return {
        "features": {run: reasons for chosen in _by_operator(sources) for run, reasons in chosen.items()},
        "signatures": cover({run: signatures(found) for run, found in sources.items()}),
        "outlines": cover({run: outlines(found) for run, found in sources.items()}),
    }


def _by_operator(sources: Mapping[Run, Sequence[KernelSource]]) -> list[Reasons]:
    """A cover of each operator's own features."""
    reached: dict[str, dict[Run, set[Feature]]] = {}
    for run, found in sources.items():
        reached.setdefault(run.case.operator, {})[run] = features(found) | option_features(run.case)
    return [cover(runs) for runs in reached.values()]


def explain(name: str) -> str:
    """Why the cover of this name has each of its runs, a line for each."""
    return "\n".join(f"{run}: {', '.join(map(str, reasons))}" for run, reasons in covers()[name].items())
