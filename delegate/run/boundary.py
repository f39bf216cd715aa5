"""The boundary tensors of GPU partitions: each is an object that the user bound, or else a staging buffer of ours."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from ...interop.device import Device, Resource
from ...interop.dlpack import is_on_host
from ...interop.errors import BindingError, TransferError
from ...kernels.ops.pointwise.quantize import stored_view
from ...kernels.tensor import TensorInfo, bhwc
from ...kernels.views import Dense, Quantized
from ..claim.variables import Variable
from ..litert.native import NativeGraph
from ..options import WaitType
from ..plan.binding import Binding, Mappings
from ..plan.tensor_uses import Key, TensorUses
from ..read.model import RawOperator
from .arrays import fill_from_host
from .bindings import rebound
from .frames import exchanged, negotiated, read_frames
from .messages import tensor_label
from .state import State

BIND = "bind a GPU object to that tensor, or exempt this reason"
KEEP = "set_allow_buffer_handle_output(True) leaves outputs on the GPU; or exempt this reason"
"""Advice for users whose transfer_guard forbids the copy of an input, or of an output after a run."""


@dataclass
class _Bound:
    """An object that the user bound, stored as given: its binding is decided again when the tensor's shape changes."""

    obj: Any
    mapping: Mappings
    binding: Binding | None = None
    compatibility_key: Hashable = None
    """The object's compatibility key, if kernels use this object alone: an object with the same key replaces it
    directly.
    """

    def decide(self, obj: Any, binding: Binding) -> None:
        """Store an object and its binding."""
        self.obj, self.binding = obj, binding
        is_alone = binding.resource is obj and not (binding.others or binding.hosts or binding.frames)
        self.compatibility_key = binding.resource.compatibility_key if is_alone else None


