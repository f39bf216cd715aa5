"""Runs of operator cases, and the covers of them that were chosen: few runs that reach what all reach.

``scripts/covers.py`` of the repository says what the covers are, and ``scripts/choose_cases.py`` chooses them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ....delegate.lower.launches import Lowered
from ....kernels.tensor import TensorId
from ....kernels.views import Storage
from .operator_cases import CASES
from .operator_models import ModelCase, case_model, output_shapes

CHOSEN = Path(__file__).with_name("chosen.json")
"""The names of each cover's runs, by the name of the cover."""


@dataclass(frozen=True)
class Run:
    """A run of an operator case: in f32, or with ``half`` between negations with every intermediate in 16 bits."""

    case: ModelCase
    half: bool = False

    def __str__(self) -> str:
        return f"{self.case} halves" if self.half else str(self.case)

    @property
    def model(self) -> bytes:
        """The TFLite model of the case. LiteRT finds the shapes of its outputs."""
        return case_model(self.case, output_shapes(self.case), negated=self.half)


@functools.cache
def all_runs() -> list[Run]:
    """Every operator case in f32, then in halves, except those whose results in halves are far from the exact ones."""
    return [Run(case) for case in CASES] + [Run(case, half=True) for case in CASES if case.halves]


def first_runs(runs: Sequence[Run]) -> list[Run]:
    """The first run of each operator."""
    return list({run.case.operator: run for run in reversed(runs)}.values())


@functools.cache
def kept_cover(name: str) -> list[Run]:
    """The runs of a cover in the file. Names of removed cases are skipped."""
    kept = set(json.loads(CHOSEN.read_text(encoding="utf-8"))[name])
    return [run for run in all_runs() if str(run) in kept]


def all_halves(lowered: Lowered, storage: Storage) -> dict[TensorId, Storage]:
    """Halves for every tensor but scratch; precision.py would keep most tensors of a single operator in f32."""
    return {tensor: "f16" if isinstance(tensor, int) else "f32" for tensor in lowered.shapes}
