"""A model whose inputs and outputs are TensorBuffers, with the interface of LiteRT's CompiledModel."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from ai_edge_litert.interpreter import OpResolverType

from ..interop.device import Fence
from ..interop.discovery.best_options import BestOptions
from ..interop.errors import BindingError, DelegateError, counted
from ..interop.null.device import NullFence
from ..interop.uncopied import Uncopied
from .alone import alone
from .buffer_runs import BufferRuns
from .gpu_delegate import GpuDelegate
from .interpreter import Interpreter
from .options import GpuDelegateOptions
from .run.feedback import Feedback
from .signatures import Signature, matched, signatures_of, tensor_at, tensor_named
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
        self._runs = BufferRuns(interpreter, delegate)
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
        return f"<CompiledModel: {'closed' if self._runs.closed else repr(self._interpreter)}>"

    def close(self) -> None:
        """Free what the model has on the GPU. Buffers that it made on a device of its own cannot be read afterwards."""
        self._runs.closed = True
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
        return self._delegate is None or all(each.runs_on == "gpu" for each in self._runs.interpreter.delegated_ops())

    def _signature(self, signature: int | str) -> Signature:
        number = self.get_signature_index(signature) if isinstance(signature, str) else signature
        if not 0 <= number < len(self._signatures):
            known = ", ".join(f"{i} '{each.key}'" for i, each in enumerate(self._signatures))
            raise BindingError(f"Signature not found: {signature}; the model's are {known}")
        return self._signatures[number]

    def _details(self, signature: Signature, side: str) -> dict[str, Any]:
        tensors = self._interpreter._model.subgraphs[signature.subgraph].tensors
        found: dict[str, Any] = {}
        for name, tensor in getattr(signature, side).items():
            shape, dtype = self._runs.tensor(signature, tensor)
            found[name] = {
                "name": tensors[tensor].name, "index": tensor, "dtype": dtype.name, "shape": list(shape),
            }  # fmt: skip
        return found

    def _requirements(self, signature: Signature, side: str, index: int) -> dict[str, Any]:
        shape, dtype = self._runs.tensor(signature, tensor_at(signature, side, index))
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
        shape, dtype = self._runs.tensor(signature, tensor)
        label, nbytes, device = self._runs.label(signature, tensor), _nbytes(shape, dtype), self._runs.device
        on_host = on_host or dtype != np.float32 or not nbytes or not self._runs.takes_buffer(signature, tensor)
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
        self._runs.resize(signature, tensor_at(signature, "inputs", input_index), dims, strict=strict)

    def resize_input_tensor_by_name(
        self, signature_key: str, input_name: str, dims: Sequence[int], strict: bool = True
    ) -> None:
        """Give an input another shape, by name: see ``resize_input_tensor``."""
        if self.get_signature_index(signature_key) < 0:
            raise BindingError(f"Unknown signature: {signature_key}")
        signature = self._signature(signature_key)
        if input_name not in signature.inputs:
            raise BindingError(f"Unknown input '{input_name}' for signature '{signature_key}'")
        self._runs.resize(signature, signature.inputs[input_name], dims, strict=strict)

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
        self._runs.check_open()
        found = self._signature(signature)
        given, results = matched(found, inputs, outputs)
        if wait_for is not None:
            if self._delegate is None:
                raise DelegateError("this CompiledModel runs on the CPU: nothing can wait for wait_for's events")
            self._delegate.wait_for(wait_for)
        for tensor, buffer in given.items():
            shape, _ = self._runs.expected(found, tensor)
            if buffer._knows_shape and len(buffer.shape) == len(shape) and buffer.shape != shape:
                self._runs.resize(found, tensor, buffer.shape, strict=True)
        self._runs.run(found, given, results)
        return self._delegate.fence() if self._delegate is not None and self._runs.device is not None else NullFence()


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
