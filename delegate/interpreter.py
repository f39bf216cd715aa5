"""LiteRT's interpreter with delegates made in Python, and with results that stay on the GPU."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from ai_edge_litert import interpreter as litert

from ..interop.errors import BindingError, DelegateError, FramebindError, ModelError
from .gpu_delegate import GpuDelegate
from .litert.python_layer import describe_tensor, is_about_the_model, text_of
from .read.names import printable
from .read.reader import read_file, read_model
from .report import DelegatedOp, describe_operators


class Interpreter(litert.Interpreter):
    """ai_edge_litert.interpreter.Interpreter: the same arguments and methods, and more that the C++ interpreter has.

    Without a delegate it is LiteRT's CPU interpreter. Errors of a GpuDelegate come out as framebind's own, and the
    interpreter stays usable.

    Parameters
    ----------
    model_path, model_content
        The model's file, or its bytes; one of them.
    experimental_delegates
        Delegates to apply, in order: a GpuDelegate, or any of LiteRT's.
    num_threads
        Threads of the operators on the CPU. All further arguments are LiteRT's own. With
        ``experimental_preserve_all_tensors`` every operator on the GPU is a program of its own, and its results are
        copied to the CPU, counted.

    Raises
    ------
    ModelError
        If the model is missing, truncated or no TensorFlow Lite model.
    DelegateError, DeviceError
        If a delegate cannot be applied.

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
    """

    _interpreter: Any
    _delegates: list[Any]

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        model_content: bytes | None = None,
        experimental_delegates: list[Any] | None = None,
        num_threads: int | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        self._interpreter = None
        self._gpu_delegate: GpuDelegate | None = None
        if model_path is not None and model_content is not None:
            raise ModelError("give Interpreter model_path or model_content, not both")
        if model_path is None and model_content is None:
            raise ModelError("give Interpreter a model: model_path or model_content")
        content = read_file(model_path) if model_path is not None else model_content
        assert content is not None
        started = time.perf_counter()
        self._model = read_model(content, model_path)
        self._read_seconds = time.perf_counter() - started
        self._preserves_tensors = bool(kwargs.get("experimental_preserve_all_tensors", len(args) > 1 and args[1]))
        self._make: Callable[[litert.Interpreter], None] = lambda interpreter: litert.Interpreter.__init__(
            interpreter, None, content, None, num_threads, *args, **kwargs
        )
        try:
            self._make(self)
        except ValueError as error:
            if "num_threads" in str(error) or "op resolver" in str(error):  # the arguments' fault, not the model's
                raise
            newer = "Install a newer ai-edge-litert, or convert the model for this one"
            cure = newer if "Didn't find op" in str(error) else "Download the file again"
            raise ModelError(f"LiteRT does not take the model: {text_of(error)} {cure}") from error
        self._allocated = False
        self._keep_outputs_later = False
        for delegate in experimental_delegates or ():
            self.modify_graph_with_delegate(delegate)

    def __repr__(self) -> str:
        graph = self._model.subgraphs[0]
        sides = [
            ", ".join(f"{graph.tensors[i].name}" for i in side if i >= 0) for side in (graph.inputs, graph.outputs)
        ]
        with_gpu = f", {self._gpu_delegate!r}" if self._gpu_delegate is not None else ""
        return f"<Interpreter: {len(graph.operators)} operators from {sides[0]} to {sides[1]}{with_gpu}>"

    # Delegates --------------------------------------------------------------------------------------------------------

    def modify_graph_with_delegate(self, delegate: Any) -> None:
        """Apply a GpuDelegate, or any delegate of LiteRT's. Before ``allocate_tensors`` it is applied at once.

        Afterwards LiteRT's own CPU delegate (XNNPACK) already holds the operators, so LiteRT's interpreter is made
        anew, with the input shapes, and the values of inputs and variable tensors, that it had. Raises DelegateError or
        DeviceError if the delegate cannot be applied; the interpreter then runs as it did before.
        """
        if isinstance(delegate, GpuDelegate) and self._gpu_delegate is not None:
            raise DelegateError("this interpreter already has a GpuDelegate; one runs all that the GPU can")
        with self._application_errors(delegate):
            if self._allocated:
                self._rebuild([*self._delegates, delegate])
            else:
                self._apply(self, delegate)
        self._delegates = [*self._delegates, delegate]
        if isinstance(delegate, GpuDelegate):
            self._gpu_delegate = delegate

    def _apply(self, destination: Any, delegate: Any) -> None:
        """Apply a delegate to this interpreter, or to the one that is about to take its place."""
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

    @contextmanager
    def _application_errors(self, delegate: Any) -> Iterator[None]:
        """Raise the error of a delegate's callbacks while it is applied, and let go of it."""
        try:
            yield
        except FramebindError:
            raise
        except (RuntimeError, ValueError) as error:
            original = None
            if isinstance(delegate, GpuDelegate):
                original = delegate.engine.take_error()
                delegate.engine.detach()
            raise original or DelegateError(f"LiteRT does not apply the delegate: {text_of(error)}") from error

    @contextmanager
    def _own_errors(self, action: str) -> Iterator[None]:
        """Raise the error of the delegate's callbacks in place of the text that LiteRT made of it, or a ModelError.

        ``action`` is what LiteRT is to do with the model.
        """
        try:
            yield
        except (RuntimeError, ValueError) as error:
            self._raise_own(error, action)
            raise
        self._raise_own(None, action)

    def _raise_own(self, cause: Exception | None, action: str) -> None:
        delegate = self._gpu_delegate
        original = delegate.engine.take_error() if delegate is not None else None
        if original is not None:
            raise original from cause
        if cause is not None and is_about_the_model(cause):
            raise ModelError(f"LiteRT cannot {action} the model: {text_of(cause)}") from cause

    def delegated_ops(self) -> list[DelegatedOp]:
        """A record for each operator of the model: whether it runs on the GPU or the CPU, and why not on the GPU.

        As of the last ``allocate_tensors``: resized inputs do not move operators, but LiteRT partitions anew.
        """
        delegate = self._gpu_delegate
        if delegate is None:
            return describe_operators(self._model, {}, {}, "this interpreter has no GpuDelegate")
        return delegate.delegated_ops()

    # Running ----------------------------------------------------------------------------------------------------------

    def allocate_tensors(self) -> None:
        """Allocate as LiteRT does; also sets the shapes of tensors on the GPU after inputs were resized."""
        with self._own_errors("prepare"):
            super().allocate_tensors()
        self._allocated = True

    def invoke(self, wait_for: Any = None) -> Any:
        """Run the model once; on OpenGL, on the thread and in the context where the delegate was applied.

        Allocates the tensors first if ``allocate_tensors`` was not called yet.

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
        """
        if not self._allocated:
            self.allocate_tensors()
        delegate = self._gpu_delegate
        if wait_for is not None:
            if delegate is None:
                raise DelegateError("this interpreter has no GpuDelegate: nothing can wait for wait_for's events")
            delegate.wait_for(wait_for)
        try:  # _own_errors, without what a context manager costs in each frame
            super().invoke()
        except (RuntimeError, ValueError) as error:
            if delegate is not None and delegate.engine.lost_call(error):
                raise KeyboardInterrupt from error
            self._raise_own(error, "run")
            raise
        self._raise_own(None, "run")
        if delegate is not None and not delegate.engine.completed():
            raise KeyboardInterrupt  # or what else a signal handler raised, which ctypes has printed
        return delegate.event() if delegate is not None and wait_for is not None else None

    def inputs(self) -> list[int]:
        """The indices of the model's input tensors."""
        return [int(i) for i in self._interpreter.InputIndices()]

    def outputs(self) -> list[int]:
        """The indices of the model's output tensors."""
        return [int(i) for i in self._interpreter.OutputIndices()]

    def get_signature_runner(self, signature_key: str | None = None) -> litert.SignatureRunner:
        """A runner as LiteRT's. Its results are copied to the CPU, whatever ``set_allow_buffer_handle_output`` says."""
        if signature_key is None:
            if len(self._signature_defs) != 1:
                raise ValueError(f"the model has the signatures {list(self._signature_defs)}: give signature_key")
            signature_key = next(iter(self._signature_defs))
        return _SignatureRunner(self, signature_key)

    def _announce_inputs(self) -> None:
        """Say that all inputs are set: a signature's runner sets them in LiteRT itself."""
        if self._gpu_delegate is not None:
            for tensor in self.inputs():
                self._gpu_delegate.engine.input_set(tensor)

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
        """True: ``invoke`` leaves outputs on the GPU; ``ensure_tensor_data_is_readable`` fetches one. Default False."""
        if self._gpu_delegate is not None:
            self._gpu_delegate.set_allow_buffer_handle_output(allow)
        else:
            self._keep_outputs_later = allow

    @property
    def _keeps_outputs(self) -> bool:
        """Whether outputs stay on the GPU: the delegate knows, or will be told when there is one."""
        delegate = self._gpu_delegate
        return self._keep_outputs_later if delegate is None else delegate.engine.boundary.keep_outputs

    def ensure_tensor_data_is_readable(self, tensor_index: int | str) -> None:
        """Copy an output that is on the GPU to the CPU's memory (counted), for ``get_tensor``. Takes a name as well."""
        if self._gpu_delegate is not None:
            self._gpu_delegate.ensure_tensor_data_is_readable(tensor_index)

    def _check_readable(self, tensor_index: int, subgraph_index: int = 0) -> None:
        """Raise BindingError for an output that is still on the GPU; a state is copied."""
        delegate = self._gpu_delegate
        if delegate is None or delegate.is_readable(tensor_index, subgraph_index):
            return
        if self._model.subgraphs[subgraph_index].tensors[tensor_index].variable:
            delegate.ensure_tensor_data_is_readable(tensor_index, subgraph_index)
        else:
            raise BindingError(
                f"tensor {tensor_index} was computed on the GPU and is still there: call "
                f"ensure_tensor_data_is_readable({tensor_index}) first, or set_allow_buffer_handle_output(False)"
            )

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> np.ndarray:
        """A copy of a tensor. Raises BindingError if it is on the GPU and was not made readable.

        A variable tensor that is a state on the GPU is copied, counted as "state tensor ...".
        """
        self._check_readable(tensor_index, subgraph_index)
        return super().get_tensor(tensor_index, subgraph_index)

    def tensor(self, tensor_index: int) -> Callable[[], np.ndarray]:
        """A function that returns a view of a tensor's memory, as LiteRT's, or raises as ``get_tensor`` does."""

        def view() -> np.ndarray:
            self._check_readable(tensor_index)
            if self._gpu_delegate is not None:
                self._gpu_delegate.engine.input_shown(tensor_index)
            return self._interpreter.tensor(self._interpreter, tensor_index)

        return view

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Set a tensor as LiteRT does. Raises BindingError if an object is bound to it: nobody would read the value."""
        delegate = self._gpu_delegate
        if delegate is not None and delegate.is_bound(tensor_index):
            raise BindingError(
                f"tensor {tensor_index} is bound to a GPU object: write to that object, or unbind({tensor_index}) first"
            )
        super().set_tensor(tensor_index, value)
        if delegate is not None:
            delegate.engine.input_set(tensor_index)


class _SignatureRunner(litert.SignatureRunner):
    """LiteRT's runner on our interpreter, also after that was made anew."""

    def __init__(self, interpreter: Interpreter, signature_key: str) -> None:
        super().__init__(interpreter, signature_key)

    @property
    def _interpreter_wrapper(self) -> Any:
        return self._interpreter._interpreter

    @_interpreter_wrapper.setter
    def _interpreter_wrapper(self, _: Any) -> None:
        # LiteRT keeps the native interpreter here; it would count as a view of its memory, and outlive a rebuild.
        pass

    def __call__(self, **kwargs: Any) -> dict[str, np.ndarray]:
        interpreter = self._interpreter
        keep = interpreter._keeps_outputs
        interpreter.set_allow_buffer_handle_output(False)
        try:
            with interpreter._own_errors("run"):
                interpreter._announce_inputs()
                return super().__call__(**kwargs)
        finally:
            interpreter._allocated = True
            interpreter.set_allow_buffer_handle_output(keep)
