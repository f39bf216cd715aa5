"""Parts of all solutions: the pictures that they take, their clock, and where their models lie."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...models import model_folders
from ..calculators.regions import WHOLE
from ..core.errors import MissingModelError, TaskError
from ..core.options import BaseOptions

if TYPE_CHECKING:
    from typing_extensions import Self

Array = npt.NDArray[Any]

FRAME = 1000 / 30
"""Milliseconds from one picture to the next, as solutions assume."""


class Solution:
    """A solution: ``process`` takes one picture after the other; also a context manager."""

    def __init__(self, *, is_static: bool) -> None:
        self._is_static = is_static
        self._milliseconds = 0.0
        self._closed = False

    def _next(self, image: Array) -> tuple[Array, Array, float | None]:
        """The picture, the rectangle that is all of it, and its time; None for pictures without a connection."""
        if self._closed:
            raise TaskError(f"this {type(self).__name__} is closed: create another one")
        image = np.asarray(image)
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
            raise TaskError(
                f"Input image must contain three channel rgb data, uint8; it is {image.shape} of {image.dtype}"
            )
        self._milliseconds += FRAME
        return image, WHOLE, None if self._is_static else self._milliseconds

    def reset(self) -> None:
        """Forget the pictures so far. Solutions that follow things override it."""
        self._milliseconds = 0.0

    def close(self) -> None:
        """End the solution; a further picture is an error."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
