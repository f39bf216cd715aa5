"""Plan of a certification: the subjects, the most informative first, because the time may not suffice for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from .cases.compiled import Run
from .cases.cover import all_runs, kept_cover
from .cases.lstm_models import FORMS
from .cases.quantized_models import cases
from .checks import Subject

GRAPHS = {False: 60, True: 1000}
"""By whether everything is checked: the number of random graphs, of seeds from 0."""


def subjects(models: Sequence[Path], *, everything: bool) -> list[Subject]:
    """The subjects to check on each device. ``models`` are compared in 32 bits and in 16.

    First comes a case of each operator, then a case of each kernel signature, quantized operators, random graphs and
    models, then the cases that reach every feature of the kernels; with ``everything`` all other cases follow.
    """
    first = {run.case.operator: run for run in reversed(kept_cover("features"))}
    ordered: list[Subject] = [
        *_operators(first.values()),
        *_operators(kept_cover("signatures")),
        *(Subject("quantized", str(case)) for case in cases()),
        *(Subject("lstm", f"LSTM {form}") for form in FORMS),
        *(Subject("graph", str(seed)) for seed in range(GRAPHS[everything])),
        *(Subject("model", str(path), half) for path in models for half in (False, True)),
        *_operators(kept_cover("features")),
        *(_operators(all_runs()) if everything else ()),
    ]
    return list(dict.fromkeys(ordered))


def _operators(runs: Iterable[Run]) -> Iterable[Subject]:
    return (Subject("operator", str(run), run.half) for run in runs)
