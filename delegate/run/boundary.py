"""The values of GPU partitions' boundary tensors: copied between LiteRT's memory and the GPU's when they are needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ...interop.errors import BindingError, TransferError
from ...kernels.tensor import TensorInfo
from ..litert.native import NativeGraph
from ..options import WaitType
from ..plan.binding import Binding
from ..plan.tensor_uses import Key, TensorUses
from ..read.model import RawOperator
from .arrays import fill_from_host
from .batches import read_frames
from .boundary_memory import BoundaryMemory
from .messages import tensor_label
from .variable_state import VariableState

BIND = "bind a GPU object to that tensor, or exempt this reason"
KEEP = "set_allow_buffer_handle_output(True) leaves outputs on the GPU; or exempt this reason"
"""Advice for users whose transfer_guard forbids the copy of an input, or of an output after a run."""


class BoundaryTensors:
    """The values of all boundary tensors of one delegate: where the current one is, and its counted copies.

    ``wait_type`` says how a run waits.
    """

    def __init__(self, wait_type: WaitType) -> None:
        self.closed = False
        """The delegate was closed, or is being closed: nothing runs any longer."""
        self.keep_outputs = False
        """Results stay on the GPU until they are requested."""
        self.preserves_tensors = False
        """The interpreter shows the results of all operators, so the CPU's memory holds them after each run."""
        self.inputs_are_announced = False
        """The interpreter calls ``Engine.input_set`` whenever an input of the model is set."""
        self._running = 0
        """The subgraph that the user runs."""
        self._wait_type, self.waits = wait_type, wait_type is not WaitType.DO_NOT_WAIT
        self.uses = TensorUses()
        """The partitions and operators that compute and read the tensors."""
        self.memory = BoundaryMemory(self.uses)
        """The GPU's memory of the tensors."""
        self._unreadable: set[Key] = set()
        """Tensors that were computed on the GPU and not copied to the CPU since."""
        self.awaited: set[Key] = set()
        """Tensors that were computed, and that LiteRT has to fetch before ``invoke`` ends."""
        self._states: dict[Key, VariableState] = {}
        """States that programs have read and written. They outlive ``release``, to say that their values are gone."""

    def begin_subgraph(self, number: int, on_cpu: Iterable[RawOperator]) -> None:
        """Begin again with a subgraph; its operators ``on_cpu`` do not run on the GPU. The user's bindings stay."""
        self.uses.begin_subgraph(number, on_cpu)
        self._unreadable -= {key for key in self._unreadable if key[0] == number}

    @contextmanager
    def running(self, subgraph: int) -> Iterator[None]:
        """Run another subgraph than the main one: its results may stay on the GPU meanwhile."""
        self._running = subgraph
        try:
            yield
        finally:
            self._running = 0

    # Copies -----------------------------------------------------------------------------------------------------------

    def upload(self, graph: NativeGraph, tensor: int) -> None:
        """Copy the CPU's values of a tensor: those of the array that is bound to it, or else LiteRT's."""
        info, key = graph.subgraph.tensors[tensor], (graph.index, tensor)
        device, place = self.memory.open_device, self.memory.source(key)
        try:
            if isinstance(place, Binding):
                for part in place.parts:
                    for host in part.hosts:
                        host.upload(device, f"input tensor {tensor} '{info.name}' from its array")
            else:
                device.write(place, graph.array(tensor), f"input tensor {tensor} '{info.name}' from the CPU")
        except TransferError as error:
            raise TransferError(error.copy, BIND) from None

    def upload_for_others(self, graph: NativeGraph, tensor: int, info: TensorInfo) -> None:
        """Copy a tensor in the place of the partition that copies it and does not run on the GPU now."""
        key = (graph.index, tensor)
        if key in self.uses.shared and not self.memory.is_on_gpu(key) and 0 not in info.shape:
            self.memory.binding(key, info)
            self.upload(graph, tensor)

    def upload_state(self, graph: NativeGraph, tensor: int) -> None:
        """Copy the value of a variable tensor if it was set since the last run; else it is already here."""
        key = (graph.index, tensor)
        if key not in self._states:
            self._states[key] = VariableState(self.memory.open_device, graph, tensor)
        self._states[key].before_run(self.memory.staging(key))

    def state_written(self, graph: NativeGraph, tensor: int) -> None:
        """Note that a partition has written a variable tensor, whose value stays here."""
        key = (graph.index, tensor)
        self._states[key].after_run(self.memory.staging(key))
        if self.keep_outputs and graph.index == 0:
            graph.mark_current(tensor)

    def is_readable(self, key: Key) -> bool:
        """Whether the CPU's memory of the tensor holds the last result."""
        state = self._states.get(key)
        return key not in self._unreadable and (state is None or state.is_readable)

    def written(self, graph: NativeGraph, keys: tuple[Key, ...]) -> None:
        """Note that a partition has computed these tensors, so that the CPU's copies are out of date."""
        on_host = self.memory.on_host
        if on_host:
            keys = tuple([key for key in keys if key not in on_host or not self._copy_to_user_array(graph, key)])
        if self.keep_outputs and self._unreadable.issuperset(keys) and not self.preserves_tensors:
            return  # they were so after the run before
        for key in keys:
            self._written(graph, key)

    def _written(self, graph: NativeGraph, key: Key) -> None:
        tensor = key[1]
        if self.preserves_tensors:
            self.download(graph, tensor)
            graph.mark_current(tensor)
            return
        # IF and WHILE on the CPU read the results of the subgraphs that they call.
        keep = self.keep_outputs or key in self.memory.states
        if keep and graph.index == self._running and key not in self.uses.cpu_readers:
            if key not in self._unreadable:
                self._unreadable.add(key)
                graph.mark_current(tensor)  # or LiteRT would copy it at the end of each invoke
        else:
            self._unreadable.discard(key)
            graph.mark_stale(tensor)
            if graph.index == 0 and (key in self.uses.cpu_readers or tensor in graph.subgraph.outputs):
                self.awaited.add(key)

    def has_no_elements(self, graph: NativeGraph, tensor: int) -> None:
        """Note that an output is empty now: it has no memory, and there is nothing to copy."""
        key = (graph.index, tensor)
        self._unreadable.discard(key)
        self.awaited.discard(key)
        graph.mark_current(tensor)

    def _copy_to_user_array(self, graph: NativeGraph, key: Key) -> bool:
        """Copy an output to the user's array in the CPU's memory. Returns whether it was put into LiteRT's too."""
        binding, tensor = self.memory.used(key), key[1]
        assert binding is not None, "the program that wrote the array took its binding"
        info = graph.subgraph.tensors[tensor]
        hosts = [host for part in binding.parts for host in part.hosts]
        try:
            for host in hosts:
                host.download(self.memory.open_device, f"output tensor {tensor} '{info.name}' to its array")
        except TransferError as error:
            raise TransferError(error.copy, BIND) from None
        if (self.keep_outputs and key not in self.uses.cpu_readers) or len(hosts) < len(binding.parts):
            return False
        fill_from_host(graph.array(tensor), binding, info)
        self._unreadable.discard(key)
        graph.mark_current(tensor)
        return True

    def download(self, graph: NativeGraph, tensor: int) -> None:
        """Copy a tensor that the GPU computed to the CPU's memory, from the user's object or our buffer."""
        info, key = graph.subgraph.tensors[tensor], (graph.index, tensor)
        self.awaited.discard(key)
        if key in self._states:
            self._states[key].download()
            return
        binding = self.memory.used(key)
        if binding is None:
            raise BindingError(f"{tensor_label(tensor, info)} has not been computed: call invoke() first")
        reason = f"output tensor {tensor} '{info.name}' to the CPU"
        try:
            read_frames(self.memory.open_device, binding, info, graph.array(tensor), reason)
        except TransferError as error:
            raise TransferError(error.copy, self._cure_of_download(key)) from None
        self._unreadable.discard(key)

    def _cure_of_download(self, key: Key) -> str:
        """Advice for a user whose transfer_guard forbids the copy of an output."""
        if key in self.uses.cpu_readers:
            return "an operator on the CPU reads it, interpreter.delegated_ops() says why; or exempt this reason"
        if not self.keep_outputs:
            return KEEP
        return "read the output outside of the guard's block, or exempt this reason"

    def fetch(self, graph: NativeGraph, tensor: int) -> None:
        """Copy a tensor's value to the CPU's memory before an operator on the CPU reads it."""
        key = (graph.index, tensor)
        if key in self._states:
            self._states[key].download()
        elif key in self.uses.computed and (graph.is_stale(tensor) or key in self._unreadable):
            self.download(graph, tensor)
            graph.mark_current(tensor)

    def computed_on_cpu(self, graph: NativeGraph, tensor: int, info: TensorInfo) -> None:
        """Copy a tensor that the CPU computed in a partition's place, for partitions that expect it on the GPU."""
        key = (graph.index, tensor)
        self._unreadable.discard(key)
        graph.mark_current(tensor)
        if key in self.uses.read_on_gpu and 0 not in info.shape:
            self.memory.binding(key, info)
            self.upload(graph, tensor)

    def wait(self) -> None:
        """Wait for the submitted work, as the user chose."""
        fence = self.memory.open_device.fence()
        if self._wait_type is WaitType.PASSIVE:
            fence.wait()
        else:
            while not fence.done:
                pass

    def release(self) -> None:
        """Free the staging buffers and forget the computed tensors, but not the user's bindings."""
        self.memory.release()
        for known in (self.uses, self._unreadable, self.awaited):
            known.clear()

    def forget_states(self) -> None:
        """Forget all states: another interpreter has its own."""
        self._states.clear()

    def close(self) -> None:
        """Free all buffers and let go of the user's objects. Results that were not copied stay unreadable."""
        unreadable = set(self._unreadable)
        self.release()
        self.memory.close()
        self._unreadable |= unreadable
