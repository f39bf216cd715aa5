"""Resized tensors that the convolution of them computes while it reads: the same values, a step less."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from framebind.delegate.transform.graph import Node
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.matrix_conv import MatrixTile
from framebind.kernels.ops.movement.resize import ResizeImage
from framebind.kernels.ops.reduction.pool import Pooling
from framebind.kernels.ops.window import VALID, Window
from framebind.kernels.views import Resize
from framebind.tools.certify.cases.operator_models import values
from framebind.tools.certify.cases.runs import all_halves
from support.cases.references import convolve, resize
from support.graphs import Shape, check, concat, normal, run, target_of
from support.models import OPERATOR_TOLERANCE


def resized(source: int, destination: int, change: Resize, epilogue: tuple[FusedOp, ...] = ()) -> Node:
    name = "RESIZE_BILINEAR" if change.bilinear else "RESIZE_NEAREST_NEIGHBOR"
    return Node(name, ResizeImage(change), (source,), (destination,), epilogue)


def conv(source: int, destination: int, operation: Convolution, epilogue: tuple[FusedOp, ...] = ()) -> Node:
    return Node("CONV_2D", operation, (source,), (destination,), epilogue)


def convolution(out: int, in_: int, size: int, mode: str = "zero") -> Convolution:
    """Weights that halves hold."""
    window = Window((size, size), (1, 1))
    if mode == "reflect":
        window = Window((size, size), (1, 1), padding=VALID, extra=(size // 2,) * 4, mode=mode)
    weights, bias = (a.astype(np.float16).astype(np.float32) for a in (values(out, size, size, in_), values(out)))
    return Convolution(window, weights, bias)


TWICE, OTHER, SMALLER = (8, 32), (7, 17), (3, 5)
FLAGS = [(False, False), (False, True), (True, False)]
RESIZES = [
    Resize(size, align_corners=corners, half_pixel_centers=half, bilinear=bilinear)
    for bilinear in (True, False)
    for size in (TWICE, OTHER, SMALLER)
    for corners, half in FLAGS
]


def name(change: Resize) -> str:
    flags = "corners" if change.align_corners else "half" if change.half_pixel_centers else "plain"
    return f"{'bilinear' if change.bilinear else 'nearest'}-{change.size[0]}x{change.size[1]}-{flags}"


@pytest.mark.parametrize(
    ("kernel", "change"),
    [("conv", change) for change in RESIZES] + [("matrix_conv", change) for change in RESIZES if change.size == TWICE],
    ids=lambda value: value if isinstance(value, str) else name(value),
)
def test_a_convolution_resizes_what_it_reads(device: Device, kernel: str, change: Resize) -> None:
    """Sources: a bound buffer, a tensor with padding channels; nearest ones for a window beyond the picture, too."""
    fixed = {"matrix_conv": MatrixTile(1, 1, 2, 1)} if kernel == "matrix_conv" else {}
    target = target_of(device, matrix_units=False, fixed=fixed)
    first, second = convolution(6, 5, 1), convolution(10, 6, 1)
    if not change.bilinear:
        second = convolution(10, 6, 3, "reflect" if change.size == TWICE else "zero")
    x = normal(2, 4, 16, 5)
    shapes: dict[int, Shape] = {0: x.shape, 1: (2, 4, 16, 6), 2: (2, *change.size, 6), 3: (2, *change.size, 10)}
    nodes = [conv(0, 1, first), resized(1, 2, change), conv(2, 3, second)]
    program, found = run(device, shapes, nodes, (3,), x, target=target)
    assert [step.kernel.source.name for step in program.steps] == [kernel, kernel]
    expected = convolve(second)(resize(change)(convolve(first)(x)))
    check(device, found, [expected])
    nodes = [conv(0, 1, first), resized(1, 2, change), conv(2, 3, second)]
    _, found = run(device, shapes, nodes, (3,), x, "f16", target=target, storage_rule=all_halves)
    check(device, found, [expected], OPERATOR_TOLERANCE["f16"])
    x = normal(2, 4, 16, 6)
    nodes = [resized(0, 2, change), conv(2, 3, second)]
    program, found = run(device, shapes | {0: x.shape}, nodes, (3,), x, target=target)
    assert len(program.steps) == 1
    check(device, found, [convolve(second)(resize(change)(x))])


def test_what_is_added_to_what_is_read_has_the_new_size(device: Device) -> None:
    """The sum of a resized tensor and a larger one, which a 1x1 convolution makes while it reads; and one behind it."""
    change, weights = Resize((8, 10), half_pixel_centers=True, bilinear=True), convolution(6, 6, 1)
    x = normal(1, 4, 5, 6)
    shapes: dict[int, Shape] = {0: x.shape, **dict.fromkeys((1, 2, 3), (1, 8, 10, 6))}
    nearest = replace(change, bilinear=False)
    nodes = [
        resized(0, 1, nearest, (FusedOp("NEG"),)), resized(0, 2, change),
        replace(conv(2, 3, weights, (FusedOp("SUB", 1),)), input_ops=(FusedOp("ADD", 1),)),
    ]  # fmt: skip
    program, found = run(device, shapes, nodes, (3,), x, passes=())
    assert len(program.steps) == 2
    other = -resize(nearest)(x)
    check(device, found, [convolve(weights)(resize(change)(x) + other) - other])


@pytest.mark.parametrize(
    "why", ["output", "two readers", "an operand", "links", "a window", "a pooling", "many channels", "joined"]
)
def test_others_stay_steps(device: Device, why: str) -> None:
    """A window, or many channels, would compute pixels that are mixed of four again and again."""
    change = Resize((8, 10), half_pixel_centers=True, bilinear=True)
    large: Shape = (1, 8, 10, 8)
    last = convolution(136 if why == "many channels" else 8, 8, 3 if why == "a window" else 1)
    shapes: dict[int, Shape] = {0: (1, 4, 5, 8), 1: large, 2: (*large[:3], last.weights.shape[0]), 3: large}
    nodes = [resized(0, 1, change, (FusedOp("RELU"),) if why == "links" else ()), conv(1, 2, last)]
    outputs: tuple[int, ...] = (2, 1) if why == "output" else (2,)
    x = normal(*shapes[0])
    enlarged = resize(change)(x)
    enlarged = np.maximum(enlarged, 0) if why == "links" else enlarged
    expected = [convolve(last)(enlarged), *([enlarged] if why == "output" else [])]
    steps = 2
    if why == "two readers":
        nodes.append(conv(1, 3, other := convolution(8, 8, 3)))
        outputs, steps = (2, 3), 3
        expected.append(convolve(other)(enlarged))
    if why == "an operand":
        nodes[1] = conv(1, 2, last, (FusedOp("ADD", 1),))
        expected = [expected[0] + enlarged]
    if why == "joined":
        shapes |= {3: (1, 8, 10, 16), 4: large}
        nodes = [nodes[0], conv(1, 2, last), concat((1, 2), 3, 3), conv(3, 4, other := convolution(8, 16, 1))]
        outputs, steps = (4,), 3
        expected = [convolve(other)(np.concatenate([enlarged, expected[0]], 3))]
    if why == "a pooling":
        nodes[1] = Node("MAX_POOL_2D", Pooling(Window((1, 1), (1, 1)), maximum=True), (1,), (2,))
        expected = [enlarged]
    program, found = run(device, shapes, nodes, outputs, x)
    assert len(program.steps) == steps
    check(device, found, expected)
