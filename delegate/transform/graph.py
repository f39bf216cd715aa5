"""The graph that one partition of a model becomes: tensors by their flatbuffer index, nodes in execution order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ...kernels.operation import Link, Operator
from ...kernels.tensor import TensorInfo


@dataclass(frozen=True)
class Node:
    """One operator with parsed attributes. ``links`` are applied to its output in order; their operands are tensor ids.

    ``reading`` are links of two operands, applied to every value that it reads of its first input.
    ``indices`` are the numbers of the flatbuffer operators that became this node, for messages.
    """

    operator: Operator
    attributes: Any
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    links: tuple[Link, ...] = ()
    indices: tuple[int, ...] = ()
    reading: tuple[Link, ...] = ()

    @cached_property
    def operands(self) -> tuple[int, ...]:
        """Every tensor that the node reads: its inputs, then the operands of its links."""
        links = (*self.reading, *self.links)
        return self.inputs + tuple(link.operand for link in links if link.operand is not None)

    def __str__(self) -> str:
        links = "".join(f" -> {link.expression}" for link in self.links)
        return f"{self.operator.name}{links} {list(self.operands)} -> {list(self.outputs)} from {list(self.indices)}"


@dataclass(frozen=True)
class Part:
    """A tensor that lies inside another: where it starts in ``whole``, and how far its pixels are apart, in slices."""

    whole: int
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
    parts: dict[int, Part] = field(default_factory=dict)
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
            links, reading = (
                tuple(replace(link, operand=new) if link.operand == old else link for link in some)
                for some in (node.links, node.reading)
            )
            graph.nodes[number] = replace(node, inputs=inputs, links=links, reading=reading)