class BoundaryTensors:
    """All boundary tensors of one delegate: keeps bound objects alive, and copies tensors without one, counted.

    ``wait_type`` says how a run waits. ``keep_outputs``: results stay on the GPU until they are requested.
    """

    def __init__(self, wait_type: WaitType) -> None:
        self.closed = False
        """The delegate was closed, or is being closed: nothing runs any longer."""
        self.keep_outputs = False
        self.needs_entering = False
        """The device is one that is entered before it is used: see interop/device.py."""
        self.preserves_tensors = False
        """The interpreter shows the results of all operators, so the CPU's memory holds them after each run."""
        self.inputs_are_announced = False
        """The interpreter calls ``Engine.input_set`` whenever an input of the model is set."""
        self._wait_type, self.waits = wait_type, wait_type is not WaitType.DO_NOT_WAIT
        self.device: Device | None = None
        """The device that the tensors are on; None before an operator needed one."""
        self.uses = TensorUses()
        """The partitions and operators that compute and read the tensors."""
        self._unreadable: set[Key] = set()
        """Tensors that were computed on the GPU and not copied to the CPU since."""
        self.awaited: set[Key] = set()
        """Tensors that were computed, and that LiteRT has to fetch before ``invoke`` ends."""
        self._states: dict[Key, State] = {}
        """States that programs have read and written. They outlive ``release``, to say that their values are gone."""
        self._values: dict[Variable, Binding] = {}
        """The values of variables that programs read and assign. They outlive ``release``, and LiteRT knows none."""
        self._bound: dict[Key, _Bound] = {}
        self._bindings: dict[Key, Binding] = {}
        self._on_host: set[Key] = set()
        """Tensors that are bound to arrays in the CPU's memory, which runs copy."""
        self._staging: dict[Key, Resource] = {}

    # The device and the subgraphs -------------------------------------------------------------------------------------

    @property
    def open_device(self) -> Device:
        """The device, once a partition exists."""
        assert self.device is not None, "a partition exists, so its device was opened"
        return self.device

    def use(self, device: Device) -> None:
        """Let the tensors be on ``device`` from now on; nothing may be on another one."""
        assert self.device is None or self.is_empty
        self.device, self.needs_entering = device, device.needs_entering

    def begin_subgraph(self, number: int, on_cpu: Iterable[RawOperator]) -> None:
        """Begin again with a subgraph; its operators ``on_cpu`` do not run on the GPU. The user's bindings stay."""
        self.uses.begin_subgraph(number, on_cpu)
        self._unreadable -= {key for key in self._unreadable if key[0] == number}

    # What the user binds ----------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether nothing is bound, and nothing of ours is on the device."""
        return not self._bound and not self._staging

    def is_bound(self, key: Key) -> bool:
        """Whether an object of the user's is bound to the tensor."""
        return key in self._bound

    def is_on_gpu(self, key: Key) -> bool:
        """Whether a user's object on the GPU is bound to the tensor, not an array in the CPU's memory."""
        bound = self._bound.get(key)
        return bound is not None and (bound.binding is None or not bound.binding.is_on_host)

    def entered_for(self, obj: Any) -> AbstractContextManager[None]:
        """A context manager in which an object can be bound: an array in the CPU's memory on any thread, others on the
        device's.

        Raises DeviceError if the device cannot be used on this thread now.
        """
        device = self.open_device
        if is_on_host(obj):
            return device.entered()
        device.check()
        return nullcontext()

    def bind(self, key: Key, obj: Any, mapping: Mappings, tensor: TensorInfo | None) -> None:
        """Use ``obj`` from now on. It must fit ``tensor``; if this is None (not known yet), it is checked later."""
        bound = _Bound(obj, mapping)
        if tensor is not None:
            bound.decide(obj, self._negotiate(key, bound, tensor))
        self._bound[key] = bound
        staging = self._staging.pop(key, None)
        if staging is not None:
            staging.release()

    def rebind(self, key: Key, obj: Any, mapping: Any) -> Binding | None:
        """Replace a bound object by ``obj`` of the same kind, size and format: a ring's next texture.

        ``mapping`` are the values of a TextureMapping. None, and nothing has changed, if it is not like the one before.
        """
        bound = self._bound.get(key)
        if bound is None or bound.binding is None or bound.mapping != mapping:
            return None
        device, previous = self.device, bound.binding
        assert device is not None, "something was bound there"
        known = bound.compatibility_key
        if known is not None and getattr(obj, "compatibility_key", None) == known and not obj.released:
            device.check()
            if key in self.uses.computed:  # until the next run, it is read from where the last one wrote it
                previous = bound.binding = replace(previous)
            bound.obj = previous.resource = obj
            return previous
        binding = (exchanged if previous.frames else rebound)(device, obj, previous)
        if binding is not None:
            bound.decide(obj, binding)
        return binding

    def _negotiate(self, key: Key, bound: _Bound, tensor: TensorInfo) -> Binding:
        before = self._bound.get(key)
        return negotiated(
            self.open_device, bound.obj, tensor, key[1], write=key in self.uses.computed, mapping=bound.mapping,
            previous=before.binding if before else None,
        )  # fmt: skip

    def unbind(self, key: Key) -> None:
        """Let go of the object that is bound to the tensor."""
        self._bound.pop(key, None)
        self._bindings.pop(key, None)

    # Copies -----------------------------------------------------------------------------------------------------------

    def binding(self, key: Key, tensor: TensorInfo) -> Binding:
        """The tensor's current binding: the user's object for this shape, or a staging buffer of ours."""
        bound = self._bound.get(key)
        if bound is None:
            view = stored_view(tensor) or Dense(tensor.bhwc)
            binding = Binding(self._staging_buffer(key, tensor, view), view)
        elif bound.binding is not None and bound.binding.view.shape == tensor.bhwc:
            binding = bound.binding
        else:
            binding = self._negotiate(key, bound, tensor)
            bound.decide(bound.obj, binding)
        self._bindings[key] = binding
        (self._on_host.add if binding.is_on_host else self._on_host.discard)(key)
        return binding

    def variable_binding(self, variable: Variable) -> Binding:
        """The buffer of a variable's value. It has the first value, copied there, if it was not used before."""
        if variable not in self._values:
            view = Dense(bhwc(variable.first.shape))
            buffer = self.open_device.buffer(view.nbytes, f"variable '{variable.name}'")
            self.open_device.write(buffer, variable.first, f"first value of variable '{variable.name}'")
            self._values[variable] = Binding(buffer, view)
        return self._values[variable]

    def _staging_buffer(self, key: Key, tensor: TensorInfo, view: Dense | Quantized) -> Resource:
        buffer = self._staging.get(key)
        if buffer is None or buffer.nbytes != view.nbytes:
            if buffer is not None:
                buffer.release()
            buffer = self.open_device.buffer(view.nbytes, f"staging of {tensor_label(key[1], tensor)}")
            self._staging[key] = buffer
        return buffer

    def upload(self, graph: NativeGraph, tensor: int) -> None:
        """Copy the CPU's values of a tensor: those of the array that is bound to it, or else LiteRT's."""
        info, key = graph.subgraph.tensors[tensor], (graph.index, tensor)
        bound = self._bound.get(key)
        try:
            if bound is not None and bound.binding is not None:
                for host in (host for part in bound.binding.parts for host in part.hosts):
                    host.upload(self.open_device, f"input tensor {tensor} '{info.name}' from its array")
                return
            staging = self._staging[key]
            self.open_device.write(staging, graph.array(tensor), f"input tensor {tensor} '{info.name}' from the CPU")
        except TransferError as error:
            raise TransferError(error.copy, BIND) from None

    def upload_for_others(self, graph: NativeGraph, tensor: int, info: TensorInfo) -> None:
        """Copy a tensor in the place of the partition that copies it and does not run on the GPU now."""
        key = (graph.index, tensor)
        if key in self.uses.shared and not self.is_on_gpu(key) and 0 not in info.shape:
            self.binding(key, info)
            self.upload(graph, tensor)

    def upload_state(self, graph: NativeGraph, tensor: int) -> None:
        """Copy the value of a variable tensor if it was set since the last run; else it is already here."""
        key = (graph.index, tensor)
        if key not in self._states:
            self._states[key] = State(self.open_device, graph, tensor)
        self._states[key].before_run(self._staging[key])

    def state_written(self, graph: NativeGraph, tensor: int) -> None:
        """Note that a partition has written a variable tensor, whose value stays here."""
        key = (graph.index, tensor)
        self._states[key].after_run(self._staging[key])
        if self.keep_outputs and graph.index == 0:
            graph.mark_current(tensor)

    def is_readable(self, key: Key) -> bool:
        """Whether the CPU's memory of the tensor holds the last result."""
        state = self._states.get(key)
        return key not in self._unreadable and (state is None or state.is_readable)

    def written(self, graph: NativeGraph, keys: tuple[Key, ...]) -> None:
        """Note that a partition has computed these tensors, so that the CPU's copies are out of date."""
        if self._on_host:
            keys = tuple(key for key in keys if key not in self._on_host or not self._copy_to_user_array(graph, key))
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
        # IF and WHILE on the CPU read the results of the other subgraphs.
        if self.keep_outputs and graph.index == 0 and key not in self.uses.cpu_readers:
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
        binding, tensor = self._bindings[key], key[1]
        info = graph.subgraph.tensors[tensor]
        hosts = [host for part in binding.parts for host in part.hosts]
        try:
            for host in hosts:
                host.download(self.open_device, f"output tensor {tensor} '{info.name}' to its array")
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
        if key not in self._bindings:
            raise BindingError(f"{tensor_label(tensor, info)} has not been computed: call invoke() first")
        reason = f"output tensor {tensor} '{info.name}' to the CPU"
        try:
            read_frames(self.open_device, self._bindings[key], info, graph.array(tensor), reason)
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
            self.binding(key, info)
            self.upload(graph, tensor)

    def wait(self) -> None:
        """Wait for the submitted work, as the user chose."""
        fence = self.open_device.fence()
        if self._wait_type is WaitType.PASSIVE:
            fence.wait()
        else:
            while not fence.done:
                pass

    def release(self) -> None:
        """Free the staging buffers and forget the computed tensors, but not the user's bindings."""
        for buffer in self._staging.values():
            buffer.release()
        for known in (self._staging, self._bindings, self._on_host, self.uses, self._unreadable, self.awaited):
            known.clear()

    def forget_states(self) -> None:
        """Forget all states: another interpreter has its own."""
        self._states.clear()

    def release_variables(self) -> None:
        """Free the values of variables: they begin with their first ones again."""
        for binding in self._values.values():
            binding.resource.release()
        self._values.clear()

    def close(self) -> None:
        """Free all buffers and let go of the user's objects. Results that were not copied stay unreadable."""
        unreadable = set(self._unreadable)
        self.release()
        self.release_variables()
        self._bound.clear()
        self._unreadable |= unreadable
