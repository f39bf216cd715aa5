"""Masks that a model behind a network writes to objects of the caller, in the GPU's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import framebind as fb

from ...answers.postprocess import Postprocess
from ...basic_types import Size
from .errors import TaskError
from .gpu_picture import GpuPicture


def check_masks(masks: Sequence[Any], count: int) -> tuple[Any, ...]:
    """The objects for masks, of which a picture has ``count``. TaskError for another number of them."""
    if not count:
        raise TaskError("no masks were asked for: set the option that does, such as output_segmentation_masks")
    if len(masks) != count:
        raise TaskError(f"{len(masks)} objects for masks, and a picture has {count}: give one for each")
    return tuple(masks)


class WrittenMasks:
    """Masks that are made of a network's scores. ``model_for`` gives the model that makes them for a picture's size."""

    def __init__(self, model_for: Callable[[Size], bytes]) -> None:
        self._model_for = model_for
        self.objects: tuple[Any, ...] = ()
        """The objects to which masks are written; nothing was bound if it is empty."""
        self._model: Postprocess | None = None
        self._made_for: tuple[Size, Any] | None = None

    def write(self, scores: Any, picture: GpuPicture) -> None:
        """Write the masks of a picture, of which a network that was submitted puts its scores into this buffer."""
        if scores is None:
            raise TaskError("this network's masks are computed on the CPU: bind no objects for masks, and take them")
        model = self._model
        if model is None or self._made_for != (picture.size, scores):
            self.close()
            self._made_for = picture.size, scores
            with fb.transfer_guard("allow"):  # constants are uploaded once
                options = fb.GpuDelegateOptions(picture.api.name)
                content = self._model_for(picture.size)
                model = self._model = Postprocess(content, options, picture.api, unbound=len(self.objects))
                model.bind(0, scores)
                self._bind(model)
                model.record()
        else:
            self._bind(model)
        model.run()

    def _bind(self, model: Postprocess) -> None:
        for number, each in enumerate(self.objects):
            model.bind_output(number, each)

    def close(self) -> None:
        """Free all memory on the GPU."""
        if self._model is not None:
            self._model.close()
        self._model = None
