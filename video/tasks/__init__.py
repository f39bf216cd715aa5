"""The tasks for frames of video, one file each, with an object ``TASK``: found by their file's name."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

from ..task import Fit, Model, VideoTask

REPLACED = {
    "poses": "take 'pose', with MediaPipe's pose_landmarker_lite.task or a YOLO-pose model",
    "landmarks": "take 'pose' or 'hands', with MediaPipe's bundle, pose_landmarker_lite.task or hand_landmarker.task",
}
"""Advice by the names of tasks and demos that framebind 0.1 had."""


class Choice(NamedTuple):
    """A task that takes a model, by name, and why."""

    name: str
    fit: Fit


def task_names() -> list[str]:
    """The names of all tasks, in the order of the alphabet. None is imported."""
    return sorted(found.name for found in iter_modules(__path__))


def find_task(name: str) -> VideoTask:
    """The task of that name. Raises ValueError if there is none."""
    if name in REPLACED:
        raise ValueError(f"task '{name}' was replaced in framebind 0.2.0: {REPLACED[name]}")
    if name not in task_names():
        raise ValueError(f"task '{name}' is none of {', '.join(task_names())}")
    return import_module(f"{__name__}.{name}").TASK


def tasks_that_take(option: str) -> list[str]:
    """The names of the tasks with this option, a field of ``Work``."""
    return [name for name in task_names() if option in find_task(name).options]


def tasks_that_save(kind: str) -> list[str]:
    """The names of the tasks with this kind of saved files."""
    return [name for name in task_names() if kind in find_task(name).saves]


def tasks_for(model: Model) -> list[Choice]:
    """The tasks that take a model which is named alone: those that know it best first, then in the alphabet's order.

    The last one is "raw", which takes any model.
    """
    found = list[Choice]()
    for name in task_names():
        fits = find_task(name).fits
        if fits is not None and (fit := fits(model)) is not None:
            found.append(Choice(name, fit))
    return sorted(found, key=lambda choice: -choice.fit.match)
