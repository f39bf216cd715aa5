"""A model whose inputs and outputs are TensorBuffers, with the interface of LiteRT's CompiledModel."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from ai_edge_litert.interpreter import OpResolverType

from ..interop.device import Device, Fence
from ..interop.discovery.best_options import BestOptions
from ..interop.errors import BindingError, DelegateError, counted
from ..interop.memory.base import BaseMemory
from ..interop.null.device import NullFence
from ..interop.uncopied import Uncopied
from .alone import alone
from .gpu_delegate import GpuDelegate
from .interpreter import Interpreter
from .litert.python_layer import own_errors
from .options import GpuDelegateOptions
from .run.feedback import Feedback
from .signatures import Buffers, Signature, matched, signatures_of, tensor_at, tensor_named
from .tensor_buffer import TensorBuffer

if TYPE_CHECKING:
    from ai_edge_litert.compiled_model import Environment, HardwareAccelerator, Options

_CPU, _GPU = 1, 2
"""The bits of LiteRT's HardwareAccelerator that are used here. Its third one is an NPU."""
_RESOLVERS = {1: OpResolverType.BUILTIN_REF, 2: OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES}
"""The kernels of the interpreter by LiteRT's CpuKernelMode; its others are the default."""
_HOST_MEMORY = 1
"""LiteRtTensorBufferType."""


