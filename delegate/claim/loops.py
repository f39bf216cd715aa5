"""Loops whose number of steps follows from the model: WHILE as the operators of all its steps, one after the other.
Converters write recurrent layers in this way: the condition compares a counter with the number of time steps. Values
that depend only on constants are known, so the condition is, too. Values that go from step to step stay on the GPU.
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
from .parsing import ParsedSubgraph, parse_operator, real_integers
from .rows import Part, Rows, rows_of
from .steps import takes_more

LARGEST_LOOP = 8192
"""The most operators that the steps of a loop have, those of its condition included: 315 steps of a Keras GRU. Each is
parsed and lowered by itself, and a file of a few bytes can ask for any number of them. Those of 200 steps take 0.65
CPU seconds to claim (``scripts/zoo.py``'s GRU with 200 steps, on a core of an Intel Xeon, 2026-11-22).
"""


def is_loop(raw: RawOperator) -> bool:
    """Whether ``unroll`` takes the operator."""
    return raw.name == "WHILE" and not raw.custom


def unroll(
    raw: RawOperator, parsed: ParsedSubgraph, subgraphs: Sequence[Subgraph], *, unless: Collection[int]
) -> tuple[Node, ...]:
    """The nodes of all steps of a WHILE, whose operators are in ``subgraphs``. Outputs in ``unless`` have their shapes.

    Raises Unsupported if the number of steps is known only while the model runs, or if the GPU cannot run a step.
    """
    loop = _Loop(raw.index, parsed, subgraphs)
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
    return tuple(loop.nodes)


def _too_long() -> Unsupported:
    return Unsupported(f"its steps have more than {LARGEST_LOOP} operators")


class _Loop:
    """The operators of a WHILE, number ``index`` of its subgraph, that were run so far: ``nodes``."""

    def __init__(self, index: int, parsed: ParsedSubgraph, subgraphs: Sequence[Subgraph]) -> None:
        self.nodes: list[Node] = []
        self._index, self._parsed, self._subgraphs = index, parsed, subgraphs
        self._left = LARGEST_LOOP
        self._constants: dict[tuple[int, int], int] = {}
        """The numbers of constants, the same in each step, by subgraph and number there."""
        self._rows: dict[int, Rows] = {}
        """Tensors that consist of rows of others, and were not computed yet."""

    def run(self, raw: RawOperator) -> list[int]:
        """Run a WHILE, and return the tensors that are its variables in the end."""
        if raw.options is None:
            raise Unsupported("it has no options")
        condition, body = raw.options.CondSubgraphIndex(), raw.options.BodySubgraphIndex()
        self._check(raw, condition, body)
        values = list(raw.inputs)
        before = [self._parsed.tensors[i].constant for i in values]
        if takes_more(self._subgraphs[condition], self._subgraphs[body], before, self._left):
            raise _too_long()
        while self._condition_holds(condition, values):
            values = self._run(body, values)
        return values

    def _check(self, raw: RawOperator, condition: int, body: int) -> None:
        """Refuse subgraphs that keep states, and variables of the loop that are not of one type everywhere.

        LiteRT copies their bytes from one subgraph to the other.
        """
        if not 0 <= min(condition, body) <= max(condition, body) < len(self._subgraphs):
            raise Unsupported("its subgraphs are not given")
        tested, step = self._subgraphs[condition], self._subgraphs[body]
        if len(tested.outputs) != 1:
            raise Unsupported(f"its condition '{tested.name}' has {len(tested.outputs)} results, not one")
        if any(tensor.variable for subgraph in (tested, step) for tensor in subgraph.tensors):
            raise Unsupported(f"its subgraphs '{tested.name}' and '{step.name}' keep a state of their own")
        lists = (tested.inputs, step.inputs, step.outputs, raw.outputs)
        if {len(numbers) for numbers in lists} != {len(raw.inputs)} or min((0, *raw.inputs, *sum(lists, ()))) < 0:
            raise Unsupported("the numbers of its inputs and outputs are not those of its subgraphs")
        stored = self._parsed.stored
        for source, tried, entered, left, output in zip(raw.inputs, *lists, strict=True):
            tensors = stored[source], tested.tensors[tried], step.tensors[entered], step.tensors[left], stored[output]
            if any((t.dtype, t.quantization) != (tensors[0].dtype, tensors[0].quantization) for t in tensors):
                raise Unsupported(f"tensor '{stored[output].name}' does not have one type and scale in all steps")

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
                results = self.run(here) if is_loop(here) else self._step(here, f"{number}.{raw.index}")
            except Unsupported as reason:
                raise Unsupported(f"operator {raw.index} {raw.name} of '{subgraph.name}': {reason}") from reason
            numbers.update(zip(raw.outputs, results, strict=True))
        return [self._resolved(number, i, numbers) for i in subgraph.outputs]

    def _take_one(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _too_long()

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
            self._parse(given, f"{raw.name} {place} in WHILE")
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
        self._parse(join, "CONCATENATION in WHILE")
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
        self._parse(cut, "SLICE in WHILE")
        return output

    def _parse(self, raw: RawOperator, name: str) -> None:
        node = parse_operator(raw, self._parsed)
        if not isinstance(node.operation, Constant):  # those that read its outputs have their values
            self.nodes.append(replace(node, name=name))
