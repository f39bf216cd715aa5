"""Pictures of any API to regions and landmarks, with nothing read between the networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import framebind as fb

from ...copies import DETECTIONS
from ...postprocess import Postprocess
from ..calculators.regions import STEPS, WHOLE, region_matrix, region_of

Array = npt.NDArray[Any]
Size = tuple[int, int]


MOST_FREQUENCIES = 64
"""Frequencies whose buffers are kept."""


class Normalization(NamedTuple):
    """A network's values are (texel - mean) / std, with texels from 0 to 1."""

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)


@dataclass(frozen=True)
class ChainModels:
    """The models of a chain, of which ``detect`` or ``follow`` runs first in a frame, and then ``look``.

    ``detect`` takes the picture and the previous tracks, and gives regions; ``follow`` does without the picture. For
    single pictures ``follow`` is None, and there are no tracks to take.
    ``look`` takes the picture in each region, the regions and, if it has states, the frequency of frames in Hz
    (1, 1, 1, 1); and gives rows and the next tracks. ``graphs`` has the layouts of tracks and regions.
    """

    detect: bytes
    follow: bytes | None
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


def letterbox(size: Size) -> Array:
    """The matrix (2, 3) from a square, from 0 to 1, that holds a whole picture of ``size`` to the picture's pixels."""
    matrix = region_matrix(region_of(WHOLE, size, aspect=1.0), size)
    return matrix * np.array(size, np.float32)[:, None]


def sampled_region(matrix: Array, side: int) -> Array:
    """The row of a ``fb.Region`` from which a network of ``side`` pixels sees what ``crop_region`` gives it.

    There pixel (0, 0) is on the region's corner, and pixels are points at whole coordinates.
    """
    row = np.zeros((2, 4), np.float32)
    row[:, :3] = matrix
    row[:, 2] += 0.5 - matrix[:, :2].sum(axis=1) / 2 / side
    return row.ravel()


class Chain:
    """The models of a task on the GPU, for pictures of one size.

    ``submit`` gives a frame to the GPU and waits for nothing; ``read`` reads its rows, which is the only copy. The
    objects of pictures and the memory between the models are those of ``api``, whose context is current.
    """

    def __init__(self, models: ChainModels, size: Size, api: fb.Backend) -> None:
        options = fb.GpuDelegateOptions(api.name)
        self._models = models
        self._whole = fb.Region(api.new_buffer(sampled_region(letterbox(size), models.side)), steps=STEPS)
        self._detect = Postprocess(models.detect, options, api)
        (regions,) = self._detect.outputs
        self._look = Postprocess(models.look, options, api, models.feedback)
        self._rows, tracks = self._look.outputs
        self._follow = None
        if models.follow is not None:
            self._follow = Postprocess(models.follow, options, api, outputs=[regions])
            self._detect.bind(1, tracks)
            self._follow.bind(0, tracks)
            self._follow.record()
        self._look.bind(1, regions)
        self._regions = [fb.Region(regions, number, STEPS) for number in range(models.count)]
        self._read = np.empty((models.count, models.columns), np.float32)
        self._api = api
        self._frequencies = dict[float, Any]()
        """Buffers that hold a frequency. Few differ: timestamps are whole milliseconds."""

    def warm(self, picture: Any) -> None:
        """Compile for pictures like this one, and upload all constants."""
        for model in self._take(picture, 1.0, detect=True):
            model.record()

    def submit(self, picture: Any, hertz: float = 30.0, *, detect: bool = True) -> None:
        """Find and look in a picture, which follows the last one after 1 / ``hertz`` seconds.

        Without ``detect`` only what was there in the last frame is looked at.
        """
        for model in self._take(picture, hertz, detect=detect):
            model.run()

    def _take(self, picture: Any, hertz: float, *, detect: bool) -> tuple[Postprocess, Postprocess]:
        """Bind a picture. Returns the models that run, in order."""
        detector, network = self._models.normalizations
        first = self._detect if detect or self._follow is None else self._follow
        if first is self._detect:
            first.bind(0, picture, crop=self._whole, pad=0.0, mean=detector.mean, std=detector.std)
        pictures, crops = ([picture] * len(self._regions), self._regions)
        if len(pictures) == 1:
            (pictures,), (crops,) = pictures, crops
        self._look.bind(0, pictures, crop=crops, mean=network.mean, std=network.std)
        if self._models.feedback:
            self._look.bind(2, self._frequency(hertz))
        return first, self._look

    def _frequency(self, hertz: float) -> Any:
        """The buffer of a frequency. A new one is a copy of 4 bytes."""
        if hertz not in self._frequencies:
            if len(self._frequencies) == MOST_FREQUENCIES:
                self._frequencies.pop(next(iter(self._frequencies))).release()
            with fb.transfer_guard("allow"):
                self._frequencies[hertz] = self._api.new_buffer(np.array([hertz], np.float32))
        return self._frequencies[hertz]

    def read(self) -> Array:
        """The rows of the last frame (count, columns): an array that the next call fills again."""
        return self._rows.read(self._read, reason=DETECTIONS)

    def forget(self) -> None:
        """Begin a clip: what was seen so far is not followed."""
        self._look.forget()
        tracks = self._look.outputs[1]
        with fb.transfer_guard("allow"):
            tracks.write(np.zeros(tracks.nbytes // 4, np.float32))

    def close(self) -> None:
        """Free all memory on the GPU."""
        for model in (self._detect, self._follow, self._look):
            if model is not None:
                model.close()
        self._whole.buffer.release()
        for buffer in self._frequencies.values():
            buffer.release()
