"""Things in pictures on the GPU, followed from frame to frame: which model runs, and how much time has passed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

import framebind as fb

from .chain import Chain, Size
from .gpu_picture import GpuPicture

Array = npt.NDArray[Any]
HERTZ = 30.0
"""The frequency of frames before it is known, as the One-Euro filter has it."""


class GpuTracker:
    """A chain for pictures of one size at a time. ``make_chain`` makes it for a size and an API.

    With another size or API it begins anew, and what was seen is forgotten.
    """

    def __init__(self, make_chain: Callable[[Size, fb.Backend], Chain], count: int) -> None:
        self._make_chain, self._count = make_chain, count
        self._chain: Chain | None = None
        self._made_for: tuple[Size, str] | None = None
        self.forget()

    def forget(self) -> None:
        """Forget what was seen in earlier frames."""
        self._seen, self._last = 0, 0.0
        if self._chain is not None:
            self._chain.forget()

    def find(self, picture: GpuPicture, milliseconds: float, masks: Sequence[Any] = ()) -> Array:
        """The rows (n, columns) of the things in the next frame. Only these are read: see ``Chain.read``. ``masks`` are
        objects to write masks to, one for each of ``count``.

        The detector runs if fewer than ``count`` things are followed.
        """
        chain = self._chain_for(picture, masks)
        hertz = 1000 / (milliseconds - self._last) if self._seen and self._last > 0 else HERTZ
        chain.submit(picture.obj, hertz, masks, detect=self._seen < self._count)
        rows = chain.read()
        rows = rows[rows[:, -1] > 0]
        self._seen, self._last = len(rows), milliseconds
        return rows

    def _chain_for(self, picture: GpuPicture, masks: Sequence[Any]) -> Chain:
        made_for = picture.size, picture.api.name
        if self._chain is None or self._made_for != made_for:
            self.close()
            with fb.transfer_guard("allow"):  # constants are uploaded once
                self._chain, self._made_for = self._make_chain(picture.size, picture.api), made_for
                self._chain.warm(picture.obj, masks)
            self.forget()
        return self._chain

    def close(self) -> None:
        """Free all memory on the GPU."""
        if self._chain is not None:
            self._chain.close()
        self._chain = None
