"""The main subgraph of a model: objects are bound to its tensors, inputs are set, and its runs end well or not."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from ...interop.errors import BindingError
from ...kernels.tensor import LARGEST_RANK
from ..litert.native import KERNEL_NAME, NativeDelegate, NativeGraph
from ..plan.binding import Binding, Mappings
from ..read.model import Model
from .boundary import BoundaryTensors
from .feedback import State
from .frames import first_object
from .messages import CLOSED, inputs_and_outputs, tensor_label, why_not_bindable
from .partition import Partition


class MainSubgraph:
    """The partitions of the main subgraph: bound objects and set inputs go to those that the tensor enters or leaves.

    ``choose_device`` is called with an object before it is bound: it may move the model to the object's API.
    """

    def __init__(self, boundary: BoundaryTensors, choose_device: Callable[[Any], None]) -> None:
        self._boundary, self._memory, self._choose_device = boundary, boundary.memory, choose_device
        self.native: NativeDelegate | None = None
        """LiteRT's side of the delegate, while it serves an interpreter."""
        self._partitions: list[Partition] = []
        self._known: dict[int, list[Partition]] = {}
        """The partitions that a tensor enters or leaves, once they were looked for."""
        self._states = list[State]()
        """The states that are fed back."""
        self._fed_users: dict[int, list[Partition]] = {}
        """The partitions that an output or input of a state leaves or enters."""

    def clear(self) -> None:
        """Forget all partitions: LiteRT makes new ones."""
        self._partitions.clear()
        self._known.clear()
        self._fed_users.clear()

    def add(self, partition: Partition) -> None:
        """Add a partition."""
        if not self._partitions and self._memory.states:  # LiteRT adds them in the order in which they run
            partition.begin_run = self._swap_states
        self._partitions.append(partition)
        self._known.clear()

    def forget(self) -> None:
        """Look for partitions again, because the delegate was closed: nothing can be bound any more."""
        self._known.clear()

    # What the user binds ----------------------------------------------------------------------------------------------

    def bind(self, obj: Any, tensor: int, mapping: Mappings) -> None:
        """Let ``obj`` be a tensor from now on. Raises BindingError if it does not fit."""
        partitions = self._partitions_with(tensor)
        self.check_unfed(tensor)
        self._choose_device(obj)
        with self._memory.entered_for(first_object(obj)):
            self._refuse_shared(tensor, obj)
            self._memory.bind((0, tensor), obj, mapping, partitions[0].prepared.tensor(tensor))
        for partition in partitions:
            partition.bound.rebind(tensor)

    def rebind(self, obj: Any, tensor: int, mapping: Any) -> bool:
        """Bind an object that is like the one before; False if it is not. ``mapping`` may be plain values."""
        partitions = self._known.get(tensor, ())
        binding = self._memory.rebind((0, tensor), obj, mapping) if partitions else None
        if binding is None:
            return False
        for partition in partitions:
            partition.bound.exchange(tensor, binding)
        return True

    def unbind(self, tensor: int) -> None:
        """Let a tensor be in CPU memory again."""
        for partition in self._partitions_with(tensor):
            partition.bound.rebind(tensor)
        self._memory.unbind((0, tensor))

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
        """LiteRT's side of the main subgraph; None before LiteRT has shown it."""
        return self.native.graph(0) if self.native is not None else None

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

    # States that are fed back -----------------------------------------------------------------------------------------

    def set_states(self, states: Iterable[State]) -> None:
        """Feed these states back from now on, before there are partitions."""
        for state in states:
            self._memory.states[0, state.output] = self._memory.states[0, state.input] = state
            self._states.append(state)

    @property
    def fed_back(self) -> frozenset[int]:
        """The inputs and outputs of the states that are fed back."""
        return frozenset(tensor for state in self._states for tensor in (state.input, state.output))

    def source_of(self, tensor: int) -> int | None:
        """The output that feeds an input; None for every other tensor."""
        state = self._memory.states.get((0, tensor))
        return state.output if state is not None and state.input == tensor else None

    def check_unfed(self, tensor: int) -> None:
        """Raise BindingError for an input or output that is fed back: nothing else can be its value."""
        state, graph = self._memory.states.get((0, tensor)), self._graph
        if state is not None and graph is not None:
            what = "an output that is fed back" if tensor == state.output else "an input that an output feeds"
            raise BindingError(
                f"{tensor_label(tensor, graph.subgraph.tensors[tensor])} is {what}, whose buffers the delegate has: "
                "reset_feedback() sets it to zeros; for other values leave the pair out of GpuDelegate's feedback"
            )

    def _swap_states(self) -> None:
        """Before a run, let it read what the last one wrote."""
        for state in self._states:
            swapped = state.swap()
            if swapped is not None:
                for tensor, binding in zip((state.input, state.output), swapped, strict=True):
                    self._use(tensor, binding)

    def reset_states(self) -> None:
        """Let the next run read zeros."""
        for state in self._states:
            binding = state.reset(self._memory.open_device)
            if binding is not None:
                self._use(state.input, binding)

    def _use(self, tensor: int, binding: Binding) -> None:
        self._memory.swapped((0, tensor), binding)
        users = self._fed_users.get(tensor)
        if users is None:
            users = self._fed_users[tensor] = self._users(tensor)
        for partition in users:
            partition.bound.swap(tensor, binding)

    def _refuse_shared(self, tensor: int, obj: Any) -> None:
        """Refuse inputs that CPU operators also read, and textures for outputs that the model itself reads again."""
        graph = self._graph
        assert graph is not None, "partitions were found, so LiteRT has shown the graph"
        key, subgraph, uses = (0, tensor), graph.subgraph, self._boundary.uses
        computed, readers = key in uses.computed, uses.cpu_readers.get(key, [])
        what = tensor_label(tensor, subgraph.tensors[tensor])
        if readers and not computed:
            named = ", ".join(f"{i} {subgraph.operators[i].name}" for i in readers)
            raise BindingError(f"{what} cannot be bound: operators on the CPU read it too ({named}); use set_tensor")
        if not computed or not getattr(first_object(obj), "format", ""):
            return
        if readers or any(tensor in partition.inputs for partition in self._partitions_with(tensor)):
            raise BindingError(f"{what} cannot be bound to a texture: the model itself reads it again; bind a buffer")

    # What the interpreter reports -------------------------------------------------------------------------------------

    def input_set(self, tensor: int) -> None:
        """Note that an input was set in the interpreter."""
        for partition in self._partitions:
            partition.input_set(tensor)

    def input_shown(self, tensor: int) -> None:
        """Note that a view of a tensor's memory was given away, which may be written at any time."""
        for partition in self._partitions:
            partition.input_shown(tensor)

    def ended_well(self) -> bool:
        """Whether LiteRT's last ``invoke``, which raised nothing, has run all callbacks without an error.

        Call it once per run.
        """
        # An exception that a signal handler raises (Ctrl-C) just before a callback's first instruction never arrives
        # there: ctypes prints it, and LiteRT takes the callback for done, or for failed.
        awaited, native = self._boundary.awaited, self.native
        completed = not awaited
        for partition in self._partitions:
            completed = completed and partition.was_called
            partition.was_called = False
        if awaited:
            awaited.clear()
        return completed and (native is None or native.error is None)

    def lost_call(self, error: Exception) -> bool:
        """Whether LiteRT's ``invoke`` failed with this error because a callback did not arrive: see ``ended_well``."""
        called = all(partition.was_called for partition in self._partitions)
        not_fetched = bool(self._boundary.awaited)
        self.ended_well()  # which forgets this run
        if self.native is None or self.native.error is not None:
            return False
        failed = (str(error).strip().splitlines() or [""])[-1]
        # An error before LiteRT calls anything, and one of an operator on the CPU, are no lost calls.
        return KERNEL_NAME in failed or (called and not_fetched and "failed to invoke" not in failed)


def tensor_number(model: Model | None, tensor: int | str) -> int:
    """The number of an input or output of the main subgraph that is given by number or by name. Raises BindingError."""
    if isinstance(tensor, int):
        return tensor
    if not isinstance(tensor, str):
        try:
            return operator.index(tensor)
        except TypeError:
            raise BindingError(f"{tensor!r} is neither the number nor the name of a tensor") from None
    if model is None:
        raise BindingError(f"there is no tensor '{tensor}' yet: give the delegate to an interpreter first")
    subgraph = model.subgraphs[0]
    ends = dict.fromkeys(i for i in (*subgraph.inputs, *subgraph.outputs) if i >= 0)
    found = [i for i in ends if subgraph.tensors[i].name == tensor]
    if len(found) != 1:
        said = "several of them have" if found else "none of them has"
        raise BindingError(f"{inputs_and_outputs(subgraph)}; {said} the name '{tensor}'")
    return found[0]
