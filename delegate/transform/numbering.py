"""Value numbers: two tensors with the same number hold the same values, whatever nodes compute them.

A pass that looks for a formula builds the number of the formula by ``apply`` and its kin, and compares it with those of
tensors. Equal spellings get equal numbers: the order of commutative operands, squares, quotients by a root, negations.
Dimensions of size 1 do not count, so that reshapes that add or remove them change nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from functools import reduce

from ...kernels.operation import FusedOp
from ...kernels.ops.indexing.gather_nd import GatherNd
from ...kernels.ops.movement.concat import Concatenation
from ...kernels.ops.movement.reshape import ExpandDimensions, Reshape, Squeeze
from ...kernels.ops.pointwise.elementwise import COMMUTATIVE, Elementwise
from ...kernels.ops.pointwise.logic import Select
from ...kernels.ops.reduction.reduce import Reduction
from .graph import Graph, Node

Number = int
_SYMMETRIC = COMMUTATIVE | {"EQUAL", "LOGICAL_AND", "LOGICAL_OR", "NOT_EQUAL"}


class Numbering:
    """The numbers of a graph's tensors as they are now, and of formulas that are asked for."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._numbers: dict[tuple[Hashable, ...], Number] = {}
        self._keys: list[tuple[Hashable, ...]] = []
        self._tensors: dict[int, Number] = {}
        for node in graph.nodes:
            self._tensors.update(zip(node.outputs, self._of_node(node), strict=True))
        self._holders = {number: tensor for tensor, number in reversed(self._tensors.items())}

    def of(self, tensor: int) -> Number:
        """The number of a tensor."""
        known = self._tensors.get(tensor)
        if known is None:
            values = self._graph.tensors[tensor].constant
            if values is not None and values.size == 1 and values.dtype.kind in "fiub":
                known = self.constant(float(values.reshape(-1)[0]))
            else:
                known = self._number("TENSOR", tensor)
            self._tensors[tensor] = known
        return known

    def tensor(self, number: Number) -> int | None:
        """The first computed tensor of this number; None if no tensor has it."""
        return self._holders.get(number)

    def constant(self, value: float) -> Number:
        """The number of a tensor of one constant value."""
        return self._number("CONSTANT", value)

    def value(self, number: Number) -> float | None:
        """The value of a constant; None for other numbers."""
        name, *rest = self._keys[number]
        return float(str(rest[0])) if name == "CONSTANT" else None

    def parts(self, number: Number, name: str) -> tuple[Number, ...] | None:
        """The operands of a number that is the expression ``name`` of others; else None."""
        key = self._keys[number]
        return tuple(int(str(part)) for part in key[1:]) if key[0] == name else None

    def repeated(self, number: Number, kept: Sequence[bool]) -> Number:
        """The number of a tensor that is repeated along the dimensions that are not ``kept``."""
        if self.value(number) is not None or all(kept):
            return number
        negated = self.parts(number, "NEG")
        if negated is not None:
            return self.apply("NEG", self.repeated(negated[0], kept))
        return self._number("REPEATED", number, tuple(kept))

    def reduced(self, kind: str, number: Number, axes: Sequence[int]) -> Number:
        """The number of a reduction of ``axes``, counted without the dimensions of size 1."""
        return self._number(kind, number, tuple(axes))

    def reshaped(self, number: Number, shape: Sequence[int]) -> Number:
        """The number of a tensor in another shape."""
        return self._number("RESHAPE", number, _wide(shape))

    def joined(self, numbers: Sequence[Number]) -> Number:
        """The number of tensors side by side along a new last dimension."""
        return self._number("JOINED", *numbers)

    def gathered(self, source: Number, indices: Number, depth: int) -> Number:
        """The number of parts of a tensor by indices of ``depth`` coordinates."""
        return self._number("GATHER_ND", source, indices, depth)

    def apply(self, name: str, *operands: Number) -> Number:
        """The number of an elementwise expression, or of SELECT, of operands in this order."""
        if name == "POW" and self.value(operands[1]) == 2:
            name, operands = "SQUARE", operands[:1]
        if name == "MUL" and operands[0] == operands[1]:
            name, operands = "SQUARE", operands[:1]
        if name == "SQUARE" and (difference := self.parts(operands[0], "SUB")) is not None:
            name, operands = "SQUARED_DIFFERENCE", difference
        if name in ("ADD", "SUB", "MUL"):
            name, operands = self._without_negations(name, *operands)
        if name == "DIV":
            name, operands = self._quotient(*operands)
        if name == "LOGICAL_AND":  # all of any number, however they are bracketed
            operands = tuple({part: None for one in operands for part in self.parts(one, name) or (one,)})
        if name in _SYMMETRIC:
            operands = tuple(sorted(operands))
        return self._number(name, *operands)

    def _without_negations(self, name: str, first: Number, second: Number) -> tuple[str, tuple[Number, ...]]:
        """A sum, difference or product whose operands are not negated: a negated one makes it another of these."""
        negated = [self.parts(operand, "NEG") for operand in (first, second)]
        if name == "SUB" and self.value(first) == 0:
            return "NEG", (second,)
        if name == "MUL" and any(negated) and not all(negated):
            return "NEG", (
                self.apply("MUL", *(n[0] if n else i for n, i in zip(negated, (first, second), strict=True))),
            )
        if name != "MUL" and negated[1]:
            return "SUB" if name == "ADD" else "ADD", (first, *negated[1])
        if name == "ADD" and negated[0]:
            return "SUB", (second, *negated[0])
        return name, (first, second)

    def _quotient(self, dividend: Number, divisor: Number) -> tuple[str, tuple[Number, ...]]:
        """A quotient by a root as a product with its reciprocal."""
        key = self._keys[divisor]
        root, kept = (int(str(key[1])), key[2]) if key[0] == "REPEATED" else (divisor, ())
        squared = self.parts(root, "SQRT")
        if squared is None:
            return "DIV", (dividend, divisor)
        if self.value(dividend) == 1 and not kept:
            return "RSQRT", squared
        inverse = self._number("RSQRT", *squared)
        return "MUL", (dividend, self._number("REPEATED", inverse, kept) if kept else inverse)

    def _number(self, *key: Hashable) -> Number:
        number = self._numbers.setdefault(key, len(self._keys))
        if number == len(self._keys):
            self._keys.append(key)
        return number

    def _of_node(self, node: Node) -> list[Number]:
        first = self._of_operation(node)
        if first is None or node.input_ops:
            return [self._number("TENSOR", tensor) for tensor in node.outputs]
        shape = self._graph.tensors[node.outputs[0]].shape
        return [reduce(lambda value, op: self._fused(value, op, shape), node.epilogue, first)]

    def _fused(self, value: Number, op: FusedOp, shape: tuple[int, ...]) -> Number:
        if op.values or op.max_pool_2x2:
            return self._number(op, value)
        if op.operand is None:
            return self.apply(op.expression, value)
        other = self._beside(op.operand, shape)
        return self.apply(op.expression, *((other, value) if op.swapped else (value, other)))

    def _beside(self, tensor: int, shape: tuple[int, ...]) -> Number:
        """The number of a tensor as an operand of a result of this shape."""
        own = self._graph.tensors[tensor].shape
        own = (1,) * (len(shape) - len(own)) + own
        kept = [size == wide for size, wide in zip(own, shape, strict=True) if wide != 1]
        return self.repeated(self.of(tensor), kept)

    def _of_operation(self, node: Node) -> Number | None:
        """The number of the node's output before its epilogue; None if no formula has such a node."""
        operation, source, result = node.operation, node.inputs[0], self._graph.tensors[node.outputs[0]].shape
        shape = self._graph.tensors[source].shape
        if isinstance(operation, Elementwise):
            return self._beside(source, result)
        if isinstance(operation, Reshape | Squeeze | ExpandDimensions):
            number = self.of(source)
            return number if _wide(shape) == _wide(result) else self.reshaped(number, result)
        if isinstance(operation, Reduction):
            wide = [axis for axis, size in enumerate(shape) if size != 1]
            return self.reduced(operation.kind, self.of(source), [wide.index(a) for a in operation.axes if a in wide])
        if isinstance(operation, Select) and not operation.rows:
            return self.apply("SELECT", *(self._beside(tensor, result) for tensor in node.inputs))
        if isinstance(operation, Concatenation) and result == (*shape[:-1], len(node.inputs)):
            return self.joined([self.of(tensor) for tensor in node.inputs])
        if isinstance(operation, GatherNd):
            return self.gathered(self.of(source), self.of(node.inputs[1]), operation.depth)
        return None


def _wide(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def between(graph: Graph, sources: Collection[int], result: int) -> set[Node] | None:
    """The nodes that compute ``result`` from the ``sources`` and constants, with what these read besides. None if
    another node reads a tensor between the two, or if one is an output of the graph.
    """
    members: set[Node] = set()
    waiting = [result]
    while waiting:
        tensor = waiting.pop()
        node = graph.producer(tensor)
        if tensor not in sources and node is not None and node not in members:
            members.add(node)
            waiting += node.operands
    inner = {tensor for node in members for tensor in node.outputs} - {result}
    if inner & set(graph.outputs) or any(not members.issuperset(graph.readers(tensor)) for tensor in inner):
        return None
    return members
