"""Separate launches as a CUDA graph: the driver keeps them, and one call submits them all.

The GPU then goes from one kernel to the next faster than with launches, and than with the barrier of one dispatch:
docs/decisions/0018-cuda-by-ctypes.md has the figures.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...binaries import BinaryStore
from ...device import Slot, Step
from ...record.hazards import hazards
from ...record.one_dispatch import Merged
from ..api import ask, check, driver
from ..arrays import CudaArray
from ..build import Function
from ..context import CudaContext
from ..objects import CudaImage
from .recording import Call, Recording, record_separately, record_step
from .small_steps import record_merged

FEWEST_LAUNCHES = 2
"""A single launch gains nothing by a graph. Not measured."""
MOST_EXECUTABLES = 32
"""Executable graphs of a recording: the longest ring of objects that runs at full speed. NVDEC gives pictures in six
surfaces or more; buffers that take turns double the number of graphs, and so do two times between frames by turns.

Updating the parameters of a launch takes time, and the next launch of the graph then takes longer. Graphs by turns made
frames on an H200 shorter, and video in several sessions took less CPU time.
"""
DEPENDENT_LAUNCHES = 90
"""The first compute capability with an instruction by which a kernel waits for the one before it: see prelude.cuda."""

Variable = str | tuple[int, str]
"""An input that may change between runs: a slot by its name, or the floats of a picture by step number and argument."""
Value = tuple[float, ...]
"""A slot's pointer and pitch, or floats."""


class Edge(ctypes.Structure):
    """CUgraphEdgeData of kind 1 from port 1: the next kernel may start when all work-groups of this one allow it or
    have ended, and waits for the end of this one by itself.
    """

    _fields_ = (("port", ctypes.c_ubyte), ("to", ctypes.c_ubyte), ("kind", ctypes.c_ubyte), ("_", ctypes.c_ubyte * 5))


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS, in the version that every driver since CUDA 10 takes."""

    _fields_ = (
        ("function", ctypes.c_void_p), ("grid", ctypes.c_uint * 3), ("group", ctypes.c_uint * 3),
        ("local_bytes", ctypes.c_uint), ("parameters", ctypes.c_void_p), ("extra", ctypes.c_void_p),
    )  # fmt: skip


class LaunchGraph:
    """Launches as a CUDA graph, destroyed when nobody holds it.

    ``before`` has the dependencies: for each launch the numbers of the launches that it waits for. If the GPU can do
    so, a kernel starts before the end of these and waits for them on the GPU (see Edge).
    """

    def __init__(self, context: CudaContext, launches: Sequence[Call], before: Sequence[Sequence[int]]) -> None:
        self._launches = launches
        """The calls of the launches. They keep the parameters alive to which the nodes point."""
        self.nodes = [_node(arguments) for _, arguments in launches]
        self.handles = list[ctypes.c_void_p]()
        """The CUgraphNode of each launch."""
        self.context, self._what = context, f"making a graph of {len(launches)} launches in {context}"
        with context.entered():
            self._graph: int = ask(driver().cuGraphCreate, ctypes.c_void_p, 0, what=self._what)
            context.finalize(self, driver().cuGraphDestroy, self._graph)
            for node, numbers in zip(self.nodes, before, strict=True):
                self._add(node, numbers, early=has_early_launches(context))

    def _add(self, node: KernelNode, before: Sequence[int], *, early: bool) -> None:
        """Add a launch that waits for those ``before``. ``early``: its kernel starts early, and waits by itself."""
        cuda, handle, count = driver(), ctypes.c_void_p(), len(before)
        many = ctypes.c_void_p * count
        after = many(*(self.handles[number].value for number in before))
        waits = after, 0 if early else count
        check(cuda.cuGraphAddKernelNode(ctypes.byref(handle), self._graph, *waits, ctypes.byref(node)), self._what)
        if early and count:
            edges = (Edge * count)(*[Edge(1, 0, 1)] * count)
            places = after, many(*[handle.value] * count), edges
            linked = cuda.cuGraphAddDependencies_v2(ctypes.c_void_p(self._graph), *places, ctypes.c_size_t(count))
            check(linked, self._what)
        self.handles.append(handle)

    def instantiate(self) -> int:
        """A CUgraphExec. Its launches have the parameters that they had when this graph was made."""
        with self.context.entered():
            return ask(driver().cuGraphInstantiateWithFlags, ctypes.c_void_p, self._graph, 0, what=self._what)


class ExecutableGraph:
    """A graph that can be launched, with the values that its launches have. Destroyed when nobody holds it.

    The driver copies the parameters of launches, so changed ones are passed to it again before the next run.
    """

    def __init__(self, graph: LaunchGraph) -> None:
        self._graph, self._set = graph, driver().cuGraphExecKernelNodeSetParams
        made = graph.instantiate()
        graph.context.finalize(self, driver().cuGraphExecDestroy, made)
        self._handle = ctypes.c_void_p(made)
        context = graph.context
        self.launch: Callable[[], int] = functools.partial(
            context.by_handles(driver().cuGraphLaunch), self._handle, ctypes.c_void_p(context.stream)
        )
        """The call that submits all launches. It returns CUDA's status."""
        self.values: dict[Variable, Value] = {}

    def update(self, number: int) -> int:
        """Pass the parameters of a launch to the driver again, for later runs. Returns CUDA's status.

        The context must be entered: without a current context driver 580 crashes here.
        """
        graph = self._graph
        return self._set(self._handle, graph.handles[number], ctypes.byref(graph.nodes[number]))


