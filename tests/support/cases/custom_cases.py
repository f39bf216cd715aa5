"""Cases of the custom operators that LiteRT's CPU does not have, or only in XNNPACK, and their NumPy references.

The references follow the sources that unpooling.py and resampler.py name, loop by loop.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from framebind.tools.certify.cases.operator_models import Array, values
from support.tiny_models import G, Op, T, build

SAME, VALID = 1, 2
"""Numbers of TfLitePadding."""


@dataclass(frozen=True)
class CustomCase:
    """One operator, its options, inputs, and outputs with the types that they have in the model."""

    name: str
    label: str
    options: bytes
    inputs: tuple[Array, ...]
    expected: tuple[npt.NDArray[Any], ...]
    tolerance: float = 0.0

    def __str__(self) -> str:
        return f"{self.name} {self.label}"


def pool_options(kernel: tuple[int, int], strides: tuple[int, int], scheme: int, activation: int = 0) -> bytes:
    """TfLitePoolParams: padding, strides (width, height), filter (width, height), activation, computed padding."""
    return struct.pack("<6i4i", scheme, *strides[::-1], *kernel[::-1], activation, 0, 0, 0, 0)


def max_with_indices(
    x: Array, kernel: tuple[int, int], strides: tuple[int, int], scheme: int
) -> tuple[Array, npt.NDArray[np.int32]]:
    """The maxima and indices of mediapipe/util/tflite/operations/max_pool_argmax.cc, without its 0.1.

    Windows side by side are as LiteRT's: by columns, with the nearest pixel inside for one outside.
    """
    batch, height, width, channels = x.shape
    if scheme == SAME:
        rows, columns = -(-height // strides[0]), -(-width // strides[1])
    else:
        rows, columns = (height - kernel[0]) // strides[0] + 1, (width - kernel[1]) // strides[1] + 1
    top = max(0, (rows - 1) * strides[0] + kernel[0] - height) // 2
    left = max(0, (columns - 1) * strides[1] + kernel[1] - width) // 2
    clamped = kernel == strides
    order = sorted(np.ndindex(*kernel), key=lambda place: place[::-1]) if clamped else list(np.ndindex(*kernel))
    found = np.zeros((batch, rows, columns, channels), np.float32)
    places = np.full(found.shape, -1, np.int32)
    for b, row, column, c in np.ndindex(*found.shape):
        for ky, kx in order:
            y, z = row * strides[0] - top + ky, column * strides[1] - left + kx
            if clamped:
                y, z = min(max(y, 0), height - 1), min(max(z, 0), width - 1)
            elif not (0 <= y < height and 0 <= z < width):
                continue
            if places[b, row, column, c] < 0 or x[b, y, z, c] > found[b, row, column, c]:
                found[b, row, column, c], places[b, row, column, c] = x[b, y, z, c], ky * kernel[1] + kx
    return found, places


def with_tenth(places: npt.NDArray[np.int32]) -> Array:
    """Indices as MediaPipe stores them in a float tensor."""
    return places.astype(np.float32) + np.float32(0.1)


def unpool(x: Array, places: npt.NDArray[Any], kernel: tuple[int, int], strides: tuple[int, int]) -> Array:
    """The result of mediapipe/util/tflite/operations/max_unpooling.cc."""
    batch, height, width, channels = x.shape
    result = np.zeros((batch, height * kernel[0], width * kernel[1], channels), np.float32)
    before = [
        max(0, (size - 1) * stride + k - size * k) // 2
        for size, stride, k in zip((height, width), strides, kernel, strict=True)
    ]
    for b, row, column, c in np.ndindex(*x.shape):
        ky, kx = divmod(int(places[b, row, column, c]), kernel[1])
        y, z = row * strides[0] - before[0] + ky, column * strides[1] - before[1] + kx
        if 0 <= y < result.shape[1] and 0 <= z < result.shape[2]:
            result[b, y, z, c] = x[b, row, column, c]
    return result


def resample(x: Array, warp: Array) -> npt.NDArray[np.float64]:
    """The result of tflite/delegates/gpu/gl/kernels/resampler.cc: mixed between four pixels, those outside zeros."""
    batch, height, width, channels = x.shape
    padded = np.zeros((batch, height + 2, width + 2, channels), np.float64)
    padded[:, 1:-1, 1:-1] = x
    across, down = warp[..., 0].astype(np.float64), warp[..., 1].astype(np.float64)
    left, top = np.floor(across), np.floor(down)
    picture = np.arange(batch)[:, None, None]

    def pixel(step_y: int, step_x: int) -> npt.NDArray[np.float64]:
        y, z = np.clip(top + step_y, -1, height) + 1, np.clip(left + step_x, -1, width) + 1
        return padded[picture, y.astype(int), z.astype(int)]

    part_x, part_y = (across - left)[..., None], (down - top)[..., None]
    first = pixel(0, 0) * (1 - part_x) + pixel(0, 1) * part_x
    second = pixel(1, 0) * (1 - part_x) + pixel(1, 1) * part_x
    return first * (1 - part_y) + second * part_y


def pooling_cases() -> list[CustomCase]:
    cases = []
    kinds = itertools.product(((2, 2), (3, 2), (1, 3)), ((2, 2), (1, 1), (3, 1), (2, 3)), (SAME, VALID))
    for number, (kernel, strides, scheme) in enumerate(kinds):
        shape = (1 + number % 2, 6, 7, 1 + number % 6)
        x = np.round(values(*shape) * (3 if number % 3 == 0 else 1000))  # some with equal values
        largest, places = max_with_indices(x, kernel, strides, scheme)
        label, given = f"{kernel} {strides} {scheme} {shape}", pool_options(kernel, strides, scheme, number % 2)
        indices = places if number % 2 else with_tenth(places)
        expected = (np.maximum(largest, 0) if number % 2 else largest, indices)
        cases.append(CustomCase("MaxPoolingWithArgmax2D", label, given, (x,), expected))
        source, where = values(*places.shape), with_tenth(places)
        result = unpool(source, where, kernel, strides)
        name = "MaxUnpooling2D" if number % 6 else "custom_call.MaxUnpooling2D"
        cases.append(CustomCase(name, label, given, (source, where), (result,)))
    return cases


def resampler_cases() -> list[CustomCase]:
    cases = []
    for number, (channels, size) in enumerate(itertools.product(range(1, 9), ((3, 4), (1, 1), (9, 2)))):
        x = values(1 + number % 2, 5, 6, channels)
        places = values(x.shape[0], *size, 2, seed=number) * 3.2 + 2.5  # some less than a pixel outside, or more
        if number % 4 == 0:
            places = np.round(places)
        case = CustomCase("Resampler", f"{channels} {size}", b"", (x, places), (resample(x, places),), 1e-5)
        cases.append(case)
    return cases


def warp_cases() -> list[CustomCase]:
    """Maps that turn and scale; whole parts of a pixel, so that each product is exact."""
    cases, fine = [], 1024
    for number, (channels, steps) in enumerate(itertools.product((1, 3, 4, 6), (32, 1, 1024))):
        count, picture, height, width = 1 + number % 3, number % (1 + number % 3), 7 + number, 12
        x, scale = values(count, 5, 6, channels), 0.5 + 0.1 * number
        slopes = np.round(values(count, 4, seed=number) * scale * fine * 8) / 8
        starts = np.round((values(count, 2, seed=number + 1) + 2) * fine)
        u, v = np.arange(width), np.arange(height)[:, None]
        gain, first = slopes[picture].astype(np.float64), starts[picture]
        places = np.stack([np.rint(gain[i] * u) + np.rint(gain[i + 2] * v + first[i]) for i in (0, 1)], axis=-1)
        places = np.floor(places * steps / fine + 0.5) / steps
        expected = resample(x[picture, None], places[None])
        given = struct.pack("<5i", picture, height, width, fine, steps)
        label = f"{picture} of {x.shape} {height}x{width} {steps}"
        cases.append(CustomCase("WarpAffine", label, given, (x, slopes, starts), (expected,), 1e-5))
    return cases


CUSTOM_CASES = [*pooling_cases(), *resampler_cases(), *warp_cases()]


def model_of(case: CustomCase) -> bytes:
    """The case as a model of one operator."""
    tensors = [T(f"input{i}", x.shape) for i, x in enumerate(case.inputs)]
    types = ["int32" if y.dtype == np.int32 else "float32" for y in case.expected]
    tensors += [T(f"output{i}", y.shape, dtype=types[i]) for i, y in enumerate(case.expected)]
    inputs, outputs = list(range(len(case.inputs))), list(range(len(case.inputs), len(tensors)))
    return build(G(tensors, [Op(case.name, inputs, outputs, case.options)], inputs, outputs))
