"""LiteRT's interpreter with delegates made in Python, and with results that stay on the GPU."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from ai_edge_litert import interpreter as litert
from ai_edge_litert.interpreter import Delegate, OpResolverType

from ..interop.discovery.devices import ChosenDevice, choose_device
from ..interop.errors import BindingError, DelegateError, FramebindError, counted
from ..interop.uncopied import Uncopied
from .alone import alone
from .automatic import DelegateChoice, checked_choice, delegate_on_gpu, reason_for_no_operator
from .gpu_delegate import GpuDelegate
from .litert.python_layer import application_errors, check_taken, describe_tensor, own_errors, raise_own
from .read.names import printable
from .read.reader import read_content, read_model
from .report import CPU_LINE, DelegatedOp, describe_operators, say_once
from .signature_runner import SignatureRunner


class Interpreter(Uncopied, litert.Interpreter):
    """LiteRT's interpreter (ai_edge_litert.interpreter.Interpreter) with further methods of the C++ interpreter.

    Without a delegate it is LiteRT's CPU interpreter, and says so in one line of the log, once per process. Errors of a
    GpuDelegate come out as framebind's own, and the interpreter stays usable. Threads may share it: its methods wait
    for each other, since LiteRT serves one call at a time.

    Parameters
    ----------
    model_path, model_content
        The model's file, or its bytes; one of them.
    experimental_delegates
        Delegates to apply, in order: a GpuDelegate, or any of LiteRT's.
    num_threads
        Threads of the operators on the CPU. All arguments before ``delegate`` are LiteRT's own. With
        ``experimental_preserve_all_tensors`` every operator on the GPU is a program of its own, and its results are
        copied to the CPU, counted.
    delegate
        None is LiteRT's behaviour: the CPU, unless there are ``experimental_delegates``. "cpu" is the same without the
        line in the log. "gpu" applies a GpuDelegate of default options; ``GpuDelegate`` itself takes others. "auto"
        does so if it pays for many runs, and else takes the CPU; it logs the choice and the reason in one line. The GPU
        pays if the device that the backend "auto" finds is not a driver that computes on the CPU (llvmpipe, PoCL); if
        at least 90% of the model's arithmetic runs there, in at most two partitions; and if this is at least 10 million
        multiply-adds per run. Nothing is timed. The first run compiles, which takes seconds. On OpenGL, run the model
        on the thread of the context that is current now, if one is.

    Raises
    ------
    ModelError
        If the model is missing, truncated or no TensorFlow Lite model.
    DelegateError, DeviceError
        If a delegate cannot be applied. With "auto" the model then runs on the CPU, and the line says why.

    Examples
    --------
    >>> delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))
    >>> interpreter = fb.Interpreter(model_path="model.tflite", experimental_delegates=[delegate])
    >>> interpreter.allocate_tensors()
    >>> interpreter.set_tensor(interpreter.inputs()[0], np.zeros((1, 4, 5, 3), np.float32))
    >>> interpreter.invoke()
    >>> float(interpreter.get_tensor(interpreter.outputs()[0])[0, 0, 0, 0])
    1.0
    >>> delegate.close()

    >>> interpreter = fb.Interpreter("model.tflite", delegate="auto")  # a small model: it stays on the CPU
    >>> interpreter.delegated_ops()[0].runs_on
    'cpu'
    """

    _interpreter: Any
    _lock: threading.RLock
    """Held in each method that enters LiteRT. Even a reading one must not run beside ``invoke``, which counts the
    references to the native interpreter, and notes which callbacks have come.
    """
    _delegates: list[Any]
    _custom_op_registerers: list[Any]

    def __init__(
        self,
        model_path: str | bytes | os.PathLike[str] | None = None,
        model_content: bytes | None = None,
        experimental_delegates: Sequence[GpuDelegate | Delegate] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: OpResolverType = OpResolverType.AUTO,
        experimental_preserve_all_tensors: bool = False,
        experimental_disable_delegate_clustering: bool = False,
        experimental_default_delegate_latest_features: bool = False,
        experimental_compress_quantization_zero_points: bool = False,
        experimental_disable_delegate_node_fusion: bool = False,
        experimental_force_delegate_node_profiling: bool = False,
        *,
        delegate: DelegateChoice | None = None,
    ) -> None:
        flags = {
            "experimental_preserve_all_tensors": experimental_preserve_all_tensors,
            "experimental_disable_delegate_clustering": experimental_disable_delegate_clustering,
            "experimental_default_delegate_latest_features": experimental_default_delegate_latest_features,
            "experimental_compress_quantization_zero_points": experimental_compress_quantization_zero_points,
            "experimental_disable_delegate_node_fusion": experimental_disable_delegate_node_fusion,
            "experimental_force_delegate_node_profiling": experimental_force_delegate_node_profiling,
        }
        self._interpreter, self._lock = None, threading.RLock()
        self._gpu_delegate: GpuDelegate | None = None
        self._choice = checked_choice(delegate, experimental_delegates)
        content = read_content(model_path, model_content)
        started = time.perf_counter()
        if isinstance(content, bytes):  # or LiteRT raises its TypeError below
            self._model = read_model(content, model_path or None)
        self._read_seconds = time.perf_counter() - started
        self._model_name = printable(os.path.basename(os.fsdecode(model_path))) if model_path else "the model"
        self._preserves_tensors = bool(experimental_preserve_all_tensors)
        self._make: Callable[[litert.Interpreter], None] = partial(
            litert.Interpreter.__init__,
            model_content=content,
            num_threads=num_threads,
            experimental_op_resolver_type=experimental_op_resolver_type,
            **{name: value for name, value in flags.items() if value},  # an older LiteRT has not all of them
        )
        with check_taken():
            self._make(self)
        self._allocated = self._has_run = self._keep_outputs_later = False
        for each in experimental_delegates or ():
            self.modify_graph_with_delegate(each)
        if delegate == "gpu":
            self.modify_graph_with_delegate(GpuDelegate())
        elif delegate == "auto":
            self._apply_if_it_pays()

    def __repr__(self) -> str:
        graph = self._model.subgraphs[0]
        sides = [
            ", ".join(f"{graph.tensors[i].name}" for i in side if i >= 0) for side in (graph.inputs, graph.outputs)
        ]
        with_gpu = f", {self._gpu_delegate!r}" if self._gpu_delegate is not None else ""
        operators = counted(len(graph.operators), "operator")
        return f"<{type(self).__name__}: {operators} from {sides[0]} to {sides[1]}{with_gpu}>"

    # Delegates --------------------------------------------------------------------------------------------------------

    @alone
    def modify_graph_with_delegate(self, delegate: Any) -> None:
        """Apply a GpuDelegate, or any delegate of LiteRT's. Before ``allocate_tensors`` it is applied at once.

        Afterwards LiteRT's own CPU delegate (XNNPACK) already holds the operators, so LiteRT's interpreter is made
        anew, with the input shapes, and the values of inputs and variable tensors, that it had. Raises DelegateError or
        DeviceError if the delegate cannot be applied; the interpreter then runs as it did before.
        """
        if isinstance(delegate, GpuDelegate) and self._gpu_delegate is not None:
            raise DelegateError("this interpreter already has a GpuDelegate; one runs all that the GPU can")
        with application_errors(delegate if isinstance(delegate, GpuDelegate) else None):
            if self._allocated:
                self._rebuild([*self._delegates, delegate])
            else:
                self._apply(self, delegate)
        self._delegates = [*self._delegates, delegate]
        if isinstance(delegate, GpuDelegate):
            self._gpu_delegate = delegate

    def _apply_if_it_pays(self, choose: Callable[[], ChosenDevice] = choose_device) -> None:
        """Run on the GPU if that is likely faster, and log the processor and the reason in one line."""
        signatures = [self._interpreter.TensorSizeSignature(tensor, 0) for tensor in self.inputs() if tensor >= 0]
        delegate, about = delegate_on_gpu(choose, sizes_are_known=all(-1 not in sizes for sizes in signatures))
        if delegate is not None:
            try:
                self.modify_graph_with_delegate(delegate)
                reason = reason_for_no_operator(delegate)
            except FramebindError as error:
                reason = str(error)
            if reason:
                self._delegates, self._gpu_delegate = [], None
                self._make(self)  # LiteRT would ask a delegate again whenever inputs are resized
                delegate.close()
                delegate, about = None, reason
        said = " ".join(about.split())  # a driver's text may have several lines
        say_once(f"framebind: {self._model_name} runs on the {'CPU' if delegate is None else 'GPU'}: {said}")

    def _apply(self, destination: Any, delegate: Any) -> None:
        """Apply a delegate to this interpreter, or to the one that will take its place."""
        # No variable holds the native interpreter: in an exception's traceback it would count as a view of its memory.
        if isinstance(delegate, GpuDelegate):
            pointer = delegate.engine.attach(self._model, self._read_seconds)
            delegate.set_allow_buffer_handle_output(self._keeps_outputs)
            delegate.engine.boundary.preserves_tensors = self._preserves_tensors
        else:
            pointer = delegate._get_native_delegate_pointer()
        destination._interpreter.ModifyGraphWithDelegate(pointer)

    def _rebuild(self, delegates: list[Any]) -> None:
        self._ensure_safe()
        inputs = [i for i in self.inputs() if i >= 0]
        shapes = [self._interpreter.TensorSize(i, 0) for i in inputs]
        kept = [*inputs, *(i for i, tensor in enumerate(self._model.subgraphs[0].tensors) if tensor.variable)]
        values = [self._value(i) for i in kept]
        fresh: Any = litert.Interpreter.__new__(litert.Interpreter)
        fresh._custom_op_registerers = self._custom_op_registerers
        self._make(fresh)
        for index, shape in zip(inputs, shapes, strict=True):
            fresh._interpreter.ResizeInputTensor(index, np.array(shape, np.int32), False)
        for delegate in delegates:  # they see the shapes
            self._apply(fresh, delegate)
        fresh._interpreter.AllocateTensors()
        for index, value in zip(kept, values, strict=True):
            if value is not None:
                fresh._interpreter.SetTensor(index, value)
        self._interpreter, fresh._interpreter = fresh._interpreter, None

    def _value(self, index: int) -> Any:
        try:
            return self._interpreter.GetTensor(index, 0)
        except ValueError:  # no memory, as long as a resized input was not allocated
            return None

    def delegated_ops(self) -> list[DelegatedOp]:
        """A record for each operator of the model: whether it runs on the GPU or the CPU, and why not on the GPU.

        As of the last ``allocate_tensors``: resized inputs do not move operators, but LiteRT partitions anew.
        """
        delegate = self._gpu_delegate
        if delegate is None:
            return describe_operators(self._model, {}, {}, "this interpreter has no GpuDelegate")
        return delegate.delegated_ops()

    # Running ----------------------------------------------------------------------------------------------------------

    @alone
    def allocate_tensors(self) -> None:
        """Allocate as LiteRT does; also sets the shapes of tensors on the GPU after inputs were resized."""
        with own_errors(self._gpu_delegate, "prepare"):
            super().allocate_tensors()
        self._allocated = True

    def invoke(self, *, wait_for: Any = None) -> Any:
        """Run the model once; on OpenGL, on the thread of the context that was current when the delegate was applied.

        If none was, the delegate has a context of its own, and any thread may run the model, as on OpenCL.

        With a GpuDelegate that the program has applied itself, tensors are allocated if they were not yet. Otherwise
        that is an error, as LiteRT's is, whatever ``delegate="auto"`` has chosen.

        Parameters
        ----------
        wait_for
            On OpenCL, a ``pyopencl.Event``, or several in a list, that the model's first kernel waits for on the GPU;
            ``[]`` to get an event alone. OpenGL has no events.

        Returns
        -------
        pyopencl.Event or None
            With ``wait_for`` on OpenCL an event that completes with the model's last kernel, or else None.

        Raises
        ------
        BindingError
            For events on OpenGL, or objects that cannot be read and written in the same run.
        DelegateError
            For ``wait_for`` without a GpuDelegate.
        DeviceError
            Off the thread or context of the model.
        ModelError
            If LiteRT cannot run the model, for instance because the tensors are not allocated.
        """
        with self._lock:  # alone, without what a wrapped method costs in each frame
            if not self._has_run:
                if self._gpu_delegate is not None and self._choice is None and not self._allocated:
                    self.allocate_tensors()
                self._note_run()
            delegate = self._gpu_delegate
            if wait_for is not None:
                if delegate is None:
                    raise DelegateError("this interpreter has no GpuDelegate: nothing can wait for wait_for's events")
                delegate.wait_for(wait_for)
            try:  # own_errors, without what a context manager costs in each frame
                if not self._safe_to_run():
                    self._ensure_safe()  # which raises LiteRT's error
                self._interpreter.Invoke()
            except (RuntimeError, ValueError) as error:
                if delegate is not None and delegate.engine.main.lost_call(error):
                    raise KeyboardInterrupt from error
                raise_own(delegate, error, "run")
                raise
            if delegate is not None and not delegate.engine.main.ended_well():
                raise_own(delegate, None, "run")
                raise KeyboardInterrupt  # or what else a signal handler raised, which ctypes has printed
            return delegate.event() if delegate is not None and wait_for is not None else None

    def _note_run(self) -> None:
        """Note that the model runs. At its first run, log a line if it runs on the CPU by default."""
        if not (self._has_run or self._delegates or self._choice):
            say_once(CPU_LINE)
        self._has_run = True

    def _announce_inputs(self) -> None:
        """Say that all inputs are set: a signature's runner sets them in LiteRT itself."""
        if self._gpu_delegate is not None:
            for tensor in self.inputs():
                self._gpu_delegate.engine.main.input_set(tensor)

    @alone
    def inputs(self) -> list[int]:
        """The indices of the model's input tensors."""
        return [int(i) for i in self._interpreter.InputIndices()]

    @alone
    def outputs(self) -> list[int]:
        """The indices of the model's output tensors."""
        return [int(i) for i in self._interpreter.OutputIndices()]

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """A runner like LiteRT's. Its results are always copied to the CPU, also after
        ``set_allow_buffer_handle_output``.
        """
        if signature_key is None:
            if not self._signature_defs:
                raise ValueError("the model has no signature: run it by set_tensor, invoke and get_tensor")
            if len(self._signature_defs) > 1:
                raise ValueError(f"the model has the signatures {list(self._signature_defs)}: give signature_key")
            signature_key = next(iter(self._signature_defs))
        return SignatureRunner(self, signature_key)

    @alone
    def _get_tensor_details(self, tensor_index: int, subgraph_index: int) -> dict[str, Any]:
        """LiteRT's record of a tensor, also of one whose name or type LiteRT cannot show. The name is printable."""
        try:
            details: dict[str, Any] = super()._get_tensor_details(tensor_index, subgraph_index)
        except ValueError:
            if not 0 <= tensor_index < len(self._model.subgraphs[subgraph_index].tensors):
                raise
            return describe_tensor(self._interpreter, self._model, int(tensor_index), int(subgraph_index))
        return details | {"name": printable(details["name"])}

    # Results that stay on the GPU -------------------------------------------------------------------------------------

    def set_allow_buffer_handle_output(self, allow: bool) -> None:
        """Leave outputs on the GPU (True): ``ensure_tensor_data_is_readable`` fetches one. False at first."""
        if self._gpu_delegate is not None:
            self._gpu_delegate.set_allow_buffer_handle_output(allow)
        else:
            self._keep_outputs_later = allow

    @property
    def _fed_back(self) -> frozenset[int]:
        """The inputs and outputs that the delegate feeds back."""
        delegate = self._gpu_delegate
        return frozenset() if delegate is None else delegate.engine.main.fed_back

    @property
    def _not_on_cpu(self) -> frozenset[int]:
        """The inputs and outputs whose values the CPU's memory never has: fed back, or inputs bound to an object."""
        delegate = self._gpu_delegate
        bound = () if delegate is None else filter(delegate.engine.main.is_bound_input, self.inputs())
        return self._fed_back.union(bound)

    @property
    def _keeps_outputs(self) -> bool:
        """Whether outputs stay on the GPU. The delegate stores this, if there is one already."""
        delegate = self._gpu_delegate
        return self._keep_outputs_later if delegate is None else delegate.engine.boundary.keep_outputs

    @alone
    def ensure_tensor_data_is_readable(self, tensor_index: int | str) -> None:
        """Copy an output that is on the GPU to the CPU's memory (counted), for ``get_tensor``. Takes a name as well."""
        if self._gpu_delegate is not None:
            self._gpu_delegate.ensure_tensor_data_is_readable(tensor_index)

    def _check_readable(self, tensor_index: int, subgraph_index: int = 0) -> None:
        """Raise BindingError for an output that is still on the GPU, and for an input that is bound or that an output
        feeds. A state is copied.
        """
        delegate = self._gpu_delegate
        if delegate is None:
            return
        source = delegate.engine.main.source_of(tensor_index) if not subgraph_index else None
        if source is not None:
            raise BindingError(
                f"tensor {tensor_index} is fed back from output {source} and has no value on the CPU: read that output "
                f"after a run, with ensure_tensor_data_is_readable({source})"
            )
        if not subgraph_index and delegate.engine.main.is_bound_input(tensor_index):
            raise BindingError(f"tensor {tensor_index} is an input that is bound to an object: read that")
        if delegate.is_readable(tensor_index, subgraph_index):
            return
        if delegate.engine.closed or self._model.subgraphs[subgraph_index].tensors[tensor_index].variable:
            delegate.ensure_tensor_data_is_readable(tensor_index, subgraph_index)
        else:
            raise BindingError(
                f"tensor {tensor_index} was computed on the GPU and is still there: call "
                f"ensure_tensor_data_is_readable({tensor_index}) first, or set_allow_buffer_handle_output(False)"
            )

    @alone
    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> np.ndarray:
        """A copy of a tensor. Raises BindingError if it is on the GPU and was not made readable.

        A variable tensor that is a state on the GPU is copied, counted as "state tensor ...".
        """
        self._check_readable(tensor_index, subgraph_index)
        return super().get_tensor(tensor_index, subgraph_index)

    def tensor(self, tensor_index: int) -> Callable[[], np.ndarray]:
        """A function that returns a view of a tensor's memory, as LiteRT's, or raises as ``get_tensor`` does."""

        def view() -> np.ndarray:
            with self._lock:
                self._check_readable(tensor_index)
                if self._gpu_delegate is not None:
                    self._gpu_delegate.engine.main.input_shown(tensor_index)
                return self._interpreter.tensor(self._interpreter, tensor_index)

        return view

    @alone
    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Set a tensor as LiteRT does. Raises BindingError if an object is bound to it, because the value would not be
        read.
        """
        delegate = self._gpu_delegate
        if delegate is not None and hasattr(tensor_index, "__index__"):  # LiteRT raises its TypeError for what is none
            self._check_settable(tensor_index)
        super().set_tensor(tensor_index, value)
        if delegate is not None:
            delegate.engine.main.input_set(tensor_index)

    def _check_settable(self, tensor_index: int) -> None:
        """Raise BindingError if nothing would read a value of the tensor: an object is bound, or an output fed back."""
        delegate = self._gpu_delegate
        if delegate is not None:
            if delegate.is_bound(tensor_index):
                raise BindingError(
                    f"tensor {tensor_index} is bound to an object: write to that object, or unbind({tensor_index}) "
                    "first"
                )
            delegate.engine.main.check_unfed(tensor_index)

    @alone
    def reset_all_variables(self) -> Any:
        """Give the variable tensors their first values, as LiteRT does."""
        return super().reset_all_variables()

    # LiteRT's other methods -------------------------------------------------------------------------------------------

    @alone
    def get_input_details(self) -> list[dict[str, Any]]:
        """LiteRT's record of each input: name, index, shape, shape_signature, dtype, quantization and sparsity."""
        return super().get_input_details()

    @alone
    def get_output_details(self) -> list[dict[str, Any]]:
        """LiteRT's record of each output, as of inputs."""
        return super().get_output_details()

    @alone
    def get_tensor_details(self, subgraph_index: int = 0) -> list[dict[str, Any]]:
        """LiteRT's record of each tensor of a subgraph whose type and shape it knows, as of inputs."""
        return super().get_tensor_details(subgraph_index)

    @alone
    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """The names of ``inputs`` and ``outputs`` by the keys of the signatures."""
        return super().get_signature_list()

    @alone
    def num_subgraphs(self) -> int:
        """The number of the model's subgraphs."""
        return super().num_subgraphs()

    @alone
    def resize_tensor_input(self, input_index: int, tensor_size: Sequence[int], strict: bool = False) -> None:
        """Give an input another shape; ``strict`` lets only dimensions change that are -1 in its shape_signature."""
        super().resize_tensor_input(input_index, tensor_size, strict)

    _get_ops_details = alone(litert.Interpreter._get_ops_details)
