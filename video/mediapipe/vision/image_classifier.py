"""ImageClassifier: what a picture shows, by classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...basic_types import Array
from ..calculators.image_to_tensor import region_of
from ..core.asset import read_network
from ..core.categories import CategoryFilter
from ..core.containers import ClassificationResult, Classifications
from ..core.gpu_network import WholePictures
from ..core.image import Image
from ..core.network import TaskNetwork
from ..core.options import BaseOptions, ImageProcessingOptions, VisionTaskRunningMode
from ..core.task import VisionTask

ImageClassifierResult = ClassificationResult


@dataclass
class ImageClassifierOptions:
    """Options of an ImageClassifier: the model, a ``.tflite`` file, the mode, and those of ClassifierOptions."""

    base_options: BaseOptions
    running_mode: VisionTaskRunningMode = VisionTaskRunningMode.IMAGE
    display_names_locale: str | None = None
    max_results: int | None = None
    score_threshold: float | None = None
    category_allowlist: list[str] | None = None
    category_denylist: list[str] | None = None
    result_callback: Callable[[ClassificationResult, Any, int], None] | None = None


class _Pipeline:
    def __init__(self, options: ImageClassifierOptions) -> None:
        network = TaskNetwork(read_network(options.base_options), "the classifier", options.base_options.delegate)
        self._network = network.expect((1, -1, -1, 3))
        self.on_gpu = WholePictures(self.process, network.close)
        self._filter = CategoryFilter(options, network.metadata.classes)

    def process(self, pixels: Any, rectangle: Array, milliseconds: int | None) -> ClassificationResult:
        outputs = self._network.run_on(pixels, region_of(rectangle, (pixels.shape[1], pixels.shape[0])))
        heads = [
            Classifications(self._filter.best(values.ravel()), number, self._network.output_name(number))
            for number, values in enumerate(outputs)
        ]
        return ClassificationResult(heads, milliseconds or 0)


class ImageClassifier(VisionTask[ImageClassifierOptions, ClassificationResult]):
    """Names what pictures, or regions of them, show.

    Examples
    --------
    >>> from framebind import mp
    >>> mp.tasks.vision.ImageClassifier.create_from_model_path("missing.tflite")
    Traceback (most recent call last):
    framebind.video.mediapipe.core.errors.MissingModelError: Unable to open file at missing.tflite
    """

    options_type = ImageClassifierOptions
    pipeline_type = _Pipeline
    takes_gpu_pictures = True
    takes_region = True

    def classify(
        self, image: Image, image_processing_options: ImageProcessingOptions | None = None
    ) -> ClassificationResult:
        """The classes of a picture. ValueError in another mode, or if an argument does not fit."""
        return self._run_image(image, image_processing_options)

    def classify_for_video(
        self, image: Image, timestamp_ms: int, image_processing_options: ImageProcessingOptions | None = None
    ) -> ClassificationResult:
        """The classes of a frame. ValueError as ``classify``, and if the timestamp is not after the last one."""
        return self._run_video(image, timestamp_ms, image_processing_options)

    def classify_async(
        self, image: Image, timestamp_ms: int, image_processing_options: ImageProcessingOptions | None = None
    ) -> None:
        """Give a frame of a live stream, whose result goes to ``result_callback``; newer frames may overtake it."""
        self._run_live(image, timestamp_ms, image_processing_options)
