"""Operators with windows, weights, borders or sizes, over their attribute spaces."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np

from .operator_models import Const, ModelCase, ints, options, values

SAME, VALID = 0, 1
PADDINGS = (
    ((1, 2), (0, 1), (2, 0), (1, 1)), ((0, 0), (1, 1), (2, 2), (0, 0)), ((0, 1), (0, 0), (0, 3), (0, 2)),
    ((0, 0), (0, 0), (1, 0), (2, 3)),
)  # fmt: skip
KERNELS = ((1, 1), (3, 3), (2, 3), (5, 1))


def window_cases() -> list[ModelCase]:
    windows = [*convolutions(), *grouped(), *transposed(), *pools(), *single_pictures(), *volumes()]
    return [*windows, *resizes(), *pads(), *joins(), *dense()]


def convolutions() -> Iterable[ModelCase]:
    kinds = itertools.product(KERNELS, ((1, 1), (2, 2), (1, 2)), ((1, 1), (2, 2), (1, 3)), (SAME, VALID))
    for number, (kernel, strides, dilations, padding) in enumerate(kinds):
        channels, out = ((1, 5), (3, 8), (4, 4), (5, 3), (8, 6))[number % 5]
        x, bias = values(1 + number % 2, 9, 10, channels), Const(values(out))
        table = options(
            "Conv2D", padding=padding, strideH=strides[0], strideW=strides[1], dilationHFactor=dilations[0],
            dilationWFactor=dilations[1], fusedActivationFunction=number % 4,
        )  # fmt: skip
        label = f"{kernel} {strides} {dilations} {padding} {channels} {out}"
        weights = Const(values(out, *kernel, channels))
        yield ModelCase("CONV_2D", label, (x, weights, bias), table)
        if number % 3 == 0:
            computed = (x, weights.values, bias.values if number % 2 else bias)
            yield ModelCase("CONV_2D", f"{label} computed", computed, table)
        if number % 2:
            multiplier = 1 + number % 3
            bias = Const(values(channels * multiplier))
            depthwise = options(
                "DepthwiseConv2D", padding=padding, strideH=strides[0], strideW=strides[0],
                dilationHFactor=dilations[0], dilationWFactor=dilations[1], depthMultiplier=multiplier,
                fusedActivationFunction=number % 4,
            )  # fmt: skip
            weights = Const(values(1, *kernel, channels * multiplier))
            yield ModelCase("DEPTHWISE_CONV_2D", f"{label} x{multiplier}", (x, weights, bias), depthwise)
            if number % 3 == 0 or multiplier == 3:
                computed = (x, weights.values, bias.values if number % 4 == 1 else bias)
                yield ModelCase("DEPTHWISE_CONV_2D", f"{label} x{multiplier} computed", computed, depthwise)


def grouped() -> Iterable[ModelCase]:
    for number, (groups, share, out) in enumerate(
        [(2, 4, 4), (3, 8, 4), (2, 3, 5), (4, 1, 2), (2, 4, 3), (5, 2, 4), (7, 1, 1)]
    ):
        for kernel, strides, dilations, padding in (((3, 3), 1, 1, SAME), ((2, 3), 2, 1, VALID), ((1, 1), 1, 1, SAME)):
            table = options(
                "Conv2D", padding=padding, strideH=strides, strideW=strides, dilationHFactor=dilations,
                dilationWFactor=dilations, fusedActivationFunction=number % 4,
            )  # fmt: skip
            weights, bias = Const(values(groups * out, *kernel, share)), Const(values(groups * out))
            inputs = (values(1 + number % 2, 6, 7, groups * share), weights, bias)
            label = f"grouped {groups} {share} {out} {kernel} {strides} {padding}"
            yield ModelCase("CONV_2D", label, inputs, table)
            yield ModelCase("CONV_2D", f"{label} computed", (inputs[0], weights.values, bias), table)


def transposed() -> Iterable[ModelCase]:
    kinds = itertools.product(((1, 1), (2, 2), (3, 3), (4, 3)), ((1, 1), (2, 2), (1, 2)), (SAME, VALID))
    for number, (kernel, strides, padding) in enumerate(kinds):
        channels, out = ((1, 5), (3, 8), (4, 4), (5, 3))[number % 4]
        sizes = [
            n * s if padding == SAME else (n - 1) * s + max(k, s if k < s else k)
            for n, s, k in zip((4, 5), strides, kernel, strict=True)
        ]
        table = options("TransposeConv", padding=padding, strideH=strides[0], strideW=strides[1])
        inputs = (ints(2, *sizes, out), Const(values(out, *kernel, channels)), values(2, 4, 5, channels))
        label = f"{kernel} {strides} {padding} {channels} {out}"
        yield ModelCase("TRANSPOSE_CONV", label, inputs, table)
        table = options(
            "TransposeConv", padding=padding, strideH=strides[0], strideW=strides[1], fusedActivationFunction=number % 4
        )
        bias = values(out) if number % 2 else Const(values(out))
        inputs = (inputs[0], inputs[1].values if number % 3 else inputs[1], inputs[2], bias)
        yield ModelCase("TRANSPOSE_CONV", f"{label} computed", inputs, table, version=4)


def single_pictures() -> Iterable[ModelCase]:
    """Depthwise and transposed convolutions of one picture, padded, with two channels in the last slice."""
    for stride, dilation, multiplier in ((1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 1, 3)):
        table = options(
            "DepthwiseConv2D", padding=SAME, strideH=stride, strideW=stride, dilationHFactor=dilation,
            dilationWFactor=dilation, depthMultiplier=multiplier,
        )  # fmt: skip
        x, weights, bias = values(1, 9, 10, 6), values(1, 3, 3, 6 * multiplier), Const(values(6 * multiplier))
        label = f"padded {stride} {dilation} {multiplier}"
        yield ModelCase("DEPTHWISE_CONV_2D", label, (x, Const(weights), bias), table)
        yield ModelCase("DEPTHWISE_CONV_2D", f"{label} computed", (x, weights, bias), table)
    for padding, size in ((SAME, (8, 10)), (VALID, (9, 11))):
        table = options("TransposeConv", padding=padding, strideH=2, strideW=2)
        inputs = (ints(1, *size, 6), Const(values(6, 3, 3, 5)), values(1, 4, 5, 5))
        yield ModelCase("TRANSPOSE_CONV", f"one picture {padding}", inputs, table)


def volumes() -> Iterable[ModelCase]:
    """3-D convolutions, and transposed ones back to the size of their input."""
    kinds = itertools.product(((1, 1, 1), (3, 3, 3), (2, 1, 3)), ((1, 1, 1), (2, 1, 2)), (1, 2), (SAME, VALID))
    for number, (kernel, strides, dilation, padding) in enumerate(kinds):
        channels, out = ((1, 5), (3, 8), (4, 4), (5, 3), (8, 6), (2, 2))[number % 6]
        table = options(
            "Conv3D", padding=padding, strideD=strides[0], strideH=strides[1], strideW=strides[2],
            dilationDFactor=dilation, dilationHFactor=dilation, dilationWFactor=dilation,
            fusedActivationFunction=number % 4,
        )  # fmt: skip
        x, bias = values(1 + number % 2, 6, 5, 7, channels), Const(values(out)) if number % 3 else None
        label = f"{kernel} {strides} {dilation} {padding} {channels} {out}"
        yield ModelCase("CONV_3D", label, (x, Const(values(*kernel, channels, out)), bias), table)
        sizes = [
            -(-n // s) if padding == SAME else (n - k) // s + 1
            for n, k, s in zip((6, 5, 7), kernel, strides, strict=True)
        ]
        if dilation == 1:
            shape = ints(1 + number % 2, 6, 5, 7, out)
            inputs = (shape, Const(values(*kernel, out, channels)), values(1 + number % 2, *sizes, channels), bias)
            for more in (0, 1):
                kept = inputs[:3] if more else inputs
                yield ModelCase("CONV_3D_TRANSPOSE", f"{label} {more}", kept, table)
    yield from _single_planes()


def _single_planes() -> Iterable[ModelCase]:
    x, weights = values(1, 1, 5, 7, 3), Const(values(1, 3, 3, 3, 3))
    table = options("Conv3D", strideD=1, strideH=1, strideW=1)
    yield ModelCase("CONV_3D", "one plane", (x, weights), table)
    yield ModelCase("CONV_3D_TRANSPOSE", "one plane", (ints(1, 1, 5, 7, 3), weights, x), table)


def pools() -> Iterable[ModelCase]:
    kinds = itertools.product(((1, 1), (2, 2), (3, 3), (5, 2)), ((1, 1), (2, 2), (1, 3)), (SAME, VALID))
    for number, (kernel, strides, padding) in enumerate(kinds):
        table = options(
            "Pool2D", padding=padding, strideH=strides[0], strideW=strides[1], filterHeight=kernel[0],
            filterWidth=kernel[1], fusedActivationFunction=number % 4,
        )  # fmt: skip
        for operator in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
            x = values(1 + number % 2, 7, 9, 1 + number % 6)
            yield ModelCase(operator, f"{kernel} {strides} {padding} {number % 6}", (x,), table)
            if number < 6:
                whole = options("Pool2D", padding=VALID, strideH=1, strideW=1, filterHeight=7, filterWidth=9)
                yield ModelCase(operator, f"whole {number}", (values(2, 7, 9, number + 1),), whole)


def resizes() -> Iterable[ModelCase]:
    for number, (size, flags) in enumerate(
        itertools.product(
            ((9, 12), (3, 2), (1, 1), (5, 5), (10, 10), (4, 7), (2, 9)), ((False, False), (True, False), (False, True))
        )
    ):
        x = values(1 + number % 2, 5, 5, 1 + number % 6)
        for kind in ("Bilinear", "NearestNeighbor"):
            table = options(f"Resize{kind}", alignCorners=flags[0], halfPixelCenters=flags[1])
            operator = {"Bilinear": "RESIZE_BILINEAR", "NearestNeighbor": "RESIZE_NEAREST_NEIGHBOR"}[kind]
            exact = kind == "NearestNeighbor"
            yield ModelCase(operator, f"{size} {flags}", (x, ints(*size)), table, version=3, exact=exact)


def pads() -> Iterable[ModelCase]:
    for shape in ((2, 3, 5, 7), (1, 4, 5, 8), (2, 6, 3, 3), (2, 5, 6), (3, 10), (5,)):
        rank = len(shape)
        for number, pattern in enumerate(PADDINGS):
            amounts = np.array(pattern[-rank:], np.int32)
            label, x = f"{shape} {number}", values(*shape)
            yield ModelCase("PAD", label, (x, Const(amounts)), options("Pad"), exact=True)
            value = Const(np.float32(number - 0.5).reshape(1))
            yield ModelCase("PADV2", label, (x, Const(amounts), value), options("PadV2"), version=2, exact=True)
            limits = np.array(shape, np.int32)[:, None]
            for mode in (0, 1):
                kept = np.minimum(amounts, limits - 1 + mode)
                table = options("MirrorPad", mode=mode)
                yield ModelCase("MIRROR_PAD", f"{label} {mode}", (x, Const(kept)), table, exact=True)


def joins() -> Iterable[ModelCase]:
    for shape in ((2, 3, 5, 7), (1, 4, 5, 8), (2, 5, 6), (3, 10), (5,)):
        for axis in range(-1, len(shape)):
            for sizes in ((1, 2), (4, 3, 5), (8, 4)):
                given = [(*shape[: axis % len(shape)], n, *shape[axis % len(shape) + 1 :]) for n in sizes]
                inputs = tuple(values(*each, seed=n) for n, each in enumerate(given))
                table = options("Concatenation", axis=axis, fusedActivationFunction=0)
                yield ModelCase("CONCATENATION", f"{shape} {axis} {sizes}", inputs, table, exact=True)
    for shape, target in [
        ((2, 3, 4, 5), (2, 60)), ((2, 3, 4, 5), (120,)), ((2, 3, 4, 5), (5, 4, 3, 2)), ((2, 3, 4, 5), (1, 24, 5)),
        ((1, 4, 5, 8), (20, 8)), ((1, 4, 5, 8), (1, 5, 4, 8)), ((1, 4, 5, 8), (1, 4, 10, 4)), ((120,), (2, 3, 4, 5)),
        ((6, 4), (2, 3, 4)), ((2, 3, 4), (6, 4)), ((2, 3, 4), (4, 3, 2)), ((7, 1), (7,)), ((7,), (1, 7)),
        ((2, 9), (3, 6)), ((2, 9), (9, 2)), ((2, 9), (1, 2, 9)), ((2, 3, 5), (2, 1, 3, 5)), ((4, 2, 1, 3), (2, 4, 3)),
        ((1, 1, 1, 12), (3, 4)), ((2, 6, 3, 1), (2, 3, 6)),
    ]:  # fmt: skip
        inputs = (values(*shape), ints(*target))
        yield ModelCase("RESHAPE", f"{shape} {target}", inputs, options("Reshape", newShape=list(target)), exact=True)


def dense() -> Iterable[ModelCase]:
    for shape, depth in [
        ((3, 13), 13),
        ((1, 8), 8),
        ((2, 3, 4), 4),
        ((2, 3, 4), 12),
        ((2, 2, 3, 5), 30),
        ((2, 2, 3, 5), 5),
    ]:
        for units in (1, 4, 7, 12):
            for keep in (False, True):
                if keep and shape[-1] != depth:
                    continue
                table = options("FullyConnected", keepNumDims=keep, fusedActivationFunction=units % 4)
                bias = Const(values(units)) if units != 4 else None
                inputs = (values(*shape), Const(values(units, depth)), bias)
                yield ModelCase("FULLY_CONNECTED", f"{shape} {depth} {units} {keep}", inputs, table)
                if units == 7:
                    inputs = (values(*shape), Const(values(units, depth)), values(units))
                    yield ModelCase("FULLY_CONNECTED", f"{shape} {depth} {units} {keep} computed bias", inputs, table)
                    inputs = (values(*shape), values(units, depth), bias)
                    yield ModelCase("FULLY_CONNECTED", f"{shape} {depth} {units} {keep} computed", inputs, table)
