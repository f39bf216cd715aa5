"""Pictures of any API to regions and landmarks, with nothing read between the networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import framebind as fb

from ...answers.postprocess import Postprocess
from ...basic_types import Array, Size
from ...copies import DETECTIONS
from ..calculators.image_to_tensor import STEPS
from .chain_models import ROWS, ChainModels, Normalization, letterbox, sampled_region

MOST_FREQUENCIES = 64
"""Frequencies whose buffers are kept."""
NEXT_REGIONS = 2
"""The number of the output of ``ChainModels.look`` with the regions of the next frame."""


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
