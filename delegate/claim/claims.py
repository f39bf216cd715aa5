"""Which operators of a model go to the GPU, why the others do not, and the graph of a partition of those that do."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...interop.device import Traits
from ...kernels.operation import TfliteNode, TfliteOp, Unsupported
from ...kernels.ops.constant.constants import Constant
from ...kernels.ops.constant.folding import fold
from ...kernels.ops.pointwise.quantize import Dequantize, float_view, rounding_epilogue
from ...kernels.registry import OPERATORS
from ...kernels.tensor import QUANTIZED_DTYPES, TensorInfo, bhwc
from ..lower.lowering import check_lowering
from ..read.model import RawOperator, Subgraph
from ..transform.graph import Graph, Node

Shapes = dict[int, tuple[int, ...]]

_VARYING = frozenset(
    "CALL CALL_ONCE HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE IF MULTINOMIAL RANDOM_STANDARD_NORMAL "
    "RANDOM_UNIFORM READ_VARIABLE STABLEHLO_COMPOSITE STABLEHLO_RNG_BIT_GENERATOR STABLEHLO_WHILE VAR_HANDLE "
    "WHILE".split()
)
"""Operators that may give another result for the same inputs."""


@dataclass
class Claims:
    """``nodes`` are the operators that the GPU can run, by operator number; ``unsupported`` has a reason for each
    other. ``unneeded`` are left out of both, with reasons: the GPU could run them, and has no use for it.

    ``tensors`` are the subgraph's tensors, quantized ones as their float views, with the values of those that only
    depend on constants filled in. ``constant_derived`` are the computed tensors that depend on constants alone.
    """

    nodes: dict[int, Node] = field(default_factory=dict)
    unsupported: dict[int, str] = field(default_factory=dict)
    unneeded: dict[int, str] = field(default_factory=dict)
    tensors: dict[int, TensorInfo] = field(default_factory=dict)
    constant_derived: frozenset[int] = frozenset()


def claim(subgraph: Subgraph, *, quantized: bool = True, resized: bool = False) -> Claims:
    """Parse every operator; one that cannot be parsed is refused with the reason.

    ``quantized`` says whether operators with integer tensors that stand for real numbers are taken, ``resized`` that
    the inputs have other shapes than in the file, so that shapes are no constants.
    """
    claims = Claims(
        tensors={i: float_view(tensor) if quantized else tensor for i, tensor in enumerate(subgraph.tensors)},
        constant_derived=constant_derived_tensors(subgraph),
    )
    from_cpu: set[int] = set()
    for raw in subgraph.operators:
        try:
            if not quantized:
                _refuse_quantized(raw, subgraph)
            _refuse_variable(raw, subgraph)
            _refuse_unknown_rank(raw, subgraph, from_cpu)
            node = _parse(raw, claims.tensors)
            _check_shapes(node, claims.tensors)
            if resized and isinstance(node.operation, Constant) and node.operation.given is not None:
                raise Unsupported("its input may have another shape than in the file: an input was resized")
        except Unsupported as reason:
            claims.unsupported[raw.index] = str(reason)
            from_cpu.update(raw.outputs)
            continue
        claims.nodes[raw.index] = node
        for output in raw.outputs:
            claims.tensors[output] = replace(claims.tensors[output], exact_in_f32=True)
        if isinstance(node.operation, Dequantize):
            constant = claims.tensors[node.inputs[0]].constant
            claims.tensors[node.outputs[0]] = replace(claims.tensors[node.outputs[0]], constant=constant)
        elif isinstance(node.operation, Constant):
            constant = node.operation.values
            claims.tensors[node.outputs[0]] = replace(claims.tensors[node.outputs[0]], constant=constant)
    return claims


def _refuse_quantized(raw: RawOperator, subgraph: Subgraph) -> None:
    for tensor in (subgraph.tensors[i] for i in (*raw.inputs, *raw.outputs) if i >= 0):
        if tensor.quantization is not None and tensor.dtype in QUANTIZED_DTYPES:
            raise Unsupported(f"tensor '{tensor.name}' is quantized {tensor.dtype}, and enable_quantization is False")


def _refuse_variable(raw: RawOperator, subgraph: Subgraph) -> None:
    """A variable tensor is updated in place by operators that LiteRT does not order against those that read it.

    So one on the GPU has one operator, which knows how to keep a state.
    """
    operator = OPERATORS.get(raw.name)
    for index in (i for i in (*raw.inputs, *raw.outputs) if i >= 0 and subgraph.tensors[i].variable):
        name = subgraph.tensors[index].name
        kept = operator is not None and operator.stateful and subgraph.tensors[index].dtype == "float32"
        if not kept or index in raw.outputs:
            raise Unsupported(f"tensor '{name}' is a variable, whose value the CPU keeps between invokes")
        for other in subgraph.operators:
            if other.index != raw.index and index in (*other.inputs, *other.outputs):
                raise Unsupported(f"its state '{name}' is used by operator {other.index} {other.name} too")


def _refuse_unknown_rank(raw: RawOperator, subgraph: Subgraph, from_cpu: set[int]) -> None:
    """A tensor of unknown rank has the shape () in the file, like a scalar; operators are parsed for one rank."""
    for tensor in (subgraph.tensors[i] for i in raw.inputs if i in from_cpu):
        if tensor.shape == ():
            raise Unsupported(f"tensor '{tensor.name}' comes from the CPU, and has no rank before the model runs")


def _leave_unneeded(claims: Claims, subgraph: Subgraph) -> None:
    """Leave a constant's DEQUANTIZE to the CPU where its values are needed there: they are the same in every frame."""
    on_cpu = {i for index in claims.unsupported for i in subgraph.operators[index].inputs} | set(subgraph.outputs)
    for index, node in sorted(claims.nodes.items(), reverse=True):  # a DENSIFY after its DEQUANTIZE
        if isinstance(node.operation, Dequantize) and node.outputs[0] in on_cpu:
            on_cpu.update(node.inputs)
            claims.unneeded[index] = "the CPU needs its result, which is constant; operators on the GPU have it already"
            del claims.nodes[index]


