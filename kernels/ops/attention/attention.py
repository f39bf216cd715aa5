"""Attention: softmax(queries keys^T * scale + mask) values, without the matrix of scores in memory.

delegate/transform/attention.py makes it of two products of matrices and the softmax between them. The softmax is
computed as keys come by: each new maximum rescales the sums so far (M. Milakov and N. Gimelshein, Online normalizer
calculation for softmax, arXiv:1805.02867, algorithm 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...operation import Collapsed, Launch, LocalArrays, Lowering, Operation
from ...target import Target
from ...tensor import TensorId, slices

MOST_CHANNELS = 128
"""The most channels of a query and of a value: an invocation keeps a quarter of each of its rows in registers."""
WARP, ROWS, KEYS = 32, 16, 16
"""Invocations that multiply fragments together, the queries that they have, and the keys of one step."""
PLAIN_SCORES, PLAIN_CHUNKS = 8, 8
"""The most scores of four queries that an invocation has if there are no matrix units, and the parts in which a group
finds the largest score.
"""


@dataclass(frozen=True)
class Places:
    """The place of the first channel of a row in a tensor: values from its beginning, and between neighbours.

    ``outers`` and ``rows`` are (count, distance): after so many neighbours the next one lies at that distance from the
    first of them, as in windows of a picture. A count of 0: never.
    """

    base: int
    outer: int
    inner: int
    row: int
    outers: tuple[int, int] = (0, 0)
    rows: tuple[int, int] = (0, 0)

    def fit(self, channels: int, width: int, inner: int) -> bool:
        """Whether rows of ``width`` channels are whole slices of pixels, which have ``channels`` each."""
        steps = (self.row, self.outer, self.outers[1], self.rows[1])
        if channels % 4 or width % 4 or any(step % channels for step in steps):
            return False
        first, step = self.base % channels, 0 if self.inner % channels == 0 else self.inner
        return first % 4 == step % 4 == 0 and first + step * (inner - 1) + width <= channels

    def constants(self, name: str, channels: int) -> dict[str, int | float]:
        """The numbers that a kernel finds rows by: pixels, and slices within a pixel."""
        inside = self.inner % channels
        return {
            f"{name}_BASE": self.base // channels, f"{name}_FIRST": self.base % channels // 4,
            f"{name}_OUTER": self.outer // channels, f"{name}_ROW": self.row // channels,
            f"{name}_INNER": 0 if inside else self.inner // channels, f"{name}_STEP": inside and self.inner // 4,
            f"{name}_OUTERS": self.outers[0], f"{name}_OUTER_FAR": self.outers[1] // channels,
            f"{name}_ROWS": self.rows[0], f"{name}_ROW_FAR": self.rows[1] // channels,
        }  # fmt: skip


@dataclass(frozen=True)
class Attention(Operation):
    """The attention of ``outer`` times ``inner`` heads, whose rows lie at the ``places`` of queries, keys, values and
    the result, in this order.

    Inputs: queries, keys, values, and perhaps a mask that is added to the scores, of shape (batch, heads, queries,
    keys), of which the first three may be 1; ``mask_heads`` is then the second size of the scores, else 0. A row whose
    scores are all minus infinity is the mean of the values.
    """

    limits_errors: ClassVar[bool] = True

    outer: int
    inner: int
    queries: int
    keys: int
    depth: int
    width: int
    places: tuple[Places, Places, Places, Places]
    scale: float
    destination: tuple[int, ...]
    mask_heads: int = 0

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [self.destination]

    def lower(self, lowering: Lowering) -> list[Launch]:
        target, heads = lowering.target, self.outer * self.inner
        units = target.matrix_units or "matrix_attention" in target.fixed
        rows = ROWS if units else self._plain_queries(target)
        tiles = heads * -(-self.queries // rows)
        constants: dict[str, int | float] = {
            "INNER": self.inner, "QUERIES": self.queries, "KEYS": self.keys, "DEPTH_S": slices(self.depth),
            "WIDTH_S": slices(self.width), "SCALE": self.scale, "MASKED": int(self.mask_heads > 0),
            "MASK_HEADS": max(self.mask_heads, 1), "QUERY_TILES": -(-self.queries // rows), "TILES": tiles,
        }  # fmt: skip
        tensors = (*lowering.inputs[:3], lowering.outputs[0])
        for name, places, tensor in zip(("Q", "K", "V", "O"), self.places, tensors, strict=True):
            constants |= places.constants(name, lowering.shape(tensor)[3])
        masks = lowering.inputs[3:] or lowering.inputs[:1]
        reads: dict[str, TensorId] = dict(
            zip(("queries", "keys", "values", "mask"), (*lowering.inputs[:3], *masks), strict=True)
        )
        kernel, more, local, per_group = self._matrix(target, tiles) if units else self._plain(target, rows)
        return [
            Launch(kernel, reads, {"dst": lowering.outputs[0]}, -(-tiles // per_group), constants | more, {}, local)
        ]

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        return ()

    def _matrix(self, target: Target, tiles: int) -> tuple[str, dict[str, int | float], LocalArrays, int]:
        warps, blocks = target.group_size // WARP, -(-self.keys // KEYS)
        split = 1
        while split * 2 <= min(warps, blocks) and tiles * split * WARP < target.invocations:
            split *= 2
        split = target.decide("matrix_attention", split)
        constants: dict[str, int | float] = {
            "SPLIT": split, "ROUNDS": -(-blocks // split), "STEPS": -(-self.depth // 16),
            "WIDTHS": -(-self.width // 32),
        }  # fmt: skip
        size = target.group_size
        exchange = 1 if target.matrix_units else 3 * size
        local = (("float4", "state", size), ("float4", "region", 4 * size), ("float4", "exchange", exchange))
        return "matrix_attention", constants, local, warps // split

    def _plain_queries(self, target: Target) -> int:
        """The queries of a work-group without matrix units: fewer if groups would not fill the device."""
        heads = self.outer * self.inner
        return 16 if heads * -(-self.queries // 16) * target.group_size * 4 > target.invocations else 8

    def _plain(self, target: Target, rows: int) -> tuple[str, dict[str, int | float], LocalArrays, int]:
        size, quarters, depth = target.group_size, rows // 4, slices(self.depth)
        blocks = -(-self.keys // (size * (PLAIN_SCORES // quarters)))
        own = -(-self.keys // (size * blocks))
        constants: dict[str, int | float] = {
            "ROWS": rows, "QUARTERS": quarters, "OWN": own, "BLOCK": own * size, "PARTS": size // slices(self.width),
            "AT_ONCE": 4 if depth % 4 == 0 else 2 - depth % 2, "CHUNKS": PLAIN_CHUNKS,
        }  # fmt: skip
        local = (
            ("float4", "region", own * size * quarters), ("float4", "query", 4 * depth * quarters),
            ("float4", "maxima", PLAIN_CHUNKS * quarters),
        )  # fmt: skip
        return "attention", constants, local, 1
