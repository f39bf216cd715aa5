"""Regions of pictures whose places lie in a buffer of the GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ROW_BYTES = 32
"""Bytes of a row: eight float32."""


@dataclass(frozen=True, repr=False)
class Region:
    """A crop whose place lies in a buffer on the GPU, where each run reads it: ``bind_buffer_to_tensor(crop=...)``.

    The buffer has rows of eight float32 (32 bytes): a, b, c, and one that is not read; d, e, f, and one that is not
    read. They map the tensor to the picture: its point (u, v), from (0, 0) at the outer corner of its first pixel to
    (1, 1) at that of its last one, lies at (a u + b v + c, d u + e v + f). This is in texels of the upright picture,
    whose first texel reaches from 0 to 1. An upright rectangle (x, y, width, height) is the row
    width, 0, x, 0, 0, height, y, 0; one that is turned by t around (x, y), clockwise, is
    width cos t, -height sin t, x - (a + b) / 2, 0, width sin t, height cos t, y - (d + e) / 2, 0.

    Work that was submitted before a run may write the rows: an output of another model, a kernel of the user's. Nothing
    waits, and no number passes through the CPU.

    Attributes
    ----------
    buffer
        A buffer, or an array of float32 without gaps, of the API that the model runs in. The delegate keeps it alive.
    index
        The number of the row.
    steps
        Coordinates of samples are rounded to this many steps of a texel, and then their values, from 0 to 1, to
        multiples of 1/255; 0: neither is. 32 is what OpenCV's warpAffine and warpPerspective do to pictures of bytes,
        and so the crops of MediaPipe.

    Examples
    --------
    >>> import framebind as fb
    >>> with fb.GlContext.headless():
    ...     rows = fb.GlBuffer(64, np.array([4, 0, 2, 0, 0, 4, 1, 0] * 2, np.float32))
    ...     fb.Region(rows, index=1)
    <Region: row 1 of a GlBuffer, 0 steps>
    """

    buffer: Any
    index: int = 0
    steps: int = 0

    def __repr__(self) -> str:
        return f"<Region: row {self.index} of a {type(self.buffer).__name__}, {self.steps} steps>"

    def __eq__(self, other: object) -> bool:
        """Whether both are the same row of one buffer: arrays compare their values, so that identity decides."""
        if not isinstance(other, Region):
            return NotImplemented
        return self.buffer is other.buffer and (self.index, self.steps) == (other.index, other.steps)

    def __hash__(self) -> int:
        return hash((id(self.buffer), self.index, self.steps))
