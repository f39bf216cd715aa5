"""The three tiers of tests: what a session of each runs.

quick    under a minute: what needs no GPU, with every operator case on the null device; one GL case per operator
default  minutes: everything, with operator cases chosen by cover, real models in one storage on most devices, and of
         other tests of kernels one on GL ES
all      everything, every operator case on every device, and 3,000 examples of each property that hypothesis draws
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import settings

from support.models import MODELS

Tier = Literal["quick", "default", "all"]
TIERS: tuple[Tier, ...] = ("quick", "default", "all")
EXAMPLES: dict[Tier, int] = {"quick": 20, "default": 100, "all": 3000}
"""How many examples hypothesis draws for each property."""
GPU_FIXTURES = frozenset({"context", "cl_context", "gpu", "gl_and_cl", "tool"})
"""A test that asks for one of them is not quick; one that asks for ``device`` is, on the null device."""
QUICK_FOLDERS = ("kernels", "delegate", "house")
SLOW_FILES = frozenset({"test_tune.py", "test_doctests.py", "test_without_opencv.py"})
"""Files of these folders that make a context of their own, start processes or run models: they are not quick either."""
SMALLEST_MODEL = "face_detection_front"


def load_profile(tier: Tier) -> None:
    """Let hypothesis draw the tier's number of examples."""
    settings.register_profile(tier, max_examples=EXAMPLES[tier], deadline=None)
    settings.load_profile(tier)


def chosen(tier: Tier, items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests that a session of this tier runs, of those that were collected."""
    if tier == "all":
        return list(items)
    if tier == "quick":
        return [item for item in items if _takes_run(item) or _is_quick(item)]
    on_gles = _first_on_gles(items)
    return [item for item in items if _takes_run(item) or not _is_repeated(item, on_gles)]


def _takes_run(item: pytest.Item) -> bool:
    """Whether it is an operator case: these were chosen as parameters."""
    return "operator_run" in _fixtures(item)


def _first_on_gles(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """The first parameters of each test of kernels on GL ES, whose texts are desktop GL's but for the first lines."""
    first: dict[str, pytest.Item] = {}
    for item in items:
        if _is_kernel_test_on_gles(item):
            first.setdefault(_name(item), item)
    return set(first.values())


def _is_kernel_test_on_gles(item: pytest.Item) -> bool:
    return Path(item.path).parent.name == "kernels" and "gles" in map(str, _parameters(item).values())


def _is_quick(item: pytest.Item) -> bool:
    path = Path(item.path)
    if path.parent.name not in QUICK_FOLDERS or path.name in SLOW_FILES or _fixtures(item) & GPU_FIXTURES:
        return False
    return "device" not in _fixtures(item) or _parameters(item).get("device") == "null"


def _is_repeated(item: pytest.Item, on_gles: set[pytest.Item]) -> bool:
    if _is_kernel_test_on_gles(item):
        return item not in on_gles
    repeats = REPEATED.get(_name(item))
    return repeats is not None and repeats(_parameters(item))


def _name(item: pytest.Item) -> str:
    """The file and the function, without parameters."""
    return f"{Path(item.path).name}::{getattr(item, 'originalname', item.name)}"


def _is_other_storage(parameters: Mapping[str, Any]) -> bool:
    """Desktop GL runs a real model in both storages; GL ES and OpenCL in one, which alternates by model."""
    device = parameters.get("gpu", "cl:pocl")
    if device == "gl":
        return False
    number = MODELS.index(parameters["model"]) + (device == "gles")
    return parameters["storage"] != ("f32", "f16")[number % 2]


def _is_larger_model(parameters: Mapping[str, Any]) -> bool:
    """A program of all steps of a model takes PoCL up to a minute to compile."""
    return parameters["name"] != SMALLEST_MODEL


REPEATED: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "test_models.py::test_random_input": _is_other_storage,
    "test_models.py::test_photograph_through_a_bound_texture": _is_other_storage,
    "test_models.py::test_gl_and_opencl_agree": _is_other_storage,
    "test_one_dispatch.py::test_a_model_computes_the_same_bits_in_one_dispatch": _is_larger_model,
    "test_one_dispatch.py::test_on_gl_too": lambda _: True,  # llvmpipe takes half a minute to compile the program
}
"""By test: which of its parameters repeat, at a high price, what others show. They run in ``make test-all``."""


def _fixtures(item: pytest.Item) -> frozenset[str]:
    return frozenset(getattr(item, "fixturenames", ()))


def _parameters(item: pytest.Item) -> Mapping[str, Any]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else callspec.params
