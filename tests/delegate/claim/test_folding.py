"""Arithmetic and moves of small constants and shapes: the values are LiteRT's, before anything runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt

from framebind.delegate.claim.subgraphs import parse_operators
from framebind.delegate.read.reader import read_model
from framebind.tools.certify.cases.operator_models import CPU_KERNELS, options
from support.tiny_models import G, Op, T, build

SHAPE = (7, 2, 5, 3)


def whole(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def scalar(value: int) -> np.ndarray:
    return np.array(value, np.int32)


def reducer(*, keep: bool = False) -> Any:
    return options("Reducer", keepDims=keep)


S = "the shape"
"""Stands for SHAPE's result, (7, 2, 5, 3)."""
F = "the shape in float32"
B = "whether the shape's sizes are above 2"
CASES: list[tuple[str, list[Any], Any, str]] = [
    *((name, [S, whole(-3, 2, 4, 2)], options(kind), "int32") for name, kind in (
        ("ADD", "Add"), ("SUB", "Sub"), ("MUL", "Mul"), ("DIV", "Div"), ("FLOOR_DIV", "FloorDiv"),
        ("FLOOR_MOD", "FloorMod"), ("MAXIMUM", "MaximumMinimum"), ("MINIMUM", "MaximumMinimum"))),
    *((name, [F, np.array([0.3, 3], np.float32).repeat(2)], options(kind), "float32") for name, kind in (
        ("ADD", "Add"), ("SUB", "Sub"), ("MUL", "Mul"), ("DIV", "Div"), ("MAXIMUM", "MaximumMinimum"))),
    *((name, [S, whole(7, 3, 5, 2)], options(kind), "bool") for name, kind in (
        ("EQUAL", "Equal"), ("NOT_EQUAL", "NotEqual"), ("LESS", "Less"), ("LESS_EQUAL", "LessEqual"),
        ("GREATER", "Greater"), ("GREATER_EQUAL", "GreaterEqual"))),
    ("LOGICAL_AND", [B, np.array([True, True, False, False])], options("LogicalAnd"), "bool"),
    ("LOGICAL_OR", [B, np.array([True, False, False, False])], options("LogicalOr"), "bool"),
    ("LOGICAL_NOT", [B], options("LogicalNot"), "bool"),
    ("SELECT_V2", [B, S, whole(1, 2, 3, 4)], options("SelectV2"), "int32"),
    ("CAST", [S], options("Cast"), "float32"), ("CAST", [F], options("Cast"), "int32"),
    ("CAST", [S], options("Cast"), "int64"), ("CAST", [B], options("Cast"), "int32"),
    ("NEG", [S], options("Neg"), "int32"), ("ABS", [S], options("Abs"), "int32"),
    ("FLOOR", [F], None, "float32"), ("CEIL", [F], None, "float32"), ("ROUND", [F], None, "float32"),
    ("SQRT", [F], None, "float32"),
    ("STRIDED_SLICE", [S, whole(1), whole(3), whole(1)], options("StridedSlice"), "int32"),
    ("STRIDED_SLICE", [S, whole(-1), whole(0), whole(-2)], options("StridedSlice", endMask=1), "int32"),
    ("STRIDED_SLICE", [S, whole(-2), whole(9), whole(1)], options("StridedSlice", shrinkAxisMask=1), "int32"),
    ("STRIDED_SLICE", [S, *3 * [whole(2)]], options("StridedSlice", beginMask=1, shrinkAxisMask=1), "int32"),
    ("SLICE", [S, whole(1), whole(-1)], options("Slice"), "int32"),
    ("SLICE", [S, whole(1), whole(2)], options("Slice"), "int32"),
    ("GATHER", [S, whole(3, 0)], options("Gather"), "int32"), ("GATHER", [S, scalar(2)], options("Gather"), "int32"),
    ("PACK", [S, whole(1, 2, 3, 4)], options("Pack", valuesCount=2, axis=1), "int32"),
    ("CONCATENATION", [S, whole(9)], options("Concatenation", axis=0), "int32"),
    ("RESHAPE", [S, whole(2, -1)], options("Reshape"), "int32"),
    ("EXPAND_DIMS", [S, scalar(0)], options("ExpandDims"), "int32"),
    ("TILE", [S, whole(2)], options("Tile"), "int32"),
    ("BROADCAST_TO", [S, whole(2, 4)], options("BroadcastTo"), "int32"),
    ("REVERSE_V2", [S, whole(0)], options("ReverseV2"), "int32"),
    ("TRANSPOSE", [np.arange(6, dtype=np.int32).reshape(2, 3), whole(1, 0)], options("Transpose"), "int32"),
    *((name, [S, whole(0)], reducer(), "int32") for name in ("SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")),
    ("REDUCE_PROD", [S, whole(0)], reducer(keep=True), "int32"),
    ("REDUCE_ANY", [B, whole(0)], reducer(), "bool"), ("REDUCE_ALL", [B, whole(0)], reducer(), "bool"),
    ("FILL", [S, scalar(3)], options("Fill"), "int32"),
    ("BROADCAST_ARGS", [S, whole(5, 1)], None, "int32"),
    ("RANGE", [scalar(3), scalar(-4), scalar(-2)], options("Range"), "int32"),
    ("RANGE", [np.float32(0), np.float32(1), np.float32(0.3)], options("Range"), "float32"),
    ("SPLIT", [scalar(0), S], options("Split", numSplits=2), "int32"),
    ("UNPACK", [S], options("Unpack", num=4, axis=0), "int32"),
    ("STRIDED_SLICE", [S, whole(0), whole(-4), whole(1)], options("StridedSlice", beginMask=1), "int32"),
    ("STRIDED_SLICE", [S, whole(3), whole(3), whole(1)], options("StridedSlice"), "int32"),
    ("SLICE", [S, whole(4), whole(0)], options("Slice"), "int32"),
    ("CONCATENATION", [whole(), S], options("Concatenation", axis=0), "int32"),
    ("CONCATENATION", [S, whole(), whole(4)], options("Concatenation", axis=0), "int32"),
    ("REDUCE_PROD", [whole(), whole(0)], reducer(), "int32"), ("SUM", [whole(), whole(0)], reducer(), "int32"),
    ("REVERSE_V2", [whole(), whole(0)], options("ReverseV2"), "int32"),
    ("GATHER", [S, whole()], options("Gather"), "int32"), ("MUL", [whole(), whole(3)], options("Mul"), "int32"),
    ("BROADCAST_ARGS", [whole(), S], None, "int32"), ("BROADCAST_ARGS", [S, whole()], None, "int32"),
    ("RESHAPE", [scalar(3), whole()], options("Reshape"), "int32"),
    ("BROADCAST_TO", [scalar(3), whole()], options("BroadcastTo"), "int32"),
    ("FILL", [whole(), scalar(3)], options("Fill"), "int32"), ("FILL", [whole(0), scalar(3)], options("Fill"), "int32"),
    ("SPLIT_V", [S, whole(3, 0, 1), scalar(0)], options("SplitV", numSplits=3), "int32"),
    ("SPLIT_V", [S, whole(2, -1, 2), scalar(0)], options("SplitV", numSplits=3), "int32"),
]  # fmt: skip


