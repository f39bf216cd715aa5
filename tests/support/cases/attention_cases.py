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
    """The sizes of an attention: queries, keys and values of all heads lie side by side in one row of each token."""

    windows: int
    heads: int
    queries: int
    keys: int
    depth: int
    width: int
    masked: bool = False


SIZES = [
    Heads(1, 3, 21, 21, 64, 64),
    Heads(2, 1, 5, 37, 96, 32, masked=True),
    Heads(1, 2, 70, 9, 12, 20),
    Heads(3, 2, 16, 16, 32, 96),
]


def case_of(sizes: Heads) -> NodeCase:
    """An attention whose keys and values are in one tensor, the values after all keys."""
    w, h, n, m, d, e = sizes.windows, sizes.heads, sizes.queries, sizes.keys, sizes.depth, sizes.width
    both = h * (d + e)
    places = (
        Places(0, n * h * d, d, h * d),
        Places(0, m * both, d, both),
        Places(h * d, m * both, e, both),
        Places(0, n * h * e, e, h * e),
    )
    destination = (w, n, h * e)
    operation = Attention(w, h, n, m, d, e, places, 0.3, destination, h if sizes.masked else 0)

    def expected(q: Array, k: Array, v: Array, *mask: Array) -> npt.NDArray[np.floating]:
        q, k, v = (x.astype(np.float64) for x in (q, k, v))
        q = q.reshape(w, n, h, d).transpose(0, 2, 1, 3)
        k = k[..., : h * d].reshape(w, m, h, d).transpose(0, 2, 3, 1)
        v = v[..., h * d :].reshape(w, m, h, e).transpose(0, 2, 1, 3)
        scores = q @ k * 0.3 + (mask[0] if mask else 0)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        return (shares / shares.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(destination)

    x = values(w, m, both, seed=1) * 2
    mask = np.where(values(1, h, n, m, seed=4) > 0.5, -1e9, values(1, h, n, m, seed=5)).astype(np.float32)
    inputs = (values(w, n, h * d) * 2, x, x, *([mask] if sizes.masked else []))
    return NodeCase(str(sizes), "ATTENTION", operation, inputs, expected)
