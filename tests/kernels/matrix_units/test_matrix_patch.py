"""Large windows over few channels by matrix units, against NumPy; the units are emulated if a device has none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from framebind.delegate.transform.graph import Node
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.reduction.instance_norm import InstanceNorm
from framebind.kernels.ops.window import SAME, VALID, Window
from framebind.kernels.views import Storage
from support.cases.references import convolve
from support.graphs import Shape, half, normal, run, target_of
from support.models import relative_error


def made(device: Device, x: Shape, out: int, window: Window, runs: int, storage: Storage) -> None:
    """Compare one convolution with NumPy's. ``runs`` is the number of runs per warp."""
    weights = half(out, math.prod(window.size) * x[3]).reshape(out, *window.size, x[3])
    operation, image = Convolution(window, weights, half(out, 1)[:, 0]), normal(*x)
    expected = np.maximum(convolve(operation)(image), 0)
    nodes = [Node("CONV_2D", operation, (0,), (1,), (FusedOp("RELU"),))]
    target = target_of(device, storage, matrix_units=False, group_size=64, fixed={"matrix_patch": runs})
    shapes: dict[int, Shape] = {0: x, 1: expected.shape}
    program, found = run(device, shapes, nodes, (1,), image, storage, target=target)
    assert [step.kernel.source.name for step in program.steps] == ["matrix_patch"]
    if device.traits.api != "null":
        assert relative_error(found[0], expected) <= 1e-5


@pytest.mark.parametrize(
    ("x", "out", "window", "runs"),
    [
        ((1, 13, 37, 3), 8, Window((9, 9), (1, 1), padding=SAME), 2),
        ((1, 11, 33, 8), 3, Window((9, 9), (1, 1), padding=SAME), 1),
        ((2, 12, 20, 5), 13, Window((6, 7), (1, 1), padding=VALID), 3),
        ((1, 9, 17, 4), 4, Window((7, 7), (1, 1), padding=VALID, extra=(3, 3, 3, 3), mode="reflect"), 1),
    ],
    ids=str,
)
def test_a_large_window_over_few_channels(device: Device, x: Shape, out: int, window: Window, runs: int) -> None:
    made(device, x, out, window, runs, "f32")


def test_its_pixels_are_added_up_for_a_normalization(device: Device) -> None:
    window, x = Window((7, 7), (1, 1), padding=SAME), normal(1, 9, 21, 4)
    operation = Convolution(window, half(3, 7 * 7 * 4).reshape(3, 7, 7, 4), None)
    shapes: dict[int, Shape] = {0: x.shape, 1: (1, 9, 21, 3), 2: (1, 1, 1, 3), 3: (1, 1, 1, 3), 4: (1, 9, 21, 3)}
    constants = {2: np.ones(shapes[2], np.float32), 3: np.zeros(shapes[3], np.float32)}
    nodes = [Node("CONV_2D", operation, (0,), (1,)), Node("INSTANCE_NORM", InstanceNorm(1e-3), (1, 2, 3), (4,))]
    target = target_of(device, "f16", matrix_units=False, group_size=64, fixed={"matrix_patch": 2})
    program, found = run(device, shapes, nodes, (4,), x, "f16", target=target, constants=constants)
    assert [step.kernel.source.name for step in program.steps] == ["matrix_patch", "instance_norm"]
    y = convolve(operation)(x)
    expected = (y - y.mean((1, 2), keepdims=True)) / np.sqrt(y.var((1, 2), keepdims=True) + 1e-3)
    if device.traits.api != "null":
        assert relative_error(found[0], expected) <= 2e-3


@pytest.mark.parametrize("largest", [1.0, 1e-3, 600.0, np.inf])
def test_floats_become_pairs_of_halves_if_halves_hold_them(device: Device, largest: float) -> None:
    """One value of a tile decides, and others keep their bits. The units are the device's own."""
    window, image = Window((7, 9), (1, 1), padding=SAME), normal(1, 12, 70, 4) * np.float32(min(largest, 1.0))
    image[0, 3, 60, 1] = largest
    operation = Convolution(window, half(8, 7 * 9 * 4).reshape(8, 7, 9, 4), None)
    shapes: dict[int, Shape] = {0: image.shape, 1: (1, 12, 70, 8)}
    target = target_of(device, "f16", group_size=64, fixed={"matrix_patch": 1})
    program, (found,) = run(device, shapes, [Node("CONV_2D", operation, (0,), (1,))], (1,), image, "f16", target=target)
    assert [step.kernel.source.name for step in program.steps] == ["matrix_patch"]
    expected = convolve(operation)(image)
    finite = np.isfinite(expected)
    if device.traits.api != "null":
        assert not np.isfinite(found[~finite]).any()
        assert relative_error(found[finite], expected[finite]) <= 1e-5
