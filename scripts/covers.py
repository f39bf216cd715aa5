"""Operator cases chosen by cover: the fewest that together reach all features of the full set.

Four covers differ in what counts as a feature:

features    every fact of the kernels, each operator on its own, and every option, type and rank of the operator
facts       every fact of the kernels, reached by any operator, and every option, type and class of ranks of each
            operator; the first case of each operator is among them
signatures  a case of every kernel signature
outlines    one of every kernel, and of every kind of view that is read or written

The choice is kept in a file. A test finds features that the cases reach and the choice does not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping

from case_features import Feature, features, option_features, outlines, signatures
from framebind.tools.certify.cases.operator_cases import CASES
from framebind.tools.certify.cases.runs import Run, all_runs, first_runs, kept_cover
from null_programs import compile_run

Reasons = dict[Run, list[Feature]]
"""Chosen run -> the features for which it was chosen, in the order of choice."""


def _rank_class(rank: int) -> int:
    """The class of a rank: below 4, 4, or above 4."""
    return min(max(rank, 3), 5)


REACH: Mapping[str, Callable[[Run], set[Feature]]] = {
    "features": lambda run: features(compile_run(run).sources) | option_features(run.case),
    "facts": lambda run: features(compile_run(run).sources) | option_features(run.case, _rank_class),
    "signatures": lambda run: signatures(compile_run(run).sources),
    "outlines": lambda run: outlines(compile_run(run).sources),
}
"""The features that a run reaches, by cover."""


@functools.cache
def runs_of(operator: str) -> list[Run]:
    """The runs of one operator's cases."""
    return [run for run in all_runs() if run.case.operator == operator]


def unreached(operator: str) -> list[str]:
    """Features that the operator's cases reach and the kept covers do not, a line each.

    "features" are an operator's own; those of the other covers may be reached by any operator's run.
    """
    lines: list[str] = []
    for name, reach in REACH.items():
        reached = _reached(name, operator if name == "features" else None)
        missing = {feature for run in runs_of(operator) for feature in reach(run)} - reached
        lines += [f"{name}: {feature}" for feature in sorted(missing, key=str)]
    return lines


@functools.cache
def _reached(name: str, operator: str | None) -> set[Feature]:
    """The features that the runs of a kept cover reach; with ``operator``, only the runs of its cases."""
    kept = (run for run in kept_cover(name) if operator in (None, run.case.operator))
    return {feature for run in kept for feature in REACH[name](run)}


def covers() -> dict[str, Reasons]:
    """The covers, chosen anew. This compiles every run on the null device, which takes half a minute."""
    found = {name: {run: reach(run) for run in all_runs()} for name, reach in REACH.items()}
    operators = dict.fromkeys(case.operator for case in CASES)
    own = [cover({run: found["features"][run] for run in runs_of(operator)}) for operator in operators]
    features_of_each = {run: reasons for chosen in own for run, reasons in chosen.items()}
    starts = {"facts": first_runs(all_runs())}
    shared = {name: cover(found[name], starts.get(name, ())) for name in ("facts", "signatures", "outlines")}
    return {"features": features_of_each} | shared


def cover(reached: Mapping[Run, set[Feature]], start: Iterable[Run] = ()) -> Reasons:
    """The greedy set cover: repeatedly take the run that reaches most of the missing features, the first among equals.

    The runs of ``start`` are chosen first.
    """
    missing = set().union(*reached.values())
    left, chosen = dict(reached), Reasons()
    for run in start:
        chosen[run] = sorted(left.pop(run) & missing, key=str)
        missing -= set(chosen[run])
    while missing:
        best = max(left, key=lambda run: len(left[run] & missing))
        chosen[best] = sorted(left.pop(best) & missing, key=str)
        missing -= set(chosen[best])
        left = {run: found & missing for run, found in left.items() if found & missing}
    return chosen
