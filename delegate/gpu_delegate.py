"""The GPU delegate: a user gives it to LiteRT's interpreter to run a model's operators on the GPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ..interop.device import Fence
from ..interop.discovery.best_options import BestOptions
from ..interop.errors import BindingError, DelegateError, counted
from ..interop.uncopied import Uncopied
from .engine import Engine
from .litert.native import log
from .options import GpuDelegateOptions, as_options
from .plan.binding import Crop, TensorLayout, Values
from .read.reader import read_file, read_model
from .report import DelegatedOp, PartitionReport, describe_operators
from .run.feedback import Feedback
from .run.main_subgraph import tensor_number
from .run.messages import inputs_and_outputs
from .run.partition import Partition
from .run.program import Program
from .statistics import Statistics, StepCost, StepTime, TensorMemory, gather, step_costs, step_times, tensor_memory


class GpuDelegate(Uncopied):
    """A TfLiteDelegate that runs a model's operators on the GPU, in the context that is current, or else in its own.

    Give it to ``framebind.Interpreter`` (``modify_graph_with_delegate`` or ``experimental_delegates``), or, with
    ``model_path`` or ``model_content``, to LiteRT's own ``Interpreter(experimental_delegates=[delegate])``. One
    delegate serves one interpreter, in the GlContext or ClContext where it was applied; a GlContext that was current
    then keeps the model on its thread. The delegate is a context manager, which closes it at the end.

    Parameters
    ----------
    options
        The API, the precision and more; by default ``GpuDelegateOptions()``. The name of a backend stands for
        ``GpuDelegateOptions(backend=...)``. ``CompatibilityList().best_options_for_this_device()`` is taken as it is;
        if it advises against a delegate, because there is no GPU, the backend is "auto".
    model_path, model_content
        The model that LiteRT's own interpreter runs; one of them. framebind's interpreter passes it itself.
    feedback
        The states of a recurrent network: {output: input}, each by its number, its name, or its name in a signature. A
        run reads in the input what the run before wrote to the output, and zeros in the first run and after
        ``reset_feedback``. Both have the same shape and type. The values stay in two buffers on the GPU that swap, and
        nothing is copied: also with ``set_allow_buffer_handle_output(False)``, ``get_tensor`` needs
        ``ensure_tensor_data_is_readable`` first.

    Raises
    ------
    DelegateError
        If both the path and the content are given, or the options are something else.
    ModelError
        If the model is missing or damaged.
    BindingError
        When the delegate is applied, for ``feedback`` whose tensors are missing or differ, or that an operator on the
        CPU computes or reads; in ``invoke`` if inputs were resized so that the shapes of a pair differ.

    Examples
    --------
    >>> context = fb.GlContext.headless()
    >>> interpreter, delegate = fb.Interpreter(model_path="model.tflite"), fb.GpuDelegate()
    >>> interpreter.modify_graph_with_delegate(delegate)
    >>> interpreter.allocate_tensors()
    >>> image, result = fb.GlBuffer(240, np.zeros((1, 4, 5, 3), np.float32)), fb.GlBuffer(240)
    >>> delegate.bind_buffer_to_tensor(image, interpreter.inputs()[0])
    >>> delegate.bind_buffer_to_tensor(result, interpreter.outputs()[0])
    >>> interpreter.set_allow_buffer_handle_output(True)
    >>> with fb.transfer_guard("disallow"):
    ...     interpreter.invoke()
    >>> float(result.read()[0])
    1.0
    >>> delegate.close()
    >>> context.close()
    """

    def __init__(
        self,
        options: GpuDelegateOptions | BestOptions | str | None = None,
        *,
        model_path: str | os.PathLike[str] | None = None,
        model_content: bytes | None = None,
        feedback: Feedback | None = None,
    ) -> None:
        if model_path is not None and model_content is not None:
            raise DelegateError("give GpuDelegate model_path or model_content, not both")
        self.options = as_options(options)
        self.engine = Engine(self.options, feedback)
        if model_path is not None:
            model_content = read_file(model_path)
        if model_content is not None:
            self.engine.model = self.engine.stopwatch.time("read", read_model, model_content, model_path)

    def __enter__(self) -> GpuDelegate:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        engine = self.engine
        operators = counted(sum(len(p.operators) for p in engine.partitions), "operator")
        state = f"{operators} in {counted(len(engine.partitions), 'partition')}"
        if engine.closed or not engine.is_attached:
            state = "closed" if engine.closed else "serves no interpreter"
        return f"<GpuDelegate: backend '{self.options.backend}', {state}>"

    def _get_native_delegate_pointer(self) -> int:
        """The address of the TfLiteDelegate: LiteRT's Interpreter asks each of its experimental_delegates for it."""
        return self.engine.attach(None)

    def close(self) -> None:
        """Free everything on the GPU and let go of the bound objects. The interpreter cannot be invoked afterwards."""
        self.engine.close()

    def reset_feedback(self) -> None:
        """Let the next run read zeros in the inputs of ``feedback``: a new clip begins. Nothing is copied.

        Raises DelegateError if nothing is fed back, DeviceError off the thread or context of the model.

        Examples
        --------
        >>> with fb.GlContext.headless(), fb.GpuDelegate("opengl", feedback={"t1": "x"}) as delegate:
        ...     interpreter = fb.Interpreter("model.tflite", experimental_delegates=[delegate])  # the exponential of x
        ...     for run in range(3):
        ...         if run == 2:
        ...             delegate.reset_feedback()
        ...         interpreter.invoke()
        ...         interpreter.ensure_tensor_data_is_readable("t1")
        ...         print(round(float(interpreter.get_tensor(interpreter.outputs()[0])[0, 0, 0, 0]), 4))
        1.0
        2.7183
        1.0
        """
        self.engine.reset_feedback()

    # Reports ----------------------------------------------------------------------------------------------------------

    def delegated_ops(self) -> list[DelegatedOp]:
        """A record for each operator of the model, as of the last ``allocate_tensors``.

        Returns
        -------
        list of DelegatedOp
            In the order of the model: on the GPU and in which partition, or on the CPU and why.

        Raises
        ------
        DelegateError
            Before the delegate was given to an interpreter.
        """
        engine = self.engine
        if engine.model is None or not engine.is_attached:
            raise DelegateError(
                "this GpuDelegate serves no interpreter, so it has no operators: give it to an interpreter first"
            )
        reasons = {
            (number, operator): reason
            for number, claims in engine.claims.items()
            for operator, reason in (*claims.unsupported.items(), *engine.selections[number].not_selected.items())
        }
        on_cpu = {
            (part.subgraph, i): reason for part in engine.partitions for i, reason in part.prepared.cpu_reasons.items()
        }
        numbers = {(report.subgraph, i): report.number for report in self.partitions() for i in report.operators}
        numbers = {place: number for place, number in numbers.items() if place not in on_cpu}
        for subgraph, caller in engine.unrolled.items():  # a loop's before those of loops inside it
            steps = {(subgraph, operator.index) for operator in engine.model.subgraphs[subgraph].operators}
            if caller in numbers:
                numbers.update(dict.fromkeys(steps, numbers[caller]))
            else:
                on_cpu.update(dict.fromkeys(steps, on_cpu.get(caller, "the operator that runs it is on the CPU")))
        return describe_operators(engine.model, numbers, reasons | on_cpu, "LiteRT does not delegate this subgraph")

    def partitions(self) -> list[PartitionReport]:
        """A record for each part of the model that runs on the GPU, numbered in the order of the model's operators."""
        return [partition.report(number) for number, partition in enumerate(self._ordered_partitions())]

    def _ordered_partitions(self) -> list[Partition]:
        return sorted(self.engine.partitions, key=lambda partition: (partition.subgraph, partition.operators))

    def record(self) -> None:
        """Compile, upload the constants and record all commands now, which the first ``invoke`` does otherwise.

        Objects that were bound since the last ``invoke`` are taken over. Call ``allocate_tensors`` first: it gives the
        tensors their shapes. Raises the errors that ``invoke`` would.
        """
        self.engine.check_open()
        partitions = self.engine.partitions
        is_recorded = all([partition.is_recorded for partition in partitions])
        dispatches = [partition.record() for partition in partitions]
        if not is_recorded:
            recorded = counted(sum(dispatches), "dispatch", "dispatches")
            log.info(f"recorded {recorded} in {counted(len(dispatches), 'partition')}")

    # Order ------------------------------------------------------------------------------------------------------------

    def wait_for(self, events: Any) -> None:
        """Let later runs begin after an event, or after several in a list (pyopencl's; OpenGL has none).

        The CPU does not wait.
        """
        self.engine.running_device().wait_for(events if isinstance(events, Sequence) else [events])

    def event(self) -> Any:
        """An event that completes when all runs so far have: a ``pyopencl.Event``; None on OpenGL."""
        device = self.engine.running_device()
        with device.entered():
            return device.event()

    def fence(self) -> Fence:
        """A fence after all runs so far: ``wait()`` blocks until the GPU has passed it, ``done`` only asks."""
        boundary = self.engine.boundary
        device = boundary.memory.device
        if device is None or boundary.closed:
            device = self.engine.running_device()  # which raises
        if device.needs_entering:
            with device.entered():
                return device.fence()
        return device.fence()

    # Figures ----------------------------------------------------------------------------------------------------------

    def statistics(self) -> Statistics:
        """Figures of the model's programs: see Statistics. Raises DelegateError if nothing runs on the GPU."""
        device, engine = self.engine.running_device(), self.engine
        graphs = engine.model.subgraphs if engine.model else ()
        on_gpu = sum(len(p.operators) for p in engine.partitions) + sum(
            len(graphs[i].operators) for i in engine.unrolled
        )
        operators = sum(len(graph.operators) for graph in graphs), on_gpu
        times = engine.stopwatch.seconds
        return gather(device.traits, self.engine.programs, operators, len(engine.partitions), times)

    def steps(self) -> list[StepCost]:
        """The steps of the recorded parts (by ``record`` or ``invoke``), in order: kernel, operators, bytes.

        The backend "null" knows them without a GPU.
        """
        return [cost for number, program in self._recorded() for cost in step_costs(number, program)]

    def memory(self) -> list[TensorMemory]:
        """The intermediate tensors of the recorded parts: lifetime and position in memory."""
        return [use for number, program in self._recorded() for use in tensor_memory(number, program)]

    def _recorded(self) -> list[tuple[int, Program]]:
        """The programs that were recorded, by their partition's number."""
        parts = enumerate(self._ordered_partitions())
        return [(number, part.program) for number, part in parts if part.program is not None]

    def profile(self) -> list[StepTime]:
        """Run the model's part on the GPU once, each step as a dispatch of its own, and time each.

        Nothing is copied; a state moves on. If ``invoke`` is one dispatch for all steps, their sum is not its time.

        Returns
        -------
        list of StepTime
            In the order of the steps.

        Raises
        ------
        DelegateError
            Before the first ``invoke``.
        DeviceError
            On GL ES without GL_EXT_disjoint_timer_query.
        """
        if not self.engine.programs:
            raise DelegateError("nothing has run on the GPU yet: call invoke() first")
        with self.engine.running_device().entered():
            return step_times([program for _, program in self._recorded()])

    # Binding ----------------------------------------------------------------------------------------------------------

    def bind_buffer_to_tensor(
        self,
        obj: Any,
        tensor_index: int | str,
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
        """Let the model read (an input) or write (an output) ``obj`` in place of CPU memory, from the next invoke on.

        Binding again replaces; another object of the same kind and format costs nothing.

        A buffer holds float32 values in BHWC order without padding: element (b, y, x, c) is at ((b*H + y)*W + x)*C + c.
        For a quantized tensor of the model they are the real numbers, not the integers. For a model with channels first
        (NCHW, see ``layout_of``) they are in that order. Textures and pictures are bound to it as to any other model.

        An array with ``__dlpack__`` or ``__cuda_array_interface__``, and one of pyopencl, has float32 or float16 values
        and the tensor's shape, or for rank 4 also (B, C, H, W); dimensions of 1 may be left out. Its strides may be any
        that are not negative. Or it has one dimension, with the values in BHWC order. On the GPU it is read and written
        in place.

        An array in the CPU's memory (NumPy's, or one with ``__dlpack__`` there) is copied: an input at the beginning of
        each ``invoke``, an output at its end, which waits for the GPU. ``transfers`` counts these copies and
        ``transfer_guard`` forbids them. Do not change such an array during ``invoke``.

        A texture (rgba8, rgba16f, rgba32f, bgra8 of OpenCL; r8, r32f for one channel; as an input any format of floats
        or normalized integers of OpenGL, and rgba16, r16, r16f of OpenCL) holds batch 1 and at most 4 channels; row 0
        is the top. Its value is (texel - mean) / std with texels from 0 to 1, or unscaled (float formats); srgb8_alpha8
        gives the stored bytes, not decoded light. An input texture may have any size, and is sampled bilinearly. An
        output texture has the tensor's size and gets value * std + mean.

        An array of uint8 is a picture as an input texture is, (height, width, channels) or (channels, height, width)
        with 1, 3 or 4 channels, called r, g, b and a in their order there. A YuvPicture is one too, with r, g and b;
        its a is 1.
        A Frame of a Source is bound upright: ``crop`` and ``rotation`` are those of the upright picture.

        A model that ``resize_tensor_input`` gave N frames takes one buffer that holds them all, or a list with an
        object for each: buffers of one size, each a tensor of batch 1, or textures of one format. The list may have a
        texture several times, each time with another region.

        Parameters
        ----------
        obj
            A GlTexture or GlBuffer (or a moderngl texture or buffer) of the GL context that the model runs in; a
            pyopencl Buffer, Image or Array (or a ClBuffer or ClImage) of its OpenCL context; an array of PyTorch, CuPy
            or JAX on the GPU of its CUDA context (or a CudaArray or CudaImage); an array in the CPU's memory; a
            YuvPicture of such objects; a Frame of a Source. The delegate keeps it alive. Or a list of N of them, one
            for each frame.
        tensor_index
            An input or output of the model, as ``Interpreter.inputs`` and ``outputs`` number them, or its name.
        mean, std
            One number, or one for each channel. For textures and pictures, as all that follow.
        order
            The texture's channel for each of the tensor's: "rgb" by default, "bgr" ...
        crop
            The rectangle of an input texture to read: (x, y, width, height) in texels; by default all of it. Or a
            ``Region``, whose place is in a buffer. For a list of textures one for all, or a list of them (None: all of
            that texture).
        rotation
            Degrees by which the rectangle is turned clockwise around its centre; for inputs. Or a list, as crops.
        flip
            "horizontal", "vertical" or "both": how the rectangle, or the output, is mirrored.
        layout
            "nchw" or "nhwc": the order of the tensor's dimensions if it is a picture, in place of ``layout_of``.
        pad
            The texel, from 0 to 1, beyond an input texture if the rectangle is larger: one number, or one for each
            channel of the tensor; 114 / 255 is the grey of YOLO's letterbox. None continues the texture's edge.

        Raises
        ------
        BindingError
            If the object does not fit the tensor; it names both, and a cure.
        DeviceError
            Off the thread or context of the model.
        """
        if not isinstance(tensor_index, int):
            tensor_index = tensor_number(self.engine.model, tensor_index)
        self.engine.main.bind(
            obj, tensor_index, mean=mean, std=std, order=order, crop=crop, rotation=rotation, flip=flip, layout=layout,
            pad=pad,
        )  # fmt: skip

    def layout_of(self, tensor_index: int | str) -> TensorLayout:
        """The order of dimensions of an input or output of the model, given by number or name, if it is a picture.

        "nchw" (batch, channels, height, width) is a tensor of rank 4 whose second dimension is 1 to 4, if the model
        itself moves the channels to the end (an input that is only read by TRANSPOSE, an output that one writes), or if
        the last two dimensions are above 4. Every other tensor is "nhwc", also before
        ``allocate_tensors``.
        """
        number, claims = tensor_number(self.engine.model, tensor_index), self.engine.claims.get(0)
        tensor = claims.tensors.get(number) if claims is not None else None
        return "nchw" if tensor is not None and tensor.channels_first else "nhwc"

    def unbind(self, tensor_index: int | str) -> None:
        """Let the tensor, given by number or name, be in CPU memory again. Does nothing if no object is bound."""
        self.engine.main.unbind(tensor_number(self.engine.model, tensor_index))

    def is_bound(self, tensor_index: int | str) -> bool:
        """Whether an object of the user is bound to the tensor, given by number or name."""
        return self.engine.main.is_bound(tensor_number(self.engine.model, tensor_index))

    # Reading results --------------------------------------------------------------------------------------------------

    def set_allow_buffer_handle_output(self, allow: bool) -> None:
        """Leave outputs on the GPU after ``invoke`` (True): they are read after ``ensure_tensor_data_is_readable``."""
        self.engine.boundary.keep_outputs = allow
        self.engine.boundary.awaited.clear()

    def is_readable(self, tensor_index: int, subgraph_index: int = 0) -> bool:
        """Whether the CPU's memory of the tensor holds the last result."""
        return self.engine.boundary.is_readable((subgraph_index, tensor_index))

    def ensure_tensor_data_is_readable(self, tensor_index: int | str, subgraph_index: int = 0) -> None:
        """Copy an output, or a state, from the GPU to the CPU's memory, counted, unless it is already there.

        A bound texture gives the values that it holds, (texel - mean) / std: in rgba8 clipped and rounded to 256 steps.
        An input or output of the model may be given by its name. Raises BindingError if there is no such tensor, or if
        it was not computed yet.
        """
        engine, tensor_index = self.engine, tensor_number(self.engine.model, tensor_index)
        subgraph = engine.model.subgraphs[subgraph_index] if engine.model is not None else None
        if subgraph is None or not 0 <= tensor_index < len(subgraph.tensors):
            known = inputs_and_outputs(subgraph) if subgraph is not None else "the delegate has no model yet"
            raise BindingError(f"there is no tensor {tensor_index}; {known}")
        if not self.is_readable(tensor_index, subgraph_index):
            graph = engine.graph(subgraph_index)
            assert graph is not None
            engine.copy_to_cpu(graph, tensor_index)