class CompiledModel(Uncopied):
    """A model with the interface of ``ai_edge_litert.compiled_model.CompiledModel``, and with GPU memory in it.

    A script for LiteRT's class does the same after its import was changed. What framebind adds: ``backend``, objects on
    the GPU as inputs and outputs (``TensorBuffer.from_gl_texture`` and others, which no run copies), and ``run_async``.
    It is an ``Interpreter`` with a ``GpuDelegate``, whose rules of threads and contexts hold. The first run compiles.
    The model is a context manager, which closes it at the end.

    ``from_file`` and ``from_buffer`` make one.

    Examples
    --------
    >>> with fb.CompiledModel.from_file("model.tflite") as model:
    ...     inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    ...     inputs[0].write(np.zeros((1, 4, 5, 3), np.float32))
    ...     model.run_by_index(0, inputs, outputs)
    ...     outputs[0].read(2, np.float32)
    array([1., 1.], dtype=float32)
    """

    def __init__(self, interpreter: Interpreter, delegate: GpuDelegate | None, environment: Any) -> None:
        """``delegate`` is the interpreter's; None: the model runs on the CPU."""
        self._interpreter, self._delegate, self._environment = interpreter, delegate, environment
        self._lock = interpreter._lock
        self._closed = False
        self._known: dict[tuple[int, int], tuple[tuple[int, ...], np.dtype[Any]]] = {}
        """Shapes and types of inputs by subgraph and tensor, since the last ``_resize``."""
        self._bound: dict[tuple[int, int], TensorBuffer] = {}
        """The buffers whose memory is bound, of the last run, by subgraph and tensor."""
        self._signatures = signatures_of(interpreter)

    @classmethod
    def from_file(
        cls,
        model_path: str | os.PathLike[str],
        hardware_accel: HardwareAccelerator | None = None,
        environment: Environment | None = None,
        options: Options | None = None,
        *,
        backend: GpuDelegateOptions | BestOptions | str | None = None,
        feedback: Feedback | None = None,
    ) -> CompiledModel:
        """Load a model's file and apply a GpuDelegate if a GPU is to run it.

        Parameters
        ----------
        model_path
            The file.
        hardware_accel
            LiteRT's HardwareAccelerator: CPU, GPU, or both. CPU by default, and both if ``backend`` is given. GPU alone
            takes only models of which all operators run there. NPU is no processor of framebind's, so that CPU or GPU
            has to stand beside it.
        environment
            LiteRT's Environment, which names folders of NPUs. It is kept and not used.
        options
            LiteRT's Options in place of ``hardware_accel``. ``cpu_options.num_threads`` and ``kernel_mode`` are
            followed. The others change the speed of LiteRT's own drivers, and the GPU computes in float32 in any case.
        backend
            The API that runs the model, "opengl", "opencl" or "cuda", or GpuDelegateOptions, as GpuDelegate takes them.
            "auto" by default.
        feedback
            The input that each output feeds in the next run, as GpuDelegate takes it: states of recurrent networks stay
            on the GPU. They are no inputs and outputs of the signatures here; ``reset_feedback`` sets them to zeros.

        Raises
        ------
        ModelError
            If the model is missing or damaged.
        DelegateError
            If arguments contradict each other, or operators stay on the CPU with GPU alone; it names them.
        BindingError
            For ``feedback`` whose tensors are missing or differ.
        DeviceError
            If there is no device of the API.
        """
        return cls._made({"model_path": model_path}, hardware_accel, environment, options, backend, feedback)

    @classmethod
    def from_buffer(
        cls,
        model_data: bytes,
        hardware_accel: HardwareAccelerator | None = None,
        environment: Environment | None = None,
        options: Options | None = None,
        *,
        backend: GpuDelegateOptions | BestOptions | str | None = None,
        feedback: Feedback | None = None,
    ) -> CompiledModel:
        """Do what ``from_file`` does with the bytes of a model."""
        return cls._made({"model_content": model_data}, hardware_accel, environment, options, backend, feedback)

    @classmethod
    def _made(
        cls,
        model: dict[str, Any],
        hardware_accel: int | None,
        environment: Any,
        options: Options | None,
        backend: Any,
        feedback: Feedback | None,
    ) -> CompiledModel:
        processors = _processors(hardware_accel, options, backend)
        kernels, threads = OpResolverType.AUTO, 1
        if options is not None:
            mode = options.cpu_options.kernel_mode
            kernels, threads = _RESOLVERS.get(int(mode or 0), kernels), options.cpu_options.num_threads
        if feedback and not processors & _GPU:
            raise DelegateError("feedback is for models on the GPU: give HardwareAccelerator.GPU or backend")
        delegate = GpuDelegate(backend, feedback=feedback) if processors & _GPU else None
        interpreter = Interpreter(
            **model, num_threads=threads or None, experimental_op_resolver_type=kernels,
            experimental_delegates=[delegate] if delegate is not None else None,
            delegate="cpu" if delegate is None else None,
        )  # fmt: skip
        interpreter.set_allow_buffer_handle_output(True)  # results are copied to the host's buffers alone
        interpreter.allocate_tensors()
        if delegate is not None and not processors & _CPU:
            _check_all_on_gpu(interpreter, delegate)
        return cls(interpreter, delegate, environment)

    def __enter__(self) -> CompiledModel:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<CompiledModel: {'closed' if self._closed else repr(self._interpreter)}>"

    def close(self) -> None:
        """Free what the model has on the GPU. Buffers that it made on a device of its own cannot be read afterwards."""
        self._closed = True
        if self._delegate is not None:
            self._delegate.close()

    def reset_feedback(self) -> None:
        """Let the next run read zeros in the states of ``feedback``: see ``GpuDelegate.reset_feedback``."""
        if self._delegate is None:
            raise DelegateError("nothing is fed back: name the pairs with feedback={output: input}")
        self._delegate.reset_feedback()

    @property
    def environment(self) -> Any:
        """The LiteRT Environment that was given."""
        return self._environment

    # Signatures -------------------------------------------------------------------------------------------------------

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """The names of inputs and outputs by signature: ``{"add": {"inputs": ["x", "y"], "outputs": ["z"]}}``.

        A model without signatures has one of the key "<placeholder signature>".
        """
        return {signature.key: signature.names() for signature in self._signatures}

    def get_signature_by_index(self, index: int) -> dict[str, Any]:
        """The ``key``, ``inputs`` and ``outputs`` of a signature. Raises BindingError if there is none."""
        signature = self._signature(index)
        return {"key": signature.key, **signature.names()}

    def get_num_signatures(self) -> int:
        """The number of signatures."""
        return len(self._signatures)

    def get_signature_index(self, key: str) -> int:
        """The number of a signature; -1 if there is none of this key."""
        return next((number for number, each in enumerate(self._signatures) if each.key == key), -1)

    def get_input_tensor_details(self, signature_key: str) -> dict[str, Any]:
        """Records of a signature's inputs, by name: ``name``, ``index``, ``dtype`` ("float32") and present ``shape``.

        Raises BindingError if there is no such signature.
        """
        return self._details(self._signature(signature_key), "inputs")

    def get_output_tensor_details(self, signature_key: str) -> dict[str, Any]:
        """Records of a signature's outputs: see ``get_input_tensor_details``."""
        return self._details(self._signature(signature_key), "outputs")

    def get_input_buffer_requirements(self, input_index: int, signature_index: int = 0) -> dict[str, Any]:
        """``{"buffer_size": 240, "supported_types": [1]}``: the bytes of an input, and LiteRT's number of host memory.

        Objects on the GPU are taken too: see TensorBuffer. Raises BindingError if there is no such input.
        """
        return self._requirements(self._signature(signature_index), "inputs", input_index)

    def get_output_buffer_requirements(self, output_index: int, signature_index: int = 0) -> dict[str, Any]:
        """Bytes and types of memory for an output: see ``get_input_buffer_requirements``."""
        return self._requirements(self._signature(signature_index), "outputs", output_index)

    def is_fully_accelerated(self) -> bool:
        """Whether all operators run on the GPU. True for a model on the CPU alone, where LiteRT asks its XNNPACK."""
        return self._delegate is None or all(each.runs_on == "gpu" for each in self._open().delegated_ops())

    def _open(self) -> Interpreter:
        if self._closed:
            raise DelegateError("this CompiledModel is closed: make a new one")
        return self._interpreter

    @property
    def _device(self) -> Device | None:
        """The device that the model runs on; None if no operator runs on one."""
        return self._delegate.engine.device if self._delegate is not None else None

    def _signature(self, signature: int | str) -> Signature:
        number = self.get_signature_index(signature) if isinstance(signature, str) else signature
        if not 0 <= number < len(self._signatures):
            known = ", ".join(f"{i} '{each.key}'" for i, each in enumerate(self._signatures))
            raise BindingError(f"Signature not found: {signature}; the model's are {known}")
        return self._signatures[number]

    @alone
    def _tensor(self, signature: Signature, tensor: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """The present shape and the type of a tensor."""
        details = self._open()._get_tensor_details(tensor, signature.subgraph)
        return tuple(map(int, details["shape"])), np.dtype(details["dtype"])

    def _label(self, signature: Signature, tensor: int) -> str:
        return f"tensor {tensor} '{self._interpreter._model.subgraphs[signature.subgraph].tensors[tensor].name}'"

    def _details(self, signature: Signature, side: str) -> dict[str, Any]:
        tensors = self._interpreter._model.subgraphs[signature.subgraph].tensors
        found: dict[str, Any] = {}
        for name, tensor in getattr(signature, side).items():
            shape, dtype = self._tensor(signature, tensor)
            found[name] = {
                "name": tensors[tensor].name, "index": tensor, "dtype": dtype.name, "shape": list(shape),
            }  # fmt: skip
        return found

    def _requirements(self, signature: Signature, side: str, index: int) -> dict[str, Any]:
        shape, dtype = self._tensor(signature, tensor_at(signature, side, index))
        return {"buffer_size": _nbytes(shape, dtype), "supported_types": [_HOST_MEMORY]}

    # Buffers ----------------------------------------------------------------------------------------------------------

    def create_input_buffer_by_name(self, signature_key: str, input_name: str) -> TensorBuffer:
        """Make memory for an input: on the GPU if an operator there reads it as float32, else the host's. It is zero.

        Raises BindingError if there is no such signature or input.
        """
        signature = self._signature(signature_key)
        return self._create(signature, tensor_named(signature, "inputs", input_name))

    def create_output_buffer_by_name(self, signature_key: str, output_name: str) -> TensorBuffer:
        """Make memory for an output, as for an input. It is the host's if the output is an input as well."""
        signature = self._signature(signature_key)
        return self._create_output(signature, tensor_named(signature, "outputs", output_name))

    def create_input_buffers(self, signature_index: int) -> list[TensorBuffer]:
        """Make memory for all inputs: see ``create_input_buffer_by_name``."""
        signature = self._signature(signature_index)
        return [self._create(signature, tensor) for tensor in signature.inputs.values()]

    def create_output_buffers(self, signature_index: int) -> list[TensorBuffer]:
        """Make memory for all outputs: see ``create_output_buffer_by_name``."""
        signature = self._signature(signature_index)
        return [self._create_output(signature, tensor) for tensor in signature.outputs.values()]

    def _create_output(self, signature: Signature, tensor: int) -> TensorBuffer:
        return self._create(signature, tensor, on_host=tensor in signature.inputs.values())

    @alone
    def _create(self, signature: Signature, tensor: int, *, on_host: bool = False) -> TensorBuffer:
        shape, dtype = self._tensor(signature, tensor)
        label, nbytes, device = self._label(signature, tensor), _nbytes(shape, dtype), self._device
        on_host = on_host or dtype != np.float32 or not nbytes or not self._takes_buffer(signature, tensor)
        if on_host or device is None:
            return TensorBuffer(np.zeros(shape, dtype), label, made_for=shape)
        with device.entered():
            return TensorBuffer(device.buffer(nbytes, label), label, made_for=shape, device=device)

    def resize_input_tensor(
        self, input_index: int, dims: Sequence[int], signature_index: int = 0, strict: bool = True
    ) -> None:
        """Give an input another shape, and allocate. Buffers of the shape before do not fit any longer.

        Parameters
        ----------
        input_index, signature_index
            The numbers of the input and of the signature.
        dims
            The new shape.
        strict
            True: only dimensions that the model leaves open may change. False: any.

        Raises
        ------
        BindingError
            If the shape cannot be the input's, or there is no such input; the shape stays as it was.
        """
        signature = self._signature(signature_index)
        self._resize(signature, tensor_at(signature, "inputs", input_index), dims, strict=strict)

    def resize_input_tensor_by_name(
        self, signature_key: str, input_name: str, dims: Sequence[int], strict: bool = True
    ) -> None:
        """Give an input another shape, by name: see ``resize_input_tensor``."""
        if self.get_signature_index(signature_key) < 0:
            raise BindingError(f"Unknown signature: {signature_key}")
        signature = self._signature(signature_key)
        if input_name not in signature.inputs:
            raise BindingError(f"Unknown input '{input_name}' for signature '{signature_key}'")
        self._resize(signature, signature.inputs[input_name], dims, strict=strict)

    @alone
    def _resize(self, signature: Signature, tensor: int, dims: Sequence[int], *, strict: bool) -> None:
        before, _ = self._tensor(signature, tensor)
        try:
            self._allocate(signature, tensor, dims, strict=strict)
        except (ValueError, RuntimeError) as error:
            self._allocate(signature, tensor, before, strict=False)
            label = self._label(signature, tensor)
            raise BindingError(
                f"{label}: New shape is not compatible with current shape: {list(before)} cannot become {list(dims)}: "
                f"{error}"
            ) from error

    def _allocate(self, signature: Signature, tensor: int, dims: Sequence[int], *, strict: bool) -> None:
        interpreter, subgraph = self._open(), signature.subgraph
        self._known.clear()
        if not subgraph:
            interpreter.resize_tensor_input(tensor, dims, strict)
            interpreter.allocate_tensors()
            return
        with own_errors(self._delegate, "prepare"):
            interpreter._interpreter.ResizeInputTensor(tensor, np.array(dims, np.int32), strict, subgraph)
            interpreter._interpreter.AllocateTensors(subgraph)

    # Running ----------------------------------------------------------------------------------------------------------

    def run_by_name(
        self, signature_key: str, input_map: Mapping[str, TensorBuffer], output_map: Mapping[str, TensorBuffer]
    ) -> None:
        """Run a signature with buffers by name, and wait until it is done.

        Parameters
        ----------
        signature_key
            The signature.
        input_map
            Its inputs. One that is left out keeps what it had in the run before.
        output_map
            Its outputs, all of them.

        Raises
        ------
        BindingError
            If a buffer is missing or does not fit its tensor, whose name it has.
        FramebindError
            As ``Interpreter.invoke``.
        """
        self.run_async(signature_key, input_map, output_map).wait()

    def run_by_index(
        self, signature_index: int, input_buffers: Sequence[TensorBuffer], output_buffers: Sequence[TensorBuffer]
    ) -> None:
        """Run a signature with buffers in the order of its inputs and outputs, and wait until it is done.

        Raises what ``run_by_name`` does.
        """
        self.run_async(signature_index, input_buffers, output_buffers).wait()

    @alone
    def run_async(
        self,
        signature: int | str,
        inputs: Sequence[TensorBuffer] | Mapping[str, TensorBuffer],
        outputs: Sequence[TensorBuffer] | Mapping[str, TensorBuffer],
        *,
        wait_for: Any = None,
    ) -> Fence:
        """Run a signature, as LiteRT's RunAsync does in C++: it returns when the GPU has the commands.

        Work that follows on the same GPU and API, and ``TensorBuffer.read``, is ordered behind the run without a wait.
        Operators on the CPU, and outputs in the host's memory, are done at the return.

        Parameters
        ----------
        signature
            The number of a signature, with buffers in lists, or its key, with buffers by name.
        inputs, outputs
            The buffers, as for ``run_by_index`` and ``run_by_name``.
        wait_for
            Events that the run begins after, one or a list: what an earlier ``run_async`` on the same API returned, a
            pyopencl.Event, or an event of CUDA. The CPU does not wait.

        Returns
        -------
        Fence
            ``wait()`` blocks until the run is done, ``done`` only asks. ``handle`` is the event for other libraries: a
            pyopencl.Event, the address of a CUevent or of a GLsync; None of a model on the CPU.

        Raises
        ------
        BindingError
            As ``run_by_name``, and for events of another API.
        DelegateError
            For ``wait_for`` if nothing runs on the GPU.
        """
        self._open()
        found = self._signature(signature)
        given, results = matched(found, inputs, outputs)
        if wait_for is not None:
            if self._delegate is None:
                raise DelegateError("this CompiledModel runs on the CPU: nothing can wait for wait_for's events")
            self._delegate.wait_for(wait_for)
        for tensor, buffer in given.items():
            shape, _ = self._expected(found, tensor)
            if buffer._knows_shape and len(buffer.shape) == len(shape) and buffer.shape != shape:
                self._resize(found, tensor, buffer.shape, strict=True)
        self._run(found, given, results)
        return self._delegate.fence() if self._delegate is not None and self._device is not None else NullFence()

    def _run(self, signature: Signature, inputs: Buffers, outputs: Buffers) -> None:
        """Run a signature. Memory is bound to the tensors of the GPU, and LiteRT copies that of others."""
        device, subgraph = self._device, signature.subgraph
        given = {tensor: outputs[tensor] for tensor in signature.inputs.values() if tensor in outputs}
        outputs = {tensor: buffer for tensor, buffer in outputs.items() if tensor not in given}
        self._check_given(signature, given)
        with device.entered() if device is not None else nullcontext():
            for tensor, buffer in (*inputs.items(), *outputs.items()):
                self._bind(signature, tensor, buffer)
        values = {
            tensor: self._fitted(signature, tensor, buffer)
            for tensor, buffer in inputs.items()
            if not self._binds(signature, tensor, buffer)
        }
        if subgraph:
            for name, tensor in signature.inputs.items():
                if tensor not in inputs and (subgraph, tensor) not in self._bound:
                    values[tensor] = self._value_before(signature, name, tensor)
            self._invoke_other(subgraph, values)
        else:
            for tensor, value in values.items():
                self._interpreter.set_tensor(tensor, value)
            self._interpreter.invoke()
        for tensor, buffer in outputs.items():
            if not self._binds(signature, tensor, buffer):
                if self._delegate is not None:
                    self._delegate.ensure_tensor_data_is_readable(tensor, subgraph)
                self._put(signature, tensor, buffer, self._interpreter.get_tensor(tensor, subgraph))
        for tensor, buffer in given.items():
            self._put(signature, tensor, buffer, self._value_of_input(signature, tensor))

    def _check_given(self, signature: Signature, given: Buffers) -> None:
        """Raise BindingError if an output that is an input as well is to be put into memory on the GPU."""
        for tensor, buffer in given.items():
            if not buffer.is_on_host:
                raise BindingError(
                    f"{self._label(signature, tensor)} is an input as well, which no run copies on the GPU: give its "
                    "output a buffer of the host"
                )

    def _value_of_input(self, signature: Signature, tensor: int) -> np.ndarray:
        """A copy of an input's value: of the memory that is bound to it, or LiteRT's."""
        bound = self._bound.get((signature.subgraph, tensor))
        if bound is None:
            return self._interpreter.get_tensor(tensor, signature.subgraph)
        shape, dtype = self._expected(signature, tensor)
        return bound.read(math.prod(shape), dtype.type).reshape(shape)

    def _bind(self, signature: Signature, tensor: int, buffer: TensorBuffer) -> None:
        """Bind a buffer's memory to a tensor, or let go of what was bound before if LiteRT copies the memory."""
        key, is_taken = (signature.subgraph, tensor), self._binds(signature, tensor, buffer)
        before = self._bound.pop(key, None)
        if self._delegate is None:
            return
        tensors = self._delegate.engine.bound_tensors(signature.subgraph)
        if is_taken:
            # Other libraries order their work before a run each time that their memory is bound.
            if before is not buffer or not isinstance(buffer.memory, BaseMemory):
                tensors.bind(buffer._to_bind(), tensor, **buffer._mapping)
            self._bound[key] = buffer
        elif tensors.is_bound(tensor):
            tensors.unbind(tensor)

    def _invoke_other(self, subgraph: int, values: dict[int, np.ndarray]) -> None:
        """Set inputs of another subgraph than the main one, and run it."""
        native, delegate = self._interpreter._interpreter, self._delegate
        running = delegate.engine.boundary.running(subgraph) if delegate is not None else nullcontext()
        with own_errors(delegate, "run"), running:
            native.AllocateTensors(subgraph)
            for tensor, value in values.items():
                native.SetTensor(tensor, value, subgraph)
            native.Invoke(subgraph)

    def _value_before(self, signature: Signature, name: str, tensor: int) -> np.ndarray:
        """The value of an input in the run before."""
        try:
            return self._interpreter.get_tensor(tensor, signature.subgraph)
        except ValueError as error:  # LiteRT has no memory for it before the first run
            raise BindingError(
                f"signature '{signature.key}' has no buffer for its input {name}, and had none before: give one"
            ) from error

    def _binds(self, signature: Signature, tensor: int, buffer: TensorBuffer) -> bool:
        """Whether the delegate takes a buffer's memory itself. Raises BindingError for memory that it cannot take."""
        if not buffer.is_on_host:
            memory = buffer.memory  # which it has, or raises
            if self._delegate is None:
                raise BindingError(
                    f"{self._label(signature, tensor)} cannot be bound to {memory!r}: the model runs on the CPU: give "
                    "hardware_accel=HardwareAccelerator.GPU or backend; or give memory of the host"
                )
            return True
        # Copied by LiteRT's memory of the tensor, an array would be copied twice.
        is_taken = buffer._as_object or buffer.memory.dtype == np.float32
        return is_taken and self._takes_buffer(signature, tensor)

    def _takes_buffer(self, signature: Signature, tensor: int) -> bool:
        """Whether a buffer of float32 on the GPU can be bound to a tensor."""
        delegate = self._delegate
        return delegate is not None and delegate.engine.bound_tensors(signature.subgraph).takes_buffer(tensor)

    def _expected(self, signature: Signature, tensor: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """The shape and type of an input, which only ``_resize`` changes."""
        key = signature.subgraph, tensor
        if key not in self._known:
            self._known[key] = self._tensor(signature, tensor)
        return self._known[key]

    def _fitted(self, signature: Signature, tensor: int, buffer: TensorBuffer) -> np.ndarray:
        """The host's array of an input's buffer, in the shape of the tensor."""
        array, (shape, dtype) = buffer.memory, self._expected(signature, tensor)
        if array.dtype != dtype or array.size != math.prod(shape):
            raise self._unfit(signature, tensor, array, shape, dtype)
        return array.reshape(shape)

    def _put(self, signature: Signature, tensor: int, buffer: TensorBuffer, values: np.ndarray) -> None:
        """Put an output into the host's memory of its buffer."""
        array = buffer.memory
        if buffer._is_made and array.dtype == values.dtype:
            buffer._take(values)
            return
        fits = array.dtype == values.dtype and array.size == values.size and array.flags.c_contiguous
        if not fits or not array.flags.writeable:
            raise self._unfit(signature, tensor, array, values.shape, values.dtype)
        np.copyto(array, values.reshape(array.shape))

    def _unfit(
        self, signature: Signature, tensor: int, array: np.ndarray, shape: Sequence[int], dtype: np.dtype[Any]
    ) -> BindingError:
        read_only = "" if array.flags.writeable else ", read-only"
        return BindingError(
            f"{self._label(signature, tensor)} is {dtype} of {tuple(shape)}, and its buffer is {array.dtype} of "
            f"{array.shape}{read_only}: give a writable array of that type and shape, or of that size, without gaps"
        )


def _processors(hardware_accel: int | None, options: Options | None, backend: Any) -> int:
    """The bits of the processors that may run a model. Raises DelegateError for choices that contradict each other."""
    if options is not None and hardware_accel is not None:
        raise DelegateError("Pass either options or hardware_accel, not both.")
    chosen = options.hardware_accelerators if options is not None else hardware_accel
    if chosen is None:
        chosen = _CPU if backend is None else _CPU | _GPU
    if not int(chosen) & (_CPU | _GPU):
        what = "Some ops are not accelerated: hardware_accel is NPU alone" if chosen else "No acceleration provided"
        raise DelegateError(f"{what}; give HardwareAccelerator.CPU, GPU or both")
    if backend is not None and not int(chosen) & _GPU:
        raise DelegateError(f"backend is {backend!r}, and hardware_accel has no GPU: give GPU or GPU | CPU, or neither")
    return int(chosen)


def _check_all_on_gpu(interpreter: Interpreter, delegate: GpuDelegate) -> None:
    """Close the delegate and raise DelegateError if operators run on the CPU."""
    on_cpu = [each for each in interpreter.delegated_ops() if each.runs_on != "gpu"]
    if not on_cpu:
        return
    delegate.close()
    first = on_cpu[0]
    raise DelegateError(
        f"Some ops are not accelerated: {counted(len(on_cpu), 'operator')}, the first is {first.index} {first.name}: "
        f"{first.reason}. Give HardwareAccelerator.GPU | HardwareAccelerator.CPU to run them on the CPU"
    )


def _nbytes(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    return math.prod(shape) * dtype.itemsize
