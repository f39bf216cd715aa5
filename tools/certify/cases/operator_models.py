"""Models of a single operator, and the results of LiteRT's CPU kernels for them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ai_edge_litert.interpreter as litert
import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from ....video.tflite_writer import G, Op, T, build

Array = npt.NDArray[np.float32]
CPU_KERNELS = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
SHAPES = [(2, 3, 5, 7), (1, 4, 5, 8), (2, 6, 3, 1), (2, 5, 6), (1, 7, 4), (3, 10), (2, 4), (5,), (2, 1, 6, 3)]
"""Shapes of every rank, with channels that fill slices, and that do not."""
BESIDE = np.arange(6, dtype=np.float32).reshape(2, 3)

SPECTRA = {"RFFT2D": "COMPLEX_ABS", "COMPLEX_ABS": "COMPLEX_ABS", "REAL": "REAL", "IMAG": "IMAG"}
"""The operators of complex numbers, which stay on the GPU, and the one that reads the result of an RFFT2D."""


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
    """The outputs' shapes, if LiteRT does not find them by itself."""
    dtype: str = "float32"
    """The outputs' type."""
    dtypes: tuple[str, ...] = ()
    """The types of the outputs, if they differ; ``dtype`` does not count then."""
    body: str = ""
    """The operator of a second subgraph, which joins two numbers; "" for a model of one subgraph."""
    known: bool = False
    """Set if all inputs are constants. A NEG is added to the model, since constants alone do not go to the GPU."""
    read: bool = False
    """A CAST to float32 reads each output: integers that no operator on the GPU reads are computed on the CPU."""
    exact: bool = False
    """Set if the operator only moves values, so that results are compared bit by bit."""
    halves: bool = True
    """Set if the case is also run with tensors in 16 bits: inputs that are rounded change its result little."""

    def __str__(self) -> str:
        return f"{self.operator} {self.label}".strip()


def values(*shape: int, seed: int = 0) -> Array:
    """Random values from -1 to 1, the same for the same shape and seed."""
    return np.random.default_rng(seed + sum(shape)).uniform(-1, 1, shape).astype(np.float32)


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
    if case.operator in SPECTRA:
        complex_numbers = tensor("complex", shapes[0], dtype="complex64")
        operators.append(Op("RFFT2D", numbers, [complex_numbers], case.options))
        operators.append(Op(SPECTRA[case.operator], [complex_numbers], outputs))
    else:
        operators.append(Op(case.operator, numbers, outputs, case.options, case.version))
    if negated:
        plain, outputs = outputs, [tensor(f"negated_output{i}", shape) for i, shape in enumerate(shapes)]
        operators += [Op("NEG", [a], [b]) for a, b in zip(plain, outputs, strict=True)]
    if case.read:
        floats = [tensor(f"float{i}", shape) for i, shape in enumerate(shapes)]
        operators += [Op("CAST", [a], [b], options("Cast")) for a, b in zip(outputs, floats, strict=True)]
        outputs = [*outputs, *floats]
    if case.known:
        inputs.append(tensor("beside", BESIDE.shape))
        outputs = [*outputs, tensor("negated_beside", BESIDE.shape)]
        operators.append(Op("NEG", inputs[-1:], outputs[-1:]))
    return build(G(tensors, operators, inputs, outputs), *_bodies(case))


def _bodies(case: ModelCase) -> list[G]:
    """The second subgraph of a case that has one."""
    dtype = str(runtime_inputs(case)[0].dtype)
    numbers = [T(name, (), dtype=dtype) for name in ("a", "b", "joined")]
    kinds = {"ADD": "Add", "MUL": "Mul", "MAXIMUM": "MaximumMinimum", "MINIMUM": "MaximumMinimum"}
    table = options(kinds[case.body]) if case.body in kinds else None
    return [G(numbers, [Op(case.body, [0, 1], [2], table)], [0, 1], [2], "body")] if case.body else []


def runtime_inputs(case: ModelCase) -> list[Array]:
    beside = [BESIDE] if case.known else []
    return [given for given in case.inputs if isinstance(given, np.ndarray)] + beside


@functools.cache
def output_shapes(case: ModelCase) -> Sequence[tuple[int, ...]]:
    """The shapes of the outputs, as LiteRT computes them from those of the inputs."""
    if case.shapes:
        return case.shapes
    model = case_model(case, [(1,)] * case.outputs)
    interpreter = litert.Interpreter(model_content=model, experimental_op_resolver_type=CPU_KERNELS)
    interpreter.allocate_tensors()
    details: list[dict[str, Any]] = interpreter.get_output_details()[: case.outputs]
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
