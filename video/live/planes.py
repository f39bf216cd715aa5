"""Streams on CUDA: NVDEC decodes them, and the model reads their frames where they are. No picture is drawn."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..apis import DECODING
from ..copies import WEB_PICTURE
from ..models import find_model
from ..network import Network
from ..task import Run
from ..work import Work
from .pictures import WIDEST

_TINT = 0.5
"""Share of a mask's colour where it is not black."""


@contextlib.contextmanager
def open_planes_viewer(work: Work) -> Iterator[PlanesViewer]:
    """A viewer with a CUDA context of its own, on which models wait for their own pictures, not for other streams'."""
    with DECODING.new_context(work.options.device, independent=True) as context:
        viewer = PlanesViewer(context, work)
        with contextlib.closing(viewer):
            yield viewer


class PlanesViewer:
    """The context and the model, which all streams share unless it is recurrent. Implements Viewer.

    ``api`` is the context's.
    """

    def __init__(self, context: Any, work: Work, *, api: fb.Backend = DECODING) -> None:
        self.context, self._work, self._api = context, work, api
        self.model = self._make()
        self._own: dict[str, Network] = {}
        """The networks of a recurrent model by stream."""

    def _make(self) -> Network:
        path, options = find_model(self._work.model_name), replace(self._work.options, backend=self._api.short)
        return Network(path, options.options(path), api=self._api, further=options.further)

    def close(self) -> None:
        """Free the models' memory on the GPU."""
        for network in {self.model, *self._own.values()}:
            network.close()

    def open(self, address: str, options: fb.video.StreamOptions) -> fb.video.Source:
        if self._api is not DECODING:
            return fb.open_source(address, stream=options)
        self.context.make_current()  # on this thread: NVDEC decodes to the context that is current
        try:
            return fb.open_source(address, stream=options)
        finally:
            self.context.release()

    def frames(self, source: fb.video.Source) -> Iterator[fb.Frame | None]:
        return source.frames(wait=False)

    def view(self, source: fb.video.Source, name: str) -> PlanesView:
        if not self.model.feedback:
            return PlanesView(self.model, self._work, source)
        if name not in self._own:
            self._own[name] = self._make() if self._own else self.model
        self._own[name].reset_feedback()  # also of a stream that comes back
        return PlanesView(self._own[name], self._work, source)

    def copies(self, source: fb.video.Source) -> bool:
        return source.decoder != "nvdec"


class PlanesView:
    """A stream's finder, and its last picture. Implements View."""

    def __init__(self, network: Network, work: Work, source: fb.video.Source) -> None:
        self._network, self._work = network, work
        self._use(source.size)
        self._frame: fb.Frame | None = None

    def _use(self, size: tuple[int, int]) -> None:
        """Find things in frames of that size, upright, from now on."""
        self._size, self._finder = size, self._work.finder(self._network, size)

    def find(self, frame: fb.Frame) -> list[dict[str, Any]]:
        previous, self._frame = self._frame, frame
        if frame.size != self._size:  # a stream that came back: NVDEC does not scale
            previous = None
            self._use(frame.size)
        return self._finder.find_in_full(Run(frame, partial(self._network.run_on, frame, previous=previous)))

    def pixels(self) -> npt.NDArray[Any]:
        assert self._frame is not None
        pixels = self._frame.read_rgba(WIDEST, reason=WEB_PICTURE)
        if self._finder.colored_mask is not None:
            height, width = pixels.shape[:2]
            tint(pixels, self._finder.colored_mask((width, height)))
        if self._finder.mark is not None:
            marks = fb.video.Marks(scale=pixels.shape[1] / self._size[0])
            self._finder.mark(marks)
            marks.paint(pixels)
        return pixels


def tint(pixels: npt.NDArray[np.uint8], mask: npt.NDArray[np.uint8]) -> None:
    """Mix the colours of a mask, RGBA, into a picture of the same size, where they are not black."""
    import cv2  # only here: commands start without it

    is_tinted = (mask[..., 0] | mask[..., 1] | mask[..., 2]).astype(bool)  # faster than any()
    mixed = cv2.addWeighted(pixels, 1 - _TINT, mask, _TINT, 0)
    np.copyto(pixels[..., :3], mixed[..., :3], where=is_tinted[..., None])
