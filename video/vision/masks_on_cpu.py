"""Masks smoothed over time and enlarged by NumPy, for scores on the CPU, with the formulas of masks.py.

They are enlarged bilinearly, because the picture, whose edges masks.py follows, is not available.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..basic_types import Array
from .masks import MEMORY


class CpuMask:
    """The mask of people in a video, by NumPy, with values from 0 to 1."""

    def __init__(self, person: int, *, is_alpha: bool = False) -> None:
        """``person`` is the number of the class of people; ``is_alpha`` as for ``GlMask``."""
        self._person, self._memory = person, 0.0 if is_alpha else MEMORY
        self._small: Array | None = None

    @property
    def small(self) -> Array:
        """The mask of the last frame: (height, width), from 0 to 1."""
        assert self._small is not None, "no frame was smoothed"
        return self._small

    def smooth(self, scores: Array) -> None:
        """Make the small mask of scores (height, width, channels).

        Scores of one channel are probabilities of a person, others those of classes.
        """
        self._small = self._mixed(_probabilities(scores, self._person))

    def _mixed(self, mask: Array) -> Array:
        """The mask, mixed with the one before where it knows little: by its entropy in bits."""
        mask = np.clip(mask, 1e-6, 1 - 1e-6)
        if self._small is None:
            return mask
        unknown = -(mask * np.log2(mask) + (1 - mask) * np.log2(1 - mask))
        return mask + (self._small - mask) * self._memory * unknown

    def enlarged(self, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
        """The mask at ``size`` (width, height): from 0 to 255."""
        return _grey(self.small, size)


def _probabilities(scores: Array, person: int) -> Array:
    if scores.shape[-1] == 1:
        return scores[..., 0]
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers[..., person] / powers.sum(axis=-1)


def _grey(mask: Array, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    import cv2  # only here: commands start without it

    grey = cv2.resize(mask.astype(np.float32), size, interpolation=cv2.INTER_LINEAR)
    return (255 * grey + 0.5).astype(np.uint8)
