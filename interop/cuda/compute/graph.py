"""Separate launches as a CUDA graph: the driver keeps them, and one call submits them all.

That takes the GPU from one kernel to the next sooner than launches do, and than the barrier of one dispatch:
docs/decisions/0018-cuda-by-ctypes.md has the figures.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...binaries import BinaryStore
from ...device import Slot, Step
from ...record.hazards import hazards
from ..api import ask, check, driver
from ..arrays import CudaArray
from ..context import CudaContext
from ..objects import CudaImage
from .recording import Call, Recording, record_separately

FEWEST_LAUNCHES = 2
"""A single launch gains nothing by a graph. Not measured."""
FEWEST_SIDE_BY_SIDE = 4
"""So many launches that need not wait for one another run side by side: the copies of a batch's frames. Fewer follow
one another. With eight objects in and out a frame took 3 to 11% longer than from one buffer, on an H200 on 2026-11-22
(``benchmarks/batch.py --backend cuda --objects one,many --batch 8``); one after the other was not measured.
"""


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS, in the version that every driver since CUDA 10 takes."""

    _fields_ = (
        ("function", ctypes.c_void_p), ("grid", ctypes.c_uint * 3), ("group", ctypes.c_uint * 3),
        ("local_bytes", ctypes.c_uint), ("parameters", ctypes.c_void_p), ("extra", ctypes.c_void_p),
    )  # fmt: skip


class LaunchGraph:
    """Launches as an executable graph, destroyed when nobody holds it. ``before`` has the numbers of the launches that
    each one waits for.

    The driver copies a launch's parameters: those that change are given to it anew, before the next run.
    """

    def __init__(self, context: CudaContext, launches: Sequence[Call], before: Sequence[Sequence[int]]) -> None:
        self._stream = ctypes.c_void_p(context.stream)
        self._launches = launches
        """They keep the parameters alive to which the nodes point."""
        self._nodes = [_node(arguments) for _, arguments in launches]
        cuda, what = driver(), f"making a graph of {len(launches)} launches in {context}"
        self._submit, self._set = cuda.cuGraphLaunch, cuda.cuGraphExecKernelNodeSetParams
        with context.entered():
            graph: int = ask(cuda.cuGraphCreate, ctypes.c_void_p, 0, what=what)
            context.finalize(self, cuda.cuGraphDestroy, graph)
            self._handles = list[ctypes.c_void_p]()
            for node, numbers in zip(self._nodes, before, strict=True):
                handle = ctypes.c_void_p()
                after = (ctypes.c_void_p * len(numbers))(*[self._handles[number].value for number in numbers])
                added = cuda.cuGraphAddKernelNode(ctypes.byref(handle), graph, after, len(after), ctypes.byref(node))
                check(added, what)
                self._handles.append(handle)
            made = ask(cuda.cuGraphInstantiateWithFlags, ctypes.c_void_p, graph, 0, what=what)
            context.finalize(self, cuda.cuGraphExecDestroy, made)
        self._executable = ctypes.c_void_p(made)
        places = zip(self._handles, self._nodes, strict=True)
        self._updates = [(self._executable, handle, ctypes.byref(node)) for handle, node in places]

    def update(self, number: int) -> int:
        """Give the driver the parameters of a launch anew, for runs from now on. Returns CUDA's status."""
        return self._set(*self._updates[number])

    def submit(self) -> int:
        """Submit all launches. Returns CUDA's status."""
        return self._submit(self._executable, self._stream)


def _node(arguments: tuple[Any, ...]) -> KernelNode:
    """A node of the arguments of cuLaunchKernel."""
    function, *sizes, local_bytes, _, addresses, _ = arguments
    values = [size.value for size in sizes]
    dimensions = ctypes.c_uint * 3
    parameters = ctypes.cast(addresses, ctypes.c_void_p)
    return KernelNode(function, dimensions(*values[:3]), dimensions(*values[3:]), local_bytes, parameters, None)


def launches_before(steps: Sequence[Step]) -> list[list[int]]:
    """The numbers of the launches that each step's launch waits for: the one before it, or, around steps that run side
    by side, all that came before them.
    """
    starts = [0, *hazards(steps), len(steps)]
    found: list[list[int]] = []
    last: list[int] = []
    for first, end in itertools.pairwise(starts):
        numbers = list(range(first, end))
        if len(numbers) >= FEWEST_SIDE_BY_SIDE:
            found += [last for _ in numbers]
            last = numbers
            continue
        for number in numbers:
            found.append(last)
            last = [number]
    return found


@dataclass
class GraphRecording(Recording):
    """Launches that a run submits as a graph, and those of them whose parameters have changed since the last run."""

    graph: LaunchGraph | None = None
    users: dict[str, list[int]] = field(default_factory=dict)
    """The numbers of the launches that use each slot."""
    changed: set[int] = field(default_factory=set)

    def fill(self, slot: str, resource: CudaArray | CudaImage) -> None:
        super().fill(slot, resource)
        self.changed.update(self.users[slot])

    def set_parameters(self, step: int, argument: str, values: Sequence[float]) -> None:
        super().set_parameters(step, argument, values)
        self.changed.add(step)

    def submit(self) -> int:
        """Submit the launches with the parameters of now. Returns CUDA's status."""
        assert self.graph is not None
        if self.changed:
            for number in self.changed:
                status = self.graph.update(number)
                if status:
                    return status
            self.changed.clear()
        return self.graph.submit()

    def release(self) -> None:
        super().release()
        self.graph = None


def record_as_graph(context: CudaContext, steps: Sequence[Step], store: BinaryStore | None) -> Recording:
    """A graph of one launch per step, ordered as ``launches_before`` says; the launch itself if there is one step."""
    if len(steps) < FEWEST_LAUNCHES:
        return record_separately(context, steps, store, Recording())
    recording = GraphRecording()
    record_separately(context, steps, store, recording)
    for number, step in enumerate(steps):
        for operand in step.operands.values():
            if isinstance(operand.resource, Slot):
                recording.users.setdefault(operand.resource.name, []).append(number)
    recording.graph = LaunchGraph(context, recording.calls, launches_before(steps))
    recording.calls = [(recording.submit, ())]
    return recording
