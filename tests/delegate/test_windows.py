"""Windows of attention: layers compute rows where they lie, and attention finds its windows in the picture."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from framebind.interop.device import Device
from framebind.tools.certify.cases.formulas import Formula
from support.formulas import error_on, kernels_of

GRID, WINDOW, DEPTH, ROWS = (2, 3), (5, 4), 8, 120
RANDOM = np.random.default_rng(3)


class Block(Formula):
    """A block of a network that attends within windows of a picture, and adds what a layer makes of that to it."""

    def __init__(self, heads: int = 2, depth: int = DEPTH) -> None:
        self.heads, self.depth, self.width = heads, depth, heads * depth
        self.picture = (1, GRID[0] * WINDOW[0], GRID[1] * WINDOW[1], self.width)
        super().__init__(self.picture)

    def layer(self, x: int, units: int, keeps: bool = True) -> int:
        *rows, given = self.shape(x)
        weights = self.constant(RANDOM.normal(0, given**-0.5, (units, given)))
        bias = self.constant(RANDOM.normal(0, 1, units))
        shape = (*rows, units) if keeps else (int(np.prod(rows)), units)
        return self.add("FULLY_CONNECTED", x, weights, bias, shape=shape, keepNumDims=keeps)

    def cut(self, x: int) -> int:
        """All rows of the windows of a picture, one window after the other."""
        split = self.reshape(x, GRID[0], WINDOW[0], GRID[1], WINDOW[1], self.width)
        return self.reshape(self.transpose(split, 0, 2, 1, 3, 4), ROWS, self.width)

    def attended(self, rows: int) -> int:
        """Rows of queries, keys and values side by side as windows of attention."""
        windows, tokens = int(np.prod(GRID)), int(np.prod(WINDOW))
        shape = (windows, self.heads, tokens, self.depth)
        turned = self.transpose(self.reshape(rows, windows, tokens, 3, self.heads, self.depth), 2, 0, 3, 1, 4)
        sizes = self.constant((1, *shape), "int32")
        begins = [self.constant((number, 0, 0, 0, 0), "int32") for number in range(3)]
        q, k, v = (self.reshape(self.add("SLICE", turned, at, sizes, shape=(1, *shape)), *shape) for at in begins)
        scores = self.add("BATCH_MATMUL", q, k, shape=(*shape[:3], tokens), adjX=False, adjY=True)
        shares = self.add("SOFTMAX", scores, beta=1.0)
        product = self.add("BATCH_MATMUL", shares, v, shape=shape, adjX=False, adjY=False)
        return self.reshape(self.transpose(product, 0, 2, 1, 3), *GRID, *WINDOW, self.width)

    def joined(self, windows: int) -> int:
        """The picture of windows."""
        return self.reshape(self.transpose(windows, 0, 2, 1, 3, 4), *self.picture)

    def values(self) -> list[np.ndarray]:
        return [np.random.default_rng(1).normal(0, 1, self.picture).astype(np.float32)]


def block(f: Block, keeps: bool = True) -> int:
    rows = f.layer(f.cut(f.add("ABS", 0)), 3 * f.width, keeps)
    return f.add("ADD", 0, f.joined(f.layer(f.attended(rows), f.width)))


@pytest.mark.parametrize(("heads", "keeps"), [(1, True), (2, False)])
def test_windows_take_no_copies(gpu: Device, heads: int, keeps: bool) -> None:
    f = Block(heads)
    model = f.model(block(f, keeps))
    assert kernels_of(model) == ["copy", "conv", "attention", "conv"]
    assert error_on(gpu, model, f.values()) < 1e-5


def wide_heads() -> tuple[Block, int]:
    """Heads of more channels than attention takes: its products are steps of their own."""
    f = Block(1, 132)
    return f, block(f)


def read_rows() -> tuple[Block, int]:
    """Something else reads the layer's rows, too, and adds them up."""
    f = Block()
    rows = f.layer(f.cut(f.add("ABS", 0)), 3 * f.width)
    total = f.add("MEAN", rows, f.constant((0,), "int32"), shape=(3 * f.width,), keepDims=False)
    part = f.add("SLICE", total, f.constant((0,), "int32"), f.constant((f.width,), "int32"), shape=(f.width,))
    return f, f.add("ADD", f.joined(f.layer(f.attended(rows), f.width)), part)


def no_whole_rows() -> tuple[Block, int]:
    """A model whose movement of values cuts rows: the layer behind it reads others than those before it."""
    f = Block()
    split = f.reshape(f.add("ABS", 0), 10, 12, 2, f.width // 2)
    rows = f.layer(f.reshape(f.transpose(split, 0, 2, 1, 3), ROWS, f.width), 3 * f.width)
    return f, f.add("ADD", 0, f.joined(f.layer(f.attended(rows), f.width)))


@pytest.mark.parametrize(
    ("made", "kernels"),
    [
        (
            wide_heads,
            ["copy", "strided_copy", "conv", "strided_copy", "strided_copy", "matmul", "strided_copy", "normalization"],
        ),
        (read_rows, ["copy", "conv", "strided_copy", "attention", "reduce", "conv"]),
        (no_whole_rows, ["copy", "strided_copy", "conv", "attention", "conv"]),
    ],
)
def test_what_resembles_windows_computes_the_same(
    gpu: Device, made: Callable[[], tuple[Block, int]], kernels: list[str]
) -> None:
    f, result = made()
    model = f.model(result)
    assert kernels_of(model)[: len(kernels)] == kernels
    assert error_on(gpu, model, f.values()) < 1e-5
