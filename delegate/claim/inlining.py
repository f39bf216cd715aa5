"""Operators that run other subgraphs, as the operators of those subgraphs.

WHILE becomes the operators of all its steps, one after the other, if their number follows from the model. Converters
write recurrent layers in this way: the condition compares a counter with the number of time steps. Values that depend
only on constants are known, so the condition is, too. Values that go from step to step stay on the GPU.

STABLEHLO_COMPOSITE becomes the operators of its decomposition, the subgraph that computes the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from ...kernels.operation import Unsupported
from ...kernels.ops.constant.constants import Constant
from ...kernels.tensor import TensorInfo
from ..read.model import RawOperator, Subgraph
from ..transform.graph import Node
from .loop_steps import takes_more
from .parsing import ParsedSubgraph, parse_operator, real_integers
from .rows import Part, Rows, rows_of

MOST_OPERATORS = 8192
"""The most operators that one operator becomes, those of a loop's condition included: 315 steps of a Keras GRU. Each is
parsed and lowered by itself, and a file of a few bytes can ask for any number of them. Those of 200 steps take 0.65
CPU seconds to claim (``scripts/zoo.py``'s GRU with 200 steps, on a core of an Intel Xeon, 2026-11-22).
"""
MOST_OPERATORS_TOGETHER = 8 * MOST_OPERATORS
"""The most operators that all operators of a subgraph become together."""
DEEPEST = 32
"""The most subgraphs that run one another. Each takes a few of Python's 1,000 calls inside one another."""
_KINDS = {"WHILE": "steps have", "STABLEHLO_COMPOSITE": "decomposition has"}
"""The operators that become those of other subgraphs, and the subject and verb of messages."""


def runs_subgraphs(raw: RawOperator) -> bool:
    """Whether ``inline`` takes the operator."""
    return raw.name in _KINDS and not raw.custom


def inline(
    raw: RawOperator, parsed: ParsedSubgraph, subgraphs: Sequence[Subgraph], *, unless: Collection[int]
) -> tuple[Node, ...]:
    """The nodes of all operators that an operator runs, which are in ``subgraphs``. Outputs in ``unless`` have their
    shapes.

    Raises Unsupported if the number of steps is known only while the model runs, or if the GPU cannot run an operator.
    """
    loop = _Inlined(raw, parsed, subgraphs)
    known = len(parsed.stored)
    try:
        results = [loop.whole(tensor) for tensor in loop.run(raw)]
        for source, output in zip(results, raw.outputs, strict=True):
            if output not in unless:
                parsed.set_shapes((output,), (parsed.tensors[source].shape,))
            shape = np.array(parsed.tensors[output].shape, np.int32)
            form = parsed.add(TensorInfo("shape", shape.shape, "int32", shape))
            copy = RawOperator(raw.index, "RESHAPE", 1, False, None, (source, form), (output,))
            loop.nodes.append(parse_operator(copy, parsed, unless=unless))
    except Unsupported:
        for number in range(known, len(parsed.stored)):
            del parsed.stored[number], parsed.tensors[number]
        raise
    parsed.inlined += len(loop.nodes)
    return tuple(loop.nodes)


class _Inlined:
    """The operators that ``raw`` has run so far: ``nodes``."""

    def __init__(self, raw: RawOperator, parsed: ParsedSubgraph, subgraphs: Sequence[Subgraph]) -> None:
        self.nodes: list[Node] = []
        self._index, self._what, self._parsed, self._subgraphs = raw.index, _KINDS[raw.name], parsed, subgraphs
        self._most = min(MOST_OPERATORS, MOST_OPERATORS_TOGETHER - parsed.inlined)
        self._left = self._most
        self._name, self._depth = raw.composite or raw.name, 0
        """The operator that runs the present one, and how many run one another."""
        self._constants: dict[tuple[int, int], int] = {}
        """The numbers of constants, the same in each step, by subgraph and number there."""
        self._rows: dict[int, Rows] = {}
        """Tensors that consist of rows of others, and were not computed yet."""

    def run(self, raw: RawOperator) -> list[int]:
        """Run an operator of other subgraphs, and return its results."""
        if raw.options is None:
            raise Unsupported("it has no options")
        if self._depth == DEEPEST:
            raise Unsupported(f"more than {DEEPEST} subgraphs run one another")
        around, self._name, self._depth = self._name, raw.composite or raw.name, self._depth + 1
        results = self._loop(raw) if raw.name == "WHILE" else self._decomposition(raw)
        self._name, self._depth = around, self._depth - 1
        return results

    def _decomposition(self, raw: RawOperator) -> list[int]:
        """Run a STABLEHLO_COMPOSITE."""
        number = raw.options.DecompositionSubgraphIndex()
        subgraph = self._given(number)
        self._check_lists(raw, (subgraph.inputs, subgraph.outputs), (raw.inputs, raw.outputs))
        stored = self._parsed.stored
        given = [(stored[i], subgraph.tensors[j]) for i, j in zip(raw.inputs, subgraph.inputs, strict=True)]
        given += [(stored[i], subgraph.tensors[j]) for i, j in zip(raw.outputs, subgraph.outputs, strict=True)]
        for outside, inside in given:
            if (outside.dtype, outside.quantization) != (inside.dtype, inside.quantization):
                raise Unsupported(
                    f"tensor '{outside.name}' does not have the type and scale that it has in '{subgraph.name}'"
                )
        return self._run(number, raw.inputs)

    def _loop(self, raw: RawOperator) -> list[int]:
        """Run a WHILE, and return the tensors that are its variables in the end."""
        condition, body = raw.options.CondSubgraphIndex(), raw.options.BodySubgraphIndex()
        self._check(raw, condition, body)
        values = list(raw.inputs)
        before = [self._parsed.tensors[i].constant for i in values]
        if takes_more(self._subgraphs[condition], self._subgraphs[body], before, self._left):
            raise self._too_long()
        while self._condition_holds(condition, values):
            values = self._run(body, values)
        return values

    def _check(self, raw: RawOperator, condition: int, body: int) -> None:
        """Refuse subgraphs that keep states, and variables of the loop that are not of one type everywhere.

        LiteRT copies their bytes from one subgraph to the other.
        """
        tested, step = self._given(condition), self._given(body)
        if len(tested.outputs) != 1:
            raise Unsupported(f"its condition '{tested.name}' has {len(tested.outputs)} results, not one")
        lists = (tested.inputs, step.inputs, step.outputs, raw.outputs)
        self._check_lists(raw, lists, (raw.inputs,) * len(lists))
        stored = self._parsed.stored
        for source, tried, entered, left, output in zip(raw.inputs, *lists, strict=True):
            tensors = stored[source], tested.tensors[tried], step.tensors[entered], step.tensors[left], stored[output]
            if any((t.dtype, t.quantization) != (tensors[0].dtype, tensors[0].quantization) for t in tensors):
                raise Unsupported(f"tensor '{stored[output].name}' does not have one type and scale in all steps")

    def _given(self, number: int) -> Subgraph:
        """A subgraph by its number. Refuses one that keeps a state."""
        if not 0 <= number < len(self._subgraphs):
            raise Unsupported("its subgraphs are not given")
        subgraph = self._subgraphs[number]
        if any(tensor.variable for tensor in subgraph.tensors):
            raise Unsupported(f"its subgraph '{subgraph.name}' keeps a state of its own")
        return subgraph

    def _check_lists(self, raw: RawOperator, *pairs: Sequence[Sequence[int]]) -> None:
        """Refuse lists of tensors that are not as long as those of the operator, and inputs that are left out."""
        sizes, expected = ([len(numbers) for numbers in lists] for lists in pairs)
        if sizes != expected or min((0, *raw.inputs)) < 0:
            raise Unsupported("the numbers of its inputs and outputs are not those of its subgraphs")

    def _condition_holds(self, number: int, values: Sequence[int]) -> bool:
        """Whether the condition holds: it follows from constants."""
        tensor = self._parsed.tensors[self._run(number, values)[0]]
        if tensor.constant is None or tensor.dtype != "bool" or tensor.constant.size != 1:
            raise Unsupported("the number of its steps is known only while the model runs")
        return bool(tensor.constant.reshape(-1)[0])

    def _run(self, number: int, arguments: Sequence[int]) -> list[int]:
        """Run a subgraph with these tensors for its inputs, and return its outputs."""
        self._take_one()  # a step may have no operators
        subgraph = self._subgraphs[number]
        numbers = dict(zip(subgraph.inputs, arguments, strict=True))
        for raw in subgraph.operators:
            inputs = tuple(i if i < 0 else self._resolved(number, i, numbers) for i in raw.inputs)
            outputs = tuple(self._parsed.add(subgraph.tensors[i]) for i in raw.outputs)
            here = replace(raw, index=self._index, inputs=inputs, outputs=outputs)
            try:
                results = self.run(here) if runs_subgraphs(here) else self._step(here, f"{number}.{raw.index}")
            except Unsupported as reason:
                raise Unsupported(f"operator {raw.index} {raw.name} of '{subgraph.name}': {reason}") from reason
            numbers.update(zip(raw.outputs, results, strict=True))
        return [self._resolved(number, i, numbers) for i in subgraph.outputs]

    def _take_one(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise self._too_long()

    def _too_long(self) -> Unsupported:
        return Unsupported(f"its {self._what} more than {self._most} operators")

    def _resolved(self, number: int, tensor: int, numbers: dict[int, int]) -> int:
        """The tensor that stands for one of a subgraph's: an argument, a computed one or a constant."""
        found = numbers.get(tensor)
        if found is not None:
            return found
        if (number, tensor) not in self._constants:
            info = self._subgraphs[number].tensors[tensor]
            if info.constant is None:
                raise Unsupported(f"nothing computes tensor '{info.name}' of its subgraph")
            real = tensor in real_integers(self._subgraphs[number])
            self._constants[number, tensor] = self._parsed.add(info, real=real)
        return self._constants[number, tensor]

    def _step(self, raw: RawOperator, place: str) -> tuple[int, ...]:
        """Run one operator, and return its outputs. ``place`` is its subgraph and its number there."""
        self._take_one()
        rows = rows_of(raw, self._parsed, self._rows)
        if rows is not None:
            (output,) = raw.outputs
            self._rows[output] = rows
            self._parsed.set_shapes((output,), (rows.shape,))
        else:
            inputs = tuple(i if i < 0 else self.whole(i) for i in raw.inputs)
            given = raw if inputs == raw.inputs else replace(raw, inputs=inputs)
            self._parse(given, f"{raw.name} {place}")
        return raw.outputs

    def whole(self, tensor: int) -> int:
        """The tensor itself. If it consists of rows of others, it is computed now, or is the one tensor whose rows are
        all of it.
        """
        rows = self._rows.get(tensor)
        if rows is None:
            return tensor
        if not rows.parts:
            raise Unsupported(f"tensor '{self._parsed.stored[tensor].name}' has no elements")
        parts = [self._cut(rows, part) for part in rows.parts]
        if len(parts) == 1:
            self._rows[tensor] = replace(rows, parts=(Part(parts[0], 0, rows.shape[rows.axis]),))
            return parts[0]
        del self._rows[tensor]
        join = RawOperator(self._index, "CONCATENATION", 1, False, rows.options, tuple(parts), (tensor,))
        self._parse(join, "CONCATENATION")
        return tensor

    def _cut(self, rows: Rows, part: Part) -> int:
        """The tensor that is a part of another, computed now unless it is all of it."""
        source = self._parsed.tensors[part.tensor]
        if part.size == source.shape[rows.axis]:
            return part.tensor
        begin, size = [0] * len(source.shape), list(source.shape)
        begin[rows.axis], size[rows.axis] = part.begin, part.size
        limits = [
            self._parsed.add(TensorInfo("", (len(size),), "int32", np.array(values, np.int32)))
            for values in (begin, size)
        ]
        output = self._parsed.add(self._parsed.stored[part.tensor])
        cut = RawOperator(self._index, "SLICE", 1, False, None, (part.tensor, *limits), (output,))
        self._parse(cut, "SLICE")
        return output

    def _parse(self, raw: RawOperator, name: str) -> None:
        node = parse_operator(raw, self._parsed)
        if not isinstance(node.operation, Constant):  # those that read its outputs have their values
            self.nodes.append(replace(node, name=f"{name} in {self._name}"))
