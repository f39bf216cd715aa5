"""Tensors and constants that keep 32 bits if 16 are allowed: those of which a logarithm or its like is computed."""

from __future__ import annotations

import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pygame
import pytest

import framebind as fb
from framebind.delegate.lower.precision import find_exact
from framebind.delegate.transform.graph import Graph, Node
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.pointwise.elementwise import Elementwise
from framebind.kernels.tensor import TensorInfo
from framebind.tools.certify.cases.operator_models import options
from framebind.tools.certify.graphs.comparison import run_on_cpu
from support.graphs import conv
from support.tiny_models import G, Op, T, build

FRAMES, LENGTH, BINS, BANDS = 8, 512, 257, 40


def log_mel() -> bytes:
    """The first layers of models for sounds: the power spectrum of windows by two products, 40 bands, the logarithm."""
    phase = 2 * np.pi * np.arange(BINS)[:, None] * np.arange(LENGTH) / LENGTH
    edges = np.linspace(0, BINS - 1, BANDS + 2)
    left, middle, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    bins = np.arange(BINS)
    bands = np.clip(np.minimum((bins - left) / (middle - left), (right - bins) / (right - middle)), 0, 1)
    spectrum = (FRAMES, BINS)
    tensors = [
        T("sound", (FRAMES, LENGTH)), T("window", (1, LENGTH), np.hanning(LENGTH)[None]), T("seen", (FRAMES, LENGTH)),
        T("cos", (BINS, LENGTH), np.cos(phase)), T("sin", (BINS, LENGTH), np.sin(phase)),
        T("real", spectrum), T("imaginary", spectrum), T("real 2", spectrum), T("imaginary 2", spectrum),
        T("power", spectrum), T("bands", (BANDS, BINS), bands), T("sums", (FRAMES, BANDS)),
        T("least", (1, 1), [[1e-6]]), T("more", (FRAMES, BANDS)), T("log", (FRAMES, BANDS)),
    ]  # fmt: skip
    operators = [
        Op("MUL", [0, 1], [2], options("Mul")),
        Op("FULLY_CONNECTED", [2, 3, -1], [5], options("FullyConnected")),
        Op("FULLY_CONNECTED", [2, 4, -1], [6], options("FullyConnected")),
        Op("MUL", [5, 5], [7], options("Mul")), Op("MUL", [6, 6], [8], options("Mul")),
        Op("ADD", [7, 8], [9], options("Add")), Op("FULLY_CONNECTED", [9, 10, -1], [11], options("FullyConnected")),
        Op("ADD", [11, 12], [13], options("Add")), Op("LOG", [13], [14]),
    ]  # fmt: skip
    return build(G(tensors, operators, [0], [14]))


def real_sound(name: str) -> npt.NDArray[np.float32]:
    """A recording that comes with pygame, -1 to 1, as windows (FRAMES, LENGTH)."""
    with wave.open(str(Path(pygame.__file__).parent / "examples" / "data" / name)) as file:
        assert (file.getsampwidth(), file.getnchannels()) == (1, 1)
        samples = np.frombuffer(file.readframes(FRAMES * LENGTH), np.uint8)
    return np.resize((samples.astype(np.float32) - 128) / 128, (FRAMES, LENGTH))


@pytest.mark.parametrize("name", ["house_lo.wav", "punch.wav"])
def test_the_logarithm_of_a_real_sound_s_spectrum(context: fb.GlContext, name: str) -> None:
    """Halves of the spectrum's constants were off by 2e-2 in bands that are quiet beside others."""
    model, sound = log_mel(), real_sound(name)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(is_precision_loss_allowed=True))
    interpreter = fb.Interpreter(model_content=model, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, sound)
    interpreter.invoke()
    (expected,) = run_on_cpu(model, [sound])
    np.testing.assert_allclose(interpreter.get_tensor(14), expected, atol=1e-5)
    delegate.close()


WEIGHTS = np.ones((3, 3), np.float32)


def exact_results(*nodes: Node, constants: Sequence[int] = ()) -> list[int]:
    """The results of nodes that keep 32 bits, of a graph of tensors (1, 2, 2, 3). Tensor 0 is the input."""
    numbers = {tensor for node in nodes for tensor in (*node.operands, *node.outputs)}
    half = np.full((1, 1, 1, 1), 0.5, np.float32)
    tensors = {
        i: TensorInfo(f"t{i}", (1, 2, 2, 3), "float32", constant=half if i in constants else None) for i in numbers
    }
    graph = Graph(tensors, nodes, (0,), (nodes[-1].outputs[0],))
    return sorted(node.outputs[0] for node in find_exact(graph))


def pointwise(source: int, target: int, *epilogue: FusedOp) -> Node:
    return Node("ELEMENTWISE", Elementwise(), (source,), (target,), epilogue)


def test_layers_before_a_logarithm_are_exact_and_those_before_their_activation_are_not() -> None:
    relu, log = FusedOp("RELU"), FusedOp("LOG")
    layers = (conv(0, 1, WEIGHTS, (relu,)), conv(1, 2, WEIGHTS), conv(2, 3, WEIGHTS, (relu,)))
    assert exact_results(*layers, pointwise(3, 4, log), conv(4, 5, WEIGHTS)) == [2, 3, 4]
    assert exact_results(*layers, conv(3, 4, WEIGHTS, (FusedOp("TANH"), log))) == []
    assert exact_results(*layers) == []


def test_a_divisor_is_exact_and_a_dividend_is_not() -> None:
    dividend, divisor = conv(0, 1, WEIGHTS), conv(0, 2, WEIGHTS)
    assert exact_results(dividend, divisor, pointwise(1, 3, FusedOp("DIV", 2))) == [2]
    assert exact_results(dividend, divisor, pointwise(2, 3, FusedOp("DIV", 1, swapped=True))) == [2, 3]


@pytest.mark.parametrize(("swapped", "exact"), [(False, [1, 2]), (True, [1, 2])])
def test_a_root_needs_an_exact_value(*, swapped: bool, exact: list[int]) -> None:
    power = pointwise(1, 2, FusedOp("POW", 9, swapped=swapped))
    assert exact_results(conv(0, 1, WEIGHTS), power, constants=[9]) == exact
    square = pointwise(1, 2, FusedOp("SQUARE"))
    assert exact_results(conv(0, 1, WEIGHTS), square) == []


def test_a_tensor_that_a_logarithm_also_reads_directly_is_exact_through_relu() -> None:
    """A reader behind a layer of weights allows rounding, which does not count."""
    first = conv(0, 1, WEIGHTS, (FusedOp("RELU"),))
    direct = pointwise(1, 2, FusedOp("LOG"))
    behind = conv(1, 3, WEIGHTS, (FusedOp("LOG"),))
    assert exact_results(first, direct, behind) == exact_results(first, behind, direct) == [1, 2, 3]
