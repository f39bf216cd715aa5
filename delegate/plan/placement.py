"""Places of tensors: in the arena, among the constants, inside another tensor, or in a bound object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...kernels.tensor import BoundObject, Frame, Scratch, Shape, TensorId, TensorInfo
from ...kernels.views import SLICE_BYTES, Access, Dense, Sliced, Storage, View
from ..compiler import CompiledProgram
from ..lower.launches import LabelledLaunch, Lowered
from ..lower.pack import Key, PackedConstant
from .arena import Lifetime, Plan, plan_memory
from .binding import Binding, BoundView, Frames
from .dense_outputs import Ranges


@dataclass(frozen=True)
class Place:
    """A tensor's view, and its memory: "weights", "arena" or a slot's name, and the offset there in bytes."""

    view: View
    memory: str
    offset: int = 0


@dataclass(frozen=True)
class Layout:
    """The places of all tensors of a program while certain objects are bound to it.

    ``dense`` are the tensors that lie in a bound buffer without padding; ``arena`` has the offsets of those that lie
    in memory of the program's own.
    """

    lowered: Lowered
    launches: Sequence[LabelledLaunch]
    """All launches of a run, in order."""
    tensors: Mapping[int, TensorInfo]
    bindings: Mapping[int, Binding]
    constants: Mapping[Key, PackedConstant]
    storages: Mapping[TensorId, Storage]
    dense: Ranges
    arena: Plan
    lifetimes: Mapping[TensorId, Lifetime]
    """The steps that need each tensor in the arena."""
    channels_last: Mapping[int, int]
    """Bound tensors with channels last, and for each the model's own: see Graph."""

    def place(self, tensor: TensorId, access: Access) -> Place:
        """The place of a tensor for a kernel that reads ("r") or writes ("w") it."""
        if access == "r" and isinstance(tensor, int) and self.tensors[tensor].constant is not None:
            constant = self.constants[tensor]
            return Place(Sliced(self.shape(tensor), constant.storage), "weights", constant.offset)
        if tensor in self.dense:
            output, first = self.dense[tensor]
            return Place(Dense(self.shape(tensor)), self.slot(output), first * 4)
        alias = self.lowered.alias(tensor)
        if alias is not None:
            parent = self.place(alias.parent, access)
            assert isinstance(parent.view, Sliced), "a tensor without slices has no parts"
            # A bound buffer's values have their own storage, whatever the tensor's would be in the arena.
            view = replace(self._sliced(tensor), storage=parent.view.storage, pixel_stride=alias.pixel_stride)
            return Place(view, parent.memory, parent.offset + alias.start * SLICE_BYTES[view.storage])
        if tensor in self.arena.offsets:
            return Place(self._sliced(tensor), "arena", self.arena.offsets[tensor])
        view = direct_view(self.bound(tensor).view)
        assert not isinstance(view, Frames), "each frame has an object of its own"
        return Place(view, self.slot(tensor, frame=frame_of(tensor)))

    def slot(self, tensor: TensorId, number: int = 0, frame: int | None = None) -> str:
        """The name of the slot of a tensor's object, which has the number of the model's own tensor."""
        bound = bound_tensor(tensor)
        return slot_name(self.channels_last.get(bound, bound), number, frame)

    def bound(self, tensor: TensorId) -> Binding:
        """The binding of a tensor, or of one frame of a batch."""
        binding, frame = self.bindings[bound_tensor(tensor)], frame_of(tensor)
        return binding if frame is None else binding.frames[frame]

    def shape(self, tensor: TensorId) -> Shape:
        """The BHWC shape of a tensor, or of the tensor that an object is bound to."""
        return self.lowered.shape(tensor)

    def _sliced(self, tensor: TensorId) -> Sliced:
        whole = tensor.tensor if isinstance(tensor, Frame) else tensor
        return Sliced(self.lowered.shape(tensor), self.storages[whole])


def plan_layout(
    compiled: CompiledProgram,
    bindings: Mapping[int, Binding],
    levels: Sequence[Sequence[LabelledLaunch]],
    dense: Ranges,
    alignment: int,
) -> Layout:
    """Plan the arena: every tensor that is neither constant nor in a bound object, while launches need it.

    The launches of a level run side by side, so that a tensor which one of them touches is kept for all of them.
    """
    lowered, tensors = compiled.lowered, compiled.graph.tensors
    launches = [entry for level in levels for entry in level]
    converted = {i.tensor for entry in launches for i in _touched(entry) if isinstance(i, BoundObject)}
    lifetimes: dict[TensorId, Lifetime] = {}
    begin = 0
    for level in levels:
        for tensor in (lowered.parent(i) for entry in level for i in _touched(entry)):
            bound = isinstance(tensor, BoundObject) or (tensor in bindings and tensor not in converted)
            constant = isinstance(tensor, int) and tensors[tensor].constant is not None
            if bound or constant or tensor in dense:
                continue
            first = lifetimes[tensor].first if tensor in lifetimes else begin
            nbytes = Sliced(lowered.shapes[tensor], compiled.storages[tensor]).nbytes
            lifetimes[tensor] = Lifetime(nbytes, first, begin + len(level) - 1)
        begin += len(level)
    arena = plan_memory(lifetimes, alignment)
    return Layout(
        lowered, launches, tensors, bindings, compiled.constants, compiled.storages, dense, arena, lifetimes,
        compiled.graph.channels_last,
    )  # fmt: skip


def _touched(entry: LabelledLaunch) -> Iterable[TensorId]:
    return (*entry.reads, *entry.launch.writes.values())


def slot_name(tensor: int, number: int = 0, frame: int | None = None) -> str:
    """The name of the slot that a bound tensor's object is put in, or the object of one of its frames; of a picture in
    planes, object ``number``.
    """
    name = f"tensor_{tensor}" if frame is None else f"tensor_{tensor}_frame_{frame}"
    return f"{name}_{number}" if number else name


def frame_of(tensor: TensorId) -> int | None:
    """The number of the frame that a bound object holds; None if it holds the whole tensor."""
    return tensor.frame.number if isinstance(tensor, BoundObject) and tensor.frame is not None else None


def bound_tensor(tensor: TensorId) -> int:
    """The tensor of the graph that an object is bound to."""
    assert not isinstance(tensor, Scratch | Frame), "no object is bound to an intermediate result of an operator"
    return tensor.tensor if isinstance(tensor, BoundObject) else tensor


def direct_view(view: BoundView) -> View | Frames:
    """The view as kernels use it: a user's float32 buffer with a multiple of four channels is slices already."""
    return Sliced(view.shape) if isinstance(view, Dense) and view.shape[3] % 4 == 0 else view
