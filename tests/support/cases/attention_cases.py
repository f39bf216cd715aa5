"""Cases of attention with NumPy references."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from framebind.kernels.ops.attention.attention import Attention, Places
from framebind.tools.certify.cases.operator_models import Array, values
from support.cases.node_cases import NodeCase


@dataclass(frozen=True)
class Heads:
    """The sizes of an attention: queries, keys and values of all heads lie side by side in one row of each token.

    ``grid`` and ``window``: tokens are the pixels of a picture, in so many windows of this height and width.
    """

    windows: int
    heads: int
    queries: int
    keys: int
    depth: int
    width: int
    masked: bool = False
    grid: tuple[int, int] = (0, 0)
    window: tuple[int, int] = (0, 0)

    def places(self, base: int, tokens: int, step: int, channels: int) -> Places:
        """Heads of ``step`` channels from channel ``base`` on, of windows of so many tokens."""
        if not any(self.grid):
            return Places(base, tokens * channels, step, channels)
        (_, across), (height, width) = self.grid, self.window
        row = across * width * channels
        return Places(base, width * channels, step, channels, (across, height * row), (width, row))

    def cut(self, x: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """The windows of tokens of a picture."""
        (down, across), (height, width) = self.grid, self.window
        if not down:
            return x
        return x.reshape(down, height, across, width, -1).transpose(0, 2, 1, 3, 4).reshape(self.windows, self.keys, -1)

    def joined(self, x: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """The picture of windows."""
        (down, across), (height, width) = self.grid, self.window
        if not down:
            return x
        picture = x.reshape(down, across, height, width, -1).transpose(0, 2, 1, 3, 4)
        return picture.reshape(1, down * height, across * width, -1)


SIZES = [
    Heads(1, 3, 21, 21, 64, 64),
    Heads(2, 1, 5, 37, 96, 32, masked=True),
    Heads(1, 2, 70, 9, 12, 20),
    Heads(3, 2, 16, 16, 32, 96),
    Heads(6, 2, 20, 20, 12, 16, grid=(2, 3), window=(5, 4)),
]


def case_of(sizes: Heads) -> NodeCase:
    """An attention whose keys and values are in one tensor, the values after all keys."""
    w, h, n, m, d, e = sizes.windows, sizes.heads, sizes.queries, sizes.keys, sizes.depth, sizes.width
    both = h * (d + e)
    places = (
        sizes.places(0, n, d, h * d), sizes.places(0, m, d, both), sizes.places(h * d, m, e, both),
        sizes.places(0, n, e, h * e),
    )  # fmt: skip
    destination = sizes.joined(np.empty((w, n, h * e))).shape
    operation = Attention(w, h, n, m, d, e, places, 0.3, destination, h if sizes.masked else 0)

    def expected(q: Array, k: Array, v: Array, *mask: Array) -> npt.NDArray[np.floating]:
        q, k, v = (sizes.cut(x.astype(np.float64)) for x in (q, k, v))
        q = q.reshape(w, n, h, d).transpose(0, 2, 1, 3)
        k = k[..., : h * d].reshape(w, m, h, d).transpose(0, 2, 3, 1)
        v = v[..., h * d :].reshape(w, m, h, e).transpose(0, 2, 1, 3)
        scores = q @ k * 0.3 + (mask[0] if mask else 0)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        return sizes.joined((shares / shares.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(w, n, h * e))

    x = sizes.joined(values(w, m, both, seed=1) * 2).astype(np.float32)
    mask = np.where(values(1, h, n, m, seed=4) > 0.5, -1e9, values(1, h, n, m, seed=5)).astype(np.float32)
    queries = sizes.joined(values(w, n, h * d) * 2).astype(np.float32)
    inputs = (queries, x, x, *([mask] if sizes.masked else []))
    return NodeCase(str(sizes), "ATTENTION", operation, inputs, expected)
