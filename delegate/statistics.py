"""Figures of a delegate: its programs, the cost of a run, and the time of initialization by phase."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..interop.device import Step, Traits
from ..interop.errors import counted
from ..kernels.views import Plane, Sampled, Table
from .cache.stopwatch import Phase
from .lower.tuning import describe
from .run.program import Program

_OPERATORS = re.compile(r" (\d+(?:,\d+)*)(?= \+ |$)")
"""The numbers of operators in a step's label: after its name, or after each name of a merged step."""


@dataclass(frozen=True)
class Statistics:
    """Figures of a GpuDelegate. Those that depend on recorded steps are 0 before the first ``invoke``.

    Examples
    --------
    >>> delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="null"))
    >>> interpreter = fb.Interpreter(model_path="model.tflite", experimental_delegates=[delegate])
    >>> interpreter.invoke()
    >>> figures = delegate.statistics()
    >>> figures.api, figures.operators, figures.operators_on_gpu, figures.dispatches
    ('null', 1, 1, 1)
    >>> list(figures.initialization)
    ['read', 'claim', 'transform', 'lower', 'pack', 'plan', 'compile', 'upload', 'record']
    """

    device: str
    """The GPU, as its driver names it."""
    api: str
    """The API: "opengl", "opengl es", "opencl", "cuda" or "null". ``Backend.titles`` has its name for texts."""
    driver: str
    """The driver and its version."""
    software: bool
    """Whether the "GPU" is the CPU."""
    operators: int
    """Operators of the model."""
    operators_on_gpu: int
    """Operators that run on the GPU."""
    partitions: int
    """Connected parts of the model that run on the GPU."""
    dispatches: int
    """Dispatches of a run."""
    barriers: int
    """Barriers of a run."""
    api_calls: int
    """Calls of the API in one run if everything is bound."""
    kernels: int
    """Different kernels among the steps."""
    arena_nbytes: int
    """Bytes of GPU memory for intermediate tensors."""
    constants_nbytes: int
    """Bytes of GPU memory for weights."""
    initialization: Mapping[Phase, float]
    """Seconds by phase, in order."""
    tuning: tuple[str, ...]
    """Lines that describe the decisions that were measured (SUSTAINED_SPEED) to be faster than the rules'."""

    def __repr__(self) -> str:
        return (
            f"<Statistics: {self.operators_on_gpu} of {counted(self.operators, 'operator')} on {self.device} "
            f"({self.api}), {counted(self.partitions, 'partition')}, "
            f"{counted(self.dispatches, 'dispatch', 'dispatches')}>"
        )


@dataclass(frozen=True)
class StepTime:
    """The time of a step that ran as a dispatch of its own. See ``GpuDelegate.profile``.

    Examples
    --------
    >>> delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))
    >>> interpreter = fb.Interpreter(model_path="model.tflite", experimental_delegates=[delegate])
    >>> interpreter.invoke()
    >>> (step,) = delegate.profile()
    >>> step.label, step.kernel, step.nanoseconds > 0
    ('0 EXP 0', 'copy', True)
    >>> delegate.close()
    """

    label: str
    """The step's number, its operator, and the numbers of the model's operators in it."""
    kernel: str
    """The kernel's name."""
    nanoseconds: int
    """Nanoseconds on the GPU."""


@dataclass(frozen=True)
class StepCost:
    """A step of a part of the model: one kernel, and its least cost. See ``GpuDelegate.steps``.

    Examples
    --------
    >>> delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="null"))
    >>> interpreter = fb.Interpreter(model_path="model.tflite", experimental_delegates=[delegate])
    >>> interpreter.allocate_tensors()
    >>> delegate.record()
    >>> (step,) = delegate.steps()
    >>> step.label, step.operators, step.nbytes
    ('0 EXP 0', (0,), 480)
    """

    partition: int
    """The number of the part of the model that it belongs to."""
    label: str
    """The step's number, its operator, and the numbers of the model's operators in it."""
    kernel: str
    """The kernel's name."""
    operators: tuple[int, ...]
    """The numbers of the model's operators in it; none if it only converts an input or output."""
    nbytes: int
    """The least bytes that it reads and writes: each of its tensors, and its weights, once."""
    multiply_adds: int
    """Multiply-adds of a convolution or a product of matrices; 0 for others."""


