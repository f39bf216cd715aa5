"""Checks that the parts of a model fit together, beyond each being readable.

LiteRT verifies that a file is a sound flatbuffer. Its kernels rely on more conditions, and crash if they do not hold;
these are checked here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from ...interop.errors import ModelError
from ...kernels.registry import OPERATORS
from .flex import READ_BY_LITERT, check_flexible
from .model import NUMPY_TYPES, OPTIONAL, RawOperator, Subgraph
from .quantization import check_scales
from .types import mistyped_outputs

_OPTIONAL: dict[str, Sequence[int]] = {
    **dict.fromkeys(
        "BIDIRECTIONAL_SEQUENCE_LSTM BIDIRECTIONAL_SEQUENCE_RNN UNIDIRECTIONAL_SEQUENCE_LSTM".split(), range(1, 1 << 16)
    ),
    "CONV_3D": (2,),
    "CONV_3D_TRANSPOSE": (3,),
    "SVDF": (3,),
}
"""The inputs that a builtin operator may leave out, for operators that run only on the CPU. A TfliteOp has its own."""

_NEEDED_INPUTS = {
    **dict.fromkeys("CALL CALL_ONCE HASHTABLE IF STABLEHLO_COMPOSITE WHILE".split(), 0),
    **dict.fromkeys("DYNAMIC_UPDATE_SLICE GATHER_ND REVERSE_SEQUENCE".split(), 2),
    "SCATTER_ND": 3,
    "SPARSE_TO_DENSE": 4,
}
"""The least number of inputs of builtin operators that run only on the CPU; for all others it is one."""

_WITHOUT_OUTPUT = frozenset("ASSIGN_VARIABLE CALL CALL_ONCE HASHTABLE_IMPORT IF WHILE".split())
"""Builtin operators that may have no output."""

_CALLS = {
    "CALL": ("Subgraph",),
    "CALL_ONCE": ("InitSubgraphIndex",),
    "IF": ("ThenSubgraphIndex", "ElseSubgraphIndex"),
    "STABLEHLO_COMPOSITE": ("DecompositionSubgraphIndex",),
    "STABLEHLO_REDUCE_WINDOW": ("BodySubgraphIndex",),
    "WHILE": ("CondSubgraphIndex", "BodySubgraphIndex"),
}
"""Operators that run other subgraphs, and the options that name them."""


def check_subgraph(where: str, subgraph: Subgraph) -> None:
    """Raise ModelError, naming operator and tensor, if the operators do not fit together."""
    _check_order(where, subgraph)
    for operator in subgraph.operators:
        label = f"{where}, operator {operator.index} {operator.name}"
        if operator.custom:
            if operator.name in READ_BY_LITERT and operator.options:
                check_flexible(label, bytes(operator.options))
        else:
            _check_operands(label, operator)
            check_scales(label, operator, subgraph.tensors)
    _check_unpacked(where, subgraph)
    _check_types(where, subgraph)


def _check_order(where: str, subgraph: Subgraph) -> None:
    """Refuse reads of a tensor that the same or a later operator writes, and two operators that write one tensor."""
    tensors, operators = subgraph.tensors, subgraph.operators

    def label(operator: RawOperator, index: int, verb: str) -> str:
        return f"{where}, operator {operator.index} {operator.name} {verb} tensor {index} '{tensors[index].name}'"

    writer: dict[int, int] = {}
    for operator in operators:
        for index in operator.outputs:
            if index in writer:
                raise ModelError(f"{label(operator, index, 'writes')}, which operator {writer[index]} writes too")
            if index in subgraph.inputs or tensors[index].constant is not None:
                raise ModelError(f"{label(operator, index, 'writes')}, which is a constant or an input")
            writer[index] = operator.index
    for operator in operators:
        for index in operator.inputs:
            if writer.get(index, -1) >= operator.index and not tensors[index].variable:
                raise ModelError(
                    f"{label(operator, index, 'reads')} before operator {writer[index]} {operators[writer[index]].name}"
                    " computes it: they are out of order"
                )


def _check_operands(where: str, operator: RawOperator) -> None:
    """Refuse a builtin operator without the inputs and outputs that it needs."""
    row = OPERATORS.get(operator.name)
    needed = row.inputs if row is not None else _NEEDED_INPUTS.get(operator.name, 1)
    if len(operator.inputs) < needed:
        raise ModelError(f"{where} has the inputs {list(operator.inputs)}: it needs {needed}")
    if not operator.outputs and operator.name not in _WITHOUT_OUTPUT:
        raise ModelError(f"{where} has no output")
    if OPTIONAL in operator.inputs:
        optional = row.optional if row is not None else _OPTIONAL.get(operator.name, ())
        for position, index in enumerate(operator.inputs):
            if index == OPTIONAL and position not in optional:
                raise ModelError(f"{where} has no input {position}: it needs one")
    if operator.name == "SPLIT":
        parts = operator.options.NumSplits() if hasattr(operator.options, "NumSplits") else 0
        if parts != len(operator.outputs):
            raise ModelError(f"{where} splits into {parts} parts, but has {len(operator.outputs)} outputs")


def _check_unpacked(where: str, subgraph: Subgraph) -> None:
    """Refuse a DEQUANTIZE or DENSIFY whose result is larger than its constant: XNNPACK reads as many values as the
    result has.
    """
    constants = {index for index, tensor in enumerate(subgraph.tensors) if tensor.constant is not None}
    for operator in subgraph.operators:
        if operator.name not in ("DEQUANTIZE", "DENSIFY") or operator.inputs[0] not in constants:
            continue
        source, result = subgraph.tensors[operator.inputs[0]], subgraph.tensors[operator.outputs[0]]
        constants.add(operator.outputs[0])
        if math.prod(source.shape) != math.prod(result.shape):
            raise ModelError(
                f"{where}, operator {operator.index} {operator.name} makes tensor {operator.outputs[0]} "
                f"'{result.name}' of shape {list(result.shape)} from the constant '{source.name}' of shape "
                f"{list(source.shape)}"
            )


def _check_types(where: str, subgraph: Subgraph) -> None:
    """Refuse an output of a smaller type than its operator computes, if LiteRT's kernel writes behind the end of it."""
    for raw, row, tensor, computed in mistyped_outputs(subgraph):
        declared = subgraph.tensors[tensor]
        if row.keeps_declared_type and _nbytes(declared.dtype) < _nbytes(computed):
            raise ModelError(
                f"{where}, operator {raw.index} {raw.name} computes {computed}, but its output {tensor} "
                f"'{declared.name}' is declared {declared.dtype}, which has less memory"
            )


