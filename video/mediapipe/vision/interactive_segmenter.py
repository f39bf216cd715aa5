"""InteractiveSegmenter of MediaPipe 1.x: the mask of the thing that a user's strokes mark."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..calculators.regions import WHOLE, crop_region, region_of
from ..calculators.segments import confidence_masks
from ..calculators.strokes import ADDS, LASSO, REMOVES, heat_map
from ..core.asset import read_files
from ..core.errors import TaskError
from ..core.image import Image, ImageFormat, rgb_pixels
from ..core.network import TaskNetwork
from ..core.options import BaseOptions
from ..core.protobuf import fields

if TYPE_CHECKING:
    from typing_extensions import Self

Array = npt.NDArray[Any]

ENCODER, DECODER = "interactive_segmentation_encoder.int8.tflite", "interactive_segmentation_decoder.int8.tflite"
METADATA = "metadata.pb"
_SIDES = 1, 2, 3, 4
"""The metadata's fields: width and height of the encoder's input, then those of the decoder's heat map."""


class BrushMode(enum.IntEnum):
    """The meaning of a stroke: what it touches is part of the thing, or is not; or the thing is inside of it."""

    UNSPECIFIED = 0
    POSITIVE = 1
    NEGATIVE = 2
    LASSO = 3


_PLANES = {BrushMode.POSITIVE: ADDS, BrushMode.NEGATIVE: REMOVES, BrushMode.LASSO: LASSO}


@dataclass
class StrokePoint:
    """A point of a stroke, from 0 to 1 over the picture's width and height."""

    x: float
    y: float


@dataclass
class Stroke:
    """A stroke of the user: its meaning, its points in order, and whether it is complete.

    A lasso counts once it is complete; then the box around its points is what the network gets.
    """

    brush_mode: BrushMode
    points: list[StrokePoint]
    is_completed: bool


@dataclass
class InteractiveSegmenterOptions:
    """Options: the bundle, interactive_segmentation.task, and where it runs."""

    base_options: BaseOptions


class InteractiveSegmenter:
    """Finds the mask of the thing that strokes mark. A picture is set once, and strokes may follow as they are drawn.

    Examples
    --------
    >>> from framebind import mp
    >>> vision = mp.tasks.vision
    >>> base = mp.tasks.BaseOptions(model_asset_path="missing.task")
    >>> vision.InteractiveSegmenter.create_from_options(vision.InteractiveSegmenterOptions(base))
    Traceback (most recent call last):
    framebind.video.mediapipe.core.errors.MissingModelError: Unable to open file at missing.task
    """

    def __init__(self, options: InteractiveSegmenterOptions) -> None:
        files = read_files(options.base_options, (ENCODER, DECODER, METADATA))
        width, height, *self._side = _sides(files[METADATA])
        delegate = options.base_options.delegate
        self._encoder = TaskNetwork(files[ENCODER], ENCODER, delegate).expect((1, height, width, 3))
        self._decoder = TaskNetwork(files[DECODER], DECODER, delegate)
        wanted = [(1, self._side[1], self._side[0], 3), *self._encoder.outputs]
        if self._decoder.shapes != wanted:
            raise fb.ModelError(
                f"{DECODER} has the inputs {self._decoder.shapes}; they are the heat map of {METADATA} and the "
                f"encoder's outputs, {wanted}"
            )
        self._decoder.expect(wanted[0], (1, -1, -1, 1))
        self._features: list[Array] | None = None
        self._size = 0, 0
        self._closed = False

    @classmethod
    def create_from_options(cls, options: InteractiveSegmenterOptions) -> Self:
        """A segmenter with these options.

        Raises
        ------
        ValueError
            If an option is wrong, or if the file is no bundle of this task.
        FileNotFoundError
            If there is no file at ``base_options.model_asset_path``.
        """
        return cls(options)

    def set_image(self, image: Image) -> None:
        """Take a picture, whose things the next calls of ``segment`` find. ValueError for a grey one."""
        self._check_open()
        pixels = rgb_pixels(image)
        self._size = image.width, image.height
        seen = crop_region(pixels, region_of(WHOLE, self._size), self._encoder.side)
        self._features = self._encoder.run((seen * np.float32(1 / 255))[None])

    def segment(self, strokes: Sequence[Stroke]) -> Image:
        """The mask of the thing: VEC32F1 of the picture's size, as the network gives it.

        Raises
        ------
        ValueError
            If there is no picture or no stroke, or if a stroke has no meaning.
        """
        self._check_open()
        if self._features is None:
            raise TaskError("Image not set - call set_image first.")
        if not strokes:
            raise TaskError("there is no stroke: give one at least")
        drawn = [(_plane(each), [(one.x, one.y) for one in each.points], each.is_completed) for each in strokes]
        heat = heat_map(drawn, (self._side[0], self._side[1]))
        scores = self._decoder.run(heat[None], *self._features)[0][0]
        return Image(ImageFormat.VEC32F1, confidence_masks(scores, self._size)[0])

    def _check_open(self) -> None:
        if self._closed:
            raise TaskError("this InteractiveSegmenter is closed: create another one")

    def close(self) -> None:
        """Let the picture go. May be called again."""
        self._closed, self._features = True, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _plane(stroke: Stroke) -> int:
    if stroke.brush_mode not in _PLANES:
        raise TaskError(f"Unknown brush mode: {stroke.brush_mode!r}; take POSITIVE, NEGATIVE or LASSO")
    return _PLANES[stroke.brush_mode]


def _sides(metadata: bytes) -> list[int]:
    """The sides that the bundle's metadata names."""
    try:
        found = dict(fields(metadata))
    except (ValueError, IndexError) as error:
        raise fb.ModelError(f"the bundle's {METADATA} is damaged: {error}") from error
    sides = [found.get(number, 0) for number in _SIDES]
    if not all(isinstance(side, int) and side > 0 for side in sides):
        raise fb.ModelError(f"the bundle's {METADATA} has no sizes of networks: {sides}")
    return sides
