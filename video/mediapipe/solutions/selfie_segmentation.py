"""``mp.solutions.selfie_segmentation``: the mask of the persons in a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..calculators.image_to_tensor import WHOLE, region_of
from ..calculators.segments import confidence_masks
from ..core.asset import read_network
from ..core.errors import TaskError
from ..core.gpu_network import WholePictures
from ..core.gpu_picture import GpuPicture
from ..core.network import TaskNetwork
from ..core.written_masks import WrittenMasks, check_masks
from ..graphs.segments import masks_of
from .solution import Solution, model_of

MODELS = ("selfie_segmentation.tflite", "selfie_segmentation_landscape.tflite")


class Segmented(NamedTuple):
    """The result of a picture."""

    segmentation_mask: Any
    """(height, width), float32: the probability of a person. Of a picture in the GPU's memory the object of
    ``SelfieSegmentation.bind_masks``, if there is one."""


class SelfieSegmentation(Solution[Segmented]):
    """Finds persons near to the camera. ``model_selection`` is 0 for a square input, 1 for a wide and quicker one."""

    def __init__(self, model_selection: int = 0) -> None:
        super().__init__(is_static=True)
        if model_selection not in (0, 1):
            raise TaskError(f"model_selection is 0 or 1; it is {model_selection}")
        network = TaskNetwork(read_network(model_of(MODELS[model_selection])), MODELS[model_selection], None)
        self._network = network.expect((1, -1, -1, 3), (1, -1, -1, 1))
        self._shape = network.outputs[0][1:]
        self._written = WrittenMasks(self._model_for)
        self._on_gpu = WholePictures(lambda picture, *_: self._find(picture, None), self._free)

    def bind_masks(self, masks: Sequence[Any]) -> None:
        """Write the mask of a picture in the GPU's memory to this one object: see ``ImageSegmenter.bind_masks``."""
        self._written.objects = check_masks(masks, 1)

    def _find(self, pixels: Any, milliseconds: float | None) -> Segmented:
        size = pixels.shape[1], pixels.shape[0]
        if isinstance(pixels, GpuPicture) and self._written.objects:
            network = self._network.submit_on(pixels, region_of(WHOLE, size))
            self._written.write(network.buffers[0], pixels)
            return Segmented(self._written.objects[0])
        values = self._network.run_on(pixels, region_of(WHOLE, size))[0][0]
        return Segmented(confidence_masks(values, size)[0])

    def _model_for(self, size: tuple[int, int]) -> bytes:
        rows, columns, classes = self._shape
        return masks_of((rows, columns, classes), size, "", confidence=True, category=False)

    def _free(self) -> None:
        self._written.close()
        self._network.close()
