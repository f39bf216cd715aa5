"""The GPU delegate: what a user gives to LiteRT's interpreter to run a model's operators on the GPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ..interop.device import Device, Fence
from ..interop.discovery.devices import device_of, open_device
from ..interop.errors import BindingError, DelegateError
from .cache.build import BuildContext
from .claim.claims import Claims, claim, refuse_unlowered
from .claim.selection import Selection, select
from .litert.native import NativeDelegate, NativeGraph, Partitioned, log
from .options import GpuDelegateOptions
from .plan.binding import Crop, TextureMapping, Values
from .read.model import Model, Subgraph
from .read.reader import read_file, read_model
from .report import DelegatedOp, PartitionReport, describe_operators, warn_of_software, warning_text
from .run.boundary import BoundaryTensors
from .run.messages import inputs_and_outputs, tensor_label, why_not_bindable
from .run.partition import Partition
from .run.program import Program
from .statistics import Statistics, StepTime, gather, step_times


class GpuDelegate:
    """A TfLiteDelegate that runs a model's operators on the GPU, in the context that is current, or else in its own.

    Give it to ``framebind.Interpreter`` (``modify_graph_with_delegate`` or ``experimental_delegates``), or, with
    ``model_path`` or ``model_content``, to LiteRT's own ``Interpreter(experimental_delegates=[delegate])``. One
    delegate serves one interpreter, in the GlContext or ClContext where it was applied, and with GL on that thread.
    Which of the two it is, ``GpuDelegateOptions.backend`` says. Raises ModelError for a damaged model.
    """

    def __init__(
        self,
        options: GpuDelegateOptions | None = None,
        *,
        model_path: str | os.PathLike[str] | None = None,
        model_content: bytes | None = None,
    ) -> None:
        if model_path is not None and model_content is not None:
            raise DelegateError("give GpuDelegate model_path or model_content, not both")
        self.options = options or GpuDelegateOptions()
        self._boundary = BoundaryTensors(self.options.wait_type)
        self._partitions: list[Partition] = []
        self._partitions_by_tensor: dict[int, list[Partition]] = {}
        """Of the main subgraph, where they were asked for since ``_partitions`` changed last."""
        self._claims: dict[int, Claims] = {}
        self._choices: dict[int, Selection] = {}
        self._reported: set[int] = set()
        self._native: NativeDelegate | None = None
        self._retired: list[NativeDelegate] = []
        self._closed = False
        self._initialization = BuildContext(ready=self._save, tuned=self.options.is_tuned)
        self._model: Model | None = None
        if model_path is not None:
            model_content = read_file(model_path)
        if model_content is not None:
            with self._initialization.phase("read"):
                self._model = read_model(model_content)

    # LiteRT's interpreter and ours ------------------------------------------------------------------------------------

    def _get_native_delegate_pointer(self) -> int:
        """What LiteRT's Interpreter asks of everything in its experimental_delegates, once."""
        return self.attach(None)

    def attach(self, model: Model | None, read_seconds: float = 0.0) -> int:
        """The address of the TfLiteDelegate, for one interpreter; framebind.Interpreter gives its model along, and how
        long it took to read it.
        """
        if self._closed:
            raise DelegateError("this GpuDelegate is closed: make a new one")
        if self._native is not None:
            raise DelegateError("this GpuDelegate already serves an interpreter: make one for each interpreter")
        self._model = model or self._model
        if self._model is None:
            raise DelegateError(
                "LiteRT's own Interpreter does not tell a delegate which model it runs: make it with "
                "GpuDelegate(model_path=...), or use framebind.Interpreter"
            )
        self._initialization.stopwatch.seconds["read"] += read_seconds
        self._native = NativeDelegate(self, self._model)
        return self._native.pointer

    def detach(self) -> None:
        """Let go of the interpreter, so that another one can be served. What is bound stays bound."""
        for partition in self._partitions:
            partition.release()
        self._partitions.clear()
        self._partitions_by_tensor.clear()
        for known in (self._claims, self._choices, self._reported, self._boundary.variables):
            known.clear()
        self._boundary.release()
        if self._native is not None:
            self._retired.append(self._native)  # LiteRT still calls it when it destroys the interpreter
            self._native = None

    def take_error(self) -> BaseException | None:
        """The exception behind LiteRT's last error, if it was one of ours. It is handed out once."""
        return self._native.take_error() if self._native is not None else None

    def close(self) -> None:
        """Free everything on the GPU and let go of the bound objects. The interpreter cannot be invoked afterwards."""
        if self._closed:
            return
        self._closed = True
        self._partitions_by_tensor.clear()
        self._initialization.save()
        for partition in self._partitions:
            partition.release()
        self._boundary.release()
        self._boundary.forget_bound()
        if self._boundary.device is not None:
            self._boundary.device.close()

    # What LiteRT calls through tflite.NativeDelegate ------------------------------------------------------------------

    def claim(self, graph: NativeGraph) -> Sequence[int]:
        """The operators of a subgraph that go to the GPU; logs those that do not, with the reasons, once."""
        subgraph = graph.subgraph
        resized = any(graph.shape(i) != subgraph.tensors[i].shape for i in subgraph.inputs)
        with self._initialization.phase("claim"):
            claims = claim(subgraph, quantized=self.options.enable_quantization, resized=resized)
        self._claims[graph.index] = claims
        if claims.nodes:
            traits = self._device().traits
            with self._initialization.phase("claim"):
                refuse_unlowered(claims, subgraph, traits)
        self._forget_partitions(graph)
        choice = self._choices[graph.index] = select(graph, claims, self.options)
        on_cpu = set(range(len(subgraph.operators))) - set(choice.operators)
        for operator in (subgraph.operators[i] for i in sorted(on_cpu)):
            for tensor in operator.inputs:
                self._boundary.read_by_cpu.setdefault((graph.index, tensor), []).append(operator.index)
        self._report(graph, claims, len(choice.operators))
        return choice.operators

    def _report(self, graph: NativeGraph, claims: Claims, taken: int) -> None:
        """To the log, once a subgraph: LiteRT asks again whenever inputs were resized."""
        if graph.index in self._reported:
            return
        self._reported.add(graph.index)
        subgraph = graph.subgraph
        if claims.unsupported:
            log.warning(warning_text(graph.index, subgraph, claims.unsupported, taken))
        log.info(f"{taken} of {len(subgraph.operators)} operators of subgraph '{subgraph.name}' run on the GPU")

    def _forget_partitions(self, graph: NativeGraph) -> None:
        """LiteRT applies its delegates to a subgraph again after inputs were resized."""
        index = graph.index
        self._partitions = [p for p in self._partitions if p.subgraph != index]
        self._partitions_by_tensor.clear()
        for keys in (self._boundary.computed, self._boundary.unreadable, self._boundary.uploaded):
            keys -= {key for key in keys if key[0] == index}
        for key in [key for key in self._boundary.read_by_cpu if key[0] == index]:
            del self._boundary.read_by_cpu[key]

    def make_kernel(self, graph: NativeGraph, partition: Partitioned) -> Partition:
        claims = self._claims[graph.index]
        made = Partition(self._boundary, graph, claims, partition, self.options.storage, self._initialization)
        self._partitions.append(made)
        self._partitions_by_tensor.clear()
        self._boundary.computed |= {(graph.index, t) for t in made.outputs}
        return made

    def _save(self) -> None:
        """Once all programs have run: drivers compile as late as that. ``close`` waits for none of them."""
        if all(partition.program is not None for partition in self._partitions):
            self._initialization.save(self._boundary.open_device.finish)

    def copy_to_cpu(self, graph: NativeGraph, tensor: int) -> None:
        if self._closed:
            raise DelegateError("this GpuDelegate is closed, and with it what the model computed on the GPU")
        self._boundary.download(graph, tensor)

    def _device(self) -> Device:
        if self._boundary.device is None:
            self._boundary.device = open_device(self.options.backend)
            if self._boundary.device.traits.software:
                warn_of_software(self._boundary.device.traits.name)
            self._initialization.open_cache(self.options, self._model, self._boundary.device.traits)
        return self._boundary.device

    def _follow(self, obj: Any) -> None:
        """Backend "auto": run on the API of the first object that is bound, while nothing is on the other one yet."""
        device = self._boundary.device
        untouched = self._boundary.is_empty and not any(partition.program for partition in self._partitions)
        if self.options.backend == "auto" and device is not None and untouched:
            other = device_of(obj, device)
            if other is not None:
                device.close()
                self._boundary.device = other
                self._initialization.open_cache(self.options, self._model, other.traits)

    # Reports ----------------------------------------------------------------------------------------------------------

    def delegated_ops(self) -> list[DelegatedOp]:
        """A record for each operator of the model: on the GPU and in which partition, or on the CPU and why.

        As of the last ``allocate_tensors``. Raises DelegateError before the delegate was given to an interpreter.
        """
        if self._model is None or self._native is None:
            raise DelegateError("this GpuDelegate serves no interpreter, so that no operator has been given to it")
        reasons = {
            (number, operator): reason
            for number, claims in self._claims.items()
            for operator, reason in (*claims.unsupported.items(), *self._choices[number].not_selected.items())
        }
        numbers = {(report.subgraph, i): report.number for report in self.partitions() for i in report.operators}
        return describe_operators(self._model, numbers, reasons, "LiteRT does not delegate this subgraph")

    def partitions(self) -> list[PartitionReport]:
        """A record for each part of the model that runs on the GPU, numbered in the order of the model's operators."""
        ordered = sorted(self._partitions, key=lambda partition: (partition.subgraph, partition.operators))
        return [partition.report(number) for number, partition in enumerate(ordered)]

    def record(self) -> None:
        """Compile, upload the constants and record all commands now, which the first ``invoke`` does otherwise.

        Call ``allocate_tensors`` first: it gives the tensors their shapes. Raises what ``invoke`` would.
        """
        if self._closed:
            raise DelegateError("this GpuDelegate is closed: make a new one, and an interpreter for it")
        dispatches = [partition.record() for partition in self._partitions]
        log.info(f"recorded {sum(dispatches)} dispatches in {len(dispatches)} partitions")

    # Order ------------------------------------------------------------------------------------------------------------

    def wait_for(self, events: Sequence[Any]) -> None:
        """Let what is run from now on begin after these events (pyopencl's; OpenGL has none). The CPU does not wait."""
        self._running_device().wait_for(events)

    def event(self) -> Any:
        """An event that completes when what was run so far has: a ``pyopencl.Event``; None on OpenGL."""
        return self._running_device().event()

    def _running_device(self) -> Device:
        if self._closed or self._boundary.device is None:
            raise DelegateError("no operator runs on the GPU, so that there is nothing to wait for; the log says why")
        return self._boundary.device

    def fence(self) -> Fence:
        """A point behind all that was run so far: ``wait()`` blocks until the GPU has passed it, ``done`` only asks."""
        return self._running_device().fence()

    # Figures ----------------------------------------------------------------------------------------------------------

    def statistics(self) -> Statistics:
        """What the model's programs are and cost. Raises DelegateError where nothing runs on the GPU."""
        device, graphs = self._running_device(), self._model.subgraphs if self._model else ()
        operators = sum(len(graph.operators) for graph in graphs), sum(len(p.operators) for p in self._partitions)
        times = self._initialization.stopwatch.seconds
        return gather(device.traits, self._programs(), operators, len(self._partitions), times)

    def profile(self) -> list[StepTime]:
        """Run what ``invoke`` would run on the GPU, each step as a dispatch of its own, and time each.

        Nothing is copied; a state moves on. Where ``invoke`` is one dispatch for all steps, their sum is not its time.
        Raises DelegateError before the first ``invoke``, DeviceError on GL ES without GL_EXT_disjoint_timer_query.
        """
        if not self._programs():
            raise DelegateError("nothing has run on the GPU yet: call invoke() first")
        return step_times(self._programs())

    def _programs(self) -> list[Program]:
        return [partition.program for partition in self._partitions if partition.program is not None]

    # Binding ----------------------------------------------------------------------------------------------------------

    def bind_buffer_to_tensor(
        self,
        obj: Any,
        tensor_index: int,
        *,
        mean: Values = 0.0,
        std: Values = 1.0,
        order: str | None = None,
        crop: Crop | None = None,
        rotation: float = 0.0,
        flip: str = "",
    ) -> None:
        """Let the model read (an input) or write (an output) ``obj`` in place of CPU memory, from the next invoke on.

        ``obj`` is a GlTexture or GlBuffer (or a moderngl texture or buffer) of the GL context that the model runs in,
        or a pyopencl Buffer, Image or Array (or a ClBuffer or ClImage) of its OpenCL context; the delegate keeps it
        alive. Binding again replaces; another object of the same kind and format costs nothing.

        A buffer holds float32 values in BHWC order without padding: element (b, y, x, c) is at ((b*H + y)*W + x)*C + c.
        For a quantized tensor of the model they are the numbers that its integers stand for, not the integers.

        A texture (rgba8, rgba16f, rgba32f; r8, r32f for one channel) holds batch 1 and at most 4 channels; row 0 is the
        top. A tensor value is (texel - mean) / std with texels from 0 to 1 (rgba8, r8) or as they are (float formats);
        ``mean`` and ``std`` are one number or one a channel. ``order`` names the texture's channel for each of the
        tensor's ("rgb" by default, "bgr" ...). An input texture may have any size: the rectangle ``crop`` (x, y, width,
        height in texels; default: all), turned by ``rotation`` degrees clockwise around its centre and mirrored by
        ``flip`` ("horizontal", "vertical", "both"), is sampled bilinearly. An output texture has the tensor's size, is
        given value * std + mean, and takes no ``crop`` or ``rotation``.

        Raises BindingError where it does not fit, DeviceError off the thread or context of the model.
        """
        given = (mean, std, order, crop, rotation, flip)
        if self._rebind(obj, tensor_index, given):
            return
        mapping = TextureMapping(*given)
        partitions = self._partitions_with(tensor_index)
        self._follow(obj)
        if self._boundary.device is not None:
            self._boundary.device.check()
        self._refuse_shared(tensor_index, obj)
        self._boundary.bind((0, tensor_index), obj, mapping, partitions[0].tensor(tensor_index))
        for partition in partitions:
            partition.rebind(tensor_index)

    def _rebind(self, obj: Any, tensor: int, mapping: tuple[Any, ...]) -> bool:
        """Bind what is like the object before, for which all was checked. False where it is not, or none was."""
        partitions = self._partitions_by_tensor.get(tensor)
        binding = self._boundary.rebind((0, tensor), obj, mapping) if partitions else None
        if partitions is None or binding is None:
            return False
        for partition in partitions:
            partition.exchange(tensor, binding)
        return True

    def unbind(self, tensor_index: int) -> None:
        """Let the tensor be in CPU memory again. Nothing happens where nothing is bound."""
        for partition in self._partitions_with(tensor_index):
            partition.rebind(tensor_index)
        self._boundary.unbind((0, tensor_index))

    def is_bound(self, tensor_index: int) -> bool:
        """Whether something of the user's is bound to the tensor."""
        return self._boundary.is_bound((0, tensor_index))

    def _partitions_with(self, tensor: int) -> list[Partition]:
        """The partitions of the main subgraph that the tensor enters or leaves; BindingError where there is none."""
        known = self._partitions_by_tensor.get(tensor)
        if known is not None:
            return known
        if self._native is None or (graph := self._native.graph(0)) is None:
            raise BindingError(
                f"tensor {tensor} cannot be bound yet: give the delegate to an interpreter first, "
                "with interpreter.modify_graph_with_delegate(delegate)"
            )
        subgraph = graph.subgraph
        if self._closed:
            raise BindingError(f"tensor {tensor} cannot be bound: this GpuDelegate is closed")
        found = [p for p in self._partitions if p.subgraph == 0 and tensor in (*p.inputs, *p.outputs)]
        if found and not subgraph.tensors[tensor].variable:
            self._partitions_by_tensor[tensor] = found
            return found
        raise BindingError(why_not_bindable(subgraph, tensor))

    def _refuse_shared(self, tensor: int, obj: Any) -> None:
        """Refuse what cannot work: inputs that CPU operators read too, and textures that stand for what others read."""
        key, subgraph = (0, tensor), self._subgraph()
        computed, read_by_cpu = key in self._boundary.computed, key in self._boundary.read_by_cpu
        if read_by_cpu and not computed:
            readers = ", ".join(f"{i} {subgraph.operators[i].name}" for i in self._boundary.read_by_cpu[key])
            what = tensor_label(tensor, subgraph.tensors[tensor])
            raise BindingError(f"{what} cannot be bound: operators on the CPU read it too ({readers}); use set_tensor")
        if not computed or not getattr(obj, "format", ""):
            return
        if read_by_cpu or any(tensor in p.inputs for p in self._partitions_with(tensor)):
            what = tensor_label(tensor, subgraph.tensors[tensor])
            raise BindingError(f"{what} cannot be bound to a texture: the model itself reads it again; bind a buffer")

    def _subgraph(self) -> Subgraph:
        assert self._model is not None
        return self._model.subgraphs[0]

    # Reading results --------------------------------------------------------------------------------------------------

    def set_allow_buffer_handle_output(self, allow: bool) -> None:
        """True: outputs stay on the GPU after ``invoke`` and are read after ``ensure_tensor_data_is_readable``."""
        self._boundary.keep_outputs = allow

    def is_readable(self, tensor_index: int, subgraph_index: int = 0) -> bool:
        """Whether the CPU's memory of the tensor holds what was computed last."""
        return self._boundary.is_readable((subgraph_index, tensor_index))

    def ensure_tensor_data_is_readable(self, tensor_index: int, subgraph_index: int = 0) -> None:
        """Copy an output, or a state, from the GPU to the CPU's memory, counted, unless that holds it already.

        From a bound texture come the texture's values, (texel - mean) / std: in rgba8 clipped and rounded to 256 steps.
        """
        subgraph = self._model.subgraphs[subgraph_index] if self._model is not None else None
        if subgraph is None or not 0 <= tensor_index < len(subgraph.tensors):
            known = inputs_and_outputs(subgraph) if subgraph is not None else "the delegate has no model yet"
            raise BindingError(f"there is no tensor {tensor_index}; {known}")
        if not self.is_readable(tensor_index, subgraph_index):
            graph = self._native.graph(subgraph_index) if self._native is not None else None
            assert graph is not None
            self.copy_to_cpu(graph, tensor_index)
