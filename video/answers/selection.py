"""The best candidates in a detector's outputs: what a head declares, and their selection by NumPy.

Detectors give thousands of candidates, of which a few score enough. ``candidates.py`` has the same selection as
operators, which run on the GPU behind the model, so that only the best candidates are read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..basic_types import Array

MOST = 1024
"""The most candidates that suppression examines, the best ones: an object has about ten above the least score."""


class Columns(NamedTuple):
    """Some values of each candidate: the columns from ``first`` to before ``last`` in the rows of an output."""

    output: int
    """The number of the output."""
    first: int
    last: int
    is_last: bool = False
    """True if the candidates are the output's last axis (1, values, candidates), False for (1, candidates, values)."""

    def of(self, outputs: Mapping[int, Array]) -> Array:
        """The values (candidates, columns) in outputs by number, without a copy."""
        values = outputs[self.output]
        values = values.reshape(values.shape[-2:])
        return (values.T if self.is_last else values)[:, self.first : self.last]


@dataclass(frozen=True)
class Selection:
    """The scores that decide which of ``candidates`` rows are selected, and the values that are read of these."""

    candidates: int
    scores: Columns
    """The scores of classes. A candidate's class is its best one; a score that is no number does not count."""
    values: tuple[Columns, ...]
    """The values of a selected candidate: its box, for instance."""
    most: int = MOST
    """The most candidates that are selected."""
    objectness: Columns | None = None
    """A column by which the best score is multiplied."""
    has_pairs: bool = False
    """True if each pair of a candidate and a class is a candidate of its own."""

    @property
    def count(self) -> int:
        """The number of candidates that are read: ``most``, or all."""
        classes = self.scores.last - self.scores.first
        return min(self.most, self.candidates * (classes if self.has_pairs else 1))

    @functools.cached_property  # each frame asks
    def outputs(self) -> list[int]:
        """The numbers of the outputs that it takes, each once."""
        used = (self.scores, *self.values, *([self.objectness] if self.objectness else ()))
        return sorted({columns.output for columns in used})


class Candidates(NamedTuple):
    """The selected candidates, the best first, of equal ones the first in the output."""

    numbers: npt.NDArray[np.int64]
    """(n,) The numbers of their rows in the outputs."""
    classes: npt.NDArray[np.int64]
    """(n,) The numbers of their best classes."""
    scores: Array
    """(n,) float32."""
    values: Array
    """(n, columns) float32."""


def select(selection: Selection, outputs: Sequence[Array], least: float) -> Candidates:
    """The candidates with the score ``least`` or more, at most ``selection.most`` of them, by NumPy."""
    read = {number: outputs[number] for number in selection.outputs}
    scores = selection.scores.of(read)
    best = scores.ravel() if selection.has_pairs else np.fmax.reduce(scores, axis=1)
    if selection.objectness is not None:
        best = best * selection.objectness.of(read)[:, 0]
    likely = np.flatnonzero(best >= least)
    likely = likely[(-best[likely]).argsort(kind="stable")[: selection.most]]
    if selection.has_pairs:
        numbers, classes = np.divmod(likely, scores.shape[1])
    else:
        known = scores[likely]
        numbers, classes = likely, np.where(np.isnan(known), -math.inf, known).argmax(axis=1)
    values = np.concatenate([columns.of(read)[numbers] for columns in selection.values], axis=1)
    return Candidates(numbers, classes, best[likely], values)
