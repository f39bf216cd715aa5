"""The three tiers of tests: what a session of each runs.

quick    under a minute: what needs no GPU, with every operator case on the null device; one GL case per operator
default  minutes: everything, with operator cases chosen by cover, and real models in one storage per device
all      everything, every operator case on every device, ten times as many examples that hypothesis draws
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import settings

Tier = Literal["quick", "default", "all"]
TIERS: tuple[Tier, ...] = ("quick", "default", "all")
EXAMPLES: dict[Tier, int] = {"quick": 20, "default": 100, "all": 3000}
"""How many examples hypothesis draws for each property."""
GPU_FIXTURES = frozenset({"context", "cl_context", "gpu", "gl_and_cl", "tool"})
"""A test that asks for one of them is not quick; one that asks for ``device`` is, on the null device."""
QUICK_FOLDERS = ("kernels", "delegate", "house")
SLOW_FILES = frozenset({"test_tune.py", "test_doctests.py", "test_without_opencv.py"})
"""Files of these folders that make a context of their own, start processes or run models: they are not quick either."""
REPEATED: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {}
"""By test: which of its parameters repeat, at a high price, what others show. They run in ``make test-all``."""


def load_profile(tier: Tier) -> None:
    """Let hypothesis draw the tier's number of examples."""
    settings.register_profile(tier, max_examples=EXAMPLES[tier], deadline=None)
    settings.load_profile(tier)


def is_in(tier: Tier, item: pytest.Item) -> bool:
    """Whether a session of this tier runs the test."""
    if tier == "all" or "operator_run" in _fixtures(item):  # the runs of operators were chosen as parameters
        return True
    return _is_quick(item) if tier == "quick" else not _is_repeated(item)


def _is_quick(item: pytest.Item) -> bool:
    path = Path(item.path)
    if path.parent.name not in QUICK_FOLDERS or path.name in SLOW_FILES or _fixtures(item) & GPU_FIXTURES:
        return False
    return "device" not in _fixtures(item) or _parameters(item).get("device") == "null"


def _is_repeated(item: pytest.Item) -> bool:
    repeats = REPEATED.get(f"{Path(item.path).name}::{getattr(item, 'originalname', item.name)}")
    return repeats is not None and repeats(_parameters(item))


def _fixtures(item: pytest.Item) -> frozenset[str]:
    return frozenset(getattr(item, "fixturenames", ()))


def _parameters(item: pytest.Item) -> Mapping[str, Any]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else callspec.params
