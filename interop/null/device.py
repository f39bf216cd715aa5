"""A device that records everything and computes nothing: for tests, counts and generated sources without a driver."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...kernels.codegen.render import render
from ...kernels.codegen.source import KernelSource
from ..arrays import ArrayLayout
from ..backends import dialects
from ..binaries import BinaryStore
from ..device import Dispatches, Resource, Step, Traits
from ..errors import BindingError
from ..record.checks import check_steps
from ..record.hazards import hazards
from ..transfers import transfers


@dataclass
class NullResource:
    """A size, a label and a flag."""

    label: str
    nbytes: int = 0
    size: tuple[int, int] = (0, 0)
    format: str = ""
    released: bool = False
    offset: int = 0
    layout: ArrayLayout | None = None
    handle: Hashable = field(default_factory=object, compare=False)

    @property
    def compatibility_key(self) -> Hashable:
        return self.format, self.size, self.nbytes, self.layout

    def release(self) -> None:
        self.released = True


@dataclass(frozen=True)
class NullKernel:
    """A kernel's source and its text in every dialect."""

    source: KernelSource
    texts: dict[str, str]
    """The kernel's text in each dialect, by the name of the dialect."""


class NullCommandList:
    """Steps that were checked; running them counts."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        check_steps(self.steps)
        self.barriers = len(hazards(self.steps))
        self.runs = 0
        self.slots: dict[str, Resource] = {}
        self.parameters: dict[tuple[int, str], tuple[float, ...]] = {}

    @property
    def dispatches(self) -> int:
        return len(self.steps)

    @property
    def calls_per_run(self) -> int:
        """Zero, as there is no API to call."""
        return 0

    def set_slot(self, name: str, resource: Resource) -> None:
        self.slots[name] = resource

    def set_parameters(self, step: int, argument: str, values: tuple[float, ...]) -> None:
        self.parameters[step, argument] = values

    def run(self) -> None:
        self.runs += 1

    def timings(self) -> list[tuple[str, int]]:
        return [(step.label, 0) for step in self.steps]

    def release(self) -> None:
        self.slots.clear()


class NullFence:
    """A point that is always passed."""

    done = True
    handle = None

    def wait(self) -> None:
        return


class NullDevice:
    """Implements interop.device.Device. The arguments set some of its traits."""

    def __init__(self, group_size: int = 64, max_buffer_bytes: int = 1 << 31, invocations: int = 1) -> None:
        self.traits = Traits(
            name="null", api="null", driver="null", group_size=group_size, max_group_size=1024, invocations=invocations,
            local_bytes=32768, max_buffer_bytes=max_buffer_bytes,
            offset_alignment=256, max_memories=16, software=False,
            write_formats=frozenset({"rgba8", "rgba16f", "rgba32f", "r8", "r32f"}),
        )  # fmt: skip
        self.dispatches: Dispatches = "auto"
        self.kernels: dict[KernelSource, NullKernel] = {}

    def buffer(self, nbytes: int, label: str) -> NullResource:
        return NullResource(label, nbytes)

    def texture(self, width: int, height: int, format: str, label: str) -> NullResource:
        return NullResource(label, 0, (width, height), format)

    def borrow(self, native: Any) -> NullResource:
        if not isinstance(native, NullResource):
            raise BindingError(f"the null device has no use for a {type(native).__name__}")
        return native

    def kernel(self, source: KernelSource) -> NullKernel:
        if source not in self.kernels:
            self.kernels[source] = NullKernel(
                source, {name: render(source, dialect) for name, dialect in dialects().items()}
            )
        return self.kernels[source]

    def compile(
        self, steps: Sequence[Step], dispatches: Dispatches | None = None, store: BinaryStore | None = None
    ) -> None:
        """Do nothing, as there is no compiler."""

    def record(
        self,
        steps: Sequence[Step],
        dispatches: Dispatches | None = None,
        groups_per_unit: int = 0,
        store: BinaryStore | None = None,
    ) -> NullCommandList:
        return NullCommandList(steps)

    def write(self, resource: Resource, array: np.ndarray, reason: str, offset: int = 0) -> None:
        transfers.count("upload", array.nbytes, reason)

    def read(self, resource: Resource, array: np.ndarray, reason: str, offset: int = 0) -> None:
        transfers.count("download", array.nbytes, reason)
        array[...] = 0

    def fence(self) -> NullFence:
        return NullFence()

    def wait_for(self, events: Sequence[Any]) -> None:
        if events:
            raise BindingError("the null device has no events")

    def event(self) -> None:
        return None

    needs_entering = False

    def entered(self) -> AbstractContextManager[None]:
        return nullcontext()

    def check(self) -> None:
        return

    def finish(self) -> None:
        return

    def close(self) -> None:
        self.kernels.clear()
