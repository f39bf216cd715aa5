"""The part of a picture that a model sees whole."""

from __future__ import annotations

from ..sampling import Crop


def fitted(size: tuple[int, int], model: tuple[int, int]) -> Crop:
    """The smallest part (x, y, width, height) around a picture that has the model's proportions (width, height)."""
    factor = max(size[0] / model[0], size[1] / model[1])
    width, height = model[0] * factor, model[1] * factor
    return (size[0] - width) / 2, (size[1] - height) / 2, width, height
