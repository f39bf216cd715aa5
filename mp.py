"""MediaPipe's tasks and solutions. Use: ``from framebind import mp``, in place of ``import mediapipe as mp``."""

import sys

from .video.mediapipe import framework, solutions, tasks
from .video.mediapipe.core.image import Image, ImageFormat

__all__ = ["Image", "ImageFormat", "framework", "solutions", "tasks"]

for _alias, _module in {
    "framework": framework,
    "framework.formats": framework,
    "framework.formats.landmark_pb2": framework.landmark_pb2,
    "solutions": solutions,
    **{f"solutions.{name}": getattr(solutions, name) for name in solutions.__all__},
    "tasks": tasks,
    "tasks.python": tasks,
    "tasks.python.vision": tasks.vision,
    "tasks.python.vision.drawing_styles": tasks.vision.drawing_styles,
    "tasks.python.vision.drawing_utils": tasks.vision.drawing_utils,
    "tasks.python.components": tasks.components,
    "tasks.python.components.containers": tasks.components.containers,
    "tasks.python.components.processors": tasks.components.processors,
}.items():
    sys.modules[f"{__name__}.{_alias}"] = _module  # for `from framebind.mp.tasks.python import vision`


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return [*__all__]
