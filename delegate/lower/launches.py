"""Launches of a graph in order, with their fused operations, and the limits of a device for a launch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from ...kernels.operation import FusedOp, Launch, LocalArrays, PackedArray, Unsupported
from ...kernels.target import Target
from ...kernels.tensor import LARGEST_WHOLE_HALF, BoundObject, Frame, Scratch, Shape, TensorId, permuted, slices
from ...kernels.views import Resize
from ..transform.graph import Alias

VALUES = "_values"
"""The suffix of arrays that hold the numbers of fused operations."""
EPILOGUE, GATE = "epilogue", "gate"
"""The prefixes of operands, with a number behind: of a launch's epilogue, and of its prologue's."""
ROUNDING = frozenset({"QUANTIZE", "STEPS", "TO_STEPS"})
"""The expressions that round to the steps of a quantized tensor."""
_LOCAL_BYTES = {"float": 4, "int": 4, "float4": 16, "int4": 16}
"""Bytes of one element of a local array, by its type."""


@dataclass(frozen=True)
class PrologueLaunch:
    """A kernel that each work-group runs before its tile: it computes the vector ``tensor`` as "gate", and then its
    epilogue.
    """

    kernel: str
    tensor: TensorId
    epilogue: tuple[FusedOp, ...]


@dataclass(frozen=True, eq=False)
class LabelledLaunch:
    """A launch, its fused operations, its operator, and its number in the order of lowering. Two are equal only if they
    are the same object.

    ``epilogue`` is applied to the values that it writes. The number, with an array's name, is the key of that array
    among the program's constants. The tensors, constants and arrays of the prologue's kernel are among the launch's.
    """

    launch: Launch
    epilogue: tuple[FusedOp, ...]
    label: str
    number: int
    input_ops: tuple[FusedOp, ...] = ()
    """Binary operations, applied to every value that is read from "src"."""
    partial_sums: tuple[FusedOp, ...] | None = None
    """Operations after which sums of the launch's values are written too, as "partial_sums"; None if they are not."""
    prologue: PrologueLaunch | None = None
    integers: bool = False
    """True if the launch computes on int32."""
    exact: bool = False
    """True if the launch's constants and results must not be rounded to 16 bits."""

    @property
    def destination(self) -> TensorId:
        """The tensor that it writes; the first, if there are several."""
        return next(iter(self.launch.writes.values()))

    @cached_property
    def arrays(self) -> dict[str, PackedArray]:
        """The launch's arrays, and the numbers of fused operations: one float4 for each operation that has any, named
        "epilogue_values<i>", or "gate_values<i>" in the prologue's epilogue.
        """
        epilogue = {EPILOGUE: self.epilogue, GATE: self.prologue.epilogue if self.prologue else ()}
        values = {f"{n}{VALUES}{i}": op.values for n in epilogue for i, op in enumerate(epilogue[n]) if op.values}
        return self.launch.arrays | {name: PackedArray(1, partial(_one_row, v)) for name, v in values.items()}

    @property
    def rounds(self) -> bool:
        """True if the launch rounds to the steps of a quantized tensor."""
        epilogue = (*self.epilogue, *(self.prologue.epilogue if self.prologue else ()))
        return any(op.expression in ROUNDING for op in epilogue) or self.launch.constants.get("IN_STEPS") == 1

    @property
    def writes_steps(self) -> bool:
        """True if the launch writes numbers of steps of a quantized tensor, which halves hold."""
        last = self.epilogue[-1] if self.epilogue else FusedOp("")
        if last.expression == "STEPS":
            return last.values[2] == 1.0 and max(map(abs, last.values[:2])) <= LARGEST_WHOLE_HALF
        return last.expression == "TO_STEPS"

    @cached_property
    def reads(self) -> tuple[TensorId, ...]:
        """The tensors in memory that it reads."""
        fused = (
            *self.input_ops,
            *self.epilogue,
            *(self.partial_sums or ()),
            *(self.prologue.epilogue if self.prologue else ()),
        )
        tensors = (*self.launch.reads.values(), *(op.operand for op in fused if op.operand is not None))
        return tuple(i for i in tensors if self.prologue is None or i != self.prologue.tensor)


def _one_row(values: tuple[float, ...]) -> np.ndarray:
    return np.array([(*values, 0, 0, 0)[:4]], np.float32)


