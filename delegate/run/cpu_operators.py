"""A partition's operators on the CPU: in an interpreter of LiteRT's, while the GPU cannot run them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ai_edge_litert import interpreter as litert

from ...interop.errors import ModelError
from ...kernels.tensor import TensorInfo
from ..litert.native import NativeGraph
from ..litert.python_layer import text_of
from ..read.checks import called_subgraphs
from ..read.extract import extract_operators
from .boundary import BoundaryTensors
from .messages import named_reasons, tensor_label

log = logging.getLogger("framebind.delegate")


class CpuOperators:
    """The operators of a partition, run on the CPU if the GPU does not support the shapes after a resize.

    LiteRT gives a delegate no way to hand operators back. If LiteRT refuses the shapes too, the error has its words.
    """

    def __init__(self, content: bytes, native: NativeGraph, operators: Sequence[int], outputs: Sequence[int]) -> None:
        self._native, self._outputs = native, tuple(outputs)
        tensors = native.subgraph.tensors
        computed = {i for index in operators for i in native.subgraph.operators[index].outputs}
        read = {i for index in operators for i in native.subgraph.operators[index].inputs if i >= 0}
        self._inputs = tuple(sorted(i for i in read - computed if tensors[i].constant is None))
        types = {i: native.dtype(i) for i in self._inputs if native.dtype(i) != tensors[i].dtype}
        calls = any(called_subgraphs(native.subgraph.operators[index]) for index in operators)
        extracted = extract_operators(content, native.index, operators, self._inputs, self._outputs, types, calls=calls)
        resolver = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        self._interpreter: Any = litert.Interpreter(model_content=extracted, experimental_op_resolver_type=resolver)

    def prepare(self, reasons: Mapping[int, str]) -> None:
        """Take the inputs' shapes and find those of the outputs. ``reasons`` say why each operator is not on the GPU.

        Raises ModelError if LiteRT does not take the shapes either.
        """
        native = self._native
        shapes = [native.shape(tensor) for tensor in native.subgraph.inputs if tensor >= 0]
        reason = named_reasons(native.subgraph, reasons)
        try:
            for tensor in self._inputs:
                self._interpreter.resize_tensor_input(tensor, native.shape(tensor))
            self._interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            raise ModelError(
                f"the model does not take input shapes {shapes}: {reason}. LiteRT says: {text_of(error)}"
            ) from error
        for tensor in self._outputs:
            native.set_dtype(tensor, np.dtype(self._interpreter._interpreter.TensorType(tensor, 0)).name)
        log.warning(f"for inputs of shapes {shapes} a part of the model runs on the CPU: {reason}")

    def shape(self, tensor: int) -> tuple[int, ...]:
        """The shape of an output after ``prepare``, as far as LiteRT knows it before it runs."""
        return tuple(int(size) for size in self._interpreter._interpreter.TensorSize(tensor, 0))

    def invoke(self, boundary: BoundaryTensors, tensors: Mapping[int, TensorInfo]) -> None:
        """Compute the outputs in LiteRT's memory, and copy those that other partitions read to the GPU, counted.

        Raises ModelError if something is bound to an input or output, which the CPU does not reach.
        """
        native = self._native
        for tensor in (*self._inputs, *self._outputs):
            if boundary.memory.is_bound((native.index, tensor)):
                label = tensor_label(tensor, tensors[tensor])
                raise ModelError(f"{label} is bound to an object, but the CPU computes with these shapes: unbind it")
        for tensor in self._inputs:
            boundary.fetch(native, tensor)
            self._interpreter.set_tensor(tensor, native.array(tensor))
        try:
            self._interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            raise ModelError(f"LiteRT cannot run a part of the model on the CPU: {text_of(error)}") from error
        for tensor in self._outputs:
            native.array(tensor)[...] = self._interpreter.get_tensor(tensor)
            boundary.computed_on_cpu(native, tensor, tensors[tensor])
