"""InteractiveSegmenter of MediaPipe 1.x: the mask of the thing that a user's strokes mark."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import framebind as fb

from ...answers.postprocess import Postprocess
from ...basic_types import Array
from ...copies import DETECTIONS
from ..calculators.image_to_tensor import WHOLE, crop_region, region_of
from ..calculators.segments import confidence_masks
from ..calculators.strokes import ADDS, LASSO, REMOVES, heat_map
from ..core.asset import read_files
from ..core.chain_models import Normalization
from ..core.errors import TaskError
from ..core.gpu_network import GpuNetwork
from ..core.gpu_picture import GpuPicture, gpu_picture
from ..core.image import Image, ImageFormat, rgb_pixels
from ..core.network import TaskNetwork
from ..core.options import BaseOptions
from ..core.protobuf import fields
from ..core.written_masks import WrittenMasks, check_masks
from ..graphs.segments import masks_of

if TYPE_CHECKING:
    from typing_extensions import Self


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


class _OnGpu:
    """The networks for a picture in the GPU's memory, with nothing read in between: ``size`` is that of heat maps."""

    def __init__(self, files: Mapping[str, bytes], size: tuple[int, int], api: fb.Backend) -> None:
        self.api, self._files = api, files
        self._encoder = GpuNetwork(files[ENCODER], api)
        self._decoder = Postprocess(files[DECODER], fb.GpuDelegateOptions(api.name), api)
        self._heat = api.new_buffer(np.zeros((*size, 3), np.float32).ravel())
        if None in self._encoder.buffers:
            raise TaskError(f"a part of {ENCODER} runs on the CPU: give the picture as an mp.Image")
        for number, buffer in enumerate((self._heat, *self._encoder.buffers)):
            self._decoder.bind(number, buffer)

    def see(self, picture: GpuPicture) -> None:
        """Submit a picture to the encoder."""
        self._encoder.submit(picture, region_of(WHOLE, picture.size), Normalization(), replicate=True)

    def scores(self, heat: Array) -> Any:
        """The buffer with the scores for a heat map (height, width, 3), which is uploaded."""
        with fb.transfer_guard("allow"):
            self._heat.write(heat)
        self._decoder.run()
        return self._decoder.outputs[0]

    def close(self) -> None:
        """Free all memory on the GPU."""
        self._encoder.close()
        self._decoder.close()
        self._heat.release()


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
        self._shape = self._decoder.outputs[0][1:]
        self._files = files
        self._features: list[Array] | None = None
        """The encoder's outputs for an mp.Image."""
        self._picture: GpuPicture | None = None
        """A picture in the GPU's memory, which its encoder has seen."""
        self._on_gpu: _OnGpu | None = None
        self._written = WrittenMasks(self._model_for)
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

    def bind_masks(self, masks: Sequence[Any]) -> None:
        """Write the mask of a picture in the GPU's memory to this one object: see ``ImageSegmenter.bind_masks``."""
        self._written.objects = check_masks(masks, 1)

    def set_image(self, image: Image | Any) -> None:
        """Take a picture, whose things the next calls of ``segment`` find.

        It is an mp.Image, or a picture in the GPU's memory, whose context is current: a texture, an image of OpenCL, an
        array of uint8, a YuvPicture or a Frame. ValueError for another one, and for a grey one.
        """
        self._check_open()
        if not isinstance(image, Image):
            self._set_picture(gpu_picture(image))
            return
        pixels = rgb_pixels(image)
        self._size = image.width, image.height
        seen = crop_region(pixels, region_of(WHOLE, self._size), self._encoder.side)
        self._features, self._picture = self._encoder.run((seen * np.float32(1 / 255))[None]), None

    def _set_picture(self, picture: GpuPicture) -> None:
        if self._on_gpu is None or self._on_gpu.api is not picture.api:
            self._free()
            with fb.transfer_guard("allow"):  # constants are uploaded once
                self._on_gpu = _OnGpu(self._files, (self._side[0], self._side[1]), picture.api)
        self._on_gpu.see(picture)
        self._size, self._features, self._picture = picture.size, None, picture

    def segment(self, strokes: Sequence[Stroke]) -> Image | Any:
        """The mask of the thing: VEC32F1 of the picture's size, as the network gives it.

        For a picture in the GPU's memory the heat map of the strokes is uploaded, and the mask that the network gives
        is read; or nothing is read, and the result is the object of ``bind_masks``.

        Raises
        ------
        ValueError
            If there is no picture or no stroke, or if a stroke has no meaning.
        """
        self._check_open()
        if self._features is None and self._picture is None:
            raise TaskError("Image not set - call set_image first.")
        if not strokes:
            raise TaskError("there is no stroke: give one at least")
        drawn = [(_plane(each), [(one.x, one.y) for one in each.points], each.is_completed) for each in strokes]
        heat = heat_map(drawn, (self._side[0], self._side[1]))
        if self._picture is not None and self._on_gpu is not None:
            found = self._on_gpu.scores(heat)
            if self._written.objects:
                self._written.write(found, self._picture)
                return self._written.objects[0]
            scores = found.read(np.empty(self._shape, np.float32), reason=DETECTIONS)
        else:
            scores = self._decoder.run(heat[None], *(self._features or []))[0][0]
        return Image(ImageFormat.VEC32F1, confidence_masks(scores, self._size)[0])

    def _model_for(self, size: tuple[int, int]) -> bytes:
        rows, columns, classes = self._shape
        return masks_of((rows, columns, classes), size, "", confidence=True, category=False)

    def _free(self) -> None:
        """Free what lies in the GPU's memory."""
        self._written.close()
        if self._on_gpu is not None:
            self._on_gpu.close()
        self._on_gpu = None

    def _check_open(self) -> None:
        if self._closed:
            raise TaskError("this InteractiveSegmenter is closed: create another one")

    def close(self) -> None:
        """Let the picture go. May be called again. If it was in the GPU's memory, its context is current."""
        self._closed, self._features, self._picture = True, None, None
        self._free()

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
