"""Every operator against NumPy, on every device, in f32 and 16-bit storage, with odd channel counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from framebind.delegate.run import program as program_module
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution import conv
from framebind.kernels.ops.convolution.blocks import SIZES, Block, block_candidates, choose_block
from framebind.kernels.ops.convolution.fully_connected import FullyConnected
from framebind.kernels.ops.movement.concat import Concatenation
from framebind.kernels.ops.movement.pad import Pad
from framebind.kernels.ops.movement.reshape import Reshape
from framebind.kernels.ops.movement.resize import ResizeImage
from framebind.kernels.ops.pointwise.elementwise import BINARY, UNARY, Elementwise
from framebind.kernels.ops.pointwise.quantize import Dequantize
from framebind.kernels.ops.reduction.instance_norm import InstanceNorm
from framebind.kernels.ops.reduction.pool import Pooling
from framebind.kernels.ops.reduction.reduce import Reduction
from framebind.kernels.ops.window import VALID, Window
from framebind.kernels.registry import OPERATORS
from framebind.kernels.target import Target, TuningChoice
from framebind.kernels.views import Resize, Storage
from support.cases import operator_cases
from support.cases.operator_runs import Case, all_halves, convolution_cases, run
from support.cases.references import ELEMENTWISE, instance_norm, pool, resize, values
from support.models import OPERATOR_TOLERANCE, relative_error


def fully_connected_cases() -> list[Case]:
    weights, bias = values(7, 13), values(7)
    dense = FullyConnected(weights, bias)
    flat = FullyConnected(values(5, 2 * 3 * 5), None)
    kept = FullyConnected(weights, bias, keep_dimensions=True)
    return [
        Case("vector", "FULLY_CONNECTED", dense, (values(3, 13),), lambda x: x @ weights.T + bias),
        Case("flattened", "FULLY_CONNECTED", flat, (values(2, 2, 3, 5),), lambda x: x.reshape(2, -1) @ flat.weights.T),
        Case("kept dimensions", "FULLY_CONNECTED", kept, (values(1, 4, 13),), lambda x: x @ weights.T + bias),
    ]


def window_cases() -> list[Case]:
    cases = []
    for maximum in (False, True):
        for label, window in [
            ("2x2", Window((2, 2), (2, 2), padding=VALID)),
            ("3x3 same", Window((3, 3), (2, 2))),
            ("everything", Window((7, 6), (1, 1), padding=VALID)),
        ]:
            operation = Pooling(window, maximum)
            name = "MAX_POOL_2D" if maximum else "AVERAGE_POOL_2D"
            cases.append(Case(label, name, operation, (values(2, 7, 6, 5),), pool(operation)))
    for bilinear in (True, False):
        for corners, half in [(False, False), (True, False), (False, True)]:
            for size in [(9, 12), (3, 2), (1, 1)]:
                change = Resize(size, align_corners=corners, half_pixel_centers=half, bilinear=bilinear)
                name = "RESIZE_BILINEAR" if bilinear else "RESIZE_NEAREST_NEIGHBOR"
                label = f"{size} corners {corners} half {half}"
                cases.append(Case(label, name, ResizeImage(change), (values(1, 4, 5, 5),), resize(change)))
    return cases


def moving_cases() -> list[Case]:
    x = values(2, 3, 4, 5)
    pads = ((0, 0), (1, 2), (2, 0), (1, 2))
    return [
        Case("constant", "PADV2", Pad(pads, value=0.5), (x,), lambda v: np.pad(v, pads, constant_values=0.5)),
        Case(
            "batch and channels",
            "PAD",
            Pad(((1, 0), (0, 0), (0, 0), (0, 3))),
            (x,),
            lambda v: np.pad(v, ((1, 0), (0, 0), (0, 0), (0, 3))),
        ),
        Case("rank 2", "PAD", Pad(((1, 1), (2, 1))), (values(3, 5),), lambda v: np.pad(v, ((1, 1), (2, 1)))),
        Case("reflect", "MIRROR_PAD", Pad(pads, "reflect"), (x,), lambda v: np.pad(v, pads, mode="reflect")),
        Case("symmetric", "MIRROR_PAD", Pad(pads, "symmetric"), (x,), lambda v: np.pad(v, pads, mode="symmetric")),
        Case("channels change", "RESHAPE", Reshape((2, 6, 10)), (x,), lambda v: v.reshape(2, 6, 10)),
        Case("one unknown size", "RESHAPE", Reshape((-1, 3)), (values(1, 2, 3, 4),), lambda v: v.reshape(-1, 3)),
        Case(
            "channels", "CONCATENATION", Concatenation(3, 4), (x, values(2, 3, 4, 3)), lambda *v: np.concatenate(v, 3)
        ),
        Case(
            "aligned channels",
            "CONCATENATION",
            Concatenation(3, 4),
            (values(1, 2, 2, 8), values(1, 2, 2, 5)),
            lambda *v: np.concatenate(v, 3),
        ),
        Case(
            "rows",
            "CONCATENATION",
            Concatenation(1, 3),
            (values(1, 5, 3), values(1, 2, 3)),
            lambda *v: np.concatenate(v, 1),
        ),
        Case(
            "three columns",
            "CONCATENATION",
            Concatenation(2, 4),
            (x, values(2, 3, 1, 5), values(2, 3, 2, 5)),
            lambda *v: np.concatenate(v, 2),
        ),
        Case("batches", "CONCATENATION", Concatenation(0, 4), (x, values(1, 3, 4, 5)), lambda *v: np.concatenate(v, 0)),
        Case("half constant", "DEQUANTIZE", Dequantize(), (x,), lambda v: v),
    ]


def reduction_cases() -> list[Case]:
    x, gamma, beta = values(2, 9, 31, 5) + 3, values(2, 1, 1, 5, seed=1), values(2, 1, 1, 5, seed=2)
    return [
        Case(
            "kept", "MEAN", Reduction((1, 2), 4, True), (x,), lambda v: v.mean((1, 2), keepdims=True, dtype=np.float64)
        ),
        Case("dropped", "MEAN", Reduction((1, 2), 4, False), (x,), lambda v: v.mean((1, 2), dtype=np.float64)),
        Case("rows", "MEAN", Reduction((1,), 4, True), (x,), lambda v: v.mean(1, keepdims=True, dtype=np.float64)),
        Case("dropped columns", "MEAN", Reduction((2,), 4, False), (x,), lambda v: v.mean(2, dtype=np.float64)),
        Case("rank 3", "MEAN", Reduction((1,), 3, False), (values(2, 7, 5),), lambda v: v.mean(1, dtype=np.float64)),
        Case("large mean", "INSTANCE_NORM", InstanceNorm(1e-5), (x + 100, gamma, beta), instance_norm(1e-5)),
        Case(
            "many pixels",
            "INSTANCE_NORM",
            InstanceNorm(1e-3),
            (values(1, 60, 50, 8), values(1, 1, 1, 8), values(1, 1, 1, 8)),
            instance_norm(1e-3),
        ),
    ]


def elementwise_cases() -> list[Case]:
    cases = []
    for name in UNARY:
        positive = name in ("LOG", "SQRT", "RSQRT")
        x = np.abs(values(1, 3, 4, 5)) + 0.1 if positive else values(1, 3, 4, 5) * 4
        cases.append(Case("", name, Elementwise(), (x,), ELEMENTWISE[name], (FusedOp(name),)))
    shapes = {"same": (1, 3, 4, 5), "channels": (1, 1, 1, 5), "scalar": (1, 1, 1, 1), "row": (1, 1, 4, 5)}
    for name in BINARY:
        for label, shape in shapes.items():
            x, w = values(1, 3, 4, 5), np.abs(values(*shape, seed=5)) + 0.5
            x = np.abs(x) + 0.1 if name == "POW" else x
            cases.append(Case(label, name, Elementwise(), (x, w), ELEMENTWISE[name], (FusedOp(name, 1),)))
    rounding = FusedOp("QUANTIZE", values=(0.25, -3, 2))
    steps = lambda v: np.clip(np.rint(v / np.float64(0.25)), -3, 2) * 0.25  # noqa: E731
    cases.append(Case("quarters", "QUANTIZE", Elementwise(), (values(1, 3, 4, 5),), steps, (rounding,)))
    turned = lambda v, w: w - v  # noqa: E731
    cases.append(
        Case(
            "turned", "SUB", Elementwise(), (values(1, 3, 4, 5), values(1, 1, 1, 5)), turned, (FusedOp("SUB", 1, True),)
        )
    )
    small = Case(
        "smaller value", "ADD", Elementwise(), (values(1, 1, 1, 1), values(1, 3, 4, 5)), np.add, (FusedOp("ADD", 1),)
    )
    chain = (FusedOp("ADD", 1), FusedOp("RELU6"), FusedOp("MUL", 1))
    linked = lambda v, w: np.clip(v + w, 0, 6) * w  # noqa: E731
    return [
        *cases,
        small,
        Case("chain", "ADD", Elementwise(), (values(1, 3, 4, 5), values(1, 3, 4, 5, seed=3)), linked, chain),
    ]


CASES: list[Case] = [
    *convolution_cases(),
    *fully_connected_cases(),
    *window_cases(),
    *moving_cases(),
    *reduction_cases(),
    *elementwise_cases(),
]


@pytest.mark.parametrize("storage", ["f32", "f16"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.operator} {case.label}".strip())
def test_operator(device: Device, case: Case, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    if storage == "f16":
        monkeypatch.setattr(program_module, "choose_storage", all_halves)
        case = replace(case, inputs=tuple(x.astype(np.float16).astype(np.float32) for x in case.inputs))
    result = run(device, case, storage)
    if device.traits.api == "null":  # it computes nothing: the shapes and the generated sources are what is tested
        assert result.shape == case.expected(*case.inputs).shape
        return
    assert relative_error(result, case.expected(*case.inputs)) <= OPERATOR_TOLERANCE[storage]


def test_every_operator_has_a_case() -> None:
    compared_with_litert = {case.operator for case in operator_cases.CASES}
    elsewhere = {"DENSIFY", "MaxPoolingWithArgmax2D", "MaxUnpooling2D", "Resampler"}
    assert set(OPERATORS) <= {case.operator for case in CASES} | compared_with_litert | elsewhere


def names(cases: Sequence[Case]) -> list[str]:
    return [f"{case.operator} {case.label}" for case in cases]


def test_cases_have_names_of_their_own() -> None:
    assert len(set(names(CASES))) == len(CASES)


BLOCKS = (
    Block(1, 1, 1, 1),
    Block(4, 1, 2, 1),
    Block(2, 1, 16, 4),
    Block(4, 2, 1, 1),
    Block(4, 2, 4, 2),
    Block(8, 1, 8, 8),
)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
@pytest.mark.parametrize("case", convolution_cases()[:7] + fully_connected_cases(), ids=lambda case: case.label)
def test_every_block_agrees(device: Device, case: Case, block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the outputs of a convolution are divided among invocations, it computes the same."""
    monkeypatch.setattr(conv, "block_candidates", lambda *_: (block,))
    result = run(device, case, "f32")
    assert device.traits.api == "null" or relative_error(result, case.expected(*case.inputs)) <= 1e-5


