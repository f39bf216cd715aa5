"""The graph of one partition, and the operations by which passes rewrite it.

Tensors are identified by their flatbuffer index. The graph stores the producer and the readers of each tensor, so that
no operation has to search all nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...kernels.operation import FusedOp, Operation
from ...kernels.tensor import TensorInfo


@dataclass(frozen=True, eq=False)
class Node:
    """An operation on tensors. ``epilogue`` is applied to its output in order; its operands are tensor ids.

    ``name`` is the TensorFlow Lite operator's, or the name that a pass gives the node, for messages.
    ``input_ops`` are binary expressions, applied to every value that it reads of its first input.
    ``indices`` are the numbers of the flatbuffer operators that became this node, for messages.
    Two nodes are equal only if they are the same object.
    """

    name: str
    operation: Operation
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    epilogue: tuple[FusedOp, ...] = ()
    indices: tuple[int, ...] = ()
    input_ops: tuple[FusedOp, ...] = ()
    integers: bool = False
    """Whether its kernels and its epilogue compute on int32."""

    @cached_property
    def operands(self) -> tuple[int, ...]:
        """Every tensor that the node reads: its inputs, then the operands of its fused operations."""
        fused = (*self.input_ops, *self.epilogue)
        return (*self.inputs, *[op.operand for op in fused if op.operand is not None])

    def __str__(self) -> str:
        epilogue = "".join(f" -> {op.expression}" for op in self.epilogue)
        return f"{self.name}{epilogue} {list(self.operands)} -> {list(self.outputs)} from {list(self.indices)}"


@dataclass(frozen=True)
class Alias:
    """The place of a tensor inside another: its start, and the distance of its pixels, in slices."""

    parent: int
    start: int
    pixel_stride: int


class Graph:
    """Tensors, nodes in execution order, and the graph's inputs and outputs.

    ``changes`` has one sentence for each change that a pass made or declined.
    """

    def __init__(
        self, tensors: dict[int, TensorInfo], nodes: Sequence[Node], inputs: tuple[int, ...], outputs: tuple[int, ...]
    ) -> None:
        self.tensors, self.inputs, self.outputs = tensors, inputs, outputs
        self.channels_last: dict[int, int] = {}
        """Inputs and outputs with channels last, and for each the model's own tensor, with channels first."""
        self.states: tuple[tuple[int, int], ...] = ()
        """The outputs that are inputs of the next run, and these inputs: their layout is nobody else's concern."""
        self.changes: list[str] = []
        self._aliases: dict[int, Alias] = {}
        self._parents: set[int] = set()
        self._places: dict[int, list[Node]] = {number: [node] for number, node in enumerate(nodes)}
        """The nodes in execution order. A place holds several nodes after one was replaced by several."""
        self._place: dict[Node, int] = {}
        self._producers: dict[int, Node] = {}
        self._readers: dict[int, dict[Node, None]] = {}
        self._next_tensor = max(tensors, default=-1) + 1
        for number, node in enumerate(nodes):
            self._enter(node, number)

    # Looking ----------------------------------------------------------------------------------------------------------

    def model_tensor(self, tensor: int) -> int:
        """The tensor of the model that an input or output is: what a user binds an object to."""
        return self.channels_last.get(tensor, tensor)

    @property
    def nodes(self) -> list[Node]:
        """All nodes, in execution order."""
        return [node for nodes in self._places.values() for node in nodes]

    def forwards(self) -> Iterator[Node]:
        """Each node in execution order, in its current form. Nodes may be replaced during the iteration."""
        return self._walk(list(self._places))

    def backwards(self) -> Iterator[Node]:
        """Each node, the last first, in its current form. Nodes may be replaced during the iteration."""
        return self._walk(list(self._places)[::-1], step=-1)

    def _walk(self, places: list[int], step: int = 1) -> Iterator[Node]:
        for place in places:
            for node in self._places.get(place, [])[::step]:
                if node in self._place:
                    yield node

    def producer(self, tensor: int) -> Node | None:
        """The node that computes a tensor; None for an input of the graph and a constant."""
        return self._producers.get(tensor)

    def readers(self, tensor: int) -> list[Node]:
        """The nodes that read a tensor, in execution order."""
        readers = self._readers.get(tensor, ())
        return sorted(readers, key=self.position) if len(readers) > 1 else list(readers)

    def is_read(self, tensor: int) -> bool:
        """Whether a node reads a tensor."""
        return bool(self._readers.get(tensor))

    def sole_reader(self, tensor: int) -> Node | None:
        """The only node that reads a tensor, if it reads it once.

        None if there is no such node, if the tensor is an output of the graph, or if it shares memory with others.
        """
        readers = self._readers.get(tensor, {})
        if len(readers) != 1 or tensor in self.outputs or not self.has_own_memory(tensor):
            return None
        (reader,) = readers
        return reader if reader.operands.count(tensor) == 1 else None

    def position(self, node: Node) -> tuple[int, int]:
        """A key that sorts nodes in execution order."""
        place = self._place[node]
        return place, self._places[place].index(node)

    # Rewriting --------------------------------------------------------------------------------------------------------

    def substitute(self, members: set[Node], *new: Node, at: Node | None = None, **fields: Any) -> None:
        """Put nodes in the place of ``members``: of the last one, or of the member ``at``. Logs one change.

        The last new node gets these ``fields``, and the members' flatbuffer indices in execution order.
        """
        ordered = sorted(members, key=self.position)
        indices = tuple(index for node in ordered for index in node.indices)
        new = (*new[:-1], replace(new[-1], indices=indices, **fields))
        self._exchange(at or ordered[-1], new)
        for node in ordered:
            if node in self._place:
                self._exchange(node, ())
        self.changes.append(f"{', '.join(node.name for node in ordered)} {list(indices)}: now {new[-1].name}")

    def remove(self, node: Node, reason: str) -> None:
        """Drop a node whose output is no longer read, or is now written by other nodes. Logs the reason."""
        self._exchange(node, ())
        self.changes.append(f"removed {node.name} {list(node.indices)}: {reason}")

    def keep(self, node: Node, reason: str) -> None:
        """Log why a pass does not change a node."""
        self.changes.append(f"kept {node.name} {list(node.indices)}: {reason}")

    def update(self, node: Node, **fields: Any) -> Node:
        """Change fields of a node, and return the new one."""
        new = replace(node, **fields)
        self._exchange(node, (new,))
        return new

    def insert_before(self, node: Node, new: Node) -> None:
        """Insert a new node just before another."""
        self._exchange(node, (new, node))

    def redirect(self, old: int, new: int) -> None:
        """Make every reader of tensor ``old`` read ``new``."""

        def redirected(ops: tuple[FusedOp, ...]) -> tuple[FusedOp, ...]:
            return tuple(replace(op, operand=new) if op.operand == old else op for op in ops)

        for node in self.readers(old):
            inputs = tuple(new if tensor == old else tensor for tensor in node.inputs)
            self.update(node, inputs=inputs, epilogue=redirected(node.epilogue), input_ops=redirected(node.input_ops))

    def new_tensor(self, like: int, shape: tuple[int, ...], constant: np.ndarray | None = None) -> int:
        """Add a tensor of a TFLite shape, computed or constant, otherwise like another one. Returns its id."""
        tensor = self._next_tensor
        self._next_tensor += 1
        self.tensors[tensor] = replace(self.tensors[like], shape=shape, constant=constant)
        return tensor

    def _exchange(self, old: Node, new: Sequence[Node]) -> None:
        place = self._place.pop(old)
        nodes = self._places[place]
        number = nodes.index(old)
        nodes[number : number + 1] = new
        if not nodes:
            del self._places[place]
        for tensor in old.outputs:
            if self._producers.get(tensor) is old:
                del self._producers[tensor]
        for tensor in set(old.operands):
            del self._readers[tensor][old]
        for node in new:
            self._enter(node, place)

    def _enter(self, node: Node, place: int) -> None:
        self._place[node] = place
        self._producers.update(dict.fromkeys(node.outputs, node))
        for tensor in node.operands:
            self._readers.setdefault(tensor, {})[node] = None

    # Shared memory ----------------------------------------------------------------------------------------------------

    @property
    def aliases(self) -> Mapping[int, Alias]:
        """The tensors that lie inside others. A parent lies inside no other tensor itself."""
        return self._aliases

    def place_inside(self, tensor: int, alias: Alias) -> None:
        """Place a tensor inside another one."""
        self._aliases[tensor] = alias
        self._parents.add(alias.parent)

    def has_own_memory(self, tensor: int) -> bool:
        """Whether the tensor lies inside no other tensor, and none lies in it."""
        return tensor not in self._aliases and tensor not in self._parents

    def __str__(self) -> str:
        return "\n".join([f"inputs {list(self.inputs)}", *map(str, self.nodes), f"outputs {list(self.outputs)}"])
