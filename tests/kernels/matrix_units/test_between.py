"""Two convolutions in one step whose sums are integers: what stands between them is rounded to numbers of steps."""

from __future__ import annotations

import numpy as np
import pytest

from framebind.delegate.transform.graph import Node
from framebind.delegate.transform.pipeline import PASSES
from framebind.delegate.transform.separable import fuse_expanded, fuse_separable
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.bottleneck.expanded import ExpandedTile
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.depthwise import Depthwise
from framebind.kernels.ops.convolution.separable import SeparableTile
from framebind.kernels.ops.window import Window
from framebind.kernels.views import Storage
from support.graphs import Array, Shape, run, target_of

POINT, WINDOW = Window((1, 1), (1, 1)), Window((3, 3), (1, 1))
SEPARABLE, WIDE = SeparableTile(1, 1, 1, 6), SeparableTile(1, 16, 4, 6)
EXPANDED = ExpandedTile(2, 3, 4, 2, 1)
RANDOM = np.random.default_rng(5)


def integers(*shape: int) -> Array:
    return RANDOM.integers(-127, 128, shape).astype(np.float32)


def steps(operand: int, lowest: float) -> tuple[FusedOp, ...]:
    return FusedOp("MUL", operand), FusedOp("STEPS", values=(lowest, 100.0, 1.0))


def block() -> tuple[dict[int, Shape], list[Node], dict[int, Array]]:
    """A 1x1 convolution 0 to 1, a depthwise one 1 to 2, a 1x1 convolution 2 to 3; factors are 4, 5 and 6."""
    channels, depth, out = 11, 22, 6
    shapes: dict[int, Shape] = {i: (2, 7, 9, n) for i, n in enumerate((channels, depth, depth, out))}
    shapes |= {4: (depth,), 5: (depth,), 6: (out,)}
    constants = {i: RANDOM.uniform(0.5, 2, shapes[i]).astype(np.float32) / n for i, n in ((4, 500), (5, 300), (6, 900))}
    expand = Convolution(POINT, integers(depth, 1, 1, channels), 30 * integers(depth), integer_weights=True)
    depthwise = Depthwise(WINDOW, 1, integers(1, 3, 3, depth), 30 * integers(depth), integer_weights=True)
    project = Convolution(POINT, integers(out, 1, 1, depth), None, integer_weights=True)
    nodes = [
        Node("CONV_2D", expand, (0,), (1,), steps(4, 0.0)),
        Node("DEPTHWISE_CONV_2D", depthwise, (1,), (2,), steps(5, -90.0)),
        Node("CONV_2D", project, (2,), (3,), steps(6, -100.0)),
    ]
    return shapes, nodes, constants


@pytest.mark.parametrize(
    ("fixed", "storage"),
    [
        ({"separable": SEPARABLE}, "f32"), ({"separable": WIDE}, "f16"),
        ({"expanded": EXPANDED}, "f32"), ({"expanded": EXPANDED}, "f16"),
    ],
    ids=str,
)  # fmt: skip
def test_one_step_computes_the_integers_of_two(device: Device, fixed: dict[str, object], storage: Storage) -> None:
    """Bit by bit: sums of integers are exact in any order."""
    (shapes, nodes, constants), x = block(), integers(2, 7, 9, 11)
    kept = fuse_expanded if "separable" in fixed else None
    passes = tuple(each for each in PASSES if each.run is not kept)
    target = target_of(device, storage, fixed=fixed)
    fused, (found,) = run(
        device, shapes, list(nodes), (3,), x, storage, constants=constants, target=target, passes=passes
    )
    without = tuple(each for each in PASSES if each.run not in (fuse_separable, fuse_expanded))
    apart, (wanted,) = run(device, shapes, list(nodes), (3,), x, storage, constants=constants, passes=without)
    assert len(apart.steps) == 3
    if device.traits.api != "null":
        assert len(fused.steps) == 2 and fixed.keys() < {step.kernel.source.name for step in fused.steps}
        assert len(np.unique(wanted)) > 50
        np.testing.assert_array_equal(found, wanted)
