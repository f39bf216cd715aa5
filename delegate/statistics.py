"""Figures of a delegate: what its programs are and what a run of them costs, and where initialization took its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..interop.device import Traits
from .cache.stopwatch import Phase
from .lower.tuning import describe
from .run.program import Program


@dataclass(frozen=True)
class Statistics:
    """Of a GpuDelegate. What depends on recorded steps is 0 before the first ``invoke``.

    ``dispatches``, ``barriers`` and ``api_calls`` (GL or OpenCL, all that ``invoke`` issues where everything is bound)
    are those of a run; ``kernels`` are the different ones among its steps. ``arena_nbytes`` hold the intermediate
    tensors, ``constants_nbytes`` the weights. ``initialization`` has seconds by phase: "read", "claim", "transform",
    "lower", "pack", "plan", "compile", "upload" and "record". ``tuning`` describes in lines
    how programs run that were measured on the device (SUSTAINED_SPEED) to be faster than by rule.
    """

    device: str
    api: str
    driver: str
    software: bool
    operators: int
    operators_on_gpu: int
    partitions: int
    dispatches: int
    barriers: int
    api_calls: int
    kernels: int
    arena_nbytes: int
    constants_nbytes: int
    initialization: Mapping[Phase, float]
    tuning: tuple[str, ...]


@dataclass(frozen=True)
class StepTime:
    """A step as a dispatch of its own: its label (number, operator, numbers of the model's operators) and its
    nanoseconds on the GPU.
    """

    label: str
    kernel: str
    nanoseconds: int


def gather(
    traits: Traits,
    programs: Sequence[Program],
    operators: tuple[int, int],
    partitions: int,
    times: Mapping[Phase, float],
) -> Statistics:
    """``operators``: how many the model has, and how many of them run on the GPU. ``times``: seconds by phase."""
    lists = [program.record() for program in programs]
    return Statistics(
        device=traits.name, api=traits.api, driver=traits.driver, software=traits.software,
        operators=operators[0], operators_on_gpu=operators[1], partitions=partitions,
        dispatches=sum(commands.dispatches for commands in lists),
        barriers=sum(commands.barriers for commands in lists),
        api_calls=sum(commands.calls_per_run for commands in lists),
        kernels=len({step.kernel for commands in lists for step in commands.steps}),
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
