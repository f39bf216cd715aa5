"""Parts of tests of the engine: the models, their inputs, the tolerances, and NumPy's own bilinear sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

TOLERANCE = {"f32": 1e-4, "f16": 1e-2}
"""Largest error of a model, as a part of the largest reference value, by storage."""

OPERATOR_TOLERANCE = {"f32": 1e-5, "f16": 2e-3}
"""The largest error of one operator; halves round to 2 ** -11 of a value on the way in and again on the way out."""


@dataclass(frozen=True)
class RealModel:
    """A float model: the range of its picture input (mean and std of a texture), its limit of dispatches, and whether
    its only output has a score for each class.
    """

    name: str
    mean: float = 0.0
    std: float = 1.0
    dispatches: int = 120
    classes: bool = False


MODELS = (
    RealModel("deeplabv3_257_mv_gpu", 0.5, 0.5, 62, classes=True),
    RealModel("style_transfer_f16_384", dispatches=75),
    RealModel("selfie_segmentation", dispatches=90),
    RealModel("face_detection_front", 0.5, 0.5),
    RealModel("hand_landmark_lite"),
    RealModel("pose_landmark_lite"),
)


def random_inputs(shapes: dict[int, tuple[int, ...]], model: RealModel, seed: int = 0) -> dict[int, Array]:
    """A random value for every input of a model, by tensor: white noise in a picture's range, else from a normal
    law.
    """
    generator = np.random.default_rng(seed)
    values: dict[int, Array] = {}
    for tensor, shape in shapes.items():
        if len(shape) == 4 and shape[3] == 3:
            values[tensor] = (generator.random(shape, np.float32) - np.float32(model.mean)) / np.float32(model.std)
        else:
            values[tensor] = generator.normal(size=shape).astype(np.float32)
    return values


def sample_bilinear(picture: npt.NDArray[np.uint8], height: int, width: int) -> Array:
    """A picture (h, w, 3) uint8 at the centres of height x width pixels, in [0, 1], edges repeated."""
    source = picture.astype(np.float64) / 255
    rows = (np.arange(height) + 0.5) * picture.shape[0] / height - 0.5
    columns = (np.arange(width) + 0.5) * picture.shape[1] / width - 0.5

    def blend(values: npt.NDArray[np.float64], places: npt.NDArray[np.float64], axis: int) -> npt.NDArray[np.float64]:
        low = np.floor(places).astype(int)
        part = np.expand_dims(places - low, tuple(a for a in range(values.ndim) if a != axis))
        last = values.shape[axis] - 1
        first, second = (np.take(values, np.clip(low + step, 0, last), axis) for step in (0, 1))
        return first * (1 - part) + second * part

    return blend(blend(source, rows, 0), columns, 1)[None].astype(np.float32)


def relative_error(value: npt.NDArray, reference: npt.NDArray) -> float:
    """The largest difference as a part of the largest reference value."""
    assert value.shape == reference.shape
    return float(np.abs(value.astype(np.float64) - reference).max() / np.abs(reference).max())


Photograph = Callable[..., npt.NDArray[np.uint8]]