def test_blocks_fill_a_device() -> None:
    wide, software = Target(128, 132 * 2048), Target(64, 1)
    assert choose_block(33, 33, 20, 1, 120, software) == Block(4, 2, 1, 1)  # one CPU: the fewest loads
    assert choose_block(768, 384, 4, 9, 4, wide) == Block(4, 2, 1, 1)  # enough blocks without a split
    assert choose_block(384, 384, 1, 81, 2, wide) == Block(8, 1, 4, 2)  # a single output slice
    assert choose_block(96, 96, 8, 9, 8, wide) == Block(4, 2, 8, 8)  # too few blocks: eight share their sums
    assert choose_block(1, 256, 8, 1, 32, wide) == Block(1, 1, 8, 8)  # far too few: small blocks, split sums
    assert choose_block(1, 1, 2, 1, 6, wide) == Block(1, 1, 2, 2)  # shares are not split further
    assert choose_block(384, 384, 2, 81, 1, wide) == Block(4, 2, 2, 1)  # one input slice: taps are split


def test_the_rule_s_block_is_the_first_of_a_few_different_ones() -> None:
    wide, software = Target(128, 132 * 2048), Target(64, 1)
    for shape in ((33, 33, 20, 1, 120), (384, 384, 1, 81, 2), (1, 256, 8, 1, 32), (1, 1, 2, 1, 6)):
        for target in (wide, software):
            found = block_candidates(*shape, target)
            assert found[0] == choose_block(*shape, target) and len(set(found)) == len(found) <= len(SIZES) + 2
            assert all(b.pixels <= shape[1] and b.slices <= shape[2] and b.split <= target.group_size for b in found)
    assert block_candidates(1, 1, 2, 1, 6, software) == (Block(1, 1, 1, 1),)
    splits = {block.split for block in block_candidates(96, 96, 8, 9, 8, wide) if block[:2] == (4, 2)}
    assert splits == {4, 8, 16}


def test_a_grid_takes_the_rule_s_candidate_or_the_measured_one() -> None:
    choice = TuningChoice("how many", (3, 5, 7))
    assert Target(64, 1).take(choice) == 3
    assert (
        Target(64, 1, tuned={"how many": 2}).take(choice) == 7 and Target(64, 1, tuned={"how few": 2}).take(choice) == 3
    )
