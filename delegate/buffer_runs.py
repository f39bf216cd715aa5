"""Runs of a model with TensorBuffers: memory that the GPU takes is bound, and LiteRT copies that of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..interop.device import Device
from ..interop.errors import BindingError, DelegateError
from ..interop.memory.base import BaseMemory
from .alone import alone
from .gpu_delegate import GpuDelegate
from .interpreter import Interpreter
from .litert.python_layer import own_errors
from .signatures import Buffers, Signature
from .tensor_buffer import TensorBuffer


class BufferRuns:
    """Runs of an interpreter's signatures with TensorBuffers: the memory that is bound, and the shapes of inputs."""

    def __init__(self, interpreter: Interpreter, delegate: GpuDelegate | None) -> None:
        """``delegate`` is the interpreter's; None: the model runs on the CPU."""
        self._interpreter, self._delegate = interpreter, delegate
        self._lock = interpreter._lock
        self.closed = False
        self._known: dict[tuple[int, int], tuple[tuple[int, ...], np.dtype[Any]]] = {}
        """Shapes and types of inputs by subgraph and tensor, since the last ``resize``."""
        self._bound: dict[tuple[int, int], TensorBuffer] = {}
        """The buffers whose memory is bound, of the last run, by subgraph and tensor."""

    def check_open(self) -> None:
        """Raise DelegateError if the model is closed."""
        if self.closed:
            raise DelegateError("this CompiledModel is closed: make a new one")

    @property
    def interpreter(self) -> Interpreter:
        """The interpreter. Raises DelegateError if the model is closed."""
        self.check_open()
        return self._interpreter

    @property
    def device(self) -> Device | None:
        """The device that the model runs on; None if no operator runs on one."""
        return self._delegate.engine.device if self._delegate is not None else None

    @alone
    def tensor(self, signature: Signature, tensor: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """The present shape and the type of a tensor."""
        details = self.interpreter._get_tensor_details(tensor, signature.subgraph)
        return tuple(map(int, details["shape"])), np.dtype(details["dtype"])

    def label(self, signature: Signature, tensor: int) -> str:
        """The name of a tensor in messages."""
        return f"tensor {tensor} '{self._interpreter._model.subgraphs[signature.subgraph].tensors[tensor].name}'"

    @alone
    def resize(self, signature: Signature, tensor: int, dims: Sequence[int], *, strict: bool) -> None:
        """Give an input another shape, and allocate. Raises BindingError if it cannot; the shape stays as it was."""
        before, _ = self.tensor(signature, tensor)
        try:
            self._allocate(signature, tensor, dims, strict=strict)
        except (ValueError, RuntimeError) as error:
            self._allocate(signature, tensor, before, strict=False)
            label = self.label(signature, tensor)
            raise BindingError(
                f"{label}: New shape is not compatible with current shape: {list(before)} cannot become {list(dims)}: "
                f"{error}"
            ) from error

    def _allocate(self, signature: Signature, tensor: int, dims: Sequence[int], *, strict: bool) -> None:
        interpreter, subgraph = self.interpreter, signature.subgraph
        self._known.clear()
        if not subgraph:
            interpreter.resize_tensor_input(tensor, dims, strict)
            interpreter.allocate_tensors()
            return
        with own_errors(self._delegate, "prepare"):
            interpreter._interpreter.ResizeInputTensor(tensor, np.array(dims, np.int32), strict, subgraph)
            interpreter._interpreter.AllocateTensors(subgraph)

    def run(self, signature: Signature, inputs: Buffers, outputs: Buffers) -> None:
        """Run a signature. Memory is bound to the tensors of the GPU, and LiteRT copies that of others."""
        device, subgraph = self.device, signature.subgraph
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
                    f"{self.label(signature, tensor)} is an input as well, which no run copies on the GPU: give its "
                    "output a buffer of the host"
                )

    def _value_of_input(self, signature: Signature, tensor: int) -> np.ndarray:
        """A copy of an input's value: of the memory that is bound to it, or LiteRT's."""
        bound = self._bound.get((signature.subgraph, tensor))
        if bound is None:
            return self._interpreter.get_tensor(tensor, signature.subgraph)
        shape, dtype = self.expected(signature, tensor)
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
                    f"{self.label(signature, tensor)} cannot be bound to {memory!r}: the model runs on the CPU: give "
                    "hardware_accel=HardwareAccelerator.GPU or backend; or give memory of the host"
                )
            return True
        # Copied by LiteRT's memory of the tensor, an array would be copied twice.
        is_taken = buffer._as_object or buffer.memory.dtype == np.float32
        return is_taken and self.takes_buffer(signature, tensor)

    def takes_buffer(self, signature: Signature, tensor: int) -> bool:
        """Whether a buffer of float32 on the GPU can be bound to a tensor."""
        delegate = self._delegate
        return delegate is not None and delegate.engine.bound_tensors(signature.subgraph).takes_buffer(tensor)

    def expected(self, signature: Signature, tensor: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """The shape and type of an input, which only ``_resize`` changes."""
        key = signature.subgraph, tensor
        if key not in self._known:
            self._known[key] = self.tensor(signature, tensor)
        return self._known[key]

    def _fitted(self, signature: Signature, tensor: int, buffer: TensorBuffer) -> np.ndarray:
        """The host's array of an input's buffer, in the shape of the tensor."""
        array, (shape, dtype) = buffer.memory, self.expected(signature, tensor)
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
            f"{self.label(signature, tensor)} is {dtype} of {tuple(shape)}, and its buffer is {array.dtype} of "
            f"{array.shape}{read_only}: give a writable array of that type and shape, or of that size, without gaps"
        )
