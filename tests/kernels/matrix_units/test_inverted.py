"""The three convolutions of an inverted bottleneck as one dispatch: what they compute, and when they are one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framebind.delegate.transform.pipeline import PASSES
from framebind.delegate.transform.separable import fuse_expanded
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.bottleneck.inverted import InvertedTile
from framebind.kernels.ops.window import VALID, Window
from framebind.kernels.views import Storage
from support.graphs import normal, run, target_of
from support.models import relative_error

from .test_expanded import H200, block, kernels

CASES: tuple[tuple[Window, tuple[int, int, int], str, InvertedTile, Storage, int], ...] = (
    (Window((3, 3), (1, 1)), (11, 22, 6), "RELU6", InvertedTile(3, 4, 4, 1, 1), "f32", 64),
    (Window((3, 3), (2, 2)), (8, 48, 24), "HARD_SWISH", InvertedTile(2, 5, 8, 2, 4), "f16", 256),
    (Window((3, 3), (1, 1)), (24, 80, 37), "RELU", InvertedTile(4, 6, 16, 4, 2), "f32", 128),
    (Window((1, 3), (2, 1), padding=VALID), (9, 40, 16), "RELU6", InvertedTile(4, 7, 8, 4, 1), "f16", 128),
    (
        Window((3, 2), (1, 2), extra=(1, 0, 2, 1), padding=VALID),
        (33, 12, 20),
        "RELU",
        InvertedTile(1, 5, 16, 1, 4),
        "f32",
        256,
    ),
)
"""The depthwise window, the channels of input, middle and output, the activation, the tile, the storage, the group."""


@pytest.mark.parametrize(("window", "channels", "activation", "tile", "storage", "group_size"), CASES, ids=str)
def test_all_three_in_one_step_compute_what_three_compute(
    device: Device, window: Window, channels: tuple[int, int, int], activation: str, tile: InvertedTile,
    storage: Storage, group_size: int,
) -> None:  # fmt: skip
    shapes, nodes = block((2, 7, 9), window, *channels, activation)
    nodes[2] = replace(nodes[2], epilogue=(FusedOp("RELU"),))
    x = normal(*shapes[0])
    target = replace(target_of(device, storage, fixed={"inverted": tile}), group_size=group_size)
    fused, found = run(device, shapes, list(nodes), (3,), x, storage, target=target)
    without = tuple(each for each in PASSES if each.run is not fuse_expanded)
    _, expected = run(device, shapes, list(nodes), (3,), x, storage, passes=without)
    assert [step.kernel.source.name for step in fused.steps] == ["inverted"]
    if device.traits.api != "null":
        assert relative_error(found[0], expected[0]) <= 1e-5


@pytest.mark.parametrize(
    ("size", "changes", "expected"),
    [
        (64, {}, "inverted"),
        (64, {"early_launches": False}, "matrix_conv separable"),
        (64, {"matrix_units": False}, "conv separable"),
        (64, {"halves": False}, "conv separable"),
        (40, {}, "matrix_conv separable"),
    ],
)
def test_all_three_are_one_step_if_pixels_are_many(size: int, changes: dict[str, bool], expected: str) -> None:
    target = replace(H200, **({"early_launches": True, "local_bytes": 48 << 10} | changes))
    assert kernels((1, size, size), Window((3, 3), (1, 1)), (24, 144, 24), target) == expected


def test_other_windows_are_computed_apart() -> None:
    """Cases: a dilation; 25 taps, more than an invocation keeps."""
    target = replace(H200, early_launches=True, local_bytes=48 << 10)
    for window in (Window((3, 3), (1, 1), (2, 2)), Window((5, 5), (1, 1))):
        assert "inverted" not in kernels((1, 64, 64), window, (24, 144, 24), target)
