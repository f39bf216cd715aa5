"""Sparse constants: DENSIFY against LiteRT's own, and damaged tables of sparsity."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ai_edge_litert.interpreter as litert
import numpy as np
import numpy.typing as npt
import pytest
from ai_edge_litert import schema_py_generated as schema

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.read.reader import read_model
from framebind.interop.null.device import NullDevice
from framebind.tools.certify.cases.operator_models import CPU_KERNELS
from support.tiny_models import G, Op, T, build

DENSE, COMPRESSED = schema.DimensionType.DENSE, schema.DimensionType.SPARSE_CSR
VECTORS = {np.uint8: "Uint8Vector", np.uint16: "Uint16Vector", np.int32: "Int32Vector"}


@dataclass(frozen=True)
class Sparse:
    """A shape, the order of its dimensions (blocks last), which are compressed, and the blocks by dimension."""

    shape: tuple[int, ...]
    order: tuple[int, ...]
    compressed: tuple[int, ...]
    """Levels, counted in the order."""
    blocks: tuple[tuple[int, int], ...] = ()
    """(dimension, size)."""
    dtype: str = "float32"
    indices: Any = np.uint8

    def __str__(self) -> str:
        return f"{self.shape} {self.order} {self.compressed} {self.blocks} {self.dtype} {self.indices.__name__}"


CASES = [
    *(Sparse((4, 6), order, compressed) for order in ((0, 1), (1, 0)) for compressed in ((), (0,), (1,), (0, 1))),
    *(Sparse((4, 6), (0, 1), (1,), dtype="float16", indices=kind) for kind in VECTORS),
    *(Sparse((8, 12), (0, 1, 2, 3), levels, ((0, 4), (1, 2))) for levels in ((), (0,), (1,), (0, 1))),
    *(Sparse((8, 12), (1, 0, *blocks), (1,), ((0, 2), (1, 3))) for blocks in ((2, 3), (3, 2))),
    *(Sparse((5, 8), (0, 1, 2), (1,), ((1, 4),), dtype) for dtype in ("float32", "float16")),
    *(Sparse((3, 1, 1, 8), (0, 1, 2, 3), (level,), dtype="float16") for level in range(4)),
    *(Sparse((2, 3, 5), order, (2,)) for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0))),
    Sparse((7,), (0,), (0,)),
    Sparse((300,), (0,), (0,), indices=np.uint16),
]


def values_of(case: Sparse) -> npt.NDArray[Any]:
    """Half of it zeros, and a whole row of zeros."""
    generator = np.random.default_rng(math.prod(case.shape))
    values = generator.normal(size=case.shape) * (generator.random(case.shape) < 0.5)
    values[1] = 0
    return values.astype(case.dtype)


def encoded(case: Sparse, values: npt.NDArray[Any]) -> tuple[bytes, Any]:
    """The values that are stored, and the SparsityParametersT that says where it belongs."""
    rank = len(case.shape)
    sizes = dict(case.blocks)
    outer = [size // sizes.get(d, 1) for d, size in enumerate(case.shape)]
    lengths = [*outer, *(size for _, size in case.blocks)]
    split = values.reshape([n for d in range(rank) for n in (outer[d], sizes.get(d, 1))])
    axes = [2 * d if d < rank else 2 * case.blocks[d - rank][0] + 1 for d in case.order]
    ordered = split.transpose([*axes, *(a for a in range(2 * rank) if a not in axes)])
    levels = [lengths[d] for d in case.order]
    rows = ordered.reshape(1, *levels)
    table = schema.SparsityParametersT()
    table.traversalOrder, table.blockMap = list(case.order), [d for d, _ in case.blocks]
    table.dimMetadata = []
    for level, size in enumerate(levels):
        metadata = schema.DimensionMetadataT()
        if level in case.compressed:
            metadata.format = COMPRESSED
            stored = rows.reshape(len(rows), size, -1).any(axis=2)
            segments, indices = np.cumsum([0, *stored.sum(1)]), np.nonzero(stored)[1]
            for name, array in (("Segments", segments), ("Indices", indices)):
                vector = getattr(schema, f"{VECTORS[case.indices]}T")()
                vector.values = array.astype(case.indices)
                setattr(metadata, f"array{name}", vector)
                setattr(metadata, f"array{name}Type", getattr(schema.SparseIndexVector, VECTORS[case.indices]))
            rows = rows[stored]
        else:
            metadata.format, metadata.denseSize = DENSE, size
            rows = rows.reshape(-1, *rows.shape[2:])
        table.dimMetadata.append(metadata)
    return rows.tobytes(), table


def model(case: Sparse, raw: bytes, table: Any, *between: str) -> bytes:
    """x + the constant (made dense, and float32 if it is float16); ``between`` are operators on x before."""
    constant = T("constant", case.shape, dtype=case.dtype, raw=raw, sparsity=table)
    tensors = [constant, T("made_dense", case.shape, dtype=case.dtype)]
    operators = [Op("DENSIFY", [0], [1])]
    if case.dtype == "float16":
        tensors.append(T("float32", case.shape))
        operators.append(Op("DEQUANTIZE", [1], [2]))
    added = x = len(tensors)
    tensors += [T(f"x{i}", case.shape) for i in range(len(between) + 2)]
    for name in between:
        operators.append(Op(name, [added], [added + 1]))
        added += 1
    operators.append(Op("ADD", [added, x - 1], [added + 1], schema.AddOptionsT()))
    return build(G(tensors, operators, [x], [added + 1]))


def run(interpreter: litert.Interpreter, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_are_where_litert_puts_them(case: Sparse) -> None:
    values = values_of(case)
    content = model(case, *encoded(case, values))
    constant = read_model(content).subgraphs[0].tensors[0]
    assert constant.dtype == f"sparse {case.dtype}" and constant.constant is not None
    np.testing.assert_array_equal(constant.constant, values)
    assert not constant.constant.flags.writeable
    cpu = litert.Interpreter(model_content=content, experimental_op_resolver_type=CPU_KERNELS)
    x = np.ones(case.shape, np.float32)
    np.testing.assert_array_equal(run(cpu, x), x + values.astype(np.float32))


@pytest.mark.parametrize("gpu", ["gl", "cl:pocl"], indirect=True)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_sparse_constant_is_dense_on_the_gpu(gpu: object, dtype: str) -> None:
    case = Sparse((8, 12), (0, 1, 2, 3), (1,), ((0, 4), (1, 2)), dtype)
    content = model(case, *encoded(case, values_of(case)))
    interpreter = fb.Interpreter(model_content=content)
    delegate = fb.GpuDelegate()
    interpreter.modify_graph_with_delegate(delegate)
    x = np.random.default_rng(0).normal(size=case.shape).astype(np.float32)
    np.testing.assert_array_equal(run(interpreter, x), x + values_of(case).astype(np.float32))
    assert claim(read_model(content).subgraphs[0], lambda: NullDevice().traits.target).unsupported == {}
    (partition,) = delegate.engine.partitions
    assert partition.program is not None and len(partition.program.steps) == 1
    delegate.close()


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_model_whose_sparse_constants_stay_on_the_cpu_stays_there(context: fb.GlContext) -> None:
    """LiteRT's XNNPACK, given a part of such a model, computes with zeros in their place."""
    case = Sparse((8, 12), (0, 1, 2, 3), (1,), ((0, 4), (1, 2)), "float16")
    content = model(case, *encoded(case, values_of(case)), "EXP", "TANH")
    interpreter = fb.Interpreter(model_content=content)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(first_delegate_node_index=2))
    interpreter.modify_graph_with_delegate(delegate)
    assert delegate.engine.partitions == []
    reasons = {row.reason for row in interpreter.delegated_ops() if row.name == "TANH"}
    assert all("sparse" in reason for reason in reasons) and reasons
    x = np.zeros(case.shape, np.float32)
    np.testing.assert_allclose(run(interpreter, x), np.tanh(1) + values_of(case).astype(np.float32), atol=1e-6)
    delegate.close()


