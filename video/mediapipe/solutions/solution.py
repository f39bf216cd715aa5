"""Parts of all solutions: the pictures that they take, their clock, and where their models lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from ...basic_types import Array
from ...models import model_folders
from ..core.errors import MissingModelError, TaskError
from ..core.gpu_network import WholePictures
from ..core.gpu_picture import find_gpu_picture
from ..core.gpu_tracker import GpuTracker
from ..core.options import BaseOptions

if TYPE_CHECKING:
    from typing_extensions import Self

Result = TypeVar("Result")

FRAME = 1000 / 30
"""Milliseconds from one picture to the next, as solutions assume."""


class Solution(ABC, Generic[Result]):
    """A solution: ``process`` takes one picture after the other; also a context manager."""

    _on_gpu: GpuTracker[Result] | WholePictures[Result]
    """The solution's networks on the GPU."""

    def __init__(self, *, is_static: bool) -> None:
        self._is_static = is_static
        self._milliseconds = 0.0
        self._closed = False

    def process(self, image: Any) -> Result:
        """Find things in a picture.

        ``image`` is an array (height, width, 3), uint8, RGB; or a picture in the GPU's memory, whose context is
        current: a texture, an image of OpenCL, an array of uint8, a YuvPicture or a Frame.

        Raises
        ------
        ValueError
            If it is another array, or if the solution is closed.
        """
        if self._closed:
            raise TaskError(f"this {type(self).__name__} is closed: create another one")
        picture = find_gpu_picture(image)
        pixels = _checked(image) if picture is None else None
        self._milliseconds += FRAME
        if picture is None:
            return self._find(pixels, None if self._is_static else self._milliseconds)
        return self._on_gpu.begin(picture, self._milliseconds)()

    @abstractmethod
    def _find(self, pixels: Any, milliseconds: float | None) -> Result:
        """The result for a picture (height, width, 3); its time is None for pictures without a connection."""

    def reset(self) -> None:
        """Forget the pictures so far. Solutions that follow things override it."""
        self._milliseconds = 0.0
        self._on_gpu.forget()

    def close(self) -> None:
        """End the solution; a further picture is an error. May be called again.

        If pictures were in the GPU's memory, their context is current.
        """
        self._closed = True
        self._on_gpu.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _checked(image: Any) -> Array:
    if image is None or not np.size(image):
        raise TaskError("Input image is empty: did the camera or the file give a frame?")
    image = np.asarray(image)
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise TaskError(f"Input image must contain three channel rgb data, uint8; it is {image.shape} of {image.dtype}")
    return image


def model_of(name: str) -> BaseOptions:
    """The options of a model's file, such as "hand_landmarker.task", in the folders of models.

    FileNotFoundError, which says where it has to be, if it is in none of them. MediaPipe's solutions had their models
    in the package.
    """
    for folder in model_folders():
        if (path := Path(folder) / name).is_file():
            return BaseOptions(model_asset_path=str(path))
    raise MissingModelError(
        f"this solution needs MediaPipe's file {name}: put it into a folder, and name the folder in FRAMEBIND_MODELS"
    )