def has_early_launches(context: CudaContext) -> bool:
    """Whether a kernel may start before the end of the one before it: the GPU and the driver (CUDA 12.3) decide."""
    return context.capability >= DEPENDENT_LAUNCHES and hasattr(driver(), "cuGraphAddDependencies_v2")


def _node(arguments: tuple[Any, ...]) -> KernelNode:
    """A node of the arguments of cuLaunchKernel."""
    function, *sizes, local_bytes, _, addresses, _ = arguments
    values = [size.value for size in sizes]
    dimensions = ctypes.c_uint * 3
    parameters = ctypes.cast(addresses, ctypes.c_void_p)
    return KernelNode(function, dimensions(*values[:3]), dimensions(*values[3:]), local_bytes, parameters, None)


def launches_before(steps: Sequence[Step], units: Sequence[range] | None = None) -> list[list[int]]:
    """The numbers of the launches that each launch waits for: all that run side by side before it.

    Launches that need not wait for one another run side by side, which is faster than one after the other: heads of a
    model, the copies of a batch's frames. A launch of several steps, which ``units`` says, runs alone.
    """
    units = units or [range(number, number + 1) for number in range(len(steps))]
    waits = set(hazards(steps))
    starts = [0]
    for number, unit in enumerate(units[1:], 1):
        if len(unit) > 1 or len(units[number - 1]) > 1 or unit.start in waits:
            starts.append(number)
    found: list[list[int]] = []
    last: list[int] = []
    for first, end in itertools.pairwise([*starts, len(units)]):
        found += [last] * (end - first)
        last = list(range(first, end))
    return found


@dataclass
class GraphRecording(Recording):
    """Launches that a run submits as a graph. If a ring of objects takes turns in a slot, each gets an executable
    graph.
    """

    graph: LaunchGraph | None = None
    users: dict[Variable, list[int]] = field(default_factory=dict)
    """The numbers of the launches that use each variable."""
    values: dict[Variable, Value] = field(default_factory=dict)
    """The present value of each slot, and of the floats that were changed."""
    executables: dict[tuple[Value, ...], ExecutableGraph] = field(default_factory=dict)
    """The executable graphs by those values, the oldest first."""
    chosen: ExecutableGraph | None = None
    """The executable graph with the present values, once a run has looked it up."""

    def fill(self, slot: str, resource: CudaArray | CudaImage) -> None:
        now = self.values[slot] = resource.place
        self.chosen = None
        for place in self.slots[slot]:
            place[0], place[1] = now

    def set_parameters(self, step: int, argument: str, values: Sequence[float]) -> None:
        super().set_parameters(step, argument, values)
        self.values[step, argument] = tuple(values)
        self.chosen = None

    def submit(self) -> int:
        """Submit the launches with the present parameters. Returns CUDA's status."""
        chosen = self.chosen
        if chosen is None:
            key = tuple(self.values.values())
            chosen = self.chosen = self.executables.get(key)
            if chosen is None:
                assert self.graph is not None
                status = self._add_executable(self.graph, key)
                if status:
                    return status
                chosen = self.chosen = self.executables[key]
        return chosen.launch()

    def _add_executable(self, graph: LaunchGraph, key: tuple[Value, ...]) -> int:
        """Make an executable graph for the present values, or update the oldest one. Returns CUDA's status."""
        if len(self.executables) < MOST_EXECUTABLES:
            executable, changed = ExecutableGraph(graph), set(self.users)
        else:
            executable = self.executables.pop(next(iter(self.executables)))
            changed = {each for each, value in self.values.items() if executable.values.get(each) != value}
        with graph.context.entered():
            for number in sorted({number for each in changed for number in self.users[each]}):
                status = executable.update(number)
                if status:
                    return status
        executable.values = dict(self.values)
        self.executables[key] = executable
        return 0

    def release(self) -> None:
        super().release()
        self.graph = self.chosen = None
        self.executables.clear()


def record_as_graph(context: CudaContext, steps: Sequence[Step], store: BinaryStore | None) -> Recording:
    """A graph of one launch per step, ordered as ``launches_before`` says; the launch itself if there is one step."""
    if len(steps) < FEWEST_LAUNCHES:
        return record_separately(context, steps, store, Recording())
    recording = GraphRecording()
    record_separately(context, steps, store, recording)
    return _as_graph(recording, context, steps, [range(number, number + 1) for number in range(len(steps))])


def record_units(
    context: CudaContext,
    steps: Sequence[Step],
    store: BinaryStore | None,
    units: Sequence[range],
    programs: Mapping[int, tuple[Merged, Function]],
) -> Recording:
    """A graph of one launch per unit, which is a step, or small steps in a row that are a program."""
    if not programs:
        return record_as_graph(context, steps, store)
    recording = GraphRecording()
    for number, unit in enumerate(units):
        if number in programs:
            record_merged(recording, context, *programs[number], steps[unit.start : unit.stop], unit.start)
        else:
            record_step(context, unit.start, steps[unit.start], store, recording)
    return _as_graph(recording, context, steps, units)


def _as_graph(
    recording: GraphRecording, context: CudaContext, steps: Sequence[Step], units: Sequence[range]
) -> Recording:
    """Make a graph of the launches of a recording, which are of these steps."""
    for number, one in ((number, one) for number, unit in enumerate(units) for one in unit):
        step = steps[one]
        for argument in step.parameters:
            recording.users[one, argument] = [number]
        for operand in step.operands.values():
            if isinstance(operand.resource, Slot):
                recording.users.setdefault(operand.resource.name, []).append(number)
    launches = [call for _, call in recording.dispatches]
    recording.graph = LaunchGraph(context, launches, launches_before(steps, units))
    recording.calls = [(recording.submit, ())]
    return recording
