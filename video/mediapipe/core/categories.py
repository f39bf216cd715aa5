"""Scores of classes as categories: filtered by name and score, best first (TensorsToClassificationCalculator)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...basic_types import Array
from .containers import Category
from .errors import TaskError


@dataclass
class ClassifierOptions:
    """The categories that a result may have.

    Attributes
    ----------
    display_names_locale
        The language of ``display_name``. Only names without a language are read.
    max_results
        The most categories; None and -1 for all.
    score_threshold
        The least score.
    category_allowlist, category_denylist
        The only names, or the names to leave out; one of the two.
    """

    display_names_locale: str | None = None
    max_results: int | None = None
    score_threshold: float | None = None
    category_allowlist: list[str] | None = None
    category_denylist: list[str] | None = None


class CategoryFilter:
    """The categories of scores that ``options`` allow; ``options`` has the fields of ClassifierOptions."""

    def __init__(self, options: Any, names: Sequence[str]) -> None:
        if options.max_results == 0:
            raise TaskError("Invalid `max_results` option: value must be != 0.")
        if options.category_allowlist and options.category_denylist:
            raise TaskError("`category_allowlist` and `category_denylist` are mutually exclusive options.")
        if (options.category_allowlist or options.category_denylist) and not names:
            raise TaskError(
                "Using `category_allowlist` or `category_denylist` requires labels to be present in the TFLite Model "
                "Metadata but none was found."
            )
        self._names = names
        self._most = options.max_results if options.max_results and options.max_results > 0 else None
        self._least = options.score_threshold
        self._allowed, self._denied = options.category_allowlist, options.category_denylist

    def category(self, index: int, score: float) -> Category | None:
        """The category of a class and its score; None if it is left out."""
        name = self._names[index] if 0 <= index < len(self._names) else None
        out = (
            (self._least is not None and score < self._least)
            or (bool(self._allowed) and name not in (self._allowed or ()))
            or (bool(self._denied) and name in (self._denied or ()))
        )
        return None if out else Category(index, score, None, name)

    def best(self, scores: Array) -> list[Category]:
        """The categories of the scores (n) of all classes, best first."""
        order = np.argsort(-scores, kind="stable")
        found = (self.category(int(index), float(scores[index])) for index in order)
        return [each for each in found if each is not None][: self._most]

    @property
    def most(self) -> int | None:
        """The most categories or detections; None for all."""
        return self._most
