"""The tables of a file are read as flatbuffers' own class reads them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tflite
from flatbuffers.table import Table

from framebind.delegate.read.tables import (
    BUFFER_DATA,
    MODEL_BUFFERS,
    MODEL_CODES,
    MODEL_SIGNATURES,
    MODEL_SUBGRAPHS,
    OPERATOR_INPUTS,
    OPERATOR_OUTPUTS,
    QUANTIZATION_SCALES,
    QUANTIZATION_ZERO_POINTS,
    SUBGRAPH_OPERATORS,
    SUBGRAPH_TENSORS,
    TENSOR_QUANTIZATION,
    TENSOR_SHAPE,
    FastTable,
    child,
    entries,
    entry,
    fast,
    numbers,
    vector,
)
from support.tiny_models import chain


def tables(content: bytes) -> Iterator[Any]:
    """Objects of tflite for the model, its subgraph, tensors, operators, codes and buffers."""
    model: Any = tflite.Model.GetRootAs(content, 0)
    graph = model.Subgraphs(0)
    yield from (model, graph)
    yield from map(graph.Tensors, range(graph.TensorsLength()))
    yield from map(graph.Operators, range(graph.OperatorsLength()))
    yield from map(model.OperatorCodes, range(model.OperatorCodesLength()))
    yield from map(model.Buffers, range(model.BuffersLength()))


def answers(table: Any) -> list[Any]:
    """The results of all functions of a table of tflite that take no argument."""
    names = [name for name in dir(table) if name[0].isupper() and not name.startswith(("GetRoot", "Init"))]
    found: list[Any] = []
    for name in names:
        try:
            answer = getattr(table, name)()
        except TypeError:  # it takes an argument, or is a class's function
            continue
        table_of = getattr(answer, "_tab", answer)
        found.append((name, table_of.Pos if isinstance(table_of, Table) else str(answer)))
    return found


@pytest.mark.parametrize("name", ["tiny", "selfie_segmentation"])
def test_fields_are_those_that_flatbuffers_finds(name: str, model_path: Callable[[str], Path]) -> None:
    content = chain("EXP", "ABS") if name == "tiny" else model_path(name).read_bytes()
    seen = 0
    for plain in tables(content):
        expected = answers(plain)
        assert type(plain._tab) is Table
        assert answers(fast(plain)) == expected
        assert type(plain._tab) is FastTable
        seen += len(expected)
    assert seen > 50


@pytest.mark.parametrize("name", ["tiny", "selfie_segmentation", "style_transfer_quantized_384"])
def test_vectors_and_tables_by_number_are_those_that_tflite_finds(name: str, model_path: Callable[[str], Path]) -> None:
    content = chain("EXP", "ABS", signature="serve") if name == "tiny" else model_path(name).read_bytes()
    model: Any = tflite.Model.GetRootAs(content, 0)
    graph = model.Subgraphs(0)
    for parent, field, kind, at, length in (
        (model, MODEL_SUBGRAPHS, tflite.SubGraph, model.Subgraphs, model.SubgraphsLength),
        (model, MODEL_CODES, tflite.OperatorCode, model.OperatorCodes, model.OperatorCodesLength),
        (model, MODEL_BUFFERS, tflite.Buffer, model.Buffers, model.BuffersLength),
        (model, MODEL_SIGNATURES, tflite.SignatureDef, model.SignatureDefs, model.SignatureDefsLength),
        (graph, SUBGRAPH_TENSORS, tflite.Tensor, graph.Tensors, graph.TensorsLength),
        (graph, SUBGRAPH_OPERATORS, tflite.Operator, graph.Operators, graph.OperatorsLength),
    ):
        found = [entry(kind, content, place)._tab.Pos for place in entries(parent, field)]
        assert found == [at(i)._tab.Pos for i in range(length())]
    for tensor in map(graph.Tensors, range(graph.TensorsLength())):
        assert numbers(tensor, TENSOR_SHAPE, "i") == as_tuple(tensor.ShapeAsNumpy())
        given, found = tensor.Quantization(), child(tflite.QuantizationParameters, tensor, TENSOR_QUANTIZATION)
        assert (given is None) == (found is None)
        if given is not None and found is not None:
            assert numbers(found, QUANTIZATION_SCALES, "f") == as_tuple(given.ScaleAsNumpy())
            assert numbers(found, QUANTIZATION_ZERO_POINTS, "q") == as_tuple(given.ZeroPointAsNumpy())
        assert vector(model.Buffers(tensor.Buffer()), BUFFER_DATA)[1] == model.Buffers(tensor.Buffer()).DataLength()
    for operator in map(graph.Operators, range(graph.OperatorsLength())):
        assert numbers(operator, OPERATOR_INPUTS, "i") == as_tuple(operator.InputsAsNumpy())
        assert numbers(operator, OPERATOR_OUTPUTS, "i") == as_tuple(operator.OutputsAsNumpy())


def as_tuple(array: Any) -> tuple[Any, ...]:
    """A vector as tflite returns it: an array, or 0 if there is none."""
    return () if isinstance(array, int) else tuple(array.tolist())


def test_a_table_whose_fields_lie_outside_the_file_is_damaged() -> None:
    """The first four bytes of a table say how far before it, or behind it, the places of its fields are."""
    for distance in (9, -100):
        content = bytes(4) + struct.pack("<i", distance) + bytes(8)
        with pytest.raises(struct.error):
            FastTable(content, 4)