def model_of(name: str, inputs: list[Any], table: Any, dtype: str) -> tuple[bytes, list[int]]:
    """A model, and the tensors that the operator computes, which are outputs."""
    tensors = [T("x", SHAPE), T("shape", (), dtype="int32"), T("float", ()), T("two", (), 2, "int32"),
               T("above", (), dtype="bool")]  # fmt: skip
    operators = [
        Op("SHAPE", [0], [1], options("Shape", outType=2)),
        Op("CAST", [1], [2], options("Cast")),
        Op("GREATER", [1, 3], [4], options("Greater")),
    ]
    numbers = []
    for given in inputs:
        if isinstance(given, str):
            numbers.append({S: 1, F: 2, B: 4}[given])
        else:
            array = np.asarray(given)
            numbers.append(len(tensors))
            tensors.append(T(f"constant {len(tensors)}", array.shape, array, str(array.dtype)))
    outputs = list(range(len(tensors), len(tensors) + {"SPLIT": 2, "UNPACK": 4, "SPLIT_V": 3}.get(name, 1)))
    tensors += [T(f"y{i}", (), dtype=dtype) for i in outputs]
    operators.append(Op(name, numbers, outputs, table, 2 if name == "BROADCAST_TO" else 1))
    return build(G(tensors, operators, [0], outputs)), outputs


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[3]}")
def test_folded_values_are_litert_s(case: tuple[str, list[Any], Any, str]) -> None:
    model, outputs = model_of(*case)
    parsed = parse_operators(read_model(model).subgraphs[0], quantized=True, shapes={})
    assert parsed.unsupported == {}
    cpu = LiteRt(model_content=model, experimental_op_resolver_type=CPU_KERNELS)
    cpu.allocate_tensors()
    cpu.invoke()
    for output, detail in zip(outputs, cpu.get_output_details(), strict=True):
        is_empty = 0 in detail["shape"]  # LiteRT does not give out every such tensor
        expected = np.empty(detail["shape"], detail["dtype"]) if is_empty else cpu.get_tensor(output)
        folded = parsed.tensors[output].constant
        assert folded is not None and folded.dtype == expected.dtype and folded.shape == expected.shape
        np.testing.assert_array_equal(folded, expected)


def test_integers_are_not_divided_by_zero() -> None:
    """LiteRT refuses it while the model runs."""
    model, (output,) = model_of("FLOOR_DIV", [S, scalar(0)], options("FloorDiv"), "int32")
    parsed = parse_operators(read_model(model).subgraphs[0], quantized=True, shapes={})
    assert parsed.tensors[output].constant is None


def test_no_large_result_is_folded() -> None:
    """A few bytes of a file would take gigabytes otherwise."""
    tensors = [T("one", (1,), [1], "int32"), T("times", (1,), [4097], "int32"), T("y", (4097,), dtype="int32")]
    model = build(G(tensors, [Op("TILE", [0, 1], [2], options("Tile"))], [], [2]))
    parsed = parse_operators(read_model(model).subgraphs[0], quantized=True, shapes={})
    assert parsed.tensors[2].constant is None and parsed.tensors[2].shape == (4097,)
