"""ImageSegmenter: masks of classes, such as persons, of the picture's size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

import framebind as fb

from ..calculators.regions import region_of
from ..calculators.segments import activated, category_mask, confidence_masks
from ..core.asset import read_network
from ..core.errors import TaskError
from ..core.gpu_network import WholePictures
from ..core.image import Image, ImageFormat
from ..core.network import TaskNetwork
from ..core.options import BaseOptions, ImageProcessingOptions, VisionTaskRunningMode
from ..core.task import VisionTask

Array = npt.NDArray[Any]


@dataclass
class ImageSegmenterOptions:
    """Options of an ImageSegmenter.

    Attributes
    ----------
    base_options
        The model, a ``.tflite`` file with metadata, and where it runs.
    running_mode
        Single pictures, a video, or a live stream.
    output_confidence_masks, output_category_mask
        Whether the result has them: at least one of them.
    result_callback
        For the live-stream mode: called with the result, the picture and its timestamp.
    """

    base_options: BaseOptions
    running_mode: VisionTaskRunningMode = VisionTaskRunningMode.IMAGE
    output_confidence_masks: bool = True
    output_category_mask: bool = False
    result_callback: Callable[[ImageSegmenterResult, Any, int], None] | None = None


@dataclass
class ImageSegmenterResult:
    """The masks of a picture, of its size.

    Attributes
    ----------
    confidence_masks
        VEC32F1 for each class: its score in each pixel.
    category_mask
        GRAY8: the class of each pixel; of a model with one class, 0 where it is and 255 elsewhere.
    """

    confidence_masks: list[Image] | None = None
    category_mask: Image | None = None


class SegmenterPipeline:
    """The network of a segmenter, whose pictures have ``channels``. ``options`` says which masks it gives."""

    def __init__(self, options: Any, channels: int = 3) -> None:
        if not options.output_confidence_masks and not options.output_category_mask:
            raise TaskError("At least one of `output_confidence_masks` and `output_category_mask` must be set.")
        self._options = options
        network = TaskNetwork(read_network(options.base_options), "the segmenter", options.base_options.delegate)
        self._network = network.expect((1, -1, -1, channels))
        self.on_gpu = WholePictures(self.process, network.close)
        self._masks = next((i for i in reversed(range(len(network.outputs))) if len(network.outputs[i]) == 4), None)
        if self._masks is None:
            raise fb.ModelError(f"the segmenter has the outputs {network.outputs}; none of them is a mask")

    @property
    def labels(self) -> list[str]:
        """The names of the classes."""
        return list(self._network.metadata.classes)

    def process(self, pixels: Any, rectangle: Array, milliseconds: int | None) -> ImageSegmenterResult:
        size = pixels.shape[1], pixels.shape[0]
        assert self._masks is not None
        values = self._network.run_on(pixels, region_of(rectangle, size))[self._masks][0]
        result = ImageSegmenterResult()
        activation = self._network.metadata.activation
        if self._options.output_confidence_masks:
            masks = confidence_masks(activated(values, activation), size)
            result.confidence_masks = [Image(ImageFormat.VEC32F1, mask) for mask in masks]
        if self._options.output_category_mask:
            scores = activated(values, activation if activation == "sigmoid" else "")
            result.category_mask = Image(ImageFormat.GRAY8, category_mask(scores, size))
        return result


class ImageSegmenter(VisionTask[ImageSegmenterOptions, ImageSegmenterResult]):
    """Divides pictures into classes.

    Examples
    --------
    >>> from framebind import mp
    >>> mp.tasks.vision.ImageSegmenter.create_from_model_path("missing.tflite")
    Traceback (most recent call last):
    framebind.video.mediapipe.core.errors.MissingModelError: Unable to open file at missing.tflite
    """

    options_type = ImageSegmenterOptions
    pipeline_type = SegmenterPipeline
    takes_gpu_pictures = True

    @property
    def labels(self) -> list[str]:
        """The names of the classes, by number; empty if the file does not have them."""
        assert isinstance(self._pipeline, SegmenterPipeline)
        return self._pipeline.labels

    def segment(
        self, image: Image, image_processing_options: ImageProcessingOptions | None = None
    ) -> ImageSegmenterResult:
        """The masks of a picture. ValueError in another mode, or if an argument does not fit."""
        return self._run_image(image, image_processing_options)

    def segment_for_video(
        self, image: Image, timestamp_ms: int, image_processing_options: ImageProcessingOptions | None = None
    ) -> ImageSegmenterResult:
        """The masks of a frame. ValueError as ``segment``, and if the timestamp is not after the last one."""
        return self._run_video(image, timestamp_ms, image_processing_options)

    def segment_async(
        self, image: Image, timestamp_ms: int, image_processing_options: ImageProcessingOptions | None = None
    ) -> None:
        """Give a frame of a live stream, whose result goes to ``result_callback``; newer frames may overtake it."""
        self._run_live(image, timestamp_ms, image_processing_options)