SOUND = Sparse((4, 6), (0, 1), (1,))
Damage = Callable[[Any], None]


def _set(metadata: int, vector: str, values: list[int]) -> Damage:
    def damage(table: Any) -> None:
        getattr(table.dimMetadata[metadata], vector).values = np.array(values, np.uint8)

    return damage


def _change(**fields: Any) -> Damage:
    def damage(table: Any) -> None:
        for name, value in fields.items():
            setattr(table, name, value)

    return damage


DAMAGES: list[tuple[str, Damage, str]] = [
    ("an index outside the shape", _set(1, "arrayIndices", [200] * 12), "segments of dimension 1|outside the shape"),
    ("segments that do not end", _set(1, "arraySegments", [0, 1, 2, 3, 200]), "segments of dimension 1"),
    ("segments that go back", _set(1, "arraySegments", [0, 9, 3, 3, 3]), "segments of dimension 1"),
    ("too few segments", _set(1, "arraySegments", [0]), "segments of dimension 1"),
    ("no segments", _change(), "segments of dimension 1"),
    ("a dimension twice", _change(traversalOrder=[0, 0]), r"order \[0, 0\]"),
    ("a dimension too many", _change(traversalOrder=[0, 1, 2]), r"order \[0, 1, 2\]"),
    ("a block of no dimension", _change(blockMap=[5]), r"blocks \[5\]"),
    ("a huge dense size", lambda table: setattr(table.dimMetadata[0], "denseSize", 2**31 - 1), "claims a size of"),
    ("a negative dense size", lambda table: setattr(table.dimMetadata[0], "denseSize", -4), "claims a size of"),
]


@pytest.mark.parametrize("name, damage, says", DAMAGES, ids=[name for name, _, _ in DAMAGES])
def test_damaged_sparsity_is_one_model_error(name: str, damage: Damage, says: str) -> None:
    raw, table = encoded(SOUND, values_of(SOUND))
    if name == "no segments":
        table.dimMetadata[1].arraySegments, table.dimMetadata[1].arraySegmentsType = None, 0
    damage(table)
    with pytest.raises(fb.ModelError, match=f"tensor 0 'constant' is sparse.*({says})"):
        fb.Interpreter(model_content=model(SOUND, raw, table))


def test_a_small_file_cannot_stand_for_a_huge_array() -> None:
    case = Sparse((2**16, 2**16), (0, 1), (1,))
    _, table = encoded(SOUND, values_of(SOUND))
    with pytest.raises(fb.ModelError, match=r"tensor 0 'constant' is sparse.*larger than"):
        fb.Interpreter(model_content=model(case, bytes(16), table))


def test_a_dense_result_has_the_shape_of_its_constant() -> None:
    case = Sparse((4, 6), (0, 1), (1,), dtype="float16")
    raw, table = encoded(case, values_of(case))
    tensors = [T("constant", (4, 6), dtype="float16", raw=raw, sparsity=table), T("dense", (4, 6), dtype="float16")]
    tensors += [T("float32", (4, 6006)), T("y", (4, 6006))]
    operators = [Op("DENSIFY", [0], [1]), Op("DEQUANTIZE", [1], [2]), Op("EXP", [2], [3])]
    says = r"operator 1 DEQUANTIZE makes tensor 2 'float32' of shape \[4, 6006\] from the constant 'dense'"
    with pytest.raises(fb.ModelError, match=says):
        fb.Interpreter(model_content=build(G(tensors, operators, [], [3])))
