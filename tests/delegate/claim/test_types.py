"""Computed tensors that a file declares with another type than LiteRT computes: LiteRT's values, or none at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ai_edge_litert.interpreter as litert
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.read.model import RawOperator
from framebind.delegate.read.reader import read_model
from framebind.interop.null.device import NullDevice
from framebind.tools.certify.cases.operator_cases import CASES
from framebind.tools.certify.cases.operator_models import (
    CPU_KERNELS,
    Const,
    ModelCase,
    case_model,
    options,
    output_shapes,
    run_model,
    runtime_inputs,
)
from framebind.tools.certify.cases.quantized_models import Quantized, cases, random_inputs
from support.tiny_models import CPU_ONLY, G, Op, T, build, pack, unpack

Arrays = list[npt.NDArray[Any]]
TYPES = ("float32", "int8", "int32", "int64")
QUANTIZED = ("int8", "uint8", "int16")
IN_DECLARED_TYPE = {"BITCAST", "CAST", "FULLY_CONNECTED", "LSTM", "MUL", "SQUEEZE", "TOPK_V2"}
"""Operators whose kernels neither set the type nor refuse it at first, and never write more than the declared type has:
they compute in the declared type, or fail when they run.
"""


def input_types(case: ModelCase) -> tuple[str, ...]:
    arrays = [given.values if isinstance(given, Const) else given for given in case.inputs]
    return tuple("" if array is None else str(np.asarray(array).dtype) for array in arrays)


def chosen() -> dict[str, list[ModelCase]]:
    """The first case of each operator for each combination of types."""
    found: dict[str, dict[Any, ModelCase]] = {}
    for case in CASES:
        found.setdefault(case.operator, {}).setdefault((input_types(case), case.dtype, case.dtypes), case)
    return {operator: list(alike.values()) for operator, alike in found.items()}


CHOSEN = chosen()


def typed(dtype: str) -> Any:
    """A tensor of the schema that has this type, and a scale if it needs one."""
    scale: dict[str, Any] = {"scales": [0.05], "zero_points": [0]} if dtype in QUANTIZED else {}
    return unpack(build(G([T("x", (1,), dtype=dtype, **scale)], [], [0], [0]))).subgraphs[0].tensors[0]


TYPED = {name: typed(name) for name in TYPES}


def mistyped(content: bytes) -> Iterator[tuple[str, bytes]]:
    """The model with each other type for each computed tensor in turn."""
    model: Any = unpack(content)
    tensors = model.subgraphs[0].tensors
    for output in {output for operator in model.subgraphs[0].operators for output in operator.outputs}:
        tensor = tensors[output]
        right = tensor.type, tensor.quantization
        for name, other in TYPED.items():
            if other.type != right[0]:
                tensor.type, tensor.quantization = other.type, other.quantization
                yield f"tensor {output} declared {name}", pack(model)
        tensor.type, tensor.quantization = right


def results(interpreter: litert.Interpreter, inputs: Sequence[npt.NDArray[Any]]) -> Arrays | None:
    """The outputs; None if LiteRT refuses the model."""
    try:
        return run_model(interpreter, inputs)
    except (RuntimeError, ValueError, fb.ModelError):
        return None


def agree(found: Arrays | None, expected: Arrays | None, steps: float, *, on_gpu: bool) -> bool:
    """Whether both refuse the model, or give arrays of the same types, and of the same values if the GPU computed them.

    If the CPU computed them, the kernel is the same, and may show memory that nothing was written to.
    """
    if found is None or expected is None:
        return found is expected
    kinds = [[(array.shape, array.dtype) for array in arrays] for arrays in (found, expected)]
    if kinds[0] != kinds[1] or not on_gpu:
        return kinds[0] == kinds[1]
    pairs = zip(found, expected, strict=True)
    return all(np.abs(a - b.astype(np.float64)).max() <= steps + 1e-5 * np.abs(b).max() for a, b in pairs)


def check(label: str, content: bytes, inputs: Sequence[npt.NDArray[Any]] | None = None, *, steps: float = 0) -> None:
    try:
        interpreter = fb.Interpreter(model_content=content)
    except fb.ModelError as refused:
        assert "has less memory" in str(refused) or "no single positive scale" in str(refused), label
        return
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(is_precision_loss_allowed=False))
    interpreter.modify_graph_with_delegate(delegate)
    given = list(random_inputs(interpreter.get_input_details()).values()) if inputs is None else inputs
    found = results(interpreter, given)
    on_gpu = interpreter.delegated_ops()[-1].runs_on == "gpu"
    delegate.close()
    references = [
        results(litert.Interpreter(model_content=content, experimental_op_resolver_type=resolver), given)
        for resolver in (litert.OpResolverType.AUTO, CPU_KERNELS)
    ]
    assert any(agree(found, expected, steps, on_gpu=on_gpu) for expected in references), label


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize("operator", CHOSEN)
def test_no_declared_type_makes_other_values(context: fb.GlContext, operator: str) -> None:
    for case in CHOSEN[operator]:
        for label, content in mistyped(case_model(case, output_shapes(case))):
            check(f"{case}: {label}", content, runtime_inputs(case))


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize("case", [case for case in cases() if case.dtype != "uint8"], ids=str)
def test_no_declared_type_makes_other_integers(context: fb.GlContext, case: Quantized) -> None:
    for label, content in mistyped(case.model):
        check(f"{case}: {label}", content, steps=1)


def sizes(content: bytes) -> dict[int, int]:
    """The bytes of a value of each computed tensor that LiteRT allocates; none if it refuses the model."""
    interpreter = litert.Interpreter(model_content=content, experimental_op_resolver_type=CPU_KERNELS)
    try:
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError):
        return {}
    return {detail["index"]: np.dtype(detail["dtype"]).itemsize for detail in interpreter.get_tensor_details()}


@pytest.mark.parametrize("operator", sorted(set(CHOSEN) - IN_DECLARED_TYPE))
def test_no_file_makes_litert_write_behind_a_tensor(operator: str) -> None:
    """The reader refuses each file whose output is smaller than what LiteRT's kernel writes there."""
    for case in CHOSEN[operator]:
        right = case_model(case, output_shapes(case))
        needed = {i: sizes(right)[i] for raw in read_model(right).subgraphs[0].operators for i in written(raw)}
        for label, content in mistyped(right):
            try:
                read_model(content)
            except fb.ModelError:
                continue
            given = sizes(content)
            assert all(given[i] >= size for i, size in needed.items() if i in given), f"{case}: {label}"


