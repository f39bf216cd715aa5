"""ImageSegmenter: masks of classes, such as persons, of the picture's size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import framebind as fb

from ...basic_types import Array
from ..calculators.image_to_tensor import region_of
from ..calculators.segments import activated, category_mask, confidence_masks
from ..core.asset import read_network
from ..core.errors import TaskError
from ..core.gpu_network import WholePictures
from ..core.gpu_picture import GpuPicture
from ..core.image import Image, ImageFormat
from ..core.network import TaskNetwork
from ..core.options import BaseOptions, ImageProcessingOptions, VisionTaskRunningMode
from ..core.task import Options, VisionTask
from ..core.written_masks import WrittenMasks
from ..graphs.segments import marked_network, masks_of


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
    """The masks of a picture, of its size: of one in the GPU's memory the objects of ``bind_masks``, if there are any.

    Attributes
    ----------
    confidence_masks
        VEC32F1 for each class: its score in each pixel.
    category_mask
        GRAY8: the class of each pixel; of a model with one class, 0 where it is and 255 elsewhere.
    """

    confidence_masks: list[Any] | None = None
    category_mask: Any = None


class SegmenterPipeline:
    """The network of a segmenter. ``options`` says which masks it gives.

    With ``is_marked`` its pictures have a fourth channel, in which the user marks a thing.
    """

    def __init__(self, options: Any, *, is_marked: bool = False) -> None:
        if not options.output_confidence_masks and not options.output_category_mask:
            raise TaskError("At least one of `output_confidence_masks` and `output_category_mask` must be set.")
        self._options = options
        base, on_gpu = options.base_options, marked_network if is_marked else None
        network = TaskNetwork(read_network(base), "the segmenter", base.delegate, on_gpu)
        self._network = network.expect((1, -1, -1, 4 if is_marked else 3))
        masks = next((i for i in reversed(range(len(network.outputs))) if len(network.outputs[i]) == 4), None)
        if masks is None:
            raise fb.ModelError(f"the segmenter has the outputs {network.outputs}; none of them is a mask")
        self._masks, self._shape = masks, network.outputs[masks][1:]
        self._written = WrittenMasks(self._model_for)
        self.on_gpu = WholePictures(self.process, self._close)

    @property
    def labels(self) -> list[str]:
        """The names of the classes."""
        return list(self._network.metadata.classes)

    def bind_masks(self, confidence_masks: Sequence[Any], category_mask: Any) -> None:
        """Write the masks of pictures in the GPU's memory to these objects: see ``SegmentingTask.bind_masks``."""
        count = self._shape[-1] if self._options.output_confidence_masks else 0
        if len(confidence_masks) != count or (category_mask is not None) != self._options.output_category_mask:
            raise TaskError(
                f"the options ask for {count} confidence masks and {int(self._options.output_category_mask)} category "
                f"mask: give objects for these, and not {len(confidence_masks)} and {int(category_mask is not None)}"
            )
        self._written.objects = (*confidence_masks, *([] if category_mask is None else [category_mask]))

    def process(
        self, pixels: Any, rectangle: Array, milliseconds: int | None, mark: Array | None = None
    ) -> ImageSegmenterResult:
        """The result for a picture; ``mark`` (height, width, 1), uint8, is its fourth channel."""
        size = pixels.shape[1], pixels.shape[0]
        region = region_of(rectangle, size)
        if isinstance(pixels, GpuPicture):
            seen = [] if mark is None else [self._network.seen(np.repeat(mark, 4, axis=2), region)[..., 3:]]
            network = self._network.submit_on(pixels, region, further=seen)
            if self._written.objects:
                self._written.write(network.buffers[self._masks], pixels)
                return self._result(list(self._written.objects))
            return self._result(self._made(network.read()[self._masks][0], size))
        pixels = pixels if mark is None else np.concatenate([pixels, mark], axis=2)
        return self._result(self._made(self._network.run_on(pixels, region)[self._masks][0], size))

    def _made(self, values: Array, size: tuple[int, int]) -> list[Any]:
        """The masks of a network's values (height, width, classes): those of confidence, then that of categories."""
        activation, masks = self._network.metadata.activation, list[Any]()
        if self._options.output_confidence_masks:
            planes = confidence_masks(activated(values, activation), size)
            masks += [Image(ImageFormat.VEC32F1, plane) for plane in planes]
        if self._options.output_category_mask:
            scores = activated(values, activation if activation == "sigmoid" else "")
            masks.append(Image(ImageFormat.GRAY8, category_mask(scores, size)))
        return masks

    def _model_for(self, size: tuple[int, int]) -> bytes:
        rows, columns, classes = self._shape
        has = {"confidence": self._options.output_confidence_masks, "category": self._options.output_category_mask}
        return masks_of((rows, columns, classes), size, self._network.metadata.activation, **has)

    def _result(self, masks: list[Any]) -> ImageSegmenterResult:
        category = masks.pop() if self._options.output_category_mask else None
        return ImageSegmenterResult(masks if self._options.output_confidence_masks else None, category)

    def _close(self) -> None:
        self._written.close()
        self._network.close()


class SegmentingTask(VisionTask[Options, ImageSegmenterResult]):
    """A task whose results are masks of classes."""

    takes_gpu_pictures = True

    def bind_masks(self, confidence_masks: Sequence[Any] = (), category_mask: Any = None) -> None:
        """Write the masks of pictures on the GPU to these objects, from the next picture on, and read nothing.

        Other objects may be bound for each picture; if their kinds and formats stay the same, this costs nothing. A
        live stream needs others for each: its results come when the next picture is submitted. Nothing waits for the
        GPU: what is submitted later to the same queue sees the masks.

        Parameters
        ----------
        confidence_masks
            One object for each class, if the options ask for these masks, in the memory that the networks use, as an
            output takes them: textures of the picture's size (r32f, or r8, which OpenGL ES cannot write), or buffers of
            height x width float32.
        category_mask
            One such object, if the options ask for it. It gets each pixel's class, divided by 255: the bytes of an r8
            texture are those of MediaPipe's mask.

        Raises
        ------
        ValueError
            If these are not the masks that the options ask for.
        """
        self._pipeline.bind_masks(confidence_masks, category_mask)


class ImageSegmenter(SegmentingTask[ImageSegmenterOptions]):
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