def constant_derived_tensors(subgraph: Subgraph) -> frozenset[int]:
    """What is the same in every frame: computed tensors that depend on constants alone."""
    constant_derived: set[int] = set()
    for raw in subgraph.operators:
        if raw.name in _VARYING or raw.custom or not raw.inputs:
            continue
        tensors = subgraph.tensors
        if all(i in constant_derived or (i >= 0 and tensors[i].constant is not None) or i < 0 for i in raw.inputs):
            constant_derived.update(raw.outputs)
    return frozenset(constant_derived)


def _parse(raw: RawOperator, tensors: Mapping[int, TensorInfo]) -> Node:
    row = _find(raw)
    inputs, outputs = [tensors[i] if i >= 0 else None for i in raw.inputs], [tensors[i] for i in raw.outputs]
    given = TfliteNode(raw.options, inputs, outputs)
    folded = fold(row, given)
    if folded is not None:
        return Node("CONSTANT", Constant(folded), raw.inputs[:1], raw.outputs, (), (raw.index,))
    try:
        parsed = row.parse(given)
    except Unsupported:
        raise
    except Exception as error:  # damaged option tables raise whatever flatbuffers, NumPy and arithmetic do
        names = ", ".join(f"'{tensor.name}'" for tensor in (*inputs, *outputs) if tensor is not None)
        raise Unsupported(
            f"its options, or its tensors {names}, are not those of {raw.name} ({type(error).__name__}: {error})"
        ) from error
    epilogue = tuple(
        op if op.operand is None else replace(op, operand=raw.inputs[op.operand])
        for op in (*parsed.epilogue, *rounding_epilogue(row, given, parsed))
    )
    picked = tuple(raw.inputs[i] for i in parsed.inputs)
    return Node(raw.name, parsed.operation, picked, raw.outputs, epilogue, (raw.index,))


