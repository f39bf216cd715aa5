"""Models of a single operator, and what LiteRT's CPU kernels make of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ai_edge_litert.interpreter as litert
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from support.cases.references import Array
from support.tiny_models import G, Op, T, build

CPU_KERNELS = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
BESIDE = np.arange(6, dtype=np.float32).reshape(2, 3)


@dataclass(frozen=True)
class Const:
    """An input that is part of the model: float32, or int32 for axes and the like."""

    values: Any


@dataclass(frozen=True, eq=False)
class ModelCase:
    """A model of one operator. ``inputs`` are arrays that are set before invoke, Const, or None for an optional input
    that is left out.
    """

    operator: str
    label: str
    inputs: tuple[Any, ...]
    options: Any = None
    outputs: int = 1
    version: int = 1
    shapes: tuple[tuple[int, ...], ...] = ()
    """The outputs' shapes, where LiteRT does not find them by itself."""
    dtype: str = "float32"
    """The outputs' type."""
    dtypes: tuple[str, ...] = ()
    """Their types, where they differ."""
    known: bool = False
    """Its result is known before anything runs: a NEG stands beside it, since constants alone do not go to the GPU."""
    exact: bool = False
    """It only moves values."""
    halves: bool = True
    """It stays near its result when its inputs are rounded to 16 bits."""

    def __str__(self) -> str:
        return f"{self.operator} {self.label}".strip()


def case_model(case: ModelCase, shapes: Sequence[Sequence[int]], *, negated: bool = False) -> bytes:
    """The model's bytes; ``shapes`` are the outputs'. ``negated``: a NEG before each runtime input and each output."""
    tensors: list[T] = []
    operators: list[Op] = []
    inputs: list[int] = []
    numbers: list[int] = []

    def tensor(name: str, shape: Sequence[int], constant: Any = None, dtype: str = "float32") -> int:
        tensors.append(T(name, shape, constant, dtype))
        return len(tensors) - 1

    for i, given in enumerate(case.inputs):
        if given is None:
            numbers.append(-1)
        elif isinstance(given, Const):
            array = np.asarray(given.values)
            numbers.append(tensor(f"constant{i}", array.shape, array, str(array.dtype)))
        else:
            inputs.append(tensor(f"input{i}", given.shape, dtype=str(given.dtype)))
            numbers.append(inputs[-1])
            if negated:
                numbers[-1] = tensor(f"negated{i}", given.shape)
                operators.append(Op("NEG", [inputs[-1]], [numbers[-1]]))
    dtypes = case.dtypes or [case.dtype] * len(shapes)
    outputs = [tensor(f"output{i}", shape, dtype=dtypes[i]) for i, shape in enumerate(shapes)]
    operators.append(Op(case.operator, numbers, outputs, case.options, case.version))
    if negated:
        plain, outputs = outputs, [tensor(f"negated_output{i}", shape) for i, shape in enumerate(shapes)]
        operators += [Op("NEG", [a], [b]) for a, b in zip(plain, outputs, strict=True)]
    if case.known:
        inputs.append(tensor("beside", BESIDE.shape))
        outputs = [*outputs, tensor("negated_beside", BESIDE.shape)]
        operators.append(Op("NEG", inputs[-1:], outputs[-1:]))
    return build(G(tensors, operators, inputs, outputs))


def runtime_inputs(case: ModelCase) -> list[Array]:
    beside = [BESIDE] if case.known else []
    return [given for given in case.inputs if isinstance(given, np.ndarray)] + beside


@functools.cache
def output_shapes(case: ModelCase) -> Sequence[tuple[int, ...]]:
    """What LiteRT makes of the inputs' shapes."""
    if case.shapes:
        return case.shapes
    model = case_model(case, [(1,)] * case.outputs)
    interpreter = litert.Interpreter(model_content=model, experimental_op_resolver_type=CPU_KERNELS)
    interpreter.allocate_tensors()
    details = interpreter.get_output_details()[: case.outputs]
    return [tuple(int(n) for n in detail["shape"]) for detail in details]


def run_model(interpreter: litert.Interpreter, inputs: Sequence[Array]) -> list[Array]:
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def run_on_cpu(model: bytes, inputs: Sequence[Array]) -> list[Array]:
    return run_model(litert.Interpreter(model_content=model, experimental_op_resolver_type=CPU_KERNELS), inputs)


def options(kind: str, **fields: Any) -> Any:
    """An option table of the schema, for instance options("Softmax", beta=2.0)."""
    table = getattr(schema, f"{kind}OptionsT")()
    for name, value in fields.items():
        assert hasattr(table, name), f"{kind}Options has no {name}"
        setattr(table, name, value)
    return table


def ints(*given: int) -> Const:
    return Const(np.array(given, np.int32))
