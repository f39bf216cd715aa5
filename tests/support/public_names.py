"""Every public name with its object, for tests of all of them."""

from __future__ import annotations

import inspect
from typing import Any

import framebind as fb


def public_names() -> dict[str, Any]:
    """The objects of ``fb``, and those that only its public modules have, by name as it stands after ``fb.``.

    Modules inside of these have the names of MediaPipe: tests/video/mediapipe holds them to it.
    """
    found = {name: getattr(fb, name) for name in fb.__all__}
    modules = {name: value for name, value in found.items() if inspect.ismodule(value)}
    inside = {
        f"{name}.{each}": getattr(module, each)
        for name, module in modules.items()
        for each in module.__all__
        if each not in found and not inspect.ismodule(getattr(module, each))
    }
    return {name: value for name, value in found.items() if name not in modules} | inside