def _nbytes(dtype: str) -> int:
    """The size of a value; 0 for types that are no arrays, and for less than a byte."""
    return NUMPY_TYPES[dtype].itemsize if dtype in NUMPY_TYPES else 0


def check_calls(subgraphs: Sequence[Subgraph]) -> None:
    """Raise ModelError if an operator runs a missing subgraph, or one that contains the operator."""
    called = [
        {
            (operator.index, operator.name, number)
            for operator in subgraph.operators
            for number in called_subgraphs(operator)
        }
        for subgraph in subgraphs
    ]
    for index, calls in enumerate(called):
        for operator, name, number in sorted(calls):
            if not 0 <= number < len(subgraphs):
                raise ModelError(
                    f"subgraph {index}, operator {operator} {name} runs subgraph {number} of {len(subgraphs)}"
                )
    try:
        TopologicalSorter({i: {number for _, _, number in calls} for i, calls in enumerate(called)}).prepare()
    except CycleError as error:
        around = " -> ".join(f"subgraph {number}" for number in reversed(error.args[1]))
        raise ModelError(f"subgraphs run one another without end: {around}") from error


def callers_of(number: int, subgraphs: Sequence[Subgraph]) -> list[tuple[int, int]]:
    """The operators that run a subgraph, by the numbers of their subgraphs and their own."""
    return [
        (caller, operator.index)
        for caller, subgraph in enumerate(subgraphs)
        for operator in subgraph.operators
        if number in called_subgraphs(operator)
    ]


def called_subgraphs(operator: RawOperator) -> list[int]:
    """The numbers of the subgraphs that an operator runs; 0 if it names none, as in LiteRT."""
    options: Any = operator.options
    return [getattr(options, field)() if options is not None else 0 for field in _CALLS.get(operator.name, ())]
