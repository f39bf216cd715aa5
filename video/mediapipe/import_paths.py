"""The paths by which programs import MediaPipe's modules, and the modules of ours that have their names.

MediaPipe has a file for each class of results and options; here several of them are one file, under several paths.
"""

from __future__ import annotations

from types import ModuleType

from . import core, framework, solutions, tasks
from .core import containers, image, options
from .solutions import messages

_VISION = (
    "face_detector face_landmarker gesture_recognizer hand_landmarker holistic_landmarker image_classifier "
    "image_embedder image_segmenter interactive_segmenter interactive_segmenter_legacy object_detector pose_landmarker "
    "drawing_styles drawing_utils"
).split()
_CONTAINERS = (
    "bounding_box category classification_result detections embedding_result keypoint landmark "
    "landmark_detection_result rect"
).split()


def modules_by_path() -> dict[str, ModuleType]:
    """The modules by their paths below ``mediapipe``; each is an attribute of the one above it, too."""
    solution_paths = {"": solutions, **{f".{name}": getattr(solutions, name) for name in solutions.__all__}}
    paths = {
        "framework": framework,
        "framework.formats": framework,
        **{f"framework.formats.{name}_pb2": messages for name in ("classification", "detection", "landmark")},
        "framework.formats.location_data_pb2": messages,
        **{f"solutions{path}": module for path, module in solution_paths.items()},
        "python": solutions,
        **{f"python.solutions{path}": module for path, module in solution_paths.items()},
        "tasks": tasks,
        "tasks.python": tasks,
        "tasks.python.core": core,
        "tasks.python.core.base_options": options,
        "tasks.python.vision": tasks.vision,
        **{f"tasks.python.vision.{name}": getattr(tasks.vision, name) for name in _VISION},
        "tasks.python.vision.core": core,
        "tasks.python.vision.core.image": image,
        "tasks.python.vision.core.image_processing_options": options,
        "tasks.python.vision.core.vision_task_running_mode": options,
        "tasks.python.components": tasks.components,
        "tasks.python.components.containers": containers,
        **{f"tasks.python.components.containers.{name}": containers for name in _CONTAINERS},
        "tasks.python.components.processors": tasks.components.processors,
        "tasks.python.components.processors.classifier_options": tasks.components.processors,
    }
    for path, module in paths.items():
        above, _, name = path.rpartition(".")
        if above and not hasattr(paths[above], name):
            setattr(paths[above], name, module)
    return paths
