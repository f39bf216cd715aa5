"""MediaPipe's pipelines on the frames of a video: networks sample regions of a frame where it lies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ..network import Sampling
from ..task import Fit, Match, Model, Run
from .calculators.regions import WHOLE, Region
from .core.network import OpenNetwork, check_shapes
from .core.options import BaseOptions

Array = npt.NDArray[Any]
Found = TypeVar("Found", covariant=True)
Rows = list[dict[str, Any]]

LEAST_SIDE = 1.0
"""Least side of a region in pixels: landmarks may lie at one place."""
MILLISECONDS = 1000 / 30
"""Assumed time per frame, as MediaPipe's solutions assume it."""


class Frame(NamedTuple):
    """A frame as the picture of a pipeline."""

    shape: tuple[int, int, int]
    """Height, width and 3, as that of an array of pixels."""
    run: Run


class FrameNetwork:
    """A network of a bundle that looks at regions of frames. Implements PictureNetwork."""

    def __init__(self, model: Model, name: str) -> None:
        """``model`` is the bundle's. Raises ModelError if the bundle has no model of that name."""
        part = model.part(name)
        self._name, self._outputs = name, list(part.outputs.values())
        self.shapes = list(part.inputs.values())
        self._mean, self._std = part.metadata.mean or 0.0, part.metadata.std or 1.0

    def expect(self, input_shape: tuple[int, ...], *outputs: tuple[int, ...]) -> FrameNetwork:
        check_shapes(self._name, self.shapes, self._outputs, input_shape, outputs)
        return self

    def run_on(self, picture: Frame, region: Region, /, *, replicate: bool = True) -> Sequence[Array]:
        rows, columns = self.shapes[0][1:3]
        region = region._replace(width=max(region.width, LEAST_SIDE), height=max(region.height, LEAST_SIDE))
        # MediaPipe's samples are at the corners of their cells, those of a binding in the middle.
        cosine, sine = math.cos(region.rotation), math.sin(region.rotation)
        u, v = region.width / columns / 2, region.height / rows / 2
        x, y = region.x + 0.5 - u * cosine + v * sine, region.y + 0.5 - u * sine - v * cosine
        crop = x - region.width / 2, y - region.height / 2, region.width, region.height
        pad = None if replicate else 0.0
        return picture.run(Sampling(self._mean, self._std, crop, math.degrees(region.rotation), pad, self._name))


class Pipeline(Protocol[Found]):
    """Networks and calculators between them: such as ``FacePipeline``."""

    def find(self, pixels: Any, rectangle: Array, milliseconds: float | None) -> Found:
        """The things in the next frame of a video."""
        ...


def options_of(model: Model) -> BaseOptions:
    """The options of a task for the bundle of a model. What sees no pictures, such as blendshapes, runs on the CPU."""
    return BaseOptions(model_asset_buffer=model.path.read_bytes(), delegate=BaseOptions.Delegate.CPU)


def on_frames(model: Model) -> OpenNetwork:
    """The opener of a bundle's networks for frames."""
    return lambda _, name: FrameNetwork(model, name)


def follow(pipeline: Pipeline[Found], size: tuple[int, int]) -> Callable[[Run], Found]:
    """A function that finds things in one frame after the other of ``size`` (width, height)."""
    milliseconds = 0.0

    def find(run: Run) -> Found:
        nonlocal milliseconds
        milliseconds += MILLISECONDS
        return pipeline.find(Frame((size[1], size[0], 3), run), WHOLE, milliseconds)

    return find


def bundle_fit(model: Model, *names: str, without: str = "") -> Fit | None:
    """Whether a model is a bundle with files of these names, and without another one."""
    if without in model.bundle or not all(name in model.bundle for name in names):
        return None
    return Fit(Match.METADATA, f"its bundle has {names[0]}")


def in_pixels(landmarks: Array, size: tuple[int, int]) -> Array:
    """Normalized landmarks (n, 2 or more) as x and y in pixels of a picture of ``size``."""
    return landmarks[:, :2] * np.array(size, np.float32)


def point_fields(landmarks: Array, size: tuple[int, int]) -> dict[str, Any]:
    """The fields of a row for landmarks (n, 3, or 4 and more with visibility): places and depths in pixels."""
    depths = landmarks[:, 2].astype(float) * size[0]
    fields = {"points": in_pixels(landmarks, size).astype(float).round(2).tolist(), "depths": depths.round(2).tolist()}
    if landmarks.shape[1] > 3:
        fields["point_scores"] = landmarks[:, 3].astype(float).round(4).tolist()
    return fields


def world_points(landmarks: Array) -> list[list[float]]:
    """Landmarks (n, 3 or more) in metres, as values for JSON."""
    return landmarks[:, :3].astype(float).round(4).tolist()
