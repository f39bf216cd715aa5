"""``mp.tasks``: ``vision``, ``components`` and ``BaseOptions``, as mediapipe.tasks has them."""

import sys

from . import components, vision
from .core.options import BaseOptions

python = sys.modules[__name__]
"""This module: programs name it ``mediapipe.tasks.python`` too."""

__all__ = ["BaseOptions", "components", "python", "vision"]
