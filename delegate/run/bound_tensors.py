"""The user's objects at the tensors of one subgraph: which partitions read or write them, and what cannot be bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...interop.errors import BindingError
from ...interop.frames.frame import Frame
from ...kernels.tensor import LARGEST_RANK
from ..litert.native import NativeGraph
from ..plan.binding import Crop, TensorLayout, Values
from .batches import first_object, mappings
from .boundary import BoundaryTensors
from .messages import CLOSED, tensor_label, why_not_bindable
from .partition import Partition
from .upright import stored

_HOLDERS = (Frame, list, tuple)
"""Types of objects that are, or may have, frames of video."""
_LONG = "int32", "int64"
"""Types whose numbers a float32 does not always hold."""


class BoundTensors:
    """The partitions of a subgraph: an object goes to those that its tensor enters or leaves.

    ``number`` is the subgraph's, and ``graph_of`` gives LiteRT's side of it. ``choose_device`` is called with an object
    before it is bound: it may move the model to the object's API.
    """

    def __init__(
        self,
        number: int,
        boundary: BoundaryTensors,
        graph_of: Callable[[int], NativeGraph | None],
        choose_device: Callable[[Any], None],
    ) -> None:
        self.number, self._boundary, self._memory = number, boundary, boundary.memory
        self._graph_of, self._choose_device = graph_of, choose_device
        self._partitions: list[Partition] = []
        self._known: dict[int, list[Partition]] = {}
        """The partitions that a tensor enters or leaves, once they were looked for."""
        self._unchecked = False
        """An object may have been bound to tensors of several partitions since this flag was cleared."""

    def clear(self) -> None:
        """Forget all partitions: LiteRT makes new ones."""
        self._partitions.clear()
        self._known.clear()

    def add(self, partition: Partition) -> None:
        """Add a partition. LiteRT adds them in the order in which they run."""
        self._partitions.append(partition)
        self._known.clear()

    def forget(self) -> None:
        """Look for partitions again, because the delegate was closed: nothing can be bound any more."""
        self._known.clear()

    def bind(
        self,
        obj: Any,
        tensor: int,
        *,
        mean: Values = 0.0,
        std: Values = 1.0,
        order: str | None = None,
        crop: Crop | Sequence[Crop | None] | None = None,
        rotation: float | Sequence[float] = 0.0,
        flip: str = "",
        layout: TensorLayout | None = None,
        pad: Values | None = None,
    ) -> None:
        """Let ``obj`` be a tensor from now on: see ``GpuDelegate.bind_buffer_to_tensor``. An object that is like the
        one before needs no decision. Raises BindingError if it does not fit.
        """
        if isinstance(obj, _HOLDERS):
            obj, crop, rotation = stored(obj, crop, rotation)
        values: Any = (mean, std, order, crop, rotation, flip, layout, pad)
        if isinstance(crop, list) or isinstance(rotation, list):  # which may change until they are compared
            kept_crop, kept_rotation = (tuple(v) if isinstance(v, list) else v for v in (crop, rotation))
            values = (mean, std, order, kept_crop, kept_rotation, flip, layout, pad)
        self._unchecked = True
        partitions = self._known.get(tensor, ())
        binding = self._memory.rebind((self.number, tensor), obj, values) if partitions else None
        if binding is None:
            self._bind_anew(obj, tensor, values)
            return
        for partition in partitions:
            partition.bound.exchange(tensor, binding)

    def _bind_anew(self, obj: Any, tensor: int, values: Any) -> None:
        mapping = mappings(*values)
        partitions = self._partitions_with(tensor)
        self.check_unfed(tensor)
        self._choose_device(obj)
        with self._memory.entered_for(first_object(obj)):
            self._refuse_shared(tensor, obj)
            self._memory.bind((self.number, tensor), obj, mapping, partitions[0].prepared.tensor(tensor), values)
        for partition in partitions:
            partition.bound.rebind(tensor)

    def unbind(self, tensor: int) -> None:
        """Let a tensor be in CPU memory again."""
        for partition in self._partitions_with(tensor):
            partition.bound.rebind(tensor)
        self._memory.unbind((self.number, tensor))

    def is_bound(self, tensor: int) -> bool:
        """Whether an object of the user is bound to a tensor."""
        return self._memory.is_bound((self.number, tensor))

    def is_bound_input(self, tensor: int) -> bool:
        """Whether an object of the user is bound to a tensor that no partition computes."""
        key = (self.number, tensor)
        return self._memory.is_bound(key) and key not in self._boundary.uses.computed

    def takes_buffer(self, tensor: int) -> bool:
        """Whether a buffer of float32 can be bound to a tensor."""
        try:
            info = self._partitions_with(tensor)[0].prepared.tensor(tensor)
            self._refuse_shared(tensor, None)
        except BindingError:
            return False
        return info is not None and info.dtype == "float32" and len(info.shape) <= LARGEST_RANK

    @property
    def _graph(self) -> NativeGraph | None:
        """LiteRT's side of the subgraph; None before LiteRT has shown it."""
        return self._graph_of(self.number)

    def _partitions_with(self, tensor: int) -> list[Partition]:
        """The partitions that the tensor enters or leaves; BindingError if there is none."""
        known = self._known.get(tensor)
        if known is not None:
            return known
        graph = self._graph
        if graph is None:
            raise BindingError(
                f"tensor {tensor} cannot be bound yet: give the delegate to an interpreter first, "
                "with interpreter.modify_graph_with_delegate(delegate)"
            )
        if self._boundary.closed:
            raise BindingError(f"tensor {tensor} cannot be bound: {CLOSED}")
        found = self._users(tensor)
        if found and not graph.subgraph.tensors[tensor].variable:
            self._known[tensor] = found
            return found
        raise BindingError(why_not_bindable(graph.subgraph, tensor))

    def _users(self, tensor: int) -> list[Partition]:
        return [partition for partition in self._partitions if tensor in (*partition.inputs, *partition.outputs)]

    def check_unfed(self, tensor: int) -> None:
        """Raise BindingError for an input or output that is fed back: nothing else can be its value."""
        state, graph = self._memory.states.get((self.number, tensor)), self._graph
        if state is not None and graph is not None:
            what = "an output that is fed back" if tensor == state.output else "an input that an output feeds"
            raise BindingError(
                f"{tensor_label(tensor, graph.subgraph.tensors[tensor])} is {what}, whose buffers the delegate has: "
                "reset_feedback() sets it to zeros; for other values leave the pair out of GpuDelegate's feedback"
            )

    def _refuse_shared(self, tensor: int, obj: Any) -> None:
        """Refuse what CPU operators compute, inputs that they also read, and textures for outputs that the model itself
        reads again.
        """
        graph = self._graph
        assert graph is not None, "partitions were found, so LiteRT has shown the graph"
        key, subgraph, uses = (self.number, tensor), graph.subgraph, self._boundary.uses
        computed, readers = key in uses.computed, uses.cpu_readers.get(key, [])
        what = tensor_label(tensor, subgraph.tensors[tensor])
        if not computed and tensor not in subgraph.inputs:
            raise BindingError(f"{what} cannot be bound: an operator on the CPU computes it; use get_tensor")
        if readers and not computed:
            named = ", ".join(f"{i} {subgraph.operators[i].name}" for i in readers)
            raise BindingError(f"{what} cannot be bound: operators on the CPU read it too ({named}); use set_tensor")
        is_texture, is_long = bool(getattr(first_object(obj), "format", "")), subgraph.tensors[tensor].dtype in _LONG
        if not computed or not (is_texture or is_long):
            return
        if readers or any(tensor in partition.inputs for partition in self._partitions_with(tensor)):
            if is_long:
                raise BindingError(
                    f"{what} cannot be bound: the model itself reads it again, and objects hold 24 bits of a number; "
                    "use get_tensor"
                )
            raise BindingError(f"{what} cannot be bound to a texture: the model itself reads it again; bind a buffer")
