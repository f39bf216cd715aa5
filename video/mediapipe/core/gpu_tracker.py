"""Things in pictures on the GPU, followed from frame to frame: which model runs, and when its rows are taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

import framebind as fb

from ...basic_types import Array, Size
from .chain import Chain
from .chain_models import ChainModels
from .errors import TaskError
from .gpu_picture import GpuPicture
from .written_masks import check_masks

Result = TypeVar("Result")
HERTZ = 30.0
"""The frequency of frames before it is known, as the One-Euro filter has it."""


class Found(NamedTuple):
    """The things in a picture."""

    rows: Array
    """The rows (n, columns) of those that are there."""
    size: Size
    """The picture's."""
    masks: tuple[Any, ...]
    """The objects to which the picture's masks were written."""


class GpuTracker(Generic[Result]):
    """A task on pictures in the GPU's memory: a chain for pictures of one size at a time.

    ``models_for`` gives its models for a size, to look for ``count`` things; ``result_of`` makes a result of what
    was found. With another size or API the chain begins anew, and what was seen is forgotten. The chain computes
    ``masks`` masks.
    """

    def __init__(
        self,
        models_for: Callable[[Size], ChainModels],
        count: int,
        result_of: Callable[[Found], Result],
        masks: int = 0,
    ) -> None:
        self._masks, self._mask_count = tuple[Any, ...](), masks
        self._models_for, self._count, self._result_of = models_for, count, result_of
        self.options = fb.GpuDelegateOptions()
        """The delegate's options of the chain that is made next; its API is that of the pictures."""
        self._chain: Chain | None = None
        self._made_for: tuple[Size, str] | None = None
        self._number, self._rows = 0, dict[int, Array]()
        """The number of the last frame, and the rows that were read, but not taken, by the numbers of their frames."""
        self.forget()

    def bind_masks(self, masks: Sequence[Any]) -> None:
        """Write masks to these objects, from the next picture on. TaskError if the chain computes not so many."""
        self._masks = check_masks(masks, self._mask_count)

    def forget(self) -> None:
        """Forget what was seen in earlier frames."""
        self._is_reading, self._seen, self._last = False, 0, 0.0
        if self._chain is not None:
            self._chain.forget()

    def begin(self, picture: GpuPicture, milliseconds: float) -> Callable[[], Result]:
        """Submit the next frame. Returns a function that gives its result, to be called before the next but one.

        The detector runs if fewer than ``count`` things are followed. The rows of the frame before say so: they are
        waited for, if the GPU is not done with them.
        """
        number = self.submit(picture, milliseconds)
        if self._chain is not None:
            self._chain.prepare()
        return partial(self._result, number, picture.size, self._masks)

    def _result(self, number: int, size: Size, masks: tuple[Any, ...]) -> Result:
        return self._result_of(Found(self.take(number), size, masks))

    def submit(self, picture: GpuPicture, milliseconds: float) -> int:
        """Submit the next frame, and start the copy of its rows: see ``begin``. Returns the frame's number."""
        self._read()
        for number in [*self._rows]:
            if number < self._number:  # nobody took them
                del self._rows[number]
        chain = self._chain_for(picture)
        hertz = 1000 / (milliseconds - self._last) if self._seen and self._last > 0 else HERTZ
        hertz = float(np.float32(hertz))  # as the GPU has it: times that are sums of 1000 / 30 give one frequency
        chain.submit(picture.obj, hertz, self._masks, detect=self._seen < self._count)
        chain.push()
        self._is_reading, self._last = True, milliseconds
        self._number += 1
        return self._number

    def take(self, number: int) -> Array:
        """The rows (n, columns) of the things in the frame of that number: the last one, or the one before."""
        if number not in self._rows:
            self._read()
        return self._rows.pop(number)

    def _read(self) -> None:
        """Wait for the rows of the last frame, if they are on their way."""
        if self._is_reading and self._chain is not None:
            rows = self._chain.take()
            self._is_reading = False
            self._rows[self._number] = rows[rows[:, -1] > 0]
            self._seen = len(self._rows[self._number])

    def _chain_for(self, picture: GpuPicture) -> Chain:
        if len(self._masks) != self._mask_count:
            raise TaskError(
                f"masks of a picture in the GPU's memory are written to your own textures or buffers: give "
                f"{self._mask_count} of {picture.size[0]}x{picture.size[1]} pixels to bind_masks"
            )
        made_for = picture.size, picture.api.name
        if self._chain is None or self._made_for != made_for:
            self.close()
            with fb.transfer_guard("allow"):  # constants are uploaded once
                self._chain = Chain(self._models_for(picture.size), picture.size, picture.api, self.options)
                self._made_for = made_for
                self._chain.warm(picture.obj, self._masks)
            self.forget()
        return self._chain

    def close(self) -> None:
        """Free all memory on the GPU."""
        if self._chain is not None:
            self._chain.close()
        self._chain = None
