"""``mp.solutions.selfie_segmentation``: the mask of the persons in a picture."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt

from ..calculators.regions import WHOLE, region_of
from ..calculators.segments import confidence_masks
from ..core.asset import read_network
from ..core.errors import TaskError
from ..core.gpu_network import WholePictures
from ..core.network import TaskNetwork
from .solution import Solution, model_of

Array = npt.NDArray[Any]

MODELS = ("selfie_segmentation.tflite", "selfie_segmentation_landscape.tflite")


class Segmented(NamedTuple):
    """The result of a picture."""

    segmentation_mask: Array
    """(height, width), float32: the probability of a person."""


class SelfieSegmentation(Solution[Segmented]):
    """Finds persons near to the camera. ``model_selection`` is 0 for a square input, 1 for a wide and quicker one."""

    def __init__(self, model_selection: int = 0) -> None:
        super().__init__(is_static=True)
        if model_selection not in (0, 1):
            raise TaskError(f"model_selection is 0 or 1; it is {model_selection}")
        network = TaskNetwork(read_network(model_of(MODELS[model_selection])), MODELS[model_selection], None)
        self._network = network.expect((1, -1, -1, 3), (1, -1, -1, 1))
        self._on_gpu = WholePictures(lambda picture, *_: self._find(picture, None), network.close)

    def _find(self, pixels: Any, milliseconds: float | None) -> Segmented:
        size = pixels.shape[1], pixels.shape[0]
        values = self._network.run_on(pixels, region_of(WHOLE, size))[0][0]
        return Segmented(confidence_masks(values, size)[0])
