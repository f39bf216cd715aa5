"""Instance normalization behind a convolution: in 16 bits, the convolution adds up its own pixels and their squares."""

from __future__ import annotations

import numpy as np
import pytest

from framebind.delegate.transform.graph import Node
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution.matrix_conv import MatrixTile
from framebind.kernels.ops.convolution.row_conv import RowTile
from framebind.kernels.ops.reduction.instance_norm import InstanceNorm
from framebind.kernels.views import Storage
from support.graphs import Array, Shape, conv, convolved, half, normal, run, target_of
from support.models import relative_error

NAMES: dict[Storage, list[str]] = {"f32": ["conv", "moments", "instance_norm"], "f16": ["conv", "instance_norm"]}


def normalized(x: Array) -> Array:
    mean, variance = x.mean((1, 2), keepdims=True), x.var((1, 2), keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-3) * 2 + 1


def norm_after_conv(
    device: Device, shape: Shape, channels: int, storage: Storage, **fixed: MatrixTile | RowTile
) -> list[str]:
    """The kernels of a convolution and the normalization of its output, whose result is compared."""
    out: Shape = (*shape[:3], channels)
    shapes: dict[int, Shape] = {0: shape, 1: out, 2: (1, 1, 1, channels), 3: (1, 1, 1, channels), 4: out}
    constants = {2: np.full(shapes[2], 2, np.float32), 3: np.ones(shapes[3], np.float32)}
    weights, x = half(channels, shape[3]), normal(*shape)
    nodes = [conv(0, 1, weights, (FusedOp("RELU"),)), Node("INSTANCE_NORM", InstanceNorm(1e-3), (1, 2, 3), (4,))]
    target = target_of(device, storage, matrix_units=False, fixed=fixed)
    made, found = run(device, shapes, nodes, (4,), x, storage, target=target, constants=constants)
    if device.traits.api != "null":
        expected = normalized(np.maximum(convolved(x, weights), 0))
        assert relative_error(found[0], expected) <= (1e-5 if storage == "f32" else 2e-3)
    return [step.kernel.source.name for step in made.steps]


@pytest.mark.parametrize("storage", ["f32", "f16"])
@pytest.mark.parametrize(("shape", "channels"), [((1, 9, 7, 8), 22), ((1, 40, 33, 4), 3)], ids=str)
def test_a_convolution_adds_up_what_is_normalized(
    device: Device, shape: Shape, channels: int, storage: Storage
) -> None:
    """Sums of 32-bit values stay differences to a pixel, in a step of their own."""
    assert norm_after_conv(device, shape, channels, storage) == NAMES[storage]


def test_a_convolution_on_matrix_units_adds_up_what_is_normalized(device: Device) -> None:
    kernels = norm_after_conv(device, (1, 8, 9, 12), 16, "f16", matrix_conv=MatrixTile(1, 2, 1, 1))
    assert kernels == ["matrix_conv", "instance_norm"]


def test_a_convolution_by_rows_adds_up_what_is_normalized(device: Device) -> None:
    """Two invocations share each sum, and some of the work-group have none."""
    kernels = norm_after_conv(device, (1, 9, 7, 8), 16, "f16", conv=RowTile(4, 5, 1, 2))
    assert kernels == ["row_conv", "instance_norm"]


def test_two_pictures_are_summed_apart(device: Device) -> None:
    """Work-groups may hold pixels of both."""
    assert norm_after_conv(device, (2, 5, 7, 8), 8, "f16") == NAMES["f32"]
