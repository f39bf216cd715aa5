"""Models that spell out a formula in TensorFlow Lite's operators, and their runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import framebind as fb
from framebind.interop.device import Device
from framebind.tools.certify.cases.operator_models import options, run_model, run_on_cpu
from framebind.video.tflite_writer import G, Op, T
from null_programs import program_on_null
from support.model_runs import backend_of
from support.models import relative_error
from support.tiny_models import build

Array = npt.NDArray[Any]
KINDS = {"MEAN": "Reducer", "SUM": "Reducer", "FULLY_CONNECTED": "FullyConnected", "BATCH_MATMUL": "BatchMatMul"}
"""The kinds of option tables whose name is not that of the operator in another case."""


class Formula:
    """Tensors and operators of a model, which ``inputs`` begin."""

    def __init__(self, *inputs: Sequence[int]) -> None:
        self._tensors, self._operators = [T(f"x{i}", shape) for i, shape in enumerate(inputs)], list[Op]()
        self.inputs = range(len(inputs))

    def constant(self, values: Any, dtype: str = "float32") -> int:
        """A constant tensor."""
        array = np.array(values, dtype)
        self._tensors.append(T(f"c{len(self._tensors)}", array.shape, array, dtype))
        return len(self._tensors) - 1

    def add(self, name: str, *inputs: int, shape: Sequence[int] = (), dtype: str = "float32", **fields: Any) -> int:
        """The result of an operator; without a shape, the broadcast one of its inputs."""
        found = shape or np.broadcast_shapes(*(tuple(self._tensors[i].shape) for i in inputs))
        self._tensors.append(T(f"t{len(self._tensors)}", found, dtype=dtype))
        kind = KINDS.get(name, name.title().replace("_", ""))
        table = options(kind, **fields) if fields or name in ("ADD", "SUB", "MUL", "DIV") else None
        self._operators.append(Op(name, inputs, [len(self._tensors) - 1], table))
        return len(self._tensors) - 1

    def mean(self, source: int, axis: int = -1, *, keep: bool = True) -> int:
        """The mean along an axis."""
        shape = list(self._tensors[source].shape)
        shape[axis : axis + 1 or None] = [1] if keep else []
        return self.add("MEAN", source, self.constant([axis], "int32"), shape=shape, keepDims=keep)

    def reshape(self, source: int, *shape: int, dtype: str = "float32") -> int:
        """The tensor in another shape."""
        given = self.constant(shape, "int32")
        return self.add("RESHAPE", source, given, shape=shape, dtype=dtype, newShape=list(shape))

    def transpose(self, source: int, *order: int) -> int:
        """The tensor with its dimensions in another order."""
        shape = [self._tensors[source].shape[axis] for axis in order]
        return self.add("TRANSPOSE", source, self.constant(order, "int32"), shape=shape)

    def model(self, *outputs: int) -> bytes:
        """The model with these outputs."""
        return build(G(self._tensors, self._operators, list(self.inputs), outputs))


def kernels_of(model: bytes) -> list[str]:
    """The kernels of a model's steps on the null device."""
    _, program = program_on_null(model)
    assert program is not None
    return [step.kernel.source.name for step in program.record().steps]


def error_on(gpu: Device, model: bytes, inputs: Sequence[Array]) -> float:
    """The largest error of an output beside LiteRT on the CPU, relative to the output's largest value."""
    interpreter = fb.Interpreter(model_content=model)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend_of(gpu)))
    interpreter.modify_graph_with_delegate(delegate)
    found, expected = run_model(interpreter, list(inputs)), run_on_cpu(model, list(inputs))
    assert all(operator.runs_on == "gpu" for operator in delegate.delegated_ops())
    delegate.close()
    return max(relative_error(one, other) for one, other in zip(found, expected, strict=True))
