"""MediaPipe's tasks and solutions. Use: ``from framebind import mp``, in place of ``import mediapipe as mp``."""

import sys

from .video.mediapipe import framework, solutions, tasks
from .video.mediapipe.core.image import Image, ImageFormat
from .video.mediapipe.import_paths import modules_by_path

__version__ = "1.2.2"
"""The version of MediaPipe whose names and results these are: programs look at it."""
__all__ = ["Image", "ImageFormat", "framework", "solutions", "tasks"]

for _path, _module in modules_by_path().items():
    sys.modules[f"{__name__}.{_path}"] = _module  # for `from framebind.mp.tasks.python import vision`


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return [*__all__]
