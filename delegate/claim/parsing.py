"""Parsing of a subgraph's operators: each becomes a node, or there is a reason why it stays on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...kernels.operation import TfliteNode, TfliteOp, Unsupported
from ...kernels.ops.constant.constants import Constant
from ...kernels.ops.constant.folding import fold
from ...kernels.ops.pointwise.quantize import Dequantize, float_view, rounding_epilogue
from ...kernels.registry import OPERATORS
from ...kernels.tensor import QUANTIZED_DTYPES, TensorInfo, bhwc
from ..read.model import RawOperator, Subgraph
from ..transform.graph import Node


@dataclass
class ParsedSubgraph:
    """The nodes of the operators that could be parsed, by operator number, and a reason for each other operator.

    ``tensors`` are the subgraph's tensors, quantized ones as their float views. Those that follow from constants have
    values.
    """

    tensors: dict[int, TensorInfo]
    nodes: dict[int, Node] = field(default_factory=dict)
    unsupported: dict[int, str] = field(default_factory=dict)


def parse_operators(subgraph: Subgraph, *, quantized: bool, resized: bool) -> ParsedSubgraph:
    """Parse every operator, in order. See ``claim`` for the parameters."""
    tensors = {i: float_view(tensor) if quantized else tensor for i, tensor in enumerate(subgraph.tensors)}
    parsed = ParsedSubgraph(tensors)
    from_cpu: set[int] = set()
    for raw in subgraph.operators:
        try:
            if not quantized:
                _refuse_quantized(raw, subgraph)
            _refuse_variable(raw, subgraph)
            _refuse_unknown_rank(raw, subgraph, from_cpu)
            node = _parse(raw, tensors)
            _check_shapes(node, tensors, _find(raw).max_rank)
            if resized and isinstance(node.operation, Constant) and node.operation.given is not None:
                raise Unsupported("its input may have another shape than in the file: an input was resized")
        except Unsupported as reason:
            parsed.unsupported[raw.index] = str(reason)
            from_cpu.update(raw.outputs)
            continue
        parsed.nodes[raw.index] = node
        for output in raw.outputs:
            tensors[output] = replace(tensors[output], exact_in_f32=True)
        if isinstance(node.operation, Dequantize):
            tensors[node.outputs[0]] = replace(tensors[node.outputs[0]], constant=tensors[node.inputs[0]].constant)
        elif isinstance(node.operation, Constant):
            tensors[node.outputs[0]] = replace(tensors[node.outputs[0]], constant=node.operation.values)
    return parsed


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


def _check_shapes(node: Node, tensors: Mapping[int, TensorInfo], max_rank: int) -> None:
    """Refuse ranks above the operator's, empty sizes, and outputs whose declared shape is not what the operator
    computes.
    """
    for index in (*node.operands, *node.outputs):
        shape = tensors[index].shape
        if len(shape) > max_rank:
            raise Unsupported(f"tensor '{tensors[index].name}' has rank {len(shape)}; at most {max_rank} is supported")
        if any(size < 1 for size in shape):
            raise Unsupported(f"tensor '{tensors[index].name}' has the empty or dynamic shape {shape}")
    try:
        computed = node.operation.output_shapes([tensors[i].shape for i in node.operands])
        same = [_is_same(*pair) for pair in zip(computed, (tensors[i].shape for i in node.outputs), strict=True)]
    except Exception as error:  # a shape rule may meet any attributes
        raise Unsupported(f"no output shapes follow from its inputs: {error}") from error
    if not all(same):
        declared = [tensors[i].shape for i in node.outputs]
        raise Unsupported(f"the model declares output shapes {declared}, its inputs give {computed}")


def _is_same(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether the shapes are equal, or, up to rank 4, have the same BHWC form."""
    return shape == other or (max(len(shape), len(other)) <= 4 and bhwc(shape) == bhwc(other))
