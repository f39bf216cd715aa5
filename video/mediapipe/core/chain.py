"""Pictures of any API to regions and landmarks, with nothing read between the networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import framebind as fb

from ...answers.postprocess import Postprocess
from ...copies import DETECTIONS
from ...model_metadata import ModelMetadata, read_metadata
from ..calculators.regions import STEPS, WHOLE, region_matrix, region_of

Array = npt.NDArray[Any]
Size = tuple[int, int]


MOST_FREQUENCIES = 64
"""Frequencies whose buffers are kept."""
NEXT_REGIONS = 2
"""The number of the output of ``ChainModels.look`` with the regions of the next frame."""


class Normalization(NamedTuple):
    """A network's values are (texel - mean) / std, with texels from 0 to 1."""

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)


class Sight(NamedTuple):
    """The sight of an input of a part: the picture in each of the regions that a model of this frame wrote."""

    regions: str
    """The name of that output, (places, 8)."""
    places: int
    normalization: Normalization
    pad: float | None = None
    """The colour around the picture; None continues its border."""


class Part(NamedTuple):
    """A model behind ``look``, which looks at parts of what this found. Its first output are the frame's rows, if it is
    the last part.
    """

    content: bytes
    sights: Sequence[Sight]
    """The model's first inputs."""
    reads: Sequence[str]
    """Names of the outputs that are its other inputs; those of later parts are of the frame before."""
    gives: Sequence[str]
    """Names of its outputs."""


ROWS = "rows"
"""The name of the first output of ``look``."""


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


class _Places(NamedTuple):
    """Places at which a frame is looked at."""

    buffer: Any
    """The regions, as ``look`` takes them."""
    crops: list[fb.Region]
    """Each of them as the crop of a picture."""


