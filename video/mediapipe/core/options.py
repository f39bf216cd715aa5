"""Options of all tasks: the model, where it runs, the mode of running, and the part of the picture."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..calculators.image_to_tensor import WHOLE
from .containers import RectF
from .errors import TaskError


@dataclass
class BaseOptions:
    """The model of a task and where it runs.

    Attributes
    ----------
    model_asset_path, model_asset_buffer
        The ``.task`` bundle or ``.tflite`` model: its path, or its bytes. One of them; the path goes first.
    delegate
        ``CPU`` is LiteRT's kernels. ``GPU`` is a ``fb.GpuDelegate`` of default options. None and ``DEFAULT``, which
        are MediaPipe's CPU, take the GPU if it pays, as ``fb.Interpreter(delegate="auto")`` decides.
    """

    class Delegate(enum.IntEnum):
        """The device of the networks."""

        DEFAULT = 0
        CPU = 1
        GPU = 2

    model_asset_path: str | None = None
    model_asset_buffer: bytes | None = None
    delegate: Delegate | None = None


class VisionTaskRunningMode(enum.Enum):
    """The way pictures come: one by one, as the frames of a video, or live, with results in a callback."""

    IMAGE = "IMAGE"
    VIDEO = "VIDEO"
    LIVE_STREAM = "LIVE_STREAM"


@dataclass
class ImageProcessingOptions:
    """The part of the picture that a task looks at.

    Attributes
    ----------
    region_of_interest
        The region, from 0 to 1; None for the whole picture. Only tasks that find no regions of their own take it.
    rotation_degrees
        The rotation, clockwise, that makes the picture upright: a multiple of 90.
    """

    region_of_interest: RectF | None = None
    rotation_degrees: int = 0


def rectangle_of(
    options: ImageProcessingOptions | None, size: tuple[int, int], *, takes_region: bool
) -> npt.NDArray[Any]:
    """The rectangle (5) that the options name in a picture of ``size`` (width, height): middle, size, rotation.

    ValueError for a rotation that is no multiple of 90, and for a region that is empty, outside of the picture, or not
    taken by this task.
    """
    if options is None:
        return WHOLE
    if options.rotation_degrees % 90:
        raise TaskError(f"Expected rotation to be a multiple of 90°; it is {options.rotation_degrees}")
    x, y, width, height = 0.5, 0.5, 1.0, 1.0
    region = options.region_of_interest
    if region is not None:
        if not takes_region:
            raise TaskError("This task doesn't support region-of-interest: leave it out, or crop the picture")
        if region.left >= region.right or region.top >= region.bottom:
            raise TaskError(f"Expected Rect with left < right and top < bottom; it is {region}")
        if region.left < 0 or region.top < 0 or region.right > 1 or region.bottom > 1:
            raise TaskError(f"Expected Rect values to be in [0,1]; it is {region}")
        x, y = (region.left + region.right) / 2, (region.top + region.bottom) / 2
        width, height = region.right - region.left, region.bottom - region.top
    if options.rotation_degrees % 180:  # sides of the region as the turned picture has them
        width, height = height * size[1] / size[0], width * size[0] / size[1]
    return np.array([x, y, width, height, -math.radians(options.rotation_degrees)], np.float32)


def check_share(name: str, value: float) -> None:
    """Refuse an option that is not from 0 to 1."""
    if not 0 <= value <= 1:
        raise TaskError(f"Invalid `{name}` option: value must be in the range [0.0, 1.0]; it is {value}")


def check_count(name: str, value: int) -> None:
    """Refuse a number of things that is less than 1."""
    if value < 1:
        raise TaskError(f"Invalid `{name}` option: value must be at least 1; it is {value}")
