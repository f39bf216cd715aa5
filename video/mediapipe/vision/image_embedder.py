"""ImageEmbedder: a vector for a picture, near to those of pictures that look alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...basic_types import Array
from ..calculators.image_to_tensor import region_of
from ..core.asset import read_network
from ..core.containers import Embedding, EmbeddingResult
from ..core.errors import TaskError
from ..core.gpu_network import WholePictures
from ..core.image import Image
from ..core.network import TaskNetwork
from ..core.options import BaseOptions, ImageProcessingOptions, VisionTaskRunningMode
from ..core.task import VisionTask

ImageEmbedderResult = EmbeddingResult


@dataclass
class ImageEmbedderOptions:
    """Options of an ImageEmbedder.

    Attributes
    ----------
    base_options
        The model, a ``.tflite`` file, and where it runs.
    running_mode
        Single pictures, a video, or a live stream.
    l2_normalize
        Whether vectors get the length 1.
    quantize
        Whether values become bytes: each times 128, from -128 to 127, in the bits of uint8.
    result_callback
        For the live-stream mode: called with the result, the picture and its timestamp.
    """

    base_options: BaseOptions
    running_mode: VisionTaskRunningMode = VisionTaskRunningMode.IMAGE
    l2_normalize: bool | None = None
    quantize: bool | None = None
    result_callback: Callable[[EmbeddingResult, Any, int], None] | None = None


class _Pipeline:
    def __init__(self, options: ImageEmbedderOptions) -> None:
        network = TaskNetwork(read_network(options.base_options), "the embedder", options.base_options.delegate)
        self._network = network.expect((1, -1, -1, 3))
        self.on_gpu = WholePictures(self.process, network.close)
        self._normalize, self._quantize = options.l2_normalize, options.quantize

    def process(self, pixels: Any, rectangle: Array, milliseconds: int | None) -> EmbeddingResult:
        outputs = self._network.run_on(pixels, region_of(rectangle, (pixels.shape[1], pixels.shape[0])))
        heads = [
            Embedding(self._finished(values.ravel()), number, self._network.output_name(number))
            for number, values in enumerate(outputs)
        ]
        return EmbeddingResult(heads, milliseconds or 0)

    def _finished(self, values: Array) -> Array:
        values = values.astype(np.float32)
        if self._normalize and (length := np.sqrt((values**2).sum())) > 0:
            values = values / length
        if self._quantize:
            return np.clip(np.rint(values * 128), -128, 127).astype(np.int8).view(np.uint8)
        return values.astype(np.float64)


class ImageEmbedder(VisionTask[ImageEmbedderOptions, EmbeddingResult]):
    """Makes vectors of pictures, or of regions of them.

    Examples
    --------
    >>> from framebind import mp
    >>> mp.tasks.vision.ImageEmbedder.create_from_model_path("missing.tflite")
    Traceback (most recent call last):
    framebind.video.mediapipe.core.errors.MissingModelError: Unable to open file at missing.tflite
    """

    options_type = ImageEmbedderOptions
    pipeline_type = _Pipeline
    takes_gpu_pictures = True
    takes_region = True

    def embed(self, image: Image, image_processing_options: ImageProcessingOptions | None = None) -> EmbeddingResult:
        """The vectors of a picture. ValueError in another mode, or if an argument does not fit."""
        return self._run_image(image, image_processing_options)

    def embed_for_video(
        self, image: Image, timestamp_ms: int, image_processing_options: ImageProcessingOptions | None = None
    ) -> EmbeddingResult:
        """The vectors of a frame. ValueError as ``embed``, and if the timestamp is not after the last one."""
        return self._run_video(image, timestamp_ms, image_processing_options)

    def embed_async(
        self, image: Image, timestamp_ms: int, image_processing_options: ImageProcessingOptions | None = None
    ) -> None:
        """Give a frame of a live stream, whose result goes to ``result_callback``; newer frames may overtake it."""
        self._run_live(image, timestamp_ms, image_processing_options)

    @classmethod
    def cosine_similarity(cls, u: Embedding, v: Embedding) -> float:
        """The cosine of the angle between two vectors, from -1 to 1.

        ValueError if one is quantized and the other is not, if their lengths differ, or if one is all zeros.
        """
        if u.embedding.dtype != v.embedding.dtype:
            raise TaskError("Cannot compute cosine similarity between quantized and float embeddings.")
        if u.embedding.size != v.embedding.size:
            raise TaskError(
                "Cannot compute cosine similarity between embeddings of different sizes "
                f"({u.embedding.size} vs. {v.embedding.size})"
            )
        a, b = (_values(each.embedding) for each in (u, v))
        lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
        if lengths <= 0:
            raise TaskError("Cannot compute cosine similarity on embedding with 0 norm.")
        return float(a @ b) / lengths


def _values(embedding: Array) -> Array:
    return (embedding.view(np.int8) if embedding.dtype == np.uint8 else embedding).astype(np.float64)
