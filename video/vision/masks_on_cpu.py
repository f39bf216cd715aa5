"""Masks smoothed over time by NumPy, for scores on the CPU, with the formulas of masks.py. They are enlarged
bilinearly, because the picture, whose edges masks.py follows, is not available.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .masks import MEMORY, STAY

Array = npt.NDArray[Any]
Smooth = Callable[[Array], Array]


def smooth_person(person: int) -> Smooth:
    """Make a function that takes scores (height, width, channels) and returns the mask (height, width), from 0 to 1.

    Scores of one channel are probabilities of a person, others those of classes; ``person`` is that of people.
    """
    previous: Array | None = None

    def smooth(scores: Array) -> Array:
        nonlocal previous
        if scores.shape[-1] == 1:
            mask = scores[..., 0]
        else:
            powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
            mask = powers[..., person] / powers.sum(axis=-1)
        mask = np.clip(mask, 1e-6, 1 - 1e-6)
        unknown = -(mask * np.log2(mask) + (1 - mask) * np.log2(1 - mask))
        previous = mask if previous is None else mask + (previous - mask) * MEMORY * unknown
        return previous

    return smooth


def smooth_classes() -> Smooth:
    """As ``smooth_person``, with the number of a class: the best, or the one before if nearly as good."""
    previous: Array | None = None

    def smooth(scores: Array) -> Array:
        nonlocal previous
        if previous is not None:
            scores = scores.copy()
            np.put_along_axis(
                scores, previous[..., None], np.take_along_axis(scores, previous[..., None], -1) + STAY, -1
            )
        previous = best = scores.argmax(axis=-1)
        return best

    return smooth


def enlarge(mask: Array, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """A mask (height, width) from 0 to 1 at ``size`` (width, height), from 0 to 255."""
    import cv2  # only here: commands start without it

    grey = cv2.resize(mask.astype(np.float32), size, interpolation=cv2.INTER_LINEAR)
    return (255 * grey + 0.5).astype(np.uint8)


def enlarge_classes(numbers: Array, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Numbers of classes (height, width) at ``size`` (width, height): for each pixel the class with most weight."""
    import cv2  # only here: commands start without it

    found = np.zeros((size[1], size[0]), np.uint8)
    most = np.zeros((size[1], size[0]), np.float32)
    for number in np.unique(numbers):
        weight = cv2.resize((numbers == number).astype(np.float32), size, interpolation=cv2.INTER_LINEAR)
        is_more = weight > most
        found[is_more], most[is_more] = number, weight[is_more]
    return found
