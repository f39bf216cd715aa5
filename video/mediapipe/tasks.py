"""``mp.tasks``: ``vision``, ``components`` and ``BaseOptions``, as mediapipe.tasks has them."""

import sys
from typing import Any

from . import components, vision
from .core.options import BaseOptions

python = sys.modules[__name__]
"""The module itself: programs name it ``mediapipe.tasks.python`` too."""

__all__ = ["BaseOptions", "components", "python", "vision"]


def __getattr__(name: str) -> Any:
    """An error that says which of MediaPipe's tasks are not here."""
    if name in ("audio", "genai", "text"):
        raise AttributeError(f"framebind has no mp.tasks.{name}, only mp.tasks.vision")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
