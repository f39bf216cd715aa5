"""Operator cases chosen by cover: the fewest that together reach every feature that all of them reach.

Three covers differ in what counts as a feature. "features" reaches every fact of every operator, in f32 and in halves;
"signatures" a case of every kernel signature; "outlines" one of every kernel and kind of views. The choice is kept in a
file; a test finds what the cases reach and the choice does not.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from .compiled import Run, compile_run
from .features import Feature, features, option_features, outlines, signatures
from .operator_cases import CASES

CHOSEN = Path(__file__).with_name("chosen.json")
"""The covers as ``scripts/choose_cases.py`` of the repository wrote them: names of runs by name of the cover."""
Reasons = dict[Run, list[Feature]]
"""By chosen run, in the order of choice: the features for which it was chosen."""
REACH: Mapping[str, Callable[[Run], set[Feature]]] = {
    "features": lambda run: features(compile_run(run).sources) | option_features(run.case),
    "signatures": lambda run: signatures(compile_run(run).sources),
    "outlines": lambda run: outlines(compile_run(run).sources),
}
"""By cover: what a run reaches."""


def all_runs() -> list[Run]:
    """Every operator case in f32, then in halves, except those that are far from their result in halves."""
    return [Run(case) for case in CASES] + [Run(case, half=True) for case in CASES if case.halves]


def runs_of(operator: str) -> list[Run]:
    """The runs of one operator's cases."""
    return [run for run in all_runs() if run.case.operator == operator]


@functools.cache
def kept_cover(name: str) -> list[Run]:
    """The runs of a cover as the file has them. The name of a case that is gone is passed over."""
    kept = set(json.loads(CHOSEN.read_text(encoding="utf-8"))[name])
    return [run for run in all_runs() if str(run) in kept]


def unreached(operator: str) -> list[str]:
    """Features that the operator's cases reach and the kept covers do not, a line each.

    "features" are an operator's own; "signatures" and "outlines" may be reached by any operator's run.
    """
    lines: list[str] = []
    for name, reach in REACH.items():
        kept = [run for run in kept_cover(name) if name != "features" or run.case.operator == operator]
        reached = {feature for run in kept for feature in reach(run)}
        missing = {feature for run in runs_of(operator) for feature in reach(run)} - reached
        lines += [f"{name}: {feature}" for feature in sorted(missing, key=str)]
    return lines


def covers() -> dict[str, Reasons]:
    """The covers chosen anew. It compiles every run on the null device, which takes half a minute."""
    found = {name: {run: reach(run) for run in all_runs()} for name, reach in REACH.items()}
    operators = dict.fromkeys(case.operator for case in CASES)
    own = [cover({run: found["features"][run] for run in runs_of(operator)}) for operator in operators]
    features_of_each = {run: reasons for chosen in own for run, reasons in chosen.items()}
    return {"features": features_of_each} | {name: cover(found[name]) for name in ("signatures", "outlines")}


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
