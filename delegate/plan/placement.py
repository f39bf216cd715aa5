"""Where each tensor lies: in the arena, among the constants, inside another tensor, or in a bound object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...interop.device import Resource, Slot
from ...kernels.tensor import BoundObject, TensorId, TensorInfo
from ...kernels.views import Dense, Sliced, Storage, View
from ..lower.launches import LabelledLaunch, Lowered
from ..lower.pack import Constant, Key
from .arena import Lifetime, Plan, plan_memory
from .binding import Binding
from .dense_outputs import Ranges


@dataclass(frozen=True)
class Place:
    """How and where a kernel reaches a tensor: view, name of the memory, its resource, and the offset in bytes."""

    view: View
    memory: str
    resource: Resource | Slot
    offset: int = 0


@dataclass
class Layout:
    """Everything that decides where tensors lie: the graph's tensors, what is bound, constants, storages by tensor, and
    which lie in bound buffers without padding (``with_conversions`` says so).
    """

    lowered: Lowered
    tensors: Mapping[int, TensorInfo]
    bindings: Mapping[int, Binding]
    constants: Mapping[Key, Constant]
    weights: Resource
    storages: Mapping[TensorId, Storage]
    dense: Ranges = field(default_factory=dict)


def slot_name(tensor: int) -> str:
    """The name of the slot that a bound tensor's object is put in."""
    return f"tensor_{tensor}"


def plan_arena(entries: list[LabelledLaunch], layout: Layout, alignment: int) -> Plan:
    """Offsets for every tensor that is neither constant nor a bound object."""
    converted = {i.tensor for entry in entries for i in _touched(entry) if isinstance(i, BoundObject)}
    sizes: dict[TensorId, Lifetime] = {}
    for number, entry in enumerate(entries):
        for tensor in map(layout.lowered.parent, _touched(entry)):
            bound = isinstance(tensor, BoundObject) or (tensor in layout.bindings and tensor not in converted)
            constant = isinstance(tensor, int) and layout.tensors[tensor].constant is not None
            if bound or constant or tensor in layout.dense:
                continue
            first = sizes[tensor].first if tensor in sizes else number
            sizes[tensor] = Lifetime(_arena_view(tensor, layout).nbytes, first, number)
    return plan_memory(sizes, alignment)


def _touched(entry: LabelledLaunch) -> Iterable[TensorId]:
    return (*entry.reads, *entry.launch.writes.values())


def _arena_view(tensor: TensorId, layout: Layout) -> Sliced:
    return Sliced(layout.lowered.shapes[tensor], layout.storages[tensor])


def direct_view(view: View) -> View:
    """A user's float32 buffer whose channels are a multiple of four is slices already."""
    return Sliced(view.shape) if isinstance(view, Dense) and view.shape[3] % 4 == 0 else view
