"""The graph that one partition of a model becomes: tensors by their flatbuffer index, nodes in execution order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from ...kernels.operation import FusedOp, Operation
from ...kernels.tensor import TensorInfo


@dataclass(frozen=True)
class Node:
    """An operation on tensors. ``epilogue`` is applied to its output in order; its operands are tensor ids.

    ``name`` is the TensorFlow Lite operator's, or the name that a pass gives the node, for messages.
    ``input_ops`` are binary expressions, applied to every value that it reads of its first input.
    ``indices`` are the numbers of the flatbuffer operators that became this node, for messages.
    """

    name: str
    operation: Operation
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    epilogue: tuple[FusedOp, ...] = ()
    indices: tuple[int, ...] = ()
    input_ops: tuple[FusedOp, ...] = ()

    @cached_property
    def operands(self) -> tuple[int, ...]:
        """Every tensor that the node reads: its inputs, then the operands of its links."""
        epilogue = (*self.input_ops, *self.epilogue)
        return self.inputs + tuple(op.operand for op in epilogue if op.operand is not None)

    def __str__(self) -> str:
        epilogue = "".join(f" -> {op.expression}" for op in self.epilogue)
        return f"{self.name}{epilogue} {list(self.operands)} -> {list(self.outputs)} from {list(self.indices)}"


@dataclass(frozen=True)
class Alias:
    """A tensor that lies inside another: where it starts in ``whole``, and how far its pixels are apart, in slices."""

    parent: int
    start: int
    pixel_stride: int


@dataclass
class Graph:
    """Tensors, nodes in execution order, and which tensors come from and go to the outside."""

    tensors: dict[int, TensorInfo]
    nodes: list[Node]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    changes: list[str] = field(default_factory=list)
    """What each pass did or declined to do, one sentence each."""
    aliases: dict[int, Alias] = field(default_factory=dict)
    """By tensor. A whole is no part itself; it is written by parts or read by parts, never reordered."""

    def consumers(self, tensor: int) -> list[Node]:
        return [node for node in self.nodes if tensor in node.operands]

    def __str__(self) -> str:
        return "\n".join([f"inputs {list(self.inputs)}", *map(str, self.nodes), f"outputs {list(self.outputs)}"])


def redirect(graph: Graph, old: int, new: int) -> None:
    """Make every reader of tensor ``old`` read ``new``."""
    for number, node in enumerate(graph.nodes):
        if old in node.operands:
            inputs = tuple(new if i == old else i for i in node.inputs)
            epilogue, input_ops = (
                tuple(replace(op, operand=new) if op.operand == old else op for op in some)
                for some in (node.epilogue, node.input_ops)
            )
            graph.nodes[number] = replace(node, inputs=inputs, epilogue=epilogue, input_ops=input_ops)
