"""The custom operators that LiteRT's CPU does not have, or only in XNNPACK, in LiteRT's interpreter, against NumPy.

The references follow the sources that unpooling.py and resampler.py name, loop by loop.
"""

from __future__ import annotations

import dataclasses
import itertools
import struct
from dataclasses import dataclass
from typing import Any

import ai_edge_litert.interpreter as litert
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.read.reader import read_model
from framebind.interop.device import Device
from framebind.interop.null.device import NullDevice
from framebind.tools.certify.cases.operator_models import Array, run_model, values
from support.models import relative_error
from support.tiny_models import G, Op, T, build

SAME, VALID = 1, 2
"""Of TfLitePadding."""


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
    """As mediapipe/util/tflite/operations/max_pool_argmax.cc has it, its indices without the 0.1.

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
    """As mediapipe/util/tflite/operations/max_unpooling.cc has it."""
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
    """As tflite/delegates/gpu/gl/kernels/resampler.cc has it: mixed between four pixels, those outside zeros."""
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


CASES = [*pooling_cases(), *resampler_cases()]


def check(case: CustomCase) -> None:
    model = model_of(case)
    assert claim(read_model(model).subgraphs[0], lambda: NullDevice().traits.target).unsupported == {}
    interpreter = fb.Interpreter(model_content=model)
    delegate = fb.GpuDelegate()
    interpreter.modify_graph_with_delegate(delegate)
    for result, expected in zip(run_model(interpreter, case.inputs), case.expected, strict=True):
        if case.tolerance:
            assert relative_error(result, expected) <= case.tolerance
        else:
            np.testing.assert_array_equal(result, expected)
    delegate.close()


def model_of(case: CustomCase) -> bytes:
    tensors = [T(f"input{i}", x.shape) for i, x in enumerate(case.inputs)]
    types = ["int32" if y.dtype == np.int32 else "float32" for y in case.expected]
    tensors += [T(f"output{i}", y.shape, dtype=types[i]) for i, y in enumerate(case.expected)]
    inputs, outputs = list(range(len(case.inputs))), list(range(len(case.inputs), len(tensors)))
    return build(G(tensors, [Op(case.name, inputs, outputs, case.options)], inputs, outputs))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_operator(gpu: Device, case: CustomCase) -> None:
    check(case)


def pictures_with_ties() -> dict[str, Array]:
    """Inputs of 7x8 pixels with equal values in many windows."""
    random = np.random.default_rng(0)
    equal = random.integers(0, 3, (1, 7, 8, 5)).astype(np.float32)
    holes = np.where(random.random(equal.shape) < 0.3, np.float32(np.nan), equal)
    flat = {"zeros": 0.0, "NaN": np.nan, "lowest": -np.inf}
    return {"equal": equal, "holes": holes} | {name: np.full_like(equal, value) for name, value in flat.items()}


@pytest.mark.parametrize("scheme", [SAME, VALID])
@pytest.mark.parametrize("kernel", [(2, 2), (3, 2), (2, 3), (3, 1), (3, 3), (4, 4)], ids=str)
@pytest.mark.parametrize("picture", pictures_with_ties())
def test_of_equal_values_the_one_counts_that_litert_takes(
    gpu: Device, picture: str, kernel: tuple[int, int], scheme: int
) -> None:
    """LiteRT runs this operator only in XNNPACK, which stores indices as unsigned integers, counted by columns."""
    x = pictures_with_ties()[picture]
    expected = max_with_indices(x, kernel, kernel, scheme)
    case = CustomCase("MaxPoolingWithArgmax2D", "ties", pool_options(kernel, kernel, scheme), (x,), expected)
    floats = dataclasses.replace(case, expected=(expected[0], with_tenth(expected[1])))
    largest, bits = run_model(litert.Interpreter(model_content=model_of(floats)), [x])
    across, down = np.divmod(bits.view(np.uint32).astype(np.int32), kernel[0])
    check(dataclasses.replace(case, expected=(largest, down * kernel[1] + across)))
    check(dataclasses.replace(case, expected=(largest, with_tenth(down * kernel[1] + across))))


def test_a_pooling_is_undone(context: fb.GlContext) -> None:
    """The maxima return to where they were, through both operators at once."""
    x, given = values(1, 6, 8, 5) + 2, pool_options((2, 2), (2, 2), SAME)
    tensors = [T("x", x.shape), T("largest", (1, 3, 4, 5)), T("places", (1, 3, 4, 5)), T("y", x.shape)]
    operators = [Op("MaxPoolingWithArgmax2D", [0], [1, 2], given), Op("MaxUnpooling2D", [1, 2], [3], given)]
    interpreter = fb.Interpreter(model_content=build(G(tensors, operators, [0], [3])))
    interpreter.modify_graph_with_delegate(fb.GpuDelegate())
    result = run_model(interpreter, [x])[0]
    largest = x.reshape(1, 3, 2, 4, 2, 5).max((2, 4))
    np.testing.assert_array_equal(result.reshape(1, 3, 2, 4, 2, 5).sum((2, 4)), largest)
    np.testing.assert_array_equal(result[result > 0], x[result > 0])


@pytest.mark.parametrize("bounds", [(0, 0), (1, 2)])
def test_a_pooling_and_its_unpooling_run_on_one_side(context: fb.GlContext, bounds: tuple[int, int]) -> None:
    """XNNPACK's indices are integers' bits, counted by columns: an unpooling on the other side would misread them."""
    x, given = values(1, 6, 8, 5) + 2, pool_options((2, 2), (2, 2), VALID)
    tensors = [
        T("x", x.shape),
        T("largest", (1, 3, 4, 5)),
        T("places", (1, 3, 4, 5)),
        T("undone", x.shape),
        T("y", x.shape),
    ]
    operators = [
        Op("MaxPoolingWithArgmax2D", [0], [1, 2], given),
        Op("MaxUnpooling2D", [1, 2], [3], given),
        Op("ABS", [3], [4]),
    ]
    model = build(G(tensors, operators, [0], [4]))
    first, last = bounds
    options = fb.GpuDelegateOptions(first_delegate_node_index=first, last_delegate_node_index=last)
    interpreter, delegate = fb.Interpreter(model_content=model), fb.GpuDelegate(options)
    interpreter.modify_graph_with_delegate(delegate)
    (found,), (expected,) = run_model(interpreter, [x]), run_model(litert.Interpreter(model_content=model), [x])
    np.testing.assert_array_equal(found, expected)
    pooling, unpooling, _ = interpreter.delegated_ops()
    assert pooling.runs_on == unpooling.runs_on == "cpu"
    delegate.close()


@pytest.mark.parametrize("name", ["MaxPoolingWithArgmax2D", "MaxUnpooling2D", "Resampler"])
def test_the_attribute_space_is_covered(name: str) -> None:
    assert len([case for case in CASES if case.name == name]) >= 20
