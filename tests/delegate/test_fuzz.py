"""Damaged models, the same ones in each run: a ModelError, or a model that can be claimed and lowered; never more.

``scripts/fuzz_models.py`` does this for as long as one likes, with LiteRT's loader behind it.
"""

from __future__ import annotations

import random
import runpy
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.read.model import Model
from framebind.delegate.read.reader import read_model
from framebind.interop.null.device import NullDevice
from framebind.tools.certify.cases.operator_cases import CASES
from framebind.tools.certify.cases.operator_models import case_model, options, output_shapes
from support.tiny_models import G, Op, T, build, chain

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "fuzz_models.py"))
NUMBERS = (0, -1, 1, 2, 3, 5, 7, 100, 2**16, 2**31 - 1, -(2**31), -2)
TARGET = NullDevice().traits.target


def outcome(content: bytes) -> str:
    """ "refused", or "accepted" by reader, claims and lowering, within a small multiple of the file's size."""
    try:
        model: Model = read_model(content)
    except fb.ModelError as error:
        assert str(error)
        return "refused"
    for subgraph in model.subgraphs:
        claim(subgraph, lambda: TARGET, subgraphs=model.subgraphs)
    return "accepted"


def tiny_models() -> dict[str, bytes]:
    quantized = [T("x", (1, 4), dtype="int8", scales=[0.5], zero_points=[-3]), T("y", (1, 4), dtype="float32")]
    return {
        "chain": chain("EXP", "TANH", signature="serve"),
        "add": build(G([T("x", (1, 4)), T("w", (1, 4), 1.0), T("y", (1, 4))], [Op("ADD", [0, 1], [2])], [0], [2])),
        "quantized": build(G(quantized, [Op("DEQUANTIZE", [0], [1])], [0], [1])),
        "called": called(),
        "custom": build(G([T("x", (1, 4)), T("y", (1, 4))], [Op("Mine", [0, -1], [1], b"\x01\x02")], [0], [1])),
    }


def called() -> bytes:
    """A composite, whose decomposition reduces windows by the operator of a third subgraph."""
    composite = options("StableHLOComposite", name="odml.test", decompositionSubgraphIndex=1, compositeAttributes=[])
    window = options(
        "StablehloReduceWindow", windowDimensions=[1, 2], windowStrides=[1, 1], windowDilations=[1, 1],
        baseDilations=[1, 1], padding=[0, 0, 0, 1], bodySubgraphIndex=2,
    )  # fmt: skip
    x, y = T("x", (1, 4)), T("y", (1, 4))
    body = [T(name, ()) for name in "abc"]
    return build(
        G([x, y], [Op("STABLEHLO_COMPOSITE", [0], [1], composite)], [0], [1]),
        G([x, T("zero", (), 0.0), y], [Op("STABLEHLO_REDUCE_WINDOW", [0, 1], [2], window)], [0], [2], "inside"),
        G(body, [Op("ADD", [0, 1], [2], options("Add"))], [0, 1], [2], "body"),
    )


@pytest.mark.parametrize("name", tiny_models())
def test_damaged_bytes_of_tiny_models(name: str) -> None:
    content = tiny_models()[name]
    generator, positions = random.Random(name), SCRIPT["structure"](content)
    outcomes = {outcome(SCRIPT["damaged"](content, positions, generator)) for _ in range(1500)}
    assert outcomes == {"refused", "accepted"}, "the damage is too small, or too large, to test anything"


def test_damaged_structure_of_a_real_model(model_path: Callable[[str], Path]) -> None:
    content = model_path("face_detection_front").read_bytes()
    generator, positions = random.Random(4), SCRIPT["structure"](content)
    assert len(positions) < len(content) / 4
    outcomes = [outcome(SCRIPT["damaged"](content, positions, generator)) for _ in range(150)]
    assert set(outcomes) == {"refused", "accepted"}


def test_reading_takes_a_small_multiple_of_the_file(model_path: Callable[[str], Path]) -> None:
    content = model_path("face_detection_front").read_bytes()
    generator, positions = random.Random(5), SCRIPT["structure"](content)
    for _ in range(15):
        tracemalloc.start()
        try:
            read_model(SCRIPT["damaged"](content, positions, generator))
        except fb.ModelError:
            pass
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak <= 8 * len(content)


