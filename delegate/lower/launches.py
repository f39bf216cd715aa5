"""A transformed graph as a flat list of launches, with the shapes of all tensors, scratch tensors included."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ...interop.device import Traits
from ...kernels.operation import FusedOp, Launch, Lowering, PackedArray, Unsupported
from ...kernels.target import Target
from ...kernels.tensor import Scratch, Shape, TensorId, TensorInfo
from ...kernels.views import Resize, Sliced
from ..transform.graph import Alias, Graph, Node

VALUES = "_values"
"""In the names of the arrays that hold links' numbers."""
EPILOGUE, GATE = "epilogue", "gate"
"""How the operands of a launch's links, and those of its local vector, are named: with a number behind."""

QUANTIZE = "QUANTIZE"
"""The expression of a link that rounds to the steps of a quantized tensor."""

_LOCAL_BYTES = {"float": 4, "int": 4, "float4": 16, "int4": 16}
"""Of one element of a kernel's local arrays, by its type."""


@dataclass(frozen=True)
class LocalVector:
    """The kernel that computes the vector ``tensor`` in each work-group that reads it, as "gate", and its links."""

    kernel: str
    tensor: TensorId
    epilogue: tuple[FusedOp, ...]


@dataclass(frozen=True)
class LabelledLaunch:
    """A launch, the links of the values it writes first, the operator it belongs to, and its number in the program.

    The number, with an array's name, is the key of that array among the program's constants. Where ``partial_sums``
    is not
    None, it writes sums of what it writes as "partial_sums" too, after these links. What the kernel of ``local``
    takes is among what the launch takes.
    """

    launch: Launch
    epilogue: tuple[FusedOp, ...]
    label: str
    number: int
    input_ops: tuple[FusedOp, ...] = ()
    """Links of two operands, applied to every value that is read of "src"."""
    partial_sums: tuple[FusedOp, ...] | None = None
    local: LocalVector | None = None

    @property
    def arrays(self) -> dict[str, PackedArray]:
        """The launch's arrays, and the numbers of its links: those of link i are one float4 named
        "epilogue_values<i>", and those of its local vector's "gate_values<i>".
        """
        epilogue = {EPILOGUE: self.epilogue, GATE: self.local.epilogue if self.local else ()}
        values = {f"{n}{VALUES}{i}": op.values for n in epilogue for i, op in enumerate(epilogue[n]) if op.values}
        return self.launch.arrays | {name: PackedArray(1, partial(_one_row, v)) for name, v in values.items()}

    @property
    def rounds(self) -> bool:
        """Whether a link rounds to the steps of a quantized tensor."""
        epilogue = (*self.epilogue, *(self.local.epilogue if self.local else ()))
        return any(op.expression == QUANTIZE for op in epilogue)

    @property
    def reads(self) -> tuple[TensorId, ...]:
        """The tensors in memory that it reads."""
        epilogue = (
            *self.input_ops,
            *self.epilogue,
            *(self.partial_sums or ()),
            *(self.local.epilogue if self.local else ()),
        )
        tensors = (*self.launch.reads.values(), *(op.operand for op in epilogue if op.operand is not None))
        return tuple(i for i in tensors if self.local is None or i != self.local.tensor)


def _one_row(values: tuple[float, ...]) -> np.ndarray:
    return np.array([(*values, 0, 0, 0)[:4]], np.float32)


@dataclass
class Lowered:
    """Launches in order, the BHWC shapes of all tensors, and which tensors of the graph lie inside others."""

    launches: list[LabelledLaunch] = field(default_factory=list)
    shapes: dict[TensorId, Shape] = field(default_factory=dict)
    aliases: dict[int, Alias] = field(default_factory=dict)
    count: int = 0
    """The launches that were ever added; the number of the next one."""

    def alias(self, tensor: TensorId) -> Alias | None:
        """The part of another tensor's memory that is this tensor; None if it has memory of its own."""
        return self.aliases.get(tensor) if isinstance(tensor, int) else None

    def parent(self, tensor: TensorId) -> TensorId:
        """The tensor whose memory this one lies in; itself, if it lies inside no other."""
        alias = self.alias(tensor)
        return tensor if alias is None else alias.parent

    def scratch(self, shape: Shape) -> Scratch:
        """A new intermediate result of one operator."""
        tensor = Scratch(len(self.shapes))
        self.shapes[tensor] = shape
        return tensor

    def add(
        self, launch: Launch, label: str, epilogue: tuple[FusedOp, ...] = (), input_ops: tuple[FusedOp, ...] = ()
    ) -> None:
        """Append a launch."""
        self.launches.append(LabelledLaunch(launch, epilogue, label, self.count, input_ops))
        self.count += 1


