"""From launches to steps: where each tensor lies, the kernel source that follows, and its arguments' operands."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ...interop.device import Kernel, Operand, Resource, Slot, Step
from ...kernels.codegen.source import Argument, KernelSource, Prologue
from ...kernels.operation import FusedOp, Lowering
from ...kernels.ops.pointwise.elementwise import EXPRESSIONS, Elementwise
from ...kernels.ops.pointwise.quantize import Store
from ...kernels.tensor import BoundObject, Scratch, TensorId
from ...kernels.views import SLICE_BYTES, Dense, Local, Picture, Quantized, Sliced, Table, View
from ..lower.launches import EPILOGUE, GATE, VALUES, LabelledLaunch, Lowered
from ..transform.graph import Graph
from .arena import Plan
from .dense_outputs import dense_ranges
from .placement import Layout, Place, _arena_view, direct_view, slot_name

Compile = Callable[[KernelSource], Kernel]


def with_conversions(graph: Graph, layout: Layout) -> list[LabelledLaunch]:
    """The launches, preceded by copies out of pictures and integers, followed by copies into what no kernel writes.

    A picture that is read is copied once instead of sampled by every kernel, unless only one reads it and each pixel
    once; so are pictures that are written and read again, and what others write in parts unless the object bound to it
    has slices, or no padding and whole pixels in each part. All other bound objects are used as they are.
    """
    lowered = layout.lowered
    outputs = [i for i in graph.outputs if isinstance(direct_view(layout.bindings[i].view), Dense)]
    layout.dense, launches = dense_ranges(lowered, outputs, graph.outputs)
    direct = {output for output, _ in layout.dense.values()}
    written = {lowered.parent(i) for entry in lowered.launches for i in entry.launch.writes.values()}
    read = {lowered.parent(i) for entry in lowered.launches for i in entry.reads}
    in_parts = {part.parent for part in lowered.aliases.values()}
    entries = replace(lowered, launches=[], shapes=dict(lowered.shapes))
    for tensor in graph.inputs:
        view = layout.bindings[tensor].view
        sampled = isinstance(view, Picture) and not _is_read_once(lowered, tensor)
        if tensor in read and (sampled or isinstance(view, Quantized)):
            _copy(entries, BoundObject(tensor), tensor)
    entries.launches += launches
    for tensor in graph.outputs:
        view = layout.bindings[tensor].view
        shared_picture = isinstance(view, Picture) and tensor in read
        scattered = tensor in in_parts and not isinstance(direct_view(view), Sliced)
        if tensor in direct:
            continue
        if tensor not in written or shared_picture or scattered or isinstance(view, Quantized):
            _copy(entries, tensor, BoundObject(tensor), stored=isinstance(view, Quantized))
    return entries.launches


def _is_read_once(lowered: Lowered, tensor: int) -> bool:
    """Whether one launch alone reads the tensor, each pixel once, and no other tensor lies in its memory."""
    readers = [entry for entry in lowered.launches if tensor in map(lowered.parent, entry.reads)]
    if len(readers) != 1 or readers[0].reads.count(tensor) != 1:
        return False
    launch = readers[0].launch
    return launch.fusion.single_pass_read and launch.reads.get("src") == tensor and not readers[0].input_ops


def _copy(entries: Lowered, source: TensorId, destination: TensorId, *, stored: bool = False) -> None:
    for tensor in (source, destination):
        if isinstance(tensor, BoundObject):
            entries.shapes[tensor] = entries.shapes[tensor.tensor]
    name, operation = ("STORE", Store()) if stored else ("COPY", Elementwise())
    lowering = Lowering((source,), (destination,), entries.shapes.__getitem__, entries.scratch, entries.target)
    for launch in operation.lower(lowering):
        entries.add(launch, f"{name} ")


def build_steps(
    entries: list[LabelledLaunch], layout: Layout, plan: Plan, arena: Resource, compile: Compile
) -> list[Step]:
    """A step for each launch; ``compile`` makes (or finds) a kernel for the views of its arguments."""

    def place(tensor: TensorId, writes: bool) -> Place:
        if isinstance(tensor, int) and not writes and layout.tensors[tensor].constant is not None:
            constant = layout.constants[tensor]
            return Place(
                Sliced(layout.lowered.shapes[tensor], constant.storage), "weights", layout.weights, constant.offset
            )
        if tensor in layout.dense:
            output, first = layout.dense[tensor]
            name = slot_name(output)
            return Place(Dense(layout.lowered.shapes[tensor]), name, Slot(name), first * 4)
        part = layout.lowered.alias(tensor)
        if part is not None:
            view = replace(_arena_view(tensor, layout), pixel_stride=part.pixel_stride)
            inside = place(part.parent, writes)
            return replace(inside, view=view, offset=inside.offset + part.start * SLICE_BYTES[view.storage])
        if tensor in plan.offsets:
            return Place(_arena_view(tensor, layout), "arena", arena, plan.offsets[tensor])
        bound = _graph_tensor(tensor)
        name = slot_name(bound)
        return Place(direct_view(layout.bindings[bound].view), name, Slot(name))

    return [_step(number, entry, layout, place, compile) for number, entry in enumerate(entries)]


@dataclass
class _Arguments:
    """The arguments of a step's kernel, what each is bound to, pictures' parameters, and those in local memory."""

    entry: LabelledLaunch
    layout: Layout
    place: Callable[[TensorId, bool], Place]
    found: list[Argument] = field(default_factory=list)
    operands: dict[str, Operand] = field(default_factory=dict)
    parameters: dict[str, tuple[float, ...]] = field(default_factory=dict)
    vectors: list[Argument] = field(default_factory=list)

    def add(
        self, name: str, tensor: TensorId, writes: bool, beside: TensorId | None, max_pool_2x2: bool = False
    ) -> None:
        """``beside`` is the tensor to whose shape this one broadcasts (``max_pool_2x2``: of 2x2 pixels each), or
        None.
        """
        local = self.entry.prologue is not None and tensor == self.entry.prologue.tensor
        where = None if local else self.place(tensor, writes)
        view = Local(self.layout.lowered.shapes[tensor]) if where is None else where.view
        channels, wide = _channels(view), 0 if beside is None else self._channels_of(beside)
        broadcast_channel, zero_extended, access = channels == 1 < wide, 1 < channels < wide, "w" if writes else "r"
        if where is None:
            self.vectors.append(Argument(name, view, access, GATE, broadcast_channel, zero_extended))
            return
        resized = self.entry.launch.resize if name == "src" else None
        self.found.append(
            Argument(name, view, access, where.memory, broadcast_channel, zero_extended, max_pool_2x2, resized)
        )
        self.operands[name] = Operand(where.resource, where.offset, view.nbytes)
        if isinstance(view, Picture):
            self.parameters[name] = self.layout.bindings[_graph_tensor(tensor)].parameters

    def _channels_of(self, tensor: TensorId) -> int:
        return self.layout.lowered.shapes[tensor.tensor if isinstance(tensor, BoundObject) else tensor][3]

    def add_array(self, name: str, rows: int) -> None:
        constant = self.layout.constants[self.entry.number, name]
        self.found.append(Argument(name, Table(rows, constant.storage), "r", "weights"))
        self.operands[name] = Operand(self.layout.weights, constant.offset, constant.nbytes)

    def add_fused_ops(self, epilogue: tuple[FusedOp, ...], name: str, beside: TensorId) -> tuple[tuple[str, str], ...]:
        """The links as text; their operands become arguments, named by number."""
        for position, op in enumerate(epilogue):
            if op.operand is not None:
                self.add(f"{name}{position}", op.operand, False, beside, op.max_pool_2x2)
        return tuple(
            (_expression(op, f"LOAD4_{name}{VALUES}{i}(0)"), f"{name}{i}" if op.operand is not None else "")
            for i, op in enumerate(epilogue)
        )


def _step(
    number: int,
    entry: LabelledLaunch,
    layout: Layout,
    place: Callable[[TensorId, bool], Place],
    compile: Compile,
) -> Step:
    launch, arguments = entry.launch, _Arguments(entry, layout, place)
    destination = next(iter(launch.writes.values()))
    for name, tensor in launch.reads.items():
        arguments.add(name, tensor, False, destination if name in launch.broadcast else None)
    for name, tensor in launch.writes.items():
        arguments.add(name, tensor, True, None)
    for name, array in entry.arrays.items():
        arguments.add_array(name, array.rows)
    epilogue = arguments.add_fused_ops(entry.epilogue, EPILOGUE, destination)
    input_ops = arguments.add_fused_ops(entry.input_ops, "read", launch.reads["src"]) if entry.input_ops else ()
    partial_sums = (
        None if entry.partial_sums is None else arguments.add_fused_ops(entry.partial_sums, "partial_sums", destination)
    )
    prologue = None
    if entry.prologue is not None:
        vector = entry.prologue.tensor
        arguments.add(GATE, vector, True, None)
        gate_epilogue = arguments.add_fused_ops(entry.prologue.epilogue, GATE, vector)
        prologue = Prologue(entry.prologue.kernel, tuple(arguments.vectors), gate_epilogue)
    source = KernelSource(
        launch.kernel, tuple(arguments.found), layout.lowered.target.group_size, launch.group_count,
        tuple(launch.constants.items()), launch.local, epilogue, input_ops, partial_sums, prologue,
    )  # fmt: skip
    return Step(
        compile(source), arguments.operands, launch.group_count, f"{number} {entry.label}", arguments.parameters
    )


def _graph_tensor(tensor: TensorId) -> int:
    """The tensor of the graph that an object is bound to."""
    assert not isinstance(tensor, Scratch), "no object is bound to an intermediate result of an operator"
    return tensor.tensor if isinstance(tensor, BoundObject) else tensor


def _channels(view: View) -> int:
    return 0 if isinstance(view, Table) else view.shape[3]


def _expression(op: FusedOp, values: str) -> str:
    """The text in v and w; swapped, the written value is the right-hand operand. ``values`` stands for p."""
    text = re.sub(r"\bp\b", values, EXPRESSIONS[op.expression])
    if not op.swapped:
        return text
    return re.sub(r"\b[vw]\b", lambda found: "w" if found[0] == "v" else "v", text)