def written(raw: RawOperator) -> tuple[int, ...]:
    return () if raw.name in IN_DECLARED_TYPE else raw.outputs


def reasons(tensors: list[T], operators: list[Op], outputs: Sequence[int]) -> Mapping[int, str]:
    """Why operators stay on the CPU."""
    subgraph = read_model(build(G(tensors, operators, [0], outputs))).subgraphs[0]
    return claim(subgraph, lambda: NullDevice().traits.target).unsupported


def test_what_reads_a_tensor_of_another_type_stays_on_the_cpu_too() -> None:
    """LiteRT gives y the type of x, and z that of y; a CAST gives a type of its own again."""
    scale: dict[str, Any] = {"dtype": "int8", "scales": [0.05], "zero_points": [0]}
    tensors = [T("x", (2, 3)), T("y", (2, 3), **scale), T("z", (2, 3), **scale), T("f", (2, 3)), T("n", (2, 3))]
    add = [Op("ADD", [0, 0], [1], options("Add")), Op("ADD", [1, 1], [2], options("Add"))]
    found = reasons(tensors, [*add, Op("CAST", [2], [3], options("Cast")), Op("NEG", [3], [4])], [4])
    y, z = (f"tensor '{name}' is declared int8, and LiteRT computes float32" for name in "yz")
    assert found == {0: y, 1: y, 2: z}


def test_an_operator_on_the_cpu_gives_types_too() -> None:
    tensors = [T("x", (1, 4, 5, 3)), T("c", (1, 4, 5, 3)), T("y", (1, 4, 5, 3), dtype="int32"), T("z", (1, 4, 5, 3))]
    operators = [Op(CPU_ONLY, [0], [1]), Op("RELU_0_TO_1", [1], [2], version=99), Op("CAST", [2], [3], options("Cast"))]
    found = reasons(tensors, operators, [3])
    assert "version 99" in found[1]
    assert found[2] == "tensor 'y' is declared int32, and LiteRT computes float32"


def test_the_steps_of_a_loop_compute_the_types_that_are_declared() -> None:
    """LiteRT runs the whole loop of which a step computes another type."""
    counter = [T("i", (), dtype="int32"), T("v", (2, 3))]
    loop = Op("WHILE", [0, 1], [2, 3], options("While", condSubgraphIndex=1, bodySubgraphIndex=2))
    main = G([T("zero", (), 0, "int32"), T("x", (2, 3)), T("n", (), dtype="int32"), T("y", (2, 3))], [loop], [1], [3])
    less = Op("LESS", [0, 2], [3], options("Less"))
    condition = G([*counter, T("three", (), 3, "int32"), T("more", (), dtype="bool")], [less], [0, 1], [3])

    def reason(**kind: Any) -> str:
        between = [T("one", (), 1, "int32"), T("next", (), dtype="int32"), T("b", (2, 3), **kind), T("w", (2, 3))]
        steps = [Op("ADD", [0, 2], [3], options("Add")), Op("NEG", [1], [4]), Op("NEG", [4], [5])]
        content = build(main, condition, G([*counter, *between], steps, [0, 1], [3, 5]))
        subgraphs = read_model(content).subgraphs
        found = claim(subgraphs[0], lambda: NullDevice().traits.target, subgraphs=subgraphs).unsupported
        return found.get(0, "")

    assert reason() == ""
    expected = "operator 1 NEG of 'main': tensor 'b' is declared int8, and LiteRT computes float32"
    assert reason(dtype="int8", scales=[0.05], zero_points=[0]) == expected


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_a_softmax_of_8_bits_may_have_16(dtype: str) -> None:
    tensors = [
        T("x", (2, 3), dtype="int8", scales=[0.05], zero_points=[0]),
        T("y", (2, 3), dtype=dtype, scales=[1 / 256], zero_points=[0]),
    ]
    assert reasons(tensors, [Op("SOFTMAX", [0], [1], options("Softmax", beta=1.0))], [1]) == {}
