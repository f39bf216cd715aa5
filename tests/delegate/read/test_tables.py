"""The tables of a file are read as flatbuffers' own class reads them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tflite
from flatbuffers.table import Table

from framebind.delegate.read.tables import FastTable, fast
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


def test_a_table_whose_fields_lie_outside_the_file_is_damaged() -> None:
    """The first four bytes of a table say how far before it, or behind it, the places of its fields are."""
    for distance in (9, -100):
        content = bytes(4) + struct.pack("<i", distance) + bytes(8)
        with pytest.raises(struct.error):
            FastTable(content, 4)
