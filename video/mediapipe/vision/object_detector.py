"""ObjectDetector: boxes of things, with their classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...basic_types import Array
from ...vision.ssd import is_selected, selected
from ..calculators.detections import Detections, project_detections
from ..calculators.image_to_tensor import region_matrix, region_of
from ..core.asset import read_network
from ..core.categories import CategoryFilter
from ..core.containers import Detection, DetectionResult
from ..core.errors import UnsupportedError
from ..core.gpu_network import WholePictures
from ..core.network import TaskNetwork
from ..core.options import BaseOptions, VisionTaskRunningMode
from ..core.task import DetectingTask
from .face_detector import pixel_box

ObjectDetectorResult = DetectionResult


@dataclass
class ObjectDetectorOptions:
    """Options of an ObjectDetector: the model, a ``.tflite`` file, the mode, and those of ClassifierOptions."""

    base_options: BaseOptions
    running_mode: VisionTaskRunningMode = VisionTaskRunningMode.IMAGE
    display_names_locale: str | None = None
    max_results: int | None = -1
    score_threshold: float | None = 0.0
    category_allowlist: list[str] | None = None
    category_denylist: list[str] | None = None
    result_callback: Callable[[DetectionResult, Any, int], None] | None = None


class _Pipeline:
    def __init__(self, options: ObjectDetectorOptions) -> None:
        network = TaskNetwork(read_network(options.base_options), "the detector", options.base_options.delegate)
        self._network = network.expect((1, -1, -1, 3))
        self.on_gpu = WholePictures(self.process, network.close)
        if not is_selected(network.outputs):
            raise UnsupportedError(
                f"the detector has the outputs {network.outputs}; this task takes those of TFLite_Detection_PostProcess"
            )
        self._filter = CategoryFilter(options, network.metadata.classes)

    def process(self, pixels: Any, rectangle: Array, milliseconds: int | None) -> DetectionResult:
        size = pixels.shape[1], pixels.shape[0]
        region = region_of(rectangle, size)
        chosen = selected(self._network.run_on(pixels, region))
        found = project_detections(
            Detections(chosen.places.astype(np.float32), chosen.scores), region_matrix(region, size)
        )
        detections: list[Detection] = []
        for place, kind, score in zip(found.places, chosen.classes, found.scores, strict=True):
            if (category := self._filter.category(int(kind), float(score))) is not None:
                detections.append(Detection(pixel_box(place, size), [category], None))
        return DetectionResult(detections[: self._filter.most])


class ObjectDetector(DetectingTask[ObjectDetectorOptions, DetectionResult]):
    """Finds things.

    Examples
    --------
    >>> from framebind import mp
    >>> mp.tasks.vision.ObjectDetector.create_from_model_path("missing.tflite")
    Traceback (most recent call last):
    framebind.video.mediapipe.core.errors.MissingModelError: Unable to open file at missing.tflite
    """

    options_type = ObjectDetectorOptions
    pipeline_type = _Pipeline
    takes_gpu_pictures = True
