"""The tensors where GPU partitions begin and end: what the user bound to them, or else a staging buffer of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...interop.device import Device, Resource
from ...interop.errors import BindingError
from ...kernels.ops.pointwise.quantize import stored_view
from ...kernels.tensor import TensorInfo
from ...kernels.views import Dense, Quantized
from ..litert.native import NativeGraph
from ..options import WaitType
from ..plan.binding import Binding, TextureMapping
from .bindings import make_binding, read_back, rebound
from .messages import tensor_label
from .variable import Variable

Key = tuple[int, int]
"""Number of the subgraph, and of the tensor in it."""


@dataclass
class _Bound:
    """What the user bound, kept as given: it is negotiated again when the tensor's shape changes."""

    obj: Any
    mapping: TextureMapping
    binding: Binding | None = None


class BoundaryTensors:
    """All boundary tensors of one delegate. Keeps every bound object alive, and copies where nothing is bound, counted.

    ``keep_outputs`` says that results stay on the GPU until somebody asks for them by ``make_readable``; ``wait_type``,
    what a run waits for.
    """

    def __init__(self, wait_type: WaitType) -> None:
        self._wait_type = wait_type
        self.device: Device | None = None
        self.keep_outputs = False
        self.computed: set[Key] = set()
        """What partitions compute: it comes from the GPU, not from the CPU."""
        self.read_by_cpu: dict[Key, list[int]] = {}
        """What operators on the CPU read, and the numbers of those operators."""
        self.unreadable: set[Key] = set()
        """What was computed, and not copied to the CPU since."""
        self.uploaded: set[Key] = set()
        """What some partition copies from the CPU, for all later ones."""
        self.variables: dict[Key, Variable] = {}
        """States that programs have read and written. They outlive ``release``, to say that their values are gone."""
        self._bound: dict[Key, _Bound] = {}
        self._bindings: dict[Key, Binding] = {}
        self._staging: dict[Key, Resource] = {}

    @property
    def open_device(self) -> Device:
        """The device, where a partition exists."""
        assert self.device is not None, "a partition exists, so its device was opened"
        return self.device

    @property
    def is_empty(self) -> bool:
        """Nothing is bound, and nothing of ours is on the device."""
        return not self._bound and not self._staging

    def is_bound(self, key: Key) -> bool:
        return key in self._bound

    def bind(self, key: Key, obj: Any, mapping: TextureMapping, tensor: TensorInfo | None) -> None:
        """Use ``obj`` from now on. ``tensor`` is what it must fit; None: not known yet, and checked later."""
        bound = _Bound(obj, mapping)
        if tensor is not None:
            bound.binding = self._negotiate(key, bound, tensor)
        self._bound[key] = bound
        staging = self._staging.pop(key, None)
        if staging is not None:
            staging.release()

    def rebind(self, key: Key, obj: Any, mapping: tuple[Any, ...]) -> Binding | None:
        """Use ``obj`` in place of one of the same kind, size and format, as which it is then read or written: a ring's
        next texture. ``mapping`` is a TextureMapping's fields. None, and nothing has changed, where it is not like the
        one before.
        """
        bound = self._bound.get(key)
        if bound is None or bound.binding is None or bound.mapping != mapping:
            return None
        binding = rebound(self.open_device, obj, bound.binding)
        if binding is not None:
            bound.obj, bound.binding = obj, binding
        return binding

    def _negotiate(self, key: Key, bound: _Bound, tensor: TensorInfo) -> Binding:
        before = self._bound.get(key)
        return make_binding(
            self.open_device, bound.obj, tensor, key[1], write=key in self.computed, mapping=bound.mapping,
            previous=before.binding if before else None,
        )  # fmt: skip

    def unbind(self, key: Key) -> None:
        self._bound.pop(key, None)
        self._bindings.pop(key, None)

    def binding(self, key: Key, tensor: TensorInfo) -> Binding:
        """What stands for the tensor now: the user's object, negotiated for this shape, or its staging buffer."""
        bound = self._bound.get(key)
        if bound is None:
            view = stored_view(tensor) or Dense(tensor.bhwc)
            binding = Binding(self._staging_buffer(key, tensor, view), view)
        elif bound.binding is not None and bound.binding.view.shape == tensor.bhwc:
            binding = bound.binding
        else:
            binding = bound.binding = self._negotiate(key, bound, tensor)
        self._bindings[key] = binding
        return binding

    def _staging_buffer(self, key: Key, tensor: TensorInfo, view: Dense | Quantized) -> Resource:
        buffer = self._staging.get(key)
        if buffer is None or buffer.nbytes != view.nbytes:
            if buffer is not None:
                buffer.release()
            buffer = self.open_device.buffer(view.nbytes, f"staging of {tensor_label(key[1], tensor)}")
            self._staging[key] = buffer
        return buffer

    def upload(self, graph: NativeGraph, tensor: int) -> None:
        """Copy the CPU's values of a tensor that nothing is bound to."""
        info = graph.subgraph.tensors[tensor]
        staging = self._staging[graph.index, tensor]
        self.open_device.write(staging, graph.array(tensor), f"input tensor {tensor} '{info.name}' from the CPU")

    def upload_state(self, graph: NativeGraph, tensor: int) -> None:
        """Copy the value of a variable tensor where somebody set it since the last run; else it is here already."""
        key = (graph.index, tensor)
        if key not in self.variables:
            self.variables[key] = Variable(self.open_device, graph, tensor)
        self.variables[key].before_run(self._staging[key])

    def state_written(self, graph: NativeGraph, tensor: int) -> None:
        """A partition has written a variable tensor: its value stays here."""
        key = (graph.index, tensor)
        self.variables[key].after_run(self._staging[key])
        if self.keep_outputs and graph.index == 0:
            graph.mark_current(tensor)

    def is_readable(self, key: Key) -> bool:
        """Whether the CPU's memory of the tensor holds what was computed last."""
        variable = self.variables.get(key)
        return key not in self.unreadable and (variable is None or variable.is_readable)

    def written(self, graph: NativeGraph, tensor: int) -> None:
        """A partition has computed the tensor: the CPU's copy is out of date."""
        key = (graph.index, tensor)
        # IF and WHILE on the CPU read what the other subgraphs return.
        if self.keep_outputs and graph.index == 0 and key not in self.read_by_cpu:
            if key not in self.unreadable:
                self.unreadable.add(key)
                graph.mark_current(tensor)  # or LiteRT would copy it at the end of each invoke
        else:
            self.unreadable.discard(key)
            graph.mark_stale(tensor)

    def download(self, graph: NativeGraph, tensor: int) -> None:
        """Copy what the GPU computed, from wherever it is, to the CPU's memory."""
        info, key = graph.subgraph.tensors[tensor], (graph.index, tensor)
        if key in self.variables:
            self.variables[key].download()
            return
        if key not in self._bindings:
            raise BindingError(f"{tensor_label(tensor, info)} has not been computed: call invoke() first")
        reason = f"output tensor {tensor} '{info.name}' to the CPU"
        read_back(self.open_device, self._bindings[key], info, graph.array(tensor), reason)
        self.unreadable.discard(key)

    def wait(self) -> None:
        """Wait for what was submitted, as the user chose. By default this makes no call: frames are not held up."""
        if self._wait_type is WaitType.DO_NOT_WAIT:
            return
        fence = self.open_device.fence()
        if self._wait_type is WaitType.PASSIVE:
            fence.wait()
        else:
            while not fence.done:
                pass

    def release(self) -> None:
        """Free the staging buffers; forget what is computed, but not what the user bound."""
        for buffer in self._staging.values():
            buffer.release()
        for known in (
            self._staging, self._bindings, self.computed, self.read_by_cpu, self.unreadable, self.uploaded
        ):  # fmt: skip
            known.clear()

    def forget_bound(self) -> None:
        self._bound.clear()
