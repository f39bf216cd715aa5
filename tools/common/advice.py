"""Advice on a model, from its plan: the parts that cost steps and memory traffic on a GPU, and the changes that help.
TensorFlow Lite's guide to its GPU delegate gives the same advice in general; here it has figures.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import framebind as fb

from .console import counted

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Advice:
    """A cost of a model and the change that saves it.

    ``steps`` and ``nbytes`` are those per frame that it takes; ``where`` names operators or tensors.
    """

    topic: str
    where: str
    steps: int
    nbytes: int
    change: str


class Tensor(NamedTuple):
    """A tensor's shape and numpy type."""

    shape: Shape
    dtype: str

    @property
    def nbytes(self) -> int:
        """The bytes of its values in the CPU's memory."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Facts:
    """Facts about the main subgraph of a model that was recorded."""

    operators: Sequence[fb.DelegatedOp]
    steps: Sequence[fb.StepCost]
    memory: Sequence[fb.TensorMemory]
    partitions: Sequence[fb.PartitionReport]
    tensors: Mapping[int, Tensor]
    inputs: Sequence[int]
    outputs: Sequence[int]

    def on_gpu(self) -> Iterator[fb.DelegatedOp]:
        """The operators that run on the GPU."""
        return (operator for operator in self.operators if operator.runs_on == "gpu")

    def steps_of(self, operators: Collection[int]) -> list[fb.StepCost]:
        """The steps that compute only these operators."""
        return [step for step in self.steps if step.operators and set(step.operators) <= set(operators)]


def facts_of(interpreter: fb.Interpreter, delegate: fb.GpuDelegate) -> Facts:
    """The facts about a model after ``delegate.record()``."""
    partitions = [part for part in delegate.partitions() if part.subgraph == 0]
    numbers = {part.number for part in partitions}
    details: list[dict[str, Any]] = interpreter.get_tensor_details()
    return Facts(
        operators=[operator for operator in interpreter.delegated_ops() if operator.subgraph == 0],
        steps=[step for step in delegate.steps() if step.partition in numbers],
        memory=[use for use in delegate.memory() if use.partition in numbers],
        partitions=partitions,
        tensors={d["index"]: Tensor(tuple(int(n) for n in d["shape"]), d["dtype"].__name__) for d in details},
        inputs=interpreter.inputs(),
        outputs=interpreter.outputs(),
    )


class Moves(NamedTuple):
    """Operators that only move values."""

    topic: str
    names: frozenset[str]
    change: str


MOVES = (
    Moves(
        "reshapes",
        frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS"}),
        "Keep tensors 4-D, with channels that are a multiple of 4, up to the end: then a reshape moves nothing.",
    ),
    Moves(
        "space and depth",
        frozenset({"SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"}),
        "Let a convolution stride in place of SPACE_TO_DEPTH, and dilate in place of SPACE_TO_BATCH_ND; resize, or "
        "convolve transposed, in place of DEPTH_TO_SPACE.",
    ),
    Moves("transposes", frozenset({"TRANSPOSE"}), "Keep channels last, from the first operator to the last one."),
    Moves(
        "splits and joints",
        frozenset({"CONCATENATION", "PACK", "SLICE", "SPLIT", "SPLIT_V", "STRIDED_SLICE", "UNPACK"}),
        "Cut and join channels at multiples of 4: four channels are one slice, and whole slices stay where they are.",
    ),
)


def advise(facts: Facts) -> list[Advice]:
    """All advice, the largest saving first. Advice that saves nothing is left out."""
    found = [
        *_changes(facts),
        *_moves(facts),
        *_odd_channels(facts),
        *_high_ranks(facts),
        *_quantized_ends(facts),
        *_quantized_operators(facts),
        *_unbound_ends(facts),
    ]
    return sorted(found, key=lambda advice: -advice.nbytes)


def _moves(facts: Facts) -> Iterator[Advice]:
    for topic, names, change in MOVES:
        operators = {operator.index for operator in facts.on_gpu() if operator.name in names}
        # A step is named after the operator that it is made for; others may be fused into it. A merged one ("+") moves
        # nothing for their sake.
        steps = [step for step in facts.steps if step.label.split(" ")[1] in names and " + " not in step.label]
        if steps:
            moving = sorted({index for step in steps for index in step.operators} & operators)
            rest = len(operators) - len(moving)
            where = f"operators {listed(moving)}" + (f" ({rest} more move nothing)" if rest else "")
            yield Advice(topic, where, len(steps), _bytes(steps), change)


def _changes(facts: Facts) -> Iterator[Advice]:
    """Advice on tensors that are copied between the GPU and operators on the CPU."""
    ends = {*facts.inputs, *facts.outputs}
    crossing = [tensor for part in facts.partitions for tensor in (*part.inputs, *part.outputs) if tensor not in ends]
    if crossing:
        on_cpu = [operator.index for operator in facts.operators if operator.runs_on == "cpu"]
        nbytes = sum(facts.tensors[tensor].nbytes for tensor in crossing)
        change = (
            "The table of operators has the reasons. Replace these operators, or move them to the model's end: each "
            "copy waits."
        )
        yield Advice("GPU to CPU and back", f"operators {listed(on_cpu)} on the CPU", len(crossing), nbytes, change)


def _odd_channels(facts: Facts) -> Iterator[Advice]:
    """Advice on tensors whose last slice of four channels is partly empty. Each is written and read at least once."""
    odd: dict[int, int] = {}
    for use in facts.memory:
        shape = () if use.tensor is None or use.tensor not in facts.tensors else facts.tensors[use.tensor].shape
        if use.tensor is not None and len(shape) > 1 and shape[-1] % 4:
            padded = -(-shape[-1] // 4) * 4
            odd[use.tensor] = 2 * use.nbytes * (padded - shape[-1]) // padded
    if odd:
        counts = sorted({facts.tensors[tensor].shape[-1] for tensor in odd})
        where = f"{counted(len(odd), 'tensor')} with {listed(counts)} channels"
        change = "Make channel counts multiples of 4: the last slice of four is read, written and computed in any case."
        yield Advice("odd channel counts", where, 0, sum(odd.values()), change)


def _high_ranks(facts: Facts) -> Iterator[Advice]:
    high = [
        operator.index
        for operator in facts.on_gpu()
        if any(len(facts.tensors[i].shape) > 4 for i in (*operator.inputs, *operator.outputs) if i in facts.tensors)
    ]
    steps = facts.steps_of(high)
    if steps:
        change = "Write it in 4-D: an axis of size 1 can go, and neighbours that are never split can be one axis."
        yield Advice("tensors of 5 and more axes", f"operators {listed(high)}", len(steps), _bytes(steps), change)


def _quantized_ends(facts: Facts) -> Iterator[Advice]:
    ends = [i for i in (*facts.inputs, *facts.outputs) if i in facts.tensors and "int8" in facts.tensors[i].dtype]
    steps = [step for step in facts.steps if not step.operators]
    if ends and steps:
        change = "Convert the model with float inputs and outputs (inference_input_type=tf.float32, the default)."
        yield Advice("quantized inputs and outputs", f"tensors {listed(ends)}", len(steps), _bytes(steps), change)


def _quantized_operators(facts: Facts) -> Iterator[Advice]:
    rounded = [
        operator.index
        for operator in facts.on_gpu()
        if any("int8" in facts.tensors[i].dtype for i in operator.outputs if i in facts.tensors)
    ]
    if rounded:
        change = (
            "Convolutions of 8 bits sum integers, the others compute in float32, and all round: no faster than the "
            "float model, and less exact. Take that one, or one with float16 weights, for the GPU."
        )
        yield Advice("quantized operators", f"operators {listed(rounded)}", 0, 0, change)


def _unbound_ends(facts: Facts) -> Iterator[Advice]:
    """Advice on inputs and outputs of the model, which are copied between CPU and GPU unless they are bound."""
    touched = {tensor for part in facts.partitions for tensor in (*part.inputs, *part.outputs)}
    ends = [tensor for tensor in (*facts.inputs, *facts.outputs) if tensor in touched]
    if ends:
        change = "Bind textures or buffers (bind_buffer_to_tensor): nothing is copied. RGBA textures are read in place."
        nbytes = sum(facts.tensors[tensor].nbytes for tensor in ends)
        yield Advice("set_tensor and get_tensor", f"tensors {listed(ends)}", len(ends), nbytes, change)


def _bytes(steps: Iterable[fb.StepCost]) -> int:
    return sum(step.nbytes for step in steps)


def listed(numbers: Sequence[int], most: int = 8) -> str:
    """Numbers as text with ranges, cut to a few: ``0 to 3, 7, 9 and 12 more``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    runs = [part for run in runs for part in ([run] if len(run) > 2 else [[number] for number in run])]
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    left = sum(map(len, runs[most:]))
    return ", ".join(parts[:most]) + (f" and {left} more" if left else "")