def _change_option(table: Any, generator: random.Random) -> None:
    """A changed number, alone or in a list."""
    values = {
        name: value
        for name, value in (vars(table) if table else {}).items()
        if isinstance(value, int | list | np.ndarray)
    }
    if not values:
        return
    name, value = generator.choice(list(values.items()))
    if isinstance(value, bool):
        setattr(table, name, not value)
    elif isinstance(value, int):
        setattr(table, name, generator.choice(NUMBERS))
    else:
        numbers = [int(number) for number in value] or [0]
        numbers[generator.randrange(len(numbers))] = generator.choice(NUMBERS)
        setattr(table, name, numbers[: generator.randrange(len(numbers) + 1)] if generator.random() < 0.2 else numbers)


def restructured(content: bytes, generator: random.Random) -> bytes:
    """A sound flatbuffer whose tensors and operators are not: shapes, types, operands, options, constants, scales."""
    model: Any = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    graph = model.subgraphs[0]
    operator, tensor = generator.choice(graph.operators), generator.choice(graph.tensors)
    operator.inputs = [int(i) for i in operator.inputs] if operator.inputs is not None else []
    kind = generator.choice(
        ("operand", "missing", "more", "shape", "rank", "type", "option", "table", "constant", "scale")
    )
    if kind == "operand":
        operator.inputs[generator.randrange(len(operator.inputs))] = generator.randrange(-1, len(graph.tensors))
    elif kind == "missing":
        operator.inputs.pop(generator.randrange(len(operator.inputs)))
    elif kind == "more":
        operator.inputs.append(generator.randrange(len(graph.tensors)))
    elif kind == "shape" and tensor.shape is not None and len(tensor.shape):
        tensor.shape = [int(size) for size in tensor.shape]
        tensor.shape[generator.randrange(len(tensor.shape))] = generator.choice(NUMBERS)
    elif kind == "rank":
        tensor.shape = [generator.choice((1, 2, 3)) for _ in range(generator.randrange(8))]
    elif kind == "type":
        tensor.type = generator.randrange(19)
    elif kind == "option":
        _change_option(operator.builtinOptions or operator.builtinOptions2, generator)
    elif kind == "table":
        operator.builtinOptions, operator.builtinOptionsType = None, 0
        operator.builtinOptions2, operator.builtinOptions2Type = None, 0
    elif kind == "constant":
        _change_constant(model.buffers[tensor.buffer], generator)
    elif kind == "scale":
        quantization = tensor.quantization = schema.QuantizationParametersT()
        quantization.scale = generator.choices((0.5, 0.0, -1.0, float("nan"), 1e-30), k=generator.choice((1, 2, 3)))
        quantization.zeroPoint = generator.choices((0, 5, -300, 2**40), k=generator.choice((0, 1, 2, 7)))
        quantization.quantizedDimension = generator.choice((0, 1, 9, -1))
    flat = flatbuffers.Builder(1024)
    try:
        flat.Finish(model.Pack(flat), b"TFL3")
    except TypeError:  # a number that the field cannot hold: something else then
        return restructured(content, generator)
    return bytes(flat.Output())


def _change_constant(buffer: Any, generator: random.Random) -> None:
    if buffer.data is None or len(buffer.data) < 4:
        return
    words = np.array(buffer.data, np.uint8)[: len(buffer.data) // 4 * 4].view(np.int32)
    words[generator.randrange(len(words))] = generator.choice(NUMBERS)
    buffer.data = words.view(np.uint8)


OPERATORS = sorted({case.operator for case in CASES})


@pytest.mark.parametrize("operator", OPERATORS)
def test_restructured_operators(operator: str) -> None:
    generator = random.Random(operator)
    cases = [case for case in CASES if case.operator == operator]
    outcomes = []
    for case in generator.sample(cases, 3):
        content = case_model(case, output_shapes(case))
        outcomes += [outcome(restructured(content, generator)) for _ in range(12)]
    assert "refused" in outcomes and "accepted" in outcomes
