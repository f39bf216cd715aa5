"""Cases of spectra: rows and pictures, cut and extended, and the parts of their complex numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from .operator_models import SPECTRA, ModelCase, ints, options, values


def spectrum_cases() -> Iterable[ModelCase]:
    """Every case of these operators."""
    for operator in SPECTRA:
        for shape, size in [
            ((3, 1, 8), (1, 8)), ((2, 4, 6), (4, 8)), ((2, 3, 4, 9), (4, 4)), ((5, 2), (2, 2)), ((1, 1, 400), (1, 512)),
            ((2, 2, 1, 10), (1, 16)), *_sizes(),
        ]:  # fmt: skip
            inputs, table = (values(*shape), ints(*size)), options("Rfft2d")
            yield ModelCase(operator, f"spectrum {shape} {size}", inputs, table, halves=False)


def _sizes() -> Iterable[tuple[tuple[int, ...], tuple[int, int]]]:
    """Pictures, and lengths of which each is less than, as much as, or more than their height or width."""
    for number, (height, width) in enumerate(itertools.product((1, 2, 4, 16), (2, 4, 8, 32))):
        batch = ((), (2,), (3, 2))[number % 3]
        yield (*batch, max(height + number % 4 - 1, 1), width + number % 5 - 1), (height, width)
