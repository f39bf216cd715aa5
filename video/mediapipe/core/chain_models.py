"""The models of a chain as values: the networks, where each looks, and which outputs the others read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...basic_types import Array, Size
from ...model_metadata import ModelMetadata, read_metadata
from ..calculators.image_to_tensor import WHOLE, region_matrix, region_of

ROWS = "rows"
"""The name of the first output of ``look``."""


class Normalization(NamedTuple):
    """A network's values are (texel - mean) / std, with texels from 0 to 1."""

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)


class Sight(NamedTuple):
    """The picture as an input of a part sees it: in each of the regions that a model of this frame wrote."""

    regions: str
    """The name of that output, (places, 8)."""
    places: int
    normalization: Normalization
    pad: float | None = None
    """The colour around the picture; None continues its border."""


class Part(NamedTuple):
    """A model behind ``look`` that looks at regions which ``look`` found. If it is the last part, its first output has
    the frame's rows.
    """

    content: bytes
    sights: Sequence[Sight]
    """The model's first inputs."""
    reads: Sequence[str]
    """Names of the outputs that the other inputs read; outputs of later parts are those of the frame before."""
    gives: Sequence[str]
    """Names of the model's outputs."""


def named_normalization(metadata: ModelMetadata) -> Normalization:
    """The normalization that a network's metadata names; from 0 to 1 if it names none."""
    return Normalization(metadata.mean or (0.0,), metadata.std or (1.0,))


def normalization_of(content: bytes) -> Normalization:
    """The normalization that the metadata of a network's bytes names."""
    return named_normalization(read_metadata(content))


@dataclass(frozen=True)
class ChainModels:
    """The models of a chain: ``detect`` says where to look, if not all is followed, and ``look`` looks there.

    ``detect`` takes the picture and, if things are followed from frame to frame, their tracks; and gives regions.
    ``look`` takes the picture in each region, the regions and, if it has states, the frequency of frames in Hz
    (1, 1, 1, 1); and gives rows; if things are followed, their tracks and the regions of the next frame; and masks.
    ``graphs`` has the layouts of tracks and regions.
    """

    detect: bytes
    look: bytes
    feedback: dict[str, str]
    """The states of ``look``, by name."""
    normalizations: Sequence[Normalization]
    """The normalizations of the detector and of the landmarks' network."""
    count: int
    """Regions of a picture."""
    columns: int
    """Numbers of a row."""
    side: int
    """Width and height of the detector's input."""
    masks: int = 0
    """Masks, (1, height, width, 1), which a frame writes to objects of the caller."""
    gives: Sequence[str] = ()
    """Names of further outputs of ``look``, between the regions and the masks, for the parts."""
    parts: Sequence[Part] = ()
    """Models that look at regions which ``look``, or a part before, has written."""


def letterbox(size: Size) -> Array:
    """The matrix (2, 3) from a square, from 0 to 1, that holds a whole picture of ``size`` to the picture's pixels."""
    matrix = region_matrix(region_of(WHOLE, size, aspect=1.0), size)
    return matrix * np.array(size, np.float32)[:, None]


def sampled_region(matrix: Array, side: int | Size) -> Array:
    """The row of a ``fb.Region`` from which a network of ``side`` pixels, or of width and height, sees what
    ``crop_region`` gives it. ``matrix`` (2, 3) takes a point of the region, from 0 to 1, to pixels of the picture.

    There pixel (0, 0) is on the region's corner, and pixels are points at whole coordinates.
    """
    row = np.zeros((2, 4), np.float32)
    row[:, :3] = matrix
    row[:, 2] += 0.5 - matrix[:, :2] @ (0.5 / np.broadcast_to(side, 2))
    return row.ravel()
