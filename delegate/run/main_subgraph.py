"""The main subgraph of a model: its inputs are set, its states swap, and its runs end well or not."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from ...interop.errors import BindingError
from ..litert.native import KERNEL_NAME, NativeDelegate, NativeGraph
from ..litert.python_layer import NOT_READY
from ..plan.binding import Binding
from ..read.model import Model
from .bound_tensors import BoundTensors
from .boundary import BoundaryTensors
from .feedback import State
from .messages import inputs_and_outputs
from .partition import Partition


class MainSubgraph(BoundTensors):
    """The partitions of the main subgraph: set inputs go to those that the tensor enters, and states swap."""

    def __init__(self, boundary: BoundaryTensors, choose_device: Callable[[Any], None]) -> None:
        super().__init__(0, boundary, self.graph, choose_device)
        self.native: NativeDelegate | None = None
        """LiteRT's side of the delegate, while it serves an interpreter."""
        self._states = list[State]()
        """The states that are fed back."""
        self._fed_users: dict[int, list[Partition]] = {}
        """The partitions that an output or input of a state leaves or enters."""

    def clear(self) -> None:
        """Forget all partitions: LiteRT makes new ones."""
        super().clear()
        self._fed_users.clear()

    def add(self, partition: Partition) -> None:
        """Add a partition; the first one swaps the states, and checks the objects of several."""
        super().add(partition)
        if self._memory.states or len(self._partitions) > 1:
            self._partitions[0].begin_run = self._begin_run

    def _begin_run(self) -> None:
        if self._unchecked and len(self._partitions) > 1 and (graph := self._graph) is not None:
            self._unchecked = not self._memory.check_objects(self.number, graph.subgraph.tensors)
        self._swap_states()

    def graph(self, subgraph: int) -> NativeGraph | None:
        """LiteRT's side of a subgraph, by number; None before LiteRT has shown it."""
        return self.native.graph(subgraph) if self.native is not None else None

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

    def _swap_states(self) -> None:
        """Let a run read what the last one wrote; called before it."""
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
        failed = (str(error).strip().splitlines() or [""])[-1]
        # Tensors that could not be allocated: LiteRT called nothing, and repeats what it said then.
        if self.native is None or self.native.error is not None or NOT_READY in failed:
            return False
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
