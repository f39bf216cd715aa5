"""The GPU memory of boundary tensors: objects that the user bound, staging buffers of ours, and values of variables."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from ...interop.device import Device, Resource
from ...interop.dlpack import is_on_host
from ...kernels.ops.pointwise.quantize import stored_view
from ...kernels.tensor import TO_CHANNELS_LAST, Shape, TensorInfo, bhwc, permuted
from ...kernels.views import Dense, Quantized
from ..claim.variables import Variable
from ..plan.binding import Binding, Mappings
from ..plan.tensor_uses import Key, TensorUses
from .batches import exchanged, negotiated
from .bindings import rebound, refuse_written
from .feedback import State
from .messages import tensor_label
from .placed_regions import other_regions, with_regions


@dataclass
class _Bound:
    """An object that the user bound, stored as given: its binding is decided again when the tensor's shape changes."""

    obj: Any
    mapping: Mappings
    given: Any = None
    """The values of ``mapping`` as the user gave them: those of all frames together."""
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


class BoundaryMemory:
    """The one owner of what is bound to a delegate's boundary tensors. It keeps the user's objects alive.

    A tensor without an object of the user's has a staging buffer, made when a program needs it. Programs take the
    bindings from here and fill the slots of their commands with them. ``uses`` says which tensors programs write.
    """

    def __init__(self, uses: TensorUses) -> None:
        self.device: Device | None = None
        """The device that the tensors are on; None before an operator needed one."""
        self.needs_entering = False
        """The device is one that is entered before it is used: see interop/device.py."""
        self._uses = uses
        self._bound: dict[Key, _Bound] = {}
        self._staging: dict[Key, Resource] = {}
        self._used: dict[Key, Binding] = {}
        """The bindings that programs took last: results are read from these, also if another object is bound since."""
        self.on_host: set[Key] = set()
        """Tensors that are bound to arrays in the CPU's memory, which runs copy."""
        self.states: dict[Key, State] = {}
        """The states that are fed back, by their outputs and their inputs."""
        self._values: dict[Variable, Binding] = {}
        """The values of variables that programs read and assign. They outlive ``release``, and LiteRT knows none."""

    # The device -------------------------------------------------------------------------------------------------------

    @property
    def open_device(self) -> Device:
        """The device, once a partition exists."""
        assert self.device is not None, "a partition exists, so its device was opened"
        return self.device

    def use(self, device: Device) -> None:
        """Let the tensors be on ``device`` from now on; nothing may be on another one."""
        assert self.device is None or self.is_empty
        self.device, self.needs_entering = device, device.needs_entering

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

    def bind(self, key: Key, obj: Any, mapping: Mappings, tensor: TensorInfo | None, given: Any = None) -> None:
        """Use ``obj`` from now on. It must fit ``tensor``; if this is None (not known yet), it is checked later.

        ``given`` are the values of ``mapping`` to which ``rebind`` compares.
        """
        bound = _Bound(obj, mapping, given)
        if tensor is not None:
            bound.decide(obj, self._negotiate(key, bound, tensor))
        self._bound[key] = bound
        staging = self._staging.pop(key, None)
        if staging is not None:
            staging.release()

    def rebind(self, key: Key, obj: Any, given: Any) -> Binding | None:
        """Replace a bound object by ``obj`` of the same kind, size and format: a ring's next texture.

        ``given`` are the values of its mapping, in which regions may lie in other buffers. None, and nothing has
        changed, if it is not like the one before.
        """
        bound, regions = self._bound.get(key), ()
        if bound is None or bound.binding is None:
            return None
        if bound.given != given and not (regions := other_regions(given, bound.given)):
            return None
        device, previous = self.device, bound.binding
        assert device is not None, "something was bound there"
        known = bound.compatibility_key
        if known is not None and getattr(obj, "compatibility_key", None) == known and not obj.released:
            device.check()
            if key in self._uses.computed:  # until the next run, it is read from where the last one wrote it
                previous = bound.binding = replace(previous)
            bound.obj = previous.resource = obj
            return previous
        binding = (exchanged if previous.frames else rebound)(device, obj, previous)
        if binding is not None and regions:
            binding = with_regions(device, binding, regions)
        if binding is not None:
            bound.given = given
            bound.decide(obj, binding)
        return binding

    def unbind(self, key: Key) -> None:
        """Let go of the object that is bound to the tensor."""
        self._bound.pop(key, None)
        self._used.pop(key, None)

    def check_objects(self, subgraph: int, tensors: Sequence[TensorInfo]) -> bool:
        """Refuse an object that is a computed tensor of a subgraph and another one too. Programs do so for the tensors
        of one partition.

        Returns whether the bindings of all objects are decided. Raises BindingError.
        """
        found = {tensor: bound.binding for (number, tensor), bound in self._bound.items() if number == subgraph}
        bindings = {tensor: binding for tensor, binding in found.items() if binding is not None}
        handles = [resource.handle for binding in bindings.values() for resource in binding.resources]
        if len(set(handles)) < len(handles):
            written = [tensor for tensor in bindings if (subgraph, tensor) in self._uses.computed]
            refuse_written(bindings, written, tensors)
        return len(bindings) == len(found)

    def _negotiate(self, key: Key, bound: _Bound, tensor: TensorInfo) -> Binding:
        before = self._bound.get(key)
        return negotiated(
            self.open_device, bound.obj, tensor, key[1], write=key in self._uses.computed, mapping=bound.mapping,
            previous=before.binding if before else None,
        )  # fmt: skip

    # What programs use ------------------------------------------------------------------------------------------------

    def binding(self, key: Key, tensor: TensorInfo, *, state_is_last: bool = False) -> Binding:
        """The binding that a program uses from now on: the user's object for this shape, the buffer of a state that is
        fed back, or a staging buffer. ``state_is_last``: a state has channels last there, unlike the tensor.
        """
        bound, state = self._bound.get(key), self.states.get(key)
        if state is not None:
            binding = state.binding(self.open_device, key[1], tensor, is_last=state_is_last)
        elif bound is None:
            view = stored_view(tensor) or Dense(tensor.bhwc)
            binding = Binding(self._staging_buffer(key, tensor, view), view)
        elif bound.binding is not None and bound.binding.view.shape == _shape_of(bound.binding, tensor):
            binding = bound.binding
        else:
            binding = self._negotiate(key, bound, tensor)
            bound.decide(bound.obj, binding)
        self._used[key] = binding
        (self.on_host.add if binding.is_on_host else self.on_host.discard)(key)
        return binding

    def swapped(self, key: Key, binding: Binding) -> None:
        """Note that a program uses the other buffer of a state from now on."""
        self._used[key] = binding

    def used(self, key: Key) -> Binding | None:
        """The binding that a program took last, and so wrote; None if no program did."""
        return self._used.get(key)

    def source(self, key: Key) -> Binding | Resource:
        """The place to copy an input to: the binding of the user's object, or the staging buffer."""
        bound = self._bound.get(key)
        return bound.binding if bound is not None and bound.binding is not None else self._staging[key]

    def staging(self, key: Key) -> Resource:
        """The staging buffer of a tensor, which a program uses."""
        return self._staging[key]

    def _staging_buffer(self, key: Key, tensor: TensorInfo, view: Dense | Quantized) -> Resource:
        buffer = self._staging.get(key)
        if buffer is None or buffer.nbytes != view.nbytes:
            if buffer is not None:
                self._staging.pop(key).release()
            buffer = self.open_device.buffer(view.nbytes, f"staging of {tensor_label(key[1], tensor)}")
            self._staging[key] = buffer
        return buffer

    def variable_binding(self, variable: Variable) -> Binding:
        """The buffer of a variable's value. It has the first value, copied there, if it was not used before."""
        if variable not in self._values:
            view = Dense(bhwc(variable.first.shape))
            buffer = self.open_device.buffer(view.nbytes, f"variable '{variable.name}'")
            self.open_device.write(buffer, variable.first, f"first value of variable '{variable.name}'")
            self._values[variable] = Binding(buffer, view)
        return self._values[variable]

    # The end ----------------------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Free the staging buffers and those of states, but do not forget the user's objects."""
        for state in self.states.values():
            state.release()
        for buffer in self._staging.values():
            buffer.release()
        for known in (self._staging, self._used, self.on_host):
            known.clear()

    def release_variables(self) -> None:
        """Free the values of variables: they begin with their first ones again."""
        for binding in self._values.values():
            binding.resource.release()
        self._values.clear()

    def close(self) -> None:
        """Free all buffers and let go of the user's objects."""
        self.release()
        self.release_variables()
        self._bound.clear()


def _shape_of(binding: Binding, tensor: TensorInfo) -> Shape:
    """The shape of the view of an object, if it fits the tensor."""
    return permuted(tensor.bhwc, TO_CHANNELS_LAST) if binding.channels_last else tensor.bhwc