@dataclass(frozen=True)
class TensorMemory:
    """An intermediate tensor in the GPU's memory, which other tensors use before and after it. See
    ``GpuDelegate.memory``.

    Examples
    --------
    >>> delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="null"))
    >>> interpreter = fb.Interpreter(model_path="model.tflite", experimental_delegates=[delegate])
    >>> interpreter.allocate_tensors()
    >>> delegate.record()
    >>> delegate.memory()  # a model of one operator has no intermediate tensor
    []
    """

    partition: int
    """The number of the part of the model that it belongs to."""
    tensor: int | None
    """The tensor's number in the subgraph; None for an intermediate result of one operator."""
    offset: int
    """Bytes before it in the part's memory."""
    nbytes: int
    """The tensor's size in bytes."""
    first_step: int
    """The number of the step that writes it first, in its part."""
    last_step: int
    """The number of the last step that reads it."""


def gather(
    traits: Traits,
    programs: Sequence[Program],
    operators: tuple[int, int],
    partitions: int,
    times: Mapping[Phase, float],
) -> Statistics:
    """The statistics of programs. ``operators``: how many the model has and how many of them run on the GPU."""
    lists = [program.record() for program in programs]
    return Statistics(
        device=traits.name, api=traits.api, driver=traits.driver, software=traits.software,
        operators=operators[0], operators_on_gpu=operators[1], partitions=partitions,
        dispatches=sum(commands.dispatches for commands in lists),
        barriers=sum(commands.barriers for commands in lists),
        api_calls=sum(commands.calls_per_run for commands in lists),
        kernels=len({step.kernel.source for commands in lists for step in commands.steps}),
        arena_nbytes=sum(program.arena_nbytes for program in programs),
        constants_nbytes=sum(program.weights_nbytes for program in programs),
        initialization=dict(times),
        tuning=tuple(line for program in programs for line in describe(program.tuning, program.choices)),
    )  # fmt: skip


def step_times(programs: Sequence[Program]) -> list[StepTime]:
    """Run each program once, each step as a dispatch of its own, waiting between them."""
    times: list[StepTime] = []
    for program in programs:
        timings = program.timings()
        names = [step.kernel.source.name for step in program.steps]
        for (label, nanoseconds), name in zip(timings, names, strict=True):
            times.append(StepTime(label, name, nanoseconds))
    return times


def step_costs(number: int, program: Program) -> list[StepCost]:
    """The cost of each step of a program that was recorded; ``number`` is its partition's."""
    costs: list[StepCost] = []
    for step in program.steps:
        numbers = ",".join(_OPERATORS.findall(step.label))
        operators = tuple(int(word) for word in numbers.split(",")) if numbers else ()
        nbytes, multiply_adds = work_of(step)
        costs.append(StepCost(number, step.label, step.kernel.source.name, operators, nbytes, multiply_adds))
    return costs


class StepWork(NamedTuple):
    """The work of one step, at least: ``nbytes`` are those of each argument, read or written once.

    ``multiply_adds`` are those of convolutions and products of matrices.
    """

    nbytes: int
    multiply_adds: int


def work_of(step: Step, picture_bytes: int | None = None) -> StepWork:
    """The work of a step. A picture counts as ``picture_bytes``, or else as 4 bytes for each pixel of its tensor.

    Every weight is used once per pixel of the output; of a transposed convolution, once per pixel of the input, which
    has UP_Y * UP_X neighbours in the output; of SETS sets of weights, once per pixel of its set. Each element of a
    product of two computed matrices is a sum of DEPTH products.
    """
    source = step.kernel.source
    views = {argument.name: argument.view for argument in source.arguments}
    counted = views["src"] if source.name == "transpose_conv" else views.get("dst")
    shape = (0, 0, 0, 0) if counted is None or isinstance(counted, Table | Plane) else counted.shape
    weights = [view for name, view in views.items() if isinstance(view, Table) and name.endswith("weights")]
    factors = sum((8 if view.storage == "u16" else 4) * view.count for view in weights)
    constants = dict(source.constants)
    if source.name in ("matmul", "matrix_product"):
        factors += shape[3] * int(constants["DEPTH"])
    times = math.prod(int(constants.get(name, 1)) for name in ("SETS", "UP_Y", "UP_X"))
    pictures = [view for view in views.values() if isinstance(view, Sampled)]
    sampled = sum(4 * math.prod(view.shape[1:3]) if picture_bytes is None else picture_bytes for view in pictures)
    return StepWork(sum(view.nbytes for view in views.values()) + sampled, math.prod(shape[:3]) * factors // times)


def tensor_memory(number: int, program: Program) -> list[TensorMemory]:
    """The intermediate tensors of a program that was recorded, by the step that writes them first."""
    layout = program.layout
    if layout is None:
        return []
    found = [
        TensorMemory(
            number, tensor if isinstance(tensor, int) else None, layout.arena.offsets[tensor], life.nbytes,
            life.first, life.last,
        )
        for tensor, life in layout.lifetimes.items()
    ]  # fmt: skip
    return sorted(found, key=lambda use: (use.first_step, use.offset))
