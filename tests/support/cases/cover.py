"""Operator cases chosen by cover: the fewest that together reach every feature that all of them reach.

A device's runs are chosen for what it can show. Desktop GL runs the cases that reach every feature of every operator,
in f32 and in halves. OpenCL gets the same text with other words for access: it runs a case of every kernel signature.
GL ES and Mesa's OpenCL run one of every kernel and kind of views. The choice is the same in each process and session.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from framebind.kernels.codegen.source import KernelSource
from support.cases.compiled import Run, compile_run
from support.cases.features import Feature, features, option_features, outlines, signatures
from support.cases.operator_cases import CASES
from support.environment import CL_DEVICES, GL_DEVICES
from support.tiers import Tier

ROOT = Path(__file__).parents[3]
DEVICES = tuple(dict.fromkeys([*GL_DEVICES, *CL_DEVICES, "cl:rusticl"]))
"""The devices that run operator cases."""
COVERS = {"gl": "features", "gles": "outlines", "cl:rusticl": "outlines"}
"""By device: the cover that ``make test`` runs there. Other devices, OpenCL's, run "signatures"."""
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


def chosen_runs(tier: Tier, device: str, cache: pytest.Cache | None) -> list[Run]:
    """The runs of a device in a session of this tier: for "quick" the first case of each operator, for "default" those
    of the device's cover. Covers are kept in pytest's cache until the code changes.
    """
    if tier == "all":
        return all_runs()
    if tier == "quick":
        return list({run.case.operator: run for run in reversed(all_runs())}.values()) if device == "gl" else []
    return _kept(COVERS.get(device, "signatures"), cache)


def _kept(name: str, cache: pytest.Cache | None) -> list[Run]:
    runs = {str(run): run for run in all_runs()}
    kept = {} if cache is None else cache.get("framebind/covers", {})
    if kept.get("digest") != _digest():
        kept = {"digest": _digest()} | {other: [str(run) for run in chosen] for other, chosen in covers().items()}
        if cache is not None:
            cache.set("framebind/covers", kept)
    return [runs[label] for label in kept[name]]


@functools.cache
def _digest() -> str:
    """The hash of all that decides a kernel's source, and of the cases."""
    digest = hashlib.sha256()
    for folder in ("kernels", "interop/record", "delegate", "tests/support"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".kern", ".txt") or path.name.startswith(("prelude.", "barrier.")):
                digest.update(f"{path.relative_to(ROOT)} {path.stat().st_size} ".encode() + path.read_bytes())
    return digest.hexdigest()
