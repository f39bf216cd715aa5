"""What became of a model's operators: records for programs, and the warning that people see in the log."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .read.model import Model, Subgraph

log = logging.getLogger("framebind.delegate")

Location = tuple[int, int]
"""Number of the subgraph, and of the operator in it."""


@dataclass(frozen=True)
class DelegatedOp:
    """Where one operator runs. ``partition`` numbers the parts of the model that run on the GPU; None on the CPU.

    ``index`` is its number in its subgraph, ``name`` TensorFlow Lite's ("CONV_2D") or the custom operator's own.
    ``reason`` says why it is not on the GPU; "" where it is.
    """

    index: int
    name: str
    subgraph: int
    runs_on: Literal["gpu", "cpu"]
    partition: int | None
    reason: str


@dataclass(frozen=True)
class PartitionReport:
    """A part of the model that runs on the GPU as one program. ``operators`` and tensors by number in ``subgraph``.

    What it takes on the device is known once it was recorded, by the first ``invoke`` or by ``GpuDelegate.record``;
    before, the four figures are None. The memories are in bytes.
    """

    number: int
    subgraph: int
    operators: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dispatches: int | None
    barriers: int | None
    constants_nbytes: int | None
    arena_nbytes: int | None


def describe_operators(
    model: Model, partitions: Mapping[Location, int], reasons: Mapping[Location, str], otherwise: str
) -> list[DelegatedOp]:
    """A record for each operator of the model, in order: in one of ``partitions``, or on the CPU for its reason."""
    found: list[DelegatedOp] = []
    for number, subgraph in enumerate(model.subgraphs):
        for operator in subgraph.operators:
            where = number, operator.index
            partition = partitions.get(where)
            reason = "" if partition is not None else reasons.get(where, otherwise)
            runs_on = "cpu" if partition is None else "gpu"
            found.append(DelegatedOp(operator.index, operator.name, number, runs_on, partition, reason))
    return found


def warning_text(number: int, subgraph: Subgraph, unsupported: Mapping[int, str], taken: int) -> str:
    """Which operators the GPU cannot run, and why, in the words of the C++ delegate of today and of the older one.

    ``unsupported`` has a reason by operator, ``taken`` is how many operators do run on the GPU. A line that several
    operators share stands there once.
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


@functools.cache
def warn_of_software(name: str) -> None:
    """Once a process."""
    log.warning(f"{name} runs on the CPU: without a GPU, LiteRT's CPU interpreter alone is faster")
