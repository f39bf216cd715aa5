"""Maximum poolings that the reader of their values computes while it reads: the same values, a step less."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from framebind.delegate.transform.graph import Node
from framebind.delegate.transform.max_pools import fuse_max_pools
from framebind.delegate.transform.pipeline import Pass
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.reduction.pool import Pooling
from framebind.kernels.ops.window import Window
from framebind.kernels.views import Storage
from support.graphs import Array, Shape, check, conv, convolved, normal, run, target_of


def pool(
    source: int, destination: int, window: Window, epilogue: tuple[FusedOp, ...] = (), *, maximum: bool = True
) -> Node:
    return Node("MAX_POOL_2D", Pooling(window, maximum=maximum), (source,), (destination,), epilogue)


def largest(x: Array) -> npt.NDArray[np.float32]:
    batch, height, width, channels = x.shape
    return x.reshape(batch, height // 2, 2, width // 2, 2, channels).max((2, 4))


HALF = Window((2, 2), (2, 2))


@pytest.mark.parametrize("storage", ["f32", "f16"])
@pytest.mark.parametrize("channels", [8, 6], ids=["as many", "fewer"])
def test_a_link_reads_the_largest_of_four_pixels(device: Device, channels: int, storage: Storage) -> None:
    """Channels that are written and not there are added nothing."""
    x = normal(2, 6, 10, 7)
    first, second = (normal(out, 7).astype(np.float16).astype(np.float32) for out in (channels, 8))
    shapes: dict[int, Shape] = {0: x.shape, 1: (2, 6, 10, channels), 2: (2, 3, 5, channels), 3: (2, 3, 5, 7)}
    shapes |= {4: (2, 3, 5, 8)}
    nodes = [
        conv(0, 1, first), pool(1, 2, HALF), pool(0, 3, Window((1, 1), (2, 2))),
        conv(3, 4, second, (FusedOp("ADD", 2), FusedOp("RELU"))),
    ]  # fmt: skip
    target = target_of(device, storage, matrix_units=False)
    program, found = run(device, shapes, nodes, (4,), x, storage, target=target)
    assert [step.kernel.source.name for step in program.steps] == ["conv", "pool", "conv"]
    expected = convolved(x[:, ::2, ::2], second)
    expected[..., :channels] += largest(convolved(x, first))
    check(device, found, [np.maximum(expected, 0)])


@dataclass(frozen=True)
class LeftAlone:
    """A pooling that stays a step of its own: the pooling, what reads it, the graph's outputs, the picture's height."""

    pooling: Node
    readers: tuple[Node, ...]
    outputs: tuple[int, ...] = (2,)
    height: int = 6


POOLING = pool(0, 1, HALF)
READER = pool(0, 2, Window((1, 1), (2, 2)), (FusedOp("ADD", 1),))
"""A node whose epilogue reads the pooling. Its operand would be read as the largest of four pixels of tensor 0."""
LEFT_ALONE = {
    "it is an output": LeftAlone(POOLING, (READER,), outputs=(2, 1)),
    "it has two readers": LeftAlone(
        POOLING, (READER, pool(0, 3, Window((1, 1), (2, 2)), (FusedOp("SUB", 1),))), outputs=(2, 3)
    ),
    "it is an input of its reader": LeftAlone(POOLING, (pool(1, 2, Window((1, 1), (1, 1))),)),
    "it is a mean": LeftAlone(pool(0, 1, HALF, maximum=False), (READER,)),
    "it has an epilogue": LeftAlone(pool(0, 1, HALF, (FusedOp("RELU"),)), (READER,)),
    "it is padded": LeftAlone(POOLING, (READER,), height=5),
    "its window is larger": LeftAlone(pool(0, 1, Window((3, 3), (2, 2))), (READER,)),
}


@pytest.mark.parametrize("why", LEFT_ALONE)
def test_others_stay_steps(device: Device, why: str) -> None:
    case = LEFT_ALONE[why]
    small = (1, 3, 4, 8)
    shapes: dict[int, Shape] = {0: (1, case.height, 8, 8), 1: small, 2: small, 3: small}
    # The graph's order as other passes leave it; they would absorb the elementwise nodes.
    nodes, x = [case.pooling, *case.readers], normal(*shapes[0])
    program, found = run(device, shapes, list(nodes), case.outputs, x, passes=(Pass(fuse_max_pools),))
    _, expected = run(device, shapes, list(nodes), case.outputs, x, passes=())
    assert len(program.steps) == len(nodes)
    check(device, found, expected)
