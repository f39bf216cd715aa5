"""The result of one frame of a stream, for programs and files."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from ..results.rows import Row, make_rows
from .views import View


@dataclass(frozen=True)
class WatchResult:
    """The result of one frame of a stream.

    Examples
    --------
    >>> with fb.video.Watch(["picture.png"], "style") as watch:
    ...     result = next(watch)
    ...     result.stream, result.frame, result.found
    ('picture.png', 0, [])
    """

    stream: str
    """The stream's name, without password and query."""
    frame: int
    """The number of the result among those of its stream, from 0."""
    time: float | None
    """Seconds on the stream's clock; None if it has none."""
    at: datetime
    """Time of day at which the frame came, UTC."""
    latency: float
    """Seconds from the arrival of the frame's packet to this result."""
    found: list[dict[str, Any]]
    """A dict for each thing that was found, with keys of ``rows`` that its task knows; empty if nothing was found."""
    _view: View = field(repr=False)

    @property
    def rows(self) -> list[Row]:
        """The rows of ``VideoStage`` for this frame: one for each thing, or one without a class if there is none."""
        return make_rows(self.stream, self.time, self.frame, self.found)

    def picture(self) -> npt.NDArray[np.uint8]:
        """The frame with its marks: RGBA, uint8 of (height, width, 4), at most 960 pixels wide.

        Read it before the next result is taken. The copy from the GPU is counted as "web picture".
        """
        return self._view.pixels()