def lower(graph: Graph, target: Target) -> Lowered:
    """Ask every node's operator for its launches on a device of this ``target``."""
    lowered = Lowered([], {i: tensor.bhwc for i, tensor in graph.tensors.items()}, graph.aliases)
    for node in graph.nodes:
        lower_node(node, lowered, target)
    return lowered


def lower_node(node: Node, lowered: Lowered, target: Target) -> None:
    """Append one node's launches. Its links belong to the last one, which writes its output; what it applies to what it
    reads belongs to the first.
    """
    if any(op.expression == QUANTIZE for op in node.epilogue):  # weights of 16 bits would move its sums across steps
        target = replace(target, matrix_units=False)
    launches = node.operation.lower(
        Lowering(node.inputs, node.outputs, lowered.shapes.__getitem__, lowered.scratch, target)
    )
    label = f"{node.name} {','.join(map(str, node.indices))}"
    for launch in launches:
        epilogue = (*launch.epilogue, *(node.epilogue if launch is launches[-1] else ()))
        input_ops = node.input_ops if launch is launches[0] else ()
        lowered.add(launch, label, epilogue, input_ops)


def check_lowering(node: Node, tensors: Mapping[int, TensorInfo], traits: Traits) -> dict[Hashable, int]:
    """Lower one node by itself for a device of these ``traits``; the bytes that each of its constants takes in 32 bits.

    Raises Unsupported where its operator fails, or a kernel needs more than the device has.
    """
    lowered = Lowered(shapes={i: tensors[i].bhwc for i in (*node.operands, *node.outputs)})
    try:
        lower_node(node, lowered, traits.target)
    except Unsupported:
        raise
    except Exception as error:  # whatever attributes and shapes that nobody thought of raise
        raise Unsupported(f"it cannot be lowered ({type(error).__name__}: {error})") from error
    for tensor, shape in lowered.shapes.items():
        nbytes = Sliced(shape).nbytes
        if nbytes > traits.max_buffer_bytes:
            name = f"tensor '{tensors[tensor].name}'" if isinstance(tensor, int) else "an intermediate result"
            raise Unsupported(f"{name} takes {nbytes} bytes; a buffer of {traits.name} holds {traits.max_buffer_bytes}")
    constants: dict[Hashable, int] = {}
    for entry in lowered.launches:
        check_launch(entry, tensors, traits)
        fixed = (i for i in entry.reads if _is_constant(i, tensors))
        constants |= {i: Sliced(lowered.shapes[i]).nbytes for i in fixed}
        constants |= {f"{entry.label} {entry.number} {name}": a.rows * 16 for name, a in entry.arrays.items()}
    return constants


def only_resizes(entry: LabelledLaunch) -> Resize | None:
    """How the launch resizes a tensor; None where that is not all it does."""
    applied = entry.launch.epilogue or entry.epilogue or entry.input_ops or entry.partial_sums or entry.local
    return entry.launch.resized if entry.launch.kernel == "copy" and not applied else None


def local_bytes(launch: Launch) -> int:
    """What a work-group of the kernel takes of local memory."""
    return sum(_LOCAL_BYTES[kind] * count for kind, _, count in launch.shared)


def check_launch(entry: LabelledLaunch, tensors: Mapping[int, TensorInfo], traits: Traits) -> None:
    """Raise Unsupported where the kernel uses more local memory, or more buffers, than the device gives it."""
    local = local_bytes(entry.launch)
    if local > traits.local_bytes:
        raise Unsupported(f"a work-group needs {local} bytes of local memory; {traits.name} has {traits.local_bytes}")
    touched = {*entry.reads, *entry.launch.writes.values()}
    constant = {i for i in touched if _is_constant(i, tensors)}
    memories = len(touched - constant) + bool(constant or entry.arrays)
    if memories > traits.max_memories:
        raise Unsupported(f"a kernel of it uses {memories} buffers; {traits.name} gives it {traits.max_memories}")


def _is_constant(tensor: TensorId, tensors: Mapping[int, TensorInfo]) -> bool:
    return isinstance(tensor, int) and tensors[tensor].constant is not None
