"""BATCH_MATMUL with both adjoints and broadcasting batches."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...operation import Collapsed, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...target import Target
from ...tensor import TensorId, broadcast_shape, ranked
from ..arguments import require_float
from .packing import pack_bias

WARP = 32
"""Invocations that multiply fragments together."""
WORTH_A_TILE = 16
"""The least rows, columns and terms of a product by matrix units: a step has 16 rows and terms, and 32 columns."""


@dataclass(frozen=True)
class MatrixProduct(Operation):
    """A product over the last two dimensions of two operands with ``ranks`` dimensions. ``transposed`` operands are
    transposed first.
    """

    ranks: tuple[int, int]
    transposed: tuple[bool, bool]

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        (rows, depth), (other, columns) = (
            _matrix(s, transposed=t) for s, t in zip(shapes[:2], self.transposed, strict=True)
        )
        if depth != other:
            raise ValueError(f"matrices of {shapes} do not multiply")
        return [(*broadcast_shape([shapes[0][:-2], shapes[1][:-2]]), rows, columns)]

    def lower(self, lowering: Lowering) -> list[Launch]:
        first, second = (ranked(lowering.shape(i), rank) for i, rank in zip(lowering.inputs, self.ranks, strict=True))
        return [launch_product(lowering, (lowering.inputs[0], lowering.inputs[1]), (first, second), self.transposed)]

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        """The product with two batch dimensions. Neighbouring dimensions are merged if the same operand is repeated
        along them.
        """
        pairs = itertools.zip_longest(*(shape[-3::-1] for shape in shapes), fillvalue=1)
        wide = [pair for pair in reversed(list(pairs)) if pair != (1, 1)]
        runs = [list(run) for _, run in itertools.groupby(wide, lambda pair: (pair[0] == 1, pair[1] == 1))]
        if len(runs) > 2:
            raise Unsupported(f"batches of {shapes} are repeated along {len(runs)} dimensions; 2 at most are supported")
        sizes = [tuple(map(math.prod, zip(*run, strict=True))) for run in runs]
        merged = [(1, 1)] * (2 - len(runs)) + sizes
        left, right = ((merged[0][i], merged[1][i], *shape[-2:]) for i, shape in enumerate(shapes))
        product = MatrixProduct((4, 4), self.transposed)
        return [Collapsed(product, (left, right), tuple(product.output_shapes([left, right])))]


def _parse(node: TfliteNode) -> Parsed:
    require_float(*node.inputs, *node.outputs)
    first, second = node.inputs
    if first is None or second is None or min(len(first.shape), len(second.shape)) < 2:
        raise Unsupported("it needs two operands of rank 2 or more")
    ranks = len(first.shape), len(second.shape)
    return Parsed(MatrixProduct(ranks, (bool(node.options.AdjX()), bool(node.options.AdjY()))), (0, 1))


def _matrix(shape: tuple[int, ...], *, transposed: bool) -> tuple[int, int]:
    return (shape[-1], shape[-2]) if transposed else (shape[-2], shape[-1])


def launch_product(
    lowering: Lowering,
    tensors: tuple[TensorId, TensorId],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    transposed: tuple[bool, bool],
    bias: np.ndarray | None = None,
) -> Launch:
    """One dispatch that multiplies two tensors of these TFLite shapes; ``bias`` has one value for each column."""
    first, second = shapes
    rows, depth = _matrix(first, transposed=transposed[0])
    columns = _matrix(second, transposed=transposed[1])[1]
    constants: dict[str, int | float] = {"ROWS": rows, "DEPTH": depth, "COLUMNS": columns}
    batches = broadcast_shape([(1, 1, *first[:-2])[-2:], (1, 1, *second[:-2])[-2:]])
    constants["BATCHES"] = batches[1]
    for name, shape, is_transposed in zip(("LEFT", "RIGHT"), shapes, transposed, strict=True):
        outer, inner = (1, 1, *shape[:-2])[-2:]
        constants |= {f"{name}_ROWS": shape[-2], f"{name}_TRANSPOSED": int(is_transposed)}
        constants |= {f"{name}_OUTER": inner if outer > 1 else 0, f"{name}_INNER": 1 if inner > 1 else 0}
    reads: dict[str, TensorId] = {"first": tensors[0], "second": tensors[1]}
    writes: dict[str, TensorId] = {"dst": lowering.outputs[0]}
    arrays = {"bias": pack_bias(bias, columns)}
    target = lowering.target
    if (target.matrix_units and min(rows, columns, depth) >= WORTH_A_TILE) or "matrix_product" in target.fixed:
        more, group_count = _tiles(target, (math.prod(batches), rows, columns, depth))
        exchange = 1 if target.matrix_units else 3 * target.group_size
        local = (("float4", "exchange", exchange),)
        return Launch("matrix_product", reads, writes, group_count, constants | more, arrays, local)
    return Launch("matmul", reads, writes, lowering.groups_for(lowering.outputs[0]), constants, arrays)


def _tiles(target: Target, sizes: tuple[int, int, int, int]) -> tuple[dict[str, int | float], int]:
    """The constants of a product by tiles, and its work-groups: large tiles if they keep the device busy."""
    batches, rows, columns, depth = sizes

    def tiles(size: int) -> int:
        return batches * -(-rows // (16 * size)) * -(-columns // (32 * size))

    size = 2 if tiles(2) * WARP >= target.invocations else 1
    size = target.decide("matrix_product", size)
    constants: dict[str, int | float] = {
        "HEIGHT": size, "WIDTH": size, "STEPS": -(-depth // 16), "ROW_TILES": -(-rows // (16 * size)),
        "COLUMN_TILES": -(-columns // (32 * size)), "TILES": tiles(size),
    }  # fmt: skip
    return constants, -(-tiles(size) // (target.group_size // WARP))


TFLITE = (
    # LiteRT takes no higher rank.
    TfliteOp("BATCH_MATMUL", _parse, max_version=4, inputs=2, max_rank=5, keeps_declared_type=True),
)
