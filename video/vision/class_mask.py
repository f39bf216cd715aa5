"""The classes of a video's pixels, smoothed over time: by the GPU behind the model, or by NumPy of arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..answers.classes import STAY, ClassNumbers
from ..basic_types import Array
from ..layouts import PictureShape
from ..network_outputs import Outputs


class ClassMask:
    """The classes of the pixels of one video."""

    def __init__(self, shape: PictureShape, chosen: int = 0) -> None:
        """``shape`` is that of the scores, or of the numbers that the network has chosen from ``chosen`` classes."""
        self._shape, self._chosen = shape, chosen
        self._on_gpu: ClassNumbers | None = None
        self._small: Array | None = None

    def smooth(self, outputs: Sequence[Array]) -> None:
        """Find the classes of the next frame: the first of ``outputs`` has the scores, or the numbers."""
        if isinstance(outputs, Outputs) and outputs.are_on_gpu(0):
            if self._on_gpu is None:
                self._on_gpu = ClassNumbers(
                    self._shape, lambda owner, content, fed: outputs.postprocess(owner, content, [0], fed), self._chosen
                )
            self._on_gpu.run()
            self._small = None
        elif self._chosen:
            self._small = outputs[0].reshape(self._shape.size[::-1]).astype(np.int64)
        else:
            self._small = self._best(self._shape.from_tensor(outputs[0]))

    @property
    def small(self) -> Array:
        """The classes (height, width) of the last frame. They are read from the GPU when they are first asked for."""
        if self._small is None:
            assert self._on_gpu is not None, "no frame was smoothed"
            self._small = self._on_gpu.numbers()
        return self._small

    def shares(self) -> Array:
        """The share of the last frame that each class covers, from 0 to 1."""
        if self._on_gpu is not None:
            return self._on_gpu.shares()
        return np.bincount(self.small.ravel(), minlength=self._chosen or self._shape.channels) / self.small.size

    def enlarged(self, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
        """The classes at ``size`` (width, height): for each pixel the class with most weight, bilinearly."""
        import cv2  # only here: commands start without it

        numbers = self.small
        found = np.zeros((size[1], size[0]), np.uint8)
        most = np.zeros((size[1], size[0]), np.float32)
        for number in np.unique(numbers):
            weight = cv2.resize((numbers == number).astype(np.float32), size, interpolation=cv2.INTER_LINEAR)
            is_more = weight > most
            found[is_more], most[is_more] = number, weight[is_more]
        return found

    def _best(self, scores: Array) -> Array:
        """The best class of each pixel, or the one before if that is nearly as good."""
        if self._small is not None:
            scores, before = scores.copy(), self._small[..., None]
            np.put_along_axis(scores, before, np.take_along_axis(scores, before, -1) + np.float32(STAY), -1)
        return scores.argmax(axis=-1)
