"""InteractiveSegmenterLegacy: the mask of the thing at a place that the user names."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import cv2
import numpy as np

from ...basic_types import Array
from ..core.containers import NormalizedKeypoint
from ..core.errors import TaskError
from ..core.image import Image
from ..core.options import BaseOptions, ImageProcessingOptions, VisionTaskRunningMode
from .image_segmenter import ImageSegmenterResult, SegmenterPipeline, SegmentingTask

SIDE = 512
"""Pixels of the input that MediaPipe assumes for the width of the dot."""


@dataclass
class InteractiveSegmenterLegacyOptions:
    """Options: the model, a ``.tflite`` file that takes four channels, and which masks the result has."""

    base_options: BaseOptions
    output_confidence_masks: bool = True
    output_category_mask: bool = False
    running_mode: ClassVar[VisionTaskRunningMode] = VisionTaskRunningMode.IMAGE


@dataclass
class InteractiveSegmenterLegacyRegionOfInterest:
    """The place of the thing: a key point, from 0 to 1 over the picture's width and height."""

    class Format(enum.Enum):
        """The kind of place."""

        UNSPECIFIED = 0
        KEYPOINT = 1

    format: Format
    keypoint: NormalizedKeypoint | None = None


def marked(size: tuple[int, int], x: float, y: float) -> Array:
    """The fourth channel (height, width, 1), uint8: a dot at a place, from 0 to 1, of a picture of ``size``.

    The dot is MediaPipe's: a circle whose radius and line are as wide as a pixel of the network's input, 512 wide.
    ValueError for a place outside of the picture.
    """
    if not (0 <= x <= 1 and 0 <= y <= 1):
        raise TaskError(f"the keypoint ({x}, {y}) is not in the picture: x and y are from 0 to 1")
    wide = round(max(size[0] / SIDE, size[1] / SIDE, 1.0))
    mask = np.zeros(size[::-1], np.uint8)
    cv2.circle(mask, (round(x * size[0]), round(y * size[1])), wide, 255, wide)
    return mask[..., None]


class InteractiveSegmenterLegacy(SegmentingTask[InteractiveSegmenterLegacyOptions]):
    """Finds the mask of the thing at a place of a picture. MediaPipe called it InteractiveSegmenter before 1.0.

    Examples
    --------
    >>> from framebind import mp
    >>> mp.tasks.vision.InteractiveSegmenterLegacy.create_from_model_path("missing.tflite")
    Traceback (most recent call last):
    framebind.video.mediapipe.core.errors.MissingModelError: Unable to open file at missing.tflite
    """

    options_type = InteractiveSegmenterLegacyOptions
    pipeline_type = partial(SegmenterPipeline, is_marked=True)

    def segment(
        self,
        image: Image,
        roi: InteractiveSegmenterLegacyRegionOfInterest,
        image_processing_options: ImageProcessingOptions | None = None,
    ) -> ImageSegmenterResult:
        """The masks of the thing at a place. ValueError for a place that is not named, or not in the picture.

        For a picture in the GPU's memory the dot at this place is uploaded, in the size of the network's input.
        """
        if roi.format is not InteractiveSegmenterLegacyRegionOfInterest.Format.KEYPOINT or roi.keypoint is None:
            raise TaskError("Please specify the Region-of-interest for segmentation.")
        self._check_mode(VisionTaskRunningMode.IMAGE)
        pixels, rectangle = self._looked_at(image, image_processing_options)
        mark = marked((pixels.shape[1], pixels.shape[0]), roi.keypoint.x or 0.0, roi.keypoint.y or 0.0)
        return self._pipeline.process(pixels, rectangle, None, mark)