def _find(raw: RawOperator) -> TfliteOp:
    row = OPERATORS.get(raw.name)
    if row is None or row.custom != raw.custom:
        raise Unsupported("the operator is not supported")
    if row.max_version and raw.version > row.max_version:
        raise Unsupported(f"version {raw.version} is newer than {row.max_version}, the newest one supported")
    return row


def _check_shapes(node: Node, tensors: Mapping[int, TensorInfo]) -> None:
    """Refuse ranks and sizes without a BHWC form, and outputs whose declared shape is not what the operator
    computes.
    """
    for index in (*node.operands, *node.outputs):
        shape = tensors[index].shape
        if len(shape) > 4:
            raise Unsupported(f"tensor '{tensors[index].name}' has rank {len(shape)}; at most 4 is supported")
        if any(size < 1 for size in shape):
            raise Unsupported(f"tensor '{tensors[index].name}' has the empty or dynamic shape {shape}")
    try:
        computed = node.operation.output_shapes([tensors[i].shape for i in node.operands])
        computed_bhwc = [bhwc(shape) for shape in computed]
    except Exception as error:  # a shape rule may meet any attributes
        raise Unsupported(f"no output shapes follow from its inputs: {error}") from error
    declared = [tensors[i].shape for i in node.outputs]
    if computed_bhwc != [bhwc(shape) for shape in declared]:
        raise Unsupported(f"the model declares output shapes {declared}, its inputs give {computed}")


def refuse_unlowered(claims: Claims, subgraph: Subgraph, traits: Traits) -> None:
    """Leave to the CPU what cannot be lowered for a device of these ``traits``: those operators alone.

    A program's constants lie in one buffer: an operator whose constants would overfill it stays on the CPU too.
    """
    known: set[Hashable] = set()
    total = 0
    for index, node in list(claims.nodes.items()):
        try:
            constants = check_lowering(node, claims.tensors, traits.target)
            more = sum(nbytes for key, nbytes in constants.items() if key not in known)
            if total + more > traits.max_buffer_bytes:
                raise Unsupported(
                    f"with its constants those on the GPU take {total + more} bytes; a buffer of {traits.name} holds "
                    f"{traits.max_buffer_bytes}"
                )
        except Unsupported as reason:
            claims.unsupported[index] = str(reason)
            del claims.nodes[index]
            continue
        known |= constants.keys()
        total += more
    _leave_unneeded(claims, subgraph)


def baked_shapes(claims: Claims) -> dict[int, tuple[int, ...]]:
    """The tensors whose shapes became constants of the model (by SHAPE and its like), and these shapes."""
    given = {n.inputs[0]: n.operation.given for n in claims.nodes.values() if isinstance(n.operation, Constant)}
    return {tensor: shape for tensor, shape in given.items() if shape is not None}


def output_shapes(claims: Claims, indices: Sequence[int], shapes: Shapes) -> Shapes:
    """The TFLite shapes of all tensors that these operators read and write, from ``shapes`` of the partition's inputs.

    Raises ValueError, naming the operator, where the new shapes do not fit together.
    """
    known = dict(shapes)
    for index in indices:
        node = claims.nodes[index]
        operands = [known.get(i, claims.tensors[i].shape) for i in node.operands]
        try:
            known |= dict(zip(node.outputs, node.operation.output_shapes(operands), strict=True))
        except Exception as error:  # a shape rule may meet any shapes
            raise ValueError(f"operator {index} {node.name}: {error}") from error
    return known


def build_graph(
    claims: Claims, indices: Sequence[int], inputs: Sequence[int], outputs: Sequence[int], shapes: Shapes
) -> Graph:
    """The graph of one partition: operators ``indices`` in execution order, its boundary tensors, and current
    shapes.
    """
    nodes = [claims.nodes[index] for index in indices]
    used = {i for node in nodes for i in (*node.operands, *node.outputs)} | set(inputs) | set(outputs)
    tensors = {i: replace(claims.tensors[i], shape=shapes.get(i, claims.tensors[i].shape)) for i in used}
    return Graph(tensors, nodes, tuple(i for i in inputs if tensors[i].constant is None and i in used), tuple(outputs))
