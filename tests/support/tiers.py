"""The three tiers of tests: what a session of each runs.

quick    under a minute: what needs no GPU, with every operator case on the null device; one GL case per operator
default  minutes: everything, with operator cases chosen by cover, real models in one storage, and of other tests of
         kernels one on GL ES and one per value of a parameter on OpenCL
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
    kept = _of_kernels(items)
    return [item for item in items if _takes_run(item) or not _is_repeated(item, kept)]


def _takes_run(item: pytest.Item) -> bool:
    """Whether it is an operator case: these were chosen as parameters."""
    return "operator_run" in _fixtures(item)


def _of_kernels(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """The tests of kernels that other devices than desktop GL run: GL ES the first of each function, OpenCL those that
    show a value of a parameter that none before showed. The texts are the same but for the first lines and access.
    """
    kept: set[pytest.Item] = set()
    shown: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for item in items:
        device = _other_device(item)
        if device:
            values = {(name, str(value)) for name, value in _parameters(item).items()}
            before = shown.setdefault((_name(item), device), set())
            if not before or (device != "gles" and values - before):
                kept.add(item)
            before |= values
    return kept


def _other_device(item: pytest.Item) -> str:
    """The device of a test of kernels that is neither desktop GL nor null; "" for other tests."""
    devices = [str(value) for value in _parameters(item).values() if str(value).startswith(("gles", "cl:"))]
    return devices[0] if devices and Path(item.path).parent.name == "kernels" else ""


def _is_quick(item: pytest.Item) -> bool:
    path = Path(item.path)
    if path.parent.name not in QUICK_FOLDERS or path.name in SLOW_FILES or _fixtures(item) & GPU_FIXTURES:
        return False
    return "device" not in _fixtures(item) or _parameters(item).get("device") == "null"


def _is_repeated(item: pytest.Item, kept: set[pytest.Item]) -> bool:
    if _other_device(item):
        return item not in kept
    repeats = REPEATED.get(_name(item))
    return repeats is not None and repeats(_parameters(item))


def _name(item: pytest.Item) -> str:
    """The file and the function, without parameters."""
    return f"{Path(item.path).name}::{getattr(item, 'originalname', item.name)}"


def _is_other_storage(parameters: Mapping[str, Any]) -> bool:
    """A real model runs in one storage, which alternates by model; on GL ES only the smallest model runs."""
    model = parameters["model"]
    if parameters["gpu"] == "gles" and model.name != SMALLEST_MODEL:
        return True
    return parameters["storage"] != ("f32", "f16")[MODELS.index(model) % 2]


def _is_larger_model(parameters: Mapping[str, Any]) -> bool:
    """A program of all steps of a model takes PoCL up to a minute to compile."""
    return parameters["name"] != SMALLEST_MODEL


def _is_on_gl(parameters: Mapping[str, Any]) -> bool:
    """Tuning is the same for each API, and llvmpipe compiles the candidates for half a minute."""
    return parameters["starts"] == "gl"


REPEATED: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "test_tune.py::test_each_decision_is_measured_and_each_candidate_of_each_kernel_once": _is_on_gl,
    "test_tune.py::test_of_one_dispatch_the_groups_are_measured_too": _is_on_gl,
    "test_models.py::test_random_input": _is_other_storage,
    "test_models.py::test_photograph_through_a_bound_texture": _is_other_storage,
    "test_models.py::test_gl_and_opencl_agree": lambda _: True,  # each agrees with LiteRT
    "test_one_dispatch.py::test_a_model_computes_the_same_bits_in_one_dispatch": _is_larger_model,
    "test_one_dispatch.py::test_on_gl_too": lambda _: True,  # llvmpipe takes half a minute to compile the program
}
"""By test: which of its parameters repeat, at a high price, what others show. They run in ``make test-all``."""


def _fixtures(item: pytest.Item) -> frozenset[str]:
    return frozenset(getattr(item, "fixturenames", ()))


def _parameters(item: pytest.Item) -> Mapping[str, Any]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else callspec.params