@dataclass
class Lowered:
    """Launches in order for a ``target``, and the facts about their tensors."""

    target: Target
    shapes: dict[TensorId, Shape]
    """The BHWC shapes of all tensors."""
    aliases: Mapping[int, Alias] = field(default_factory=dict)
    """The tensors of the graph that lie inside others."""
    constants: frozenset[TensorId] = frozenset()
    outputs: frozenset[TensorId] = frozenset()
    """The tensors that are read outside of the graph."""
    launches: list[LabelledLaunch] = field(default_factory=list)
    integers: set[TensorId] = field(default_factory=set)
    """The tensors that lie in memory as int32."""
    count: int = 0
    """The number of launches that were ever added, which is the number of the next one."""

    def alias(self, tensor: TensorId) -> Alias | None:
        """The place of this tensor in another tensor's memory; None if it has its own memory."""
        if isinstance(tensor, Frame):
            whole, (batch, height, width, channels) = self.aliases.get(tensor.tensor), self.shape(tensor)
            stride = slices(channels) if whole is None else whole.pixel_stride
            return Alias(tensor.tensor, tensor.number * batch * height * width * stride, stride)
        return self.aliases.get(tensor) if isinstance(tensor, int) else None

    def shape(self, tensor: TensorId) -> Shape:
        """The BHWC shape of a tensor, of a bound object, or of one frame of a batch."""
        if isinstance(tensor, int | Scratch):
            return self.shapes[tensor]
        batch, height, width, channels = self.shapes[tensor.tensor]
        frame = tensor.frame if isinstance(tensor, BoundObject) else tensor
        shape = (batch if frame is None else batch // frame.count, height, width, channels)
        return permuted(shape, tensor.permutation) if isinstance(tensor, BoundObject) else shape

    def parent(self, tensor: TensorId) -> TensorId:
        """The tensor in whose memory this one lies; the tensor itself if it has its own memory."""
        whole = tensor.tensor if isinstance(tensor, Frame) else tensor
        alias = self.aliases.get(whole) if isinstance(whole, int) else None
        return whole if alias is None else alias.parent

    def slice_count(self, tensor: TensorId) -> int:
        """The number of slices of four channels in all pixels of a tensor."""
        batch, height, width, channels = self.shapes[tensor]
        return batch * height * width * slices(channels)

    def scratch(self, shape: Shape) -> Scratch:
        """A new intermediate result of one operator."""
        tensor = Scratch(len(self.shapes))
        self.shapes[tensor] = shape
        return tensor

    def add(
        self,
        launch: Launch,
        label: str,
        epilogue: tuple[FusedOp, ...] = (),
        input_ops: tuple[FusedOp, ...] = (),
        *,
        integers: bool = False,
        exact: bool = False,
    ) -> None:
        """Append a launch."""
        entry = LabelledLaunch(launch, epilogue, label, self.count, input_ops, integers=integers, exact=exact)
        self.launches.append(entry)
        self.count += 1

    def only_writer(self, tensor: TensorId) -> LabelledLaunch | None:
        """The launch that writes a tensor; None if there are several, or none."""
        return _only(entry for entry in self.launches if tensor in entry.launch.writes.values())

    def only_reader(self, tensor: TensorId) -> LabelledLaunch | None:
        """The only launch that reads a tensor; None if there are several or none, if the tensor is an output, or if
        other tensors lie in its memory.
        """
        if tensor in self.outputs or any(tensor in (part, alias.parent) for part, alias in self.aliases.items()):
            return None
        return _only(entry for entry in self.launches if tensor in entry.reads)

    def replace(self, dropped: LabelledLaunch, old: LabelledLaunch, new: LabelledLaunch) -> bool:
        """Drop one launch and put ``new`` in the place of ``old``. If ``new`` exceeds the device's limits, change
        nothing and return False.
        """
        new = replace(new, exact=old.exact or dropped.exact)
        try:
            check_launch(new, self)
        except Unsupported:
            return False
        self.launches = [new if entry is old else entry for entry in self.launches if entry is not dropped]
        return True


def _only(entries: Iterable[LabelledLaunch]) -> LabelledLaunch | None:
    found = list(entries)
    return found[0] if len(found) == 1 else None


def only_resizes(entry: LabelledLaunch) -> Resize | None:
    """The resizing of a launch that only resizes, else None."""
    fused = entry.launch.epilogue or entry.epilogue or entry.input_ops or entry.partial_sums or entry.prologue
    return entry.launch.resize if entry.launch.fusion.is_copy and not fused else None


def local_bytes(launch: Launch) -> int:
    """The local memory of one work-group."""
    return sum(_LOCAL_BYTES[kind] * count for kind, _, count in launch.local)


def largest_arrays(*arrays: LocalArrays) -> LocalArrays:
    """The local arrays of kernels that run one after the other: the largest of each name and type."""
    largest: dict[tuple[str, str], int] = {}
    for kind, name, count in (array for some in arrays for array in some):
        largest[kind, name] = max(count, largest.get((kind, name), 0))
    return tuple((kind, name, count) for (kind, name), count in largest.items())


def check_launch(entry: LabelledLaunch, lowered: Lowered) -> None:
    """Raise Unsupported if the kernel uses more local memory, or more buffers, than the device gives it."""
    target, local = lowered.target, local_bytes(entry.launch)
    if local > target.local_bytes:
        raise Unsupported(f"a work-group needs {local} bytes of local memory; {target.name} has {target.local_bytes}")
    touched = {*entry.reads, *entry.launch.writes.values()}
    constant = touched & lowered.constants
    memories = len(touched - constant) + bool(constant or entry.arrays)
    if memories > target.max_memories:
        raise Unsupported(f"a kernel of it uses {memories} buffers; {target.name} gives it {target.max_memories}")
