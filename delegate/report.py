"""Reports of a model's operators: records for programs, and the warning in the log."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..interop.errors import counted
from .read.model import Model, Subgraph

log = logging.getLogger("framebind.delegate")

Location = tuple[int, int]
"""Number of the subgraph, and of the operator in it."""


@dataclass(frozen=True)
class DelegatedOp:
    """An operator of the model and the processor that runs it. See ``Interpreter.delegated_ops``.

    Examples
    --------
    >>> interpreter = fb.Interpreter(model_path="model.tflite")
    >>> interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(backend="null")))
    >>> interpreter.allocate_tensors()
    >>> (op,) = interpreter.delegated_ops()
    >>> op.name, op.runs_on, op.partition, op.reason
    ('EXP', 'gpu', 0, '')
    """

    index: int
    """The operator's number in its subgraph."""
    name: str
    """TensorFlow Lite's name ("CONV_2D"), or the custom operator's own."""
    subgraph: int
    """The number of its subgraph."""
    runs_on: Literal["gpu", "cpu"]
    """The processor that runs it."""
    partition: int | None
    """The number of the part of the model that runs on the GPU; None on the CPU."""
    reason: str
    """The reason why it is not on the GPU; "" if it is."""
    inputs: tuple[int, ...] = ()
    """The tensors that it reads, by number in the subgraph; -1 is an optional one that is left out."""
    outputs: tuple[int, ...] = ()
    """The tensors that it writes."""
    composite: str = ""
    """The name of a STABLEHLO_COMPOSITE in the model ("odml.gelu"); "" for every other operator."""


@dataclass(frozen=True)
class PartitionReport:
    """A part of the model that runs on the GPU as one program. See ``GpuDelegate.partitions``.

    The last four figures are None before the part was recorded, by the first ``invoke`` or by ``GpuDelegate.record``.

    Examples
    --------
    >>> delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="null"))
    >>> interpreter = fb.Interpreter(model_path="model.tflite", experimental_delegates=[delegate])
    >>> interpreter.allocate_tensors()
    >>> delegate.record()
    >>> (part,) = delegate.partitions()
    >>> part.operators, part.inputs, part.outputs, part.dispatches
    ((0,), (0,), (1,), 1)
    """

    number: int
    """The partition's number, in the order of the model's operators."""
    subgraph: int
    """The number of its subgraph."""
    operators: tuple[int, ...]
    """The numbers of its operators in the subgraph."""
    inputs: tuple[int, ...]
    """The tensors that enter it, by number in the subgraph; constants are left out."""
    outputs: tuple[int, ...]
    """The tensors that leave it."""
    dispatches: int | None
    """Dispatches of a run."""
    barriers: int | None
    """Barriers of a run."""
    constants_nbytes: int | None
    """Bytes of GPU memory for weights."""
    arena_nbytes: int | None
    """Bytes of GPU memory for intermediate tensors."""

    def __repr__(self) -> str:
        cost = "not recorded yet" if self.dispatches is None else counted(self.dispatches, "dispatch", "dispatches")
        return f"<PartitionReport {self.number}: {counted(len(self.operators), 'operator')}, {cost}>"


def describe_operators(
    model: Model, partitions: Mapping[Location, int], reasons: Mapping[Location, str], otherwise: str
) -> list[DelegatedOp]:
    """A record for each operator of the model, in order: its partition on the GPU, or the reason for the CPU."""
    found: list[DelegatedOp] = []
    for number, subgraph in enumerate(model.subgraphs):
        for operator in subgraph.operators:
            where = number, operator.index
            partition = partitions.get(where)
            reason = "" if partition is not None else reasons.get(where, otherwise)
            runs_on = "cpu" if partition is None else "gpu"
            sides = operator.inputs, operator.outputs
            named = operator.name, number, runs_on, partition, reason
            found.append(DelegatedOp(operator.index, *named, *sides, operator.composite))
    return found


def warning_text(number: int, subgraph: Subgraph, unsupported: Mapping[int, str], taken: int) -> str:
    """The warning about operators that the GPU cannot run, in the words of TensorFlow Lite's C++ delegates.

    ``unsupported`` has a reason by operator, ``taken`` is the number of operators that run on the GPU. A line that
    several operators share is in the text once.
    """
    which = "operations" if number == 0 else f"operations of subgraph {number} '{subgraph.name}'"
    lines = sorted({f"{subgraph.operators[i].name}: {reason}" for i, reason in unsupported.items()})
    count = len(subgraph.operators)
    here, there = (f"{taken}", f"the remaining {count - taken}") if taken else ("No", f"all {count}")
    codes = sorted({subgraph.operators[i].code for i in unsupported})
    return "\n".join(
        [
            f"Following {which} are not supported by GPU delegate:",
            *lines,
            f"{here} operations will run on the GPU, and {there} operations will run on the CPU.",
            *(f"op code #{code} cannot be handled by this delegate." for code in codes),
        ]
    )


CPU_LINE = (
    "framebind: the model runs on the CPU, as in LiteRT. Interpreter(..., delegate='auto') takes a GPU if that is "
    "faster; delegate='cpu' keeps the CPU, and this line away"
)
"""The line for programs whose only change is the import."""


@functools.cache
def say_once(line: str) -> None:
    """Log a line as a warning, once per process.

    Without a configuration of logging, Python shows warnings, and nothing below them, on stderr. A higher level of
    the logger "framebind" silences the line.
    """
    log.warning(line)


def warn_of_software(name: str) -> None:
    """Warn once per process that the device is the CPU."""
    say_once(f"{name} runs on the CPU: without a GPU, LiteRT's CPU interpreter alone is faster")


IDLE_SECONDS = 3.0
"""The seconds without work after which NVIDIA's driver lowers the GPU's clock (H200, driver 580)."""


def warn_of_low_clock(seconds: float) -> None:
    """Warn once per process that the GPU's clock is low, if compiling has taken so many seconds."""
    if seconds > IDLE_SECONDS:
        say_once(
            f"the GPU idled for {seconds:.0f} s while its kernels were compiled, and NVIDIA's driver lowered its "
            "clock: frames take up to 3.5 times longer at first, and for long at a camera's rate. "
            "An open fb.cuda.CudaContext() keeps the clock up (docs/checklist.md)"
        )
