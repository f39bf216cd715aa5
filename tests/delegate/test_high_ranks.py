"""Tensors of rank 5 as converters write them: upsampling, group normalization and shuffled channels of Keras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.read.reader import read_model
from framebind.interop.null.device import NullDevice
from framebind.tools.certify.cases.operator_models import options, run_model, run_on_cpu, values
from null_programs import program_on_null
from support.tiny_models import G, Op, T, build


class Layers:
    """A model under construction: each method appends an operator and returns the number of its result."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.tensors, self.operators = [T("x", shape)], list[Op]()

    def constant(self, array: Any, dtype: str = "int32") -> int:
        array = np.asarray(array, dtype)
        self.tensors.append(T(f"constant {len(self.tensors)}", array.shape, array, dtype))
        return len(self.tensors) - 1

    def add(self, name: str, inputs: Sequence[int], shape: Sequence[int], table: Any = None) -> int:
        self.tensors.append(T(f"{name} {len(self.tensors)}", shape))
        self.operators.append(Op(name, inputs, [len(self.tensors) - 1], table))
        return len(self.tensors) - 1

    def reshape(self, source: int, *shape: int) -> int:
        return self.add("RESHAPE", [source, self.constant(shape)], shape, options("Reshape", newShape=list(shape)))

    def binary(self, name: str, left: int, right: int) -> int:
        shape = np.broadcast_shapes(self.tensors[left].shape, self.tensors[right].shape)
        kinds = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul", "SQUARED_DIFFERENCE": "SquaredDifference"}
        return self.add(name, [left, right], shape, options(kinds[name]))

    def model(self, output: int) -> bytes:
        return build(G(self.tensors, self.operators, [0], [output]))


def upsampling(batch: int, channels: int) -> bytes:
    """Keras 3's UpSampling2D of nearest pixels: each of rows and columns is repeated by a TILE of rank 5."""
    layers = Layers((batch, 3, 4, channels))
    x = layers.add("NEG", [0], (batch, 3, 4, channels))
    x = layers.reshape(x, batch, 3, 1, 4, channels)
    x = layers.add("TILE", [x, layers.constant([1, 1, 2, 1, 1])], (batch, 3, 2, 4, channels))
    x = layers.reshape(layers.reshape(x, batch, 6, 4, channels), batch, 6, 4, 1, channels)
    x = layers.add("TILE", [x, layers.constant([1, 1, 1, 2, 1])], (batch, 6, 4, 2, channels))
    x = layers.reshape(x, batch, 6, 8, channels)
    return layers.model(layers.add("NEG", [x], (batch, 6, 8, channels)))


def shuffle(batch: int, channels: int) -> bytes:
    """ShuffleNet's: the channels of two groups in turn."""
    layers = Layers((batch, 3, 4, channels))
    x = layers.reshape(layers.add("NEG", [0], (batch, 3, 4, channels)), batch, 3, 4, 2, channels // 2)
    x = layers.add("TRANSPOSE", [x, layers.constant([0, 1, 2, 4, 3])], (batch, 3, 4, channels // 2, 2))
    x = layers.reshape(x, batch, 3, 4, channels)
    return layers.model(layers.add("NEG", [x], (batch, 3, 4, channels)))


def group_normalization(batch: int, channels: int) -> bytes:
    """Keras 3's GroupNormalization of two groups."""
    layers = Layers((batch, 3, 4, channels))
    each, axes = channels // 2, layers.constant([1, 2, 4])
    x = layers.reshape(layers.add("NEG", [0], (batch, 3, 4, channels)), batch, 3, 4, 2, each)
    mean = layers.add("MEAN", [x, axes], (batch, 1, 1, 2, 1), options("Reducer", keepDims=True))
    squares = layers.binary("SQUARED_DIFFERENCE", x, mean)
    variance = layers.add("MEAN", [squares, axes], (batch, 1, 1, 2, 1), options("Reducer", keepDims=True))
    shifted = layers.binary("ADD", variance, layers.constant(1e-3, "float32"))
    gamma, beta = (layers.constant(values(1, 1, 1, 2, each, seed=seed), "float32") for seed in (1, 2))
    factor = layers.binary("MUL", layers.add("RSQRT", [shifted], (batch, 1, 1, 2, 1)), gamma)
    offset = layers.binary("SUB", beta, layers.binary("MUL", mean, factor))
    x = layers.binary("ADD", layers.binary("MUL", x, factor), offset)
    return layers.model(layers.reshape(x, batch, 3, 4, channels))


LAYERS = (upsampling, shuffle, group_normalization)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize("batch, channels", [(1, 8), (2, 6)])
@pytest.mark.parametrize("layer", LAYERS)
def test_layers_of_rank_5_are_litert_s(layer: Any, batch: int, channels: int, context: fb.GlContext) -> None:
    model, x = layer(batch, channels), values(batch, 3, 4, channels)
    interpreter = fb.Interpreter(model_content=model)
    interpreter.modify_graph_with_delegate(fb.GpuDelegate())
    (result,), (expected,) = run_model(interpreter, [x]), run_on_cpu(model, [x])
    assert {operator.runs_on for operator in interpreter.delegated_ops()} == {"gpu"}
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "layer, kernels", [(upsampling, ["copy", "strided_copy"]), (shuffle, ["copy", "strided_copy"])]
)
def test_reshapes_around_a_copy_are_no_steps(layer: Any, kernels: list[str]) -> None:
    unsupported, program = program_on_null(layer(2, 8))
    assert unsupported == {} and program is not None
    assert [step.kernel.source.name for step in program.record().steps] == kernels


def test_a_rank_above_eight_stays_on_the_cpu() -> None:
    layers = Layers((2, 4))
    model = layers.model(layers.reshape(layers.add("NEG", [0], (2, 4)), 2, 1, 1, 1, 1, 1, 1, 1, 4))
    claims = claim(read_model(model).subgraphs[0], lambda: NullDevice().traits.target)
    assert "has rank 9; at most 8 is supported" in claims.unsupported[1]
