"""READ_VARIABLE and ASSIGN_VARIABLE: copies out of and into the buffer in which a variable stays between runs.

In the file the first input is a handle, which VAR_HANDLE makes from a name. Here it is a variable tensor, the value
itself. Further inputs only give the order: a variable is assigned after all reads of its previous value, and read after
its assignment. All of them have the variable's type and scale.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import LARGEST_RANK
from ..arguments import require_float


@dataclass(frozen=True)
class ReadVariable(Operation):
    """The value of a variable. Inputs: the variable, and results that only give the order."""

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [shapes[0]]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """One dispatch. No pass may remove this copy, because the variable changes later."""
        (output,) = lowering.outputs
        return [Launch("copy", {"src": lowering.inputs[0]}, {"dst": output}, lowering.groups_for(output))]


@dataclass(frozen=True)
class AssignVariable(Operation):
    """Inputs: the value, the variable, and results that only give the order. The output marks the end of the
    assignment, and has no memory.
    """

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        value, variable = shapes[:2]
        if value != variable:
            raise ValueError(f"a value of shape {value} is assigned to a variable of shape {variable}")
        return [(1,)]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """One dispatch."""
        value, variable = lowering.inputs[:2]
        return [Launch("copy", {"src": value}, {"dst": variable}, lowering.groups_for(variable))]


def _parse_read(node: TfliteNode) -> Parsed:
    require_float(node.inputs[0], node.outputs[0])
    return Parsed(ReadVariable(), tuple(range(len(node.inputs))))


def _parse_assign(node: TfliteNode) -> Parsed:
    require_float(*node.inputs[:2])
    return Parsed(AssignVariable(), (1, 0, *range(2, len(node.inputs))))


def _parse_handle(_: TfliteNode) -> Parsed:
    raise Unsupported("the CPU keeps its variable")


def _value_type(node: TfliteNode) -> str:
    """The type of the variable's value. Its handle, which the file has in its place, does not say it."""
    value = node.inputs[0]
    return "" if value is None or value.dtype == "resource" else value.dtype


TFLITE = (
    TfliteOp(
        "READ_VARIABLE", _parse_read, max_version=1, max_rank=LARGEST_RANK, moves_values=True, results=(_value_type,)
    ),
    TfliteOp("ASSIGN_VARIABLE", _parse_assign, max_version=1, inputs=2, max_rank=LARGEST_RANK, moves_values=True),
    TfliteOp("VAR_HANDLE", _parse_handle, max_version=1, inputs=0, results=("resource",)),
)
