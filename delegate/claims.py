"""Which operators of a model go to the GPU, why the others do not, and the graph of a partition of those that do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..kernels.layout import INTEGERS, bhwc
from ..kernels.operator import Operator, TensorInfo, Unsupported
from ..kernels.quantize import Dequantize, float_view, rounding_links
from ..kernels.registry import OPERATORS
from .graph import Graph, Node
from .reader import RawOperator, Subgraph

Shapes = dict[int, tuple[int, ...]]


@dataclass
class Claims:
    """``nodes`` are the operators that the GPU can run, by operator number; ``refused`` has a reason for each other.

    ``tensors`` are the subgraph's tensors, quantized ones as their float views, with the values of those that only
    depend on constants filled in.
    """

    nodes: dict[int, Node] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    tensors: dict[int, TensorInfo] = field(default_factory=dict)


def claim(subgraph: Subgraph, *, quantized: bool = True) -> Claims:
    """Parse every operator; one that cannot be parsed is refused with the reason.

    ``quantized`` says whether operators with integer tensors that stand for real numbers are taken.
    """
    claims = Claims(
        tensors={i: float_view(tensor) if quantized else tensor for i, tensor in enumerate(subgraph.tensors)}
    )
    for raw in subgraph.operators:
        try:
            if not quantized:
                _refuse_quantized(raw, subgraph)
            node = _parse(raw, claims.tensors)
            _check_shapes(node, claims.tensors)
        except Unsupported as reason:
            claims.refused[raw.index] = str(reason)
            continue
        claims.nodes[raw.index] = node
        if isinstance(node.attributes, Dequantize):
            constant = claims.tensors[node.inputs[0]].constant
            claims.tensors[node.outputs[0]] = replace(claims.tensors[node.outputs[0]], constant=constant)
    return claims


def _refuse_quantized(raw: RawOperator, subgraph: Subgraph) -> None:
    for tensor in (subgraph.tensors[i] for i in (*raw.inputs, *raw.outputs) if i >= 0):
        if tensor.quantization is not None and tensor.dtype in INTEGERS:
            raise Unsupported(f"tensor '{tensor.name}' is quantized {tensor.dtype}, and enable_quantization is False")


def _parse(raw: RawOperator, tensors: Mapping[int, TensorInfo]) -> Node:
    operator = _find(raw)
    inputs, outputs = [tensors[i] if i >= 0 else None for i in raw.inputs], [tensors[i] for i in raw.outputs]
    try:
        parsed = operator.parse(raw.options, inputs, outputs)
    except (IndexError, AttributeError, ValueError, TypeError) as error:
        raise Unsupported(f"its inputs, outputs or options are not those of {raw.name}: {error}") from error
    links = tuple(
        link if link.operand is None else replace(link, operand=raw.inputs[link.operand])
        for link in (*parsed.links, *rounding_links(raw.name, parsed, inputs, outputs))
    )
    picked = tuple(raw.inputs[i] for i in parsed.inputs)
    return Node(operator, parsed.attributes, picked, raw.outputs, links, (raw.index,))


def _find(raw: RawOperator) -> Operator:
    operator = OPERATORS.get(raw.name)
    if operator is None or operator.custom != raw.custom:
        raise Unsupported("the operator is not supported")
    if operator.max_version and raw.version > operator.max_version:
        raise Unsupported(f"version {raw.version} is newer than {operator.max_version}, the newest one supported")
    return operator


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
        computed = node.operator.output_shapes(node.attributes, [tensors[i].shape for i in node.operands])
    except ValueError as error:
        raise Unsupported(str(error)) from error
    declared = [tensors[i].shape for i in node.outputs]
    if [bhwc(shape) for shape in computed] != [bhwc(shape) for shape in declared]:
        raise Unsupported(f"the model declares output shapes {declared}, its inputs give {computed}")


def output_shapes(claims: Claims, indices: Sequence[int], shapes: Shapes) -> Shapes:
    """The TFLite shapes of all tensors that these operators read and write, from ``shapes`` of the partition's inputs.

    Raises ValueError, naming the operator, where the new shapes do not fit together.
    """
    known = dict(shapes)
    for index in indices:
        node = claims.nodes[index]
        operands = [known.get(i, claims.tensors[i].shape) for i in node.operands]
        try:
            known |= dict(zip(node.outputs, node.operator.output_shapes(node.attributes, operands), strict=True))
        except (ValueError, IndexError) as error:
            raise ValueError(f"operator {index} {node.operator.name}: {error}") from error
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