class Chain:
    """The models of a task on the GPU, for pictures of one size.

    A frame in which nothing is looked for is one submission, and one for each part, because the frame before said where
    to look. Its regions are in one of two buffers, which take turns: a run reads one and writes the other.

    ``submit`` gives a frame to the GPU and waits for nothing; ``push`` starts the copy of its rows, which is the only
    copy, and ``take`` gives them, then or later; ``prepare`` does what can be done for the next frame before it is
    there. The objects of pictures and the memory between the models are those of ``api``, whose context is current.
    """

    def __init__(
        self, models: ChainModels, size: Size, api: fb.Backend, options: fb.GpuDelegateOptions | None = None
    ) -> None:
        """``options`` are the delegate's, but for its backend: see Postprocess."""
        options = replace(options or fb.GpuDelegateOptions(), backend=api.name)
        self._models = models
        self._whole = fb.Region(api.new_buffer(sampled_region(letterbox(size), models.side)), steps=STEPS)
        self._detect = Postprocess(models.detect, options, api)
        self._look = Postprocess(models.look, options, api, models.feedback, unbound=models.masks)
        self._parts = [Postprocess(part.content, options, api) for part in models.parts]
        rows, *others = self._look.outputs
        followed = others[: len(others) - len(models.gives)]
        self._crops = self._connect(dict(zip((ROWS, *models.gives), (rows, *others[len(followed) :]), strict=True)))
        rows = self._parts[-1].outputs[0] if self._parts else rows
        places = [*self._detect.outputs, *followed[1:]]
        self._places = [_Places(each, [fb.Region(each, row, STEPS) for row in range(models.count)]) for each in places]
        if followed:
            self._detect.bind(1, followed[0])
        self._kept = [*followed[:1], *(part.outputs[0] for part in self._parts[-1:])]
        """The outputs that the next frame reads, besides states."""
        self._ring = rows.read_ring(1, reason=DETECTIONS)
        self._read = np.empty((models.count, models.columns), np.float32)
        self._api = api
        self._last: Any = None
        """The picture that was submitted, until ``prepare``."""
        self._is_ready = False
        """The regions of the next frame are bound."""
        self._masks = dict[int, Any]()
        """The objects that masks are written to, by their outputs' numbers."""
        self._frequencies = dict[float, Any]()
        """Buffers that hold a frequency. Few differ: timestamps are whole milliseconds."""

    def _connect(self, outputs: dict[str, Any]) -> list[list[list[fb.Region]]]:
        """Bind outputs to the inputs that read them. Returns the regions of each sight of each part."""
        for part, model in zip(self._models.parts, self._parts, strict=True):
            outputs.update(zip(part.gives, model.outputs, strict=True))
        for part, model in zip(self._models.parts, self._parts, strict=True):
            for number, name in enumerate(part.reads, len(part.sights)):
                model.bind(number, outputs[name])
        return [
            [[fb.Region(outputs[sight.regions], row, STEPS) for row in range(sight.places)] for sight in part.sights]
            for part in self._models.parts
        ]

    def warm(self, picture: Any, masks: Sequence[Any] = ()) -> None:
        """Compile for pictures and masks like these, and upload all constants."""
        for model in self._take(picture, 1.0, masks, detect=True):
            model.record()

    def submit(self, picture: Any, hertz: float = 30.0, masks: Sequence[Any] = (), *, detect: bool = True) -> None:
        """Find and look in a picture, which follows the last one after 1 / ``hertz`` seconds.

        ``masks`` are buffers or textures to write the models' masks to. Without ``detect`` only what was there in the
        last frame is looked at; if nothing is followed from frame to frame, there is always a search.
        """
        for model in self._take(picture, hertz, masks, detect=detect):
            model.run()
        self._places.reverse()  # what this frame wrote is where the next one looks
        self._last, self._is_ready = picture, False

    def _take(self, picture: Any, hertz: float, masks: Sequence[Any], *, detect: bool) -> list[Postprocess]:
        """Bind a picture. Returns the models that run, in order."""
        detector, network = self._models.normalizations
        now, *following = self._places
        if not self._is_ready:
            self._bind_regions()
        detect = detect or not following
        if detect:
            self._detect.bind(0, picture, crop=self._whole, pad=0.0, mean=detector.mean, std=detector.std)
            self._detect.bind_output(0, now.buffer)
        _show(self._look, 0, picture, now.crops, network)
        self._bind_masks(masks)
        if self._models.feedback:
            self._look.bind(2, self._frequency(hertz))
        for part, model, crops in zip(self._models.parts, self._parts, self._crops, strict=True):
            for number, (sight, regions) in enumerate(zip(part.sights, crops, strict=True)):
                _show(model, number, picture, regions, sight.normalization, sight.pad)
        return [*([self._detect] if detect else []), self._look, *self._parts]

    def _bind_masks(self, masks: Sequence[Any]) -> None:
        """Write masks to these objects. One of another library is bound for each frame, behind its library's work."""
        for number, mask in enumerate(masks, len(self._look.outputs)):
            if mask is not self._masks.get(number) or getattr(mask, "released", True):
                self._look.bind_output(number, mask)
                self._masks[number] = mask

    def _bind_regions(self) -> None:
        """Bind the regions that the next run of ``look`` reads and, if things are followed, those that it writes."""
        now, *following = self._places
        if following:
            self._look.bind_output(NEXT_REGIONS, following[0].buffer)
        self._look.bind(1, now.buffer)

    def _frequency(self, hertz: float) -> Any:
        """The buffer of a frequency. A new one is a copy of 4 bytes."""
        if hertz not in self._frequencies:
            if len(self._frequencies) == MOST_FREQUENCIES:
                self._frequencies.pop(next(iter(self._frequencies))).release()
            with fb.transfer_guard("allow"):
                self._frequencies[hertz] = self._api.new_buffer(np.array([hertz], np.float32))
        return self._frequencies[hertz]

    def push(self) -> None:
        """Start the copy of the rows of the frame that was submitted. Waits for nothing."""
        self._ring.push()

    def prepare(self) -> None:
        """Bind all but the picture for the next frame, while the GPU works. Does nothing if that was done."""
        if self._last is not None and len(self._places) > 1:
            self._bind_regions()
            _show(self._look, 0, self._last, self._places[0].crops, self._models.normalizations[1])
            self._look.record()
            self._is_ready = True
        self._last = None

    def take(self) -> Array:
        """The rows (count, columns) that were copied: an array that the next call fills again. Waits for the GPU."""
        self.prepare()
        self._ring.take(self._read)
        return self._read

    def forget(self) -> None:
        """Begin a clip, whose first frame is one with ``detect``: what was seen so far is not followed."""
        self._ring.clear()
        self._look.forget()
        for buffer in self._kept:
            with fb.transfer_guard("allow"):
                buffer.write(np.zeros(buffer.nbytes // 4, np.float32))

    def close(self) -> None:
        """Free all memory on the GPU."""
        self._ring.release()
        for model in (self._detect, self._look, *self._parts):
            model.close()
        self._whole.buffer.release()
        for buffer in self._frequencies.values():
            buffer.release()


def _show(
    model: Postprocess, number: int, picture: Any, crops: Sequence[fb.Region], values: Normalization,
    pad: float | None = None,
) -> None:  # fmt: skip
    """Bind a picture, as a model sees it in each of some regions, to its input of that number."""
    pictures, place = ([picture] * len(crops), [*crops]) if len(crops) > 1 else (picture, crops[0])
    model.bind(number, pictures, crop=place, pad=pad, mean=values.mean, std=values.std)
