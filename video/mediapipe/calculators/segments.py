"""Masks of an image segmenter, from its output to the picture's size (TensorsToSegmentationCalculator)."""

from __future__ import annotations

import cv2
import numpy as np

from ...basic_types import Array, Size
from ...vision.ssd import sigmoid

BACKGROUND = 255
"""The category of pixels outside of the only class."""


def activated(values: Array, activation: str) -> Array:
    """The scores (height, width, classes) after "sigmoid", "softmax" or nothing ("")."""
    if activation == "sigmoid":
        return sigmoid(values)
    if activation == "softmax":
        powers = np.exp(values - values.max(axis=2, keepdims=True))
        return powers / powers.sum(axis=2, keepdims=True)
    return values


def confidence_masks(scores: Array, size: Size) -> list[Array]:
    """A mask (height, width), float32, for each class, at a picture's ``size``: bilinear between middles of pixels."""
    planes = [np.ascontiguousarray(scores[..., number], np.float32) for number in range(scores.shape[2])]
    if scores.shape[1::-1] == size:
        return planes
    return [np.asarray(cv2.resize(plane, size, interpolation=cv2.INTER_LINEAR)) for plane in planes]


def category_mask(scores: Array, size: Size) -> Array:
    """The best class of each pixel (height, width), uint8, at a picture's ``size``: bilinear between corners.

    With one class 0 is where its score is above a half, and ``BACKGROUND`` elsewhere.
    """
    rows, columns, classes = scores.shape
    y = np.arange(size[1], dtype=np.float32) * np.float32((rows - 1) / max(size[1] - 1, 1))
    x = np.arange(size[0], dtype=np.float32) * np.float32((columns - 1) / max(size[0] - 1, 1))
    y0, x0 = np.floor(y).astype(int), np.floor(x).astype(int)
    y1, x1 = np.minimum(np.ceil(y).astype(int), rows - 1), np.minimum(np.ceil(x).astype(int), columns - 1)
    down, across = (y - y0)[:, None], x - x0
    best, category = np.full(size[::-1], -np.inf, np.float32), np.zeros(size[::-1], np.uint8)
    for number in range(classes):
        plane = scores[..., number]
        lines = plane[:, x0] + (plane[:, x1] - plane[:, x0]) * across
        values = lines[y0] + (lines[y1] - lines[y0]) * down
        if classes == 1:
            return np.where(values > 0.5, 0, BACKGROUND).astype(np.uint8)
        better = values > best
        best[better], category[better] = values[better], number
    return category
