"""Parsing of one operator after the earlier ones: it becomes a node, or there is a reason why it stays on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

import numpy as np

from ...kernels.operation import TfliteNode, TfliteOp, Unsupported
from ...kernels.ops.constant.constants import Constant
from ...kernels.ops.constant.folding import fold
from ...kernels.ops.pointwise.quantize import Dequantize, float_view, half_view, rounding_epilogue
from ...kernels.registry import OPERATORS, why_unsupported
from ...kernels.tensor import INTEGER_DTYPES, QUANTIZED_DTYPES, RUNTIME_DTYPES, Bounds, Quantization, TensorInfo
from ..read.model import RawOperator, Subgraph
from ..read.types import computed_types
from ..transform.graph import Node
from .integers import check_integers, common_bounds, needs_integers
from .scales import refuse_scales
from .shape_rules import Shape, rule_shapes


@dataclass
class ParsedSubgraph:
    """The nodes of the operators that could be parsed, by operator number, and a reason for each other operator.

    ``stored`` are the subgraph's tensors as in the file. ``tensors`` are the same with their current shapes, quantized
    ones as their float views. Those that follow from constants and shapes have values. The tensors of the subgraphs
    that operators run come after the subgraph's own.
    """

    stored: dict[int, TensorInfo]
    tensors: dict[int, TensorInfo]
    _: KW_ONLY
    quantized: bool
    """Whether operators on quantized tensors are accepted."""
    nodes: dict[int, tuple[Node, ...]] = field(default_factory=dict)
    """The node of each operator; for one that runs other subgraphs, the nodes of all their operators."""
    unsupported: dict[int, str] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)
    """Tensors whose shapes are not known before the model runs."""
    inlined: int = 0
    """The nodes of operators that run other subgraphs."""
    copied: dict[tuple[int, Quantization], int] = field(default_factory=dict)
    """Constants of integers in the scale of an operator's output: see ``_with_copied_constants``."""

    def node_of(self, raw: RawOperator) -> TfliteNode:
        """An operator with its tensors."""
        inputs = [self.tensors[i] if i >= 0 else None for i in raw.inputs]
        return TfliteNode(raw.options, inputs, [self.tensors[i] for i in raw.outputs], raw.body)

    def add(self, tensor: TensorInfo, *, real: bool = False) -> int:
        """Add a tensor, and return its number. ``real``: see ``real_integers``."""
        number = len(self.stored)
        self.stored[number] = tensor
        self.tensors[number] = float_view(tensor, real=real) if self.quantized else half_view(tensor)
        return number

    def set_shapes(self, outputs: Iterable[int], shapes: Iterable[Shape], *, unless: Collection[int] = ()) -> None:
        """Give tensors their shapes, ``unless`` they have LiteRT's."""
        for output, shape in zip(outputs, shapes, strict=True):
            if output not in unless and self.tensors[output].shape != shape:
                self.tensors[output] = replace(self.tensors[output], shape=tuple(int(size) for size in shape))


def unparsed(subgraph: Subgraph, *, quantized: bool, shapes: Mapping[int, Shape]) -> ParsedSubgraph:
    """A subgraph of which no operator is parsed yet. See ``claim`` for the parameters."""
    stored, real, weights = dict(enumerate(subgraph.tensors)), real_integers(subgraph), _weights(subgraph)
    tensors = {
        i: float_view(tensor, real=i in real, weights=i in weights) if quantized else half_view(tensor)
        for i, tensor in stored.items()
    }
    parsed = ParsedSubgraph(stored, tensors, quantized=quantized)
    parsed.set_shapes(shapes.keys(), shapes.values())
    return parsed


def real_integers(subgraph: Subgraph) -> set[int]:
    """The tensors that are read only as biases (``TfliteOp.real_integers``), so that their integers have a scale. One
    that is also read as something else stands for itself, and operators that need it as a bias stay on the CPU.
    """
    return _only_read_at(subgraph, lambda row: row.real_integers)


def _weights(subgraph: Subgraph) -> set[int]:
    """The tensors that are read only as the weights of convolutions and their like."""
    return _only_read_at(subgraph, lambda row: () if row.channel_axis is None else (1,))


def _only_read_at(subgraph: Subgraph, positions: Callable[[TfliteOp], Sequence[int]]) -> set[int]:
    """The tensors that operators read only at these positions of their inputs."""
    chosen, others = set[int](), set(subgraph.outputs)
    for raw in subgraph.operators:
        row = OPERATORS.get(raw.name)
        places = positions(row) if row is not None and row.custom == raw.custom else ()
        for position, tensor in enumerate(raw.inputs):
            (chosen if position in places else others).add(tensor)
    return chosen - others


def parse_operator(raw: RawOperator, parsed: ParsedSubgraph, *, unless: Collection[int] = ()) -> Node:
    """Parse an operator after those that compute its inputs, and store the shapes and values of its outputs.

    Outputs in ``unless`` have their shapes already. If it raises Unsupported, no tensor of the subgraph is changed.
    """
    tensors = parsed.tensors
    for refuse in REFUSALS_OF_THE_FILE:
        refuse(raw, parsed)
    row = _find(raw)
    copied = _with_copied_constants(row, raw, parsed)
    node, bounds = _parse(row, copied, parsed.node_of(copied), tensors)
    for refuse in REFUSALS_OF_TYPES:
        refuse(raw, parsed)
    shapes = _output_shapes(node, tensors, row.max_rank)
    for output, shape, constant in zip(raw.outputs, shapes, _output_values(node, tensors), strict=True):
        known = tensors[output]
        has_shape = output in unless or shape == known.shape
        if has_shape and constant is None and known.dtype == "float32":
            continue  # the file says all that there is to know of most tensors
        tensors[output] = replace(
            known,
            shape=known.shape if has_shape else tuple(map(int, shape)),
            constant=constant if constant is not None else known.constant,
            exact_in_f32=not node.integers and not isinstance(node.operation, Constant),
            bounds=bounds if known.dtype in INTEGER_DTYPES else None,
        )
    return node


def _with_copied_constants(row: TfliteOp, raw: RawOperator, parsed: ParsedSubgraph) -> RawOperator:
    """The operator with its constants of integers in the scale of its output, if LiteRT's kernel copies their integers:
    whatever scale the constants have in the file, these then stand for the numbers that the output's scale makes.
    """
    result = parsed.tensors[raw.outputs[0]] if raw.outputs else None
    if result is None or result.quantization is None or result.stored_dtype == "":
        return raw
    if not row.moves_values or row.rescales:
        return raw
    inputs = list(raw.inputs)
    for place, tensor in enumerate(raw.inputs):
        stored = parsed.stored.get(tensor)
        if stored is None or stored.constant is None or stored.dtype != result.stored_dtype:
            continue
        key = tensor, result.quantization
        if key not in parsed.copied:
            parsed.copied[key] = number = parsed.add(replace(stored, quantization=result.quantization))
            scaled = replace(parsed.tensors[number], stored_dtype=stored.dtype, quantization=result.quantization)
            parsed.tensors[number] = scaled
        inputs[place] = parsed.copied[key]
    return replace(raw, inputs=tuple(inputs))


def _output_values(node: Node, tensors: Mapping[int, TensorInfo]) -> Sequence[np.ndarray | None]:
    """The values of a node's outputs; None for each that is not constant."""
    if isinstance(node.operation, Dequantize):
        return [tensors[node.inputs[0]].constant]
    return node.operation.values if isinstance(node.operation, Constant) else [None] * len(node.outputs)


def _refuse_quantized(raw: RawOperator, parsed: ParsedSubgraph) -> None:
    """Refuse quantized tensors if the options do."""
    if parsed.quantized:
        return
    for tensor in (parsed.stored[i] for i in (*raw.inputs, *raw.outputs) if i >= 0):
        if tensor.quantization is not None and tensor.dtype in QUANTIZED_DTYPES:
            raise Unsupported(f"tensor '{tensor.name}' is quantized {tensor.dtype}, and enable_quantization is False")


def _refuse_scales(raw: RawOperator, parsed: ParsedSubgraph) -> None:
    """Refuse scales that LiteRT's kernels do not follow."""
    refuse_scales(raw, parsed.stored)


def mistyped(tensor: TensorInfo, computed: str) -> str:
    """The reason why the GPU neither computes nor reads a tensor that LiteRT computes with another type."""
    return f"tensor '{tensor.name}' is declared {tensor.dtype}, and LiteRT computes {computed}"


def refuse_variable(raw: RawOperator, subgraph: Subgraph) -> None:
    """Refuse an operator with a variable that other operators use too, or if it cannot keep a state.

    Operators update a variable tensor in place, and LiteRT does not order them against those that read it. So
    only one operator may use a variable on the GPU, and it has to know how to keep a state.
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


def _refuse_unknown_shape(raw: RawOperator, parsed: ParsedSubgraph) -> None:
    """Refuse tensors of unknown rank. They have the shape () in the file, like a scalar; operators are parsed for one
    rank.
    """
    for index in raw.inputs:
        if index in parsed.unknown:
            name = parsed.tensors[index].name
            raise Unsupported(f"tensor '{name}' comes from the CPU, and has no rank before the model runs")


def _refuse_other_results(raw: RawOperator, parsed: ParsedSubgraph) -> None:
    """Refuse outputs that LiteRT computes with another type than the file declares."""
    for tensor, computed in computed_types(_find(raw), raw, parsed.stored).items():
        raise Unsupported(mistyped(parsed.stored[tensor], computed))


def _refuse_types(raw: RawOperator, parsed: ParsedSubgraph) -> None:
    """Refuse inputs of types that only constants may have: sparse, of 16 bits and so on. SHAPE and ZEROS_LIKE do not
    look at the type.
    """
    for tensor in [parsed.tensors[i] for i in raw.inputs if i >= 0]:
        if tensor.constant is not None or tensor.dtype in RUNTIME_DTYPES:
            continue
        if tensor.dtype != "complex64" or not tensor.exact_in_f32:  # an operator of the GPU wrote it: see claims.py
            raise Unsupported(f"tensor '{tensor.name}' is {tensor.dtype}, which the GPU supports only for constants")


Refusal = Callable[[RawOperator, ParsedSubgraph], None]
"""Raises Unsupported, with the reason, if an operator has to stay on the CPU."""
REFUSALS_OF_THE_FILE: tuple[Refusal, ...] = (_refuse_quantized, _refuse_scales, _refuse_unknown_shape)
"""Checks of the tensors of any operator, before it is looked up, in order."""
REFUSALS_OF_TYPES: tuple[Refusal, ...] = (_refuse_other_results, _refuse_types)
"""Checks of types, once an operator is parsed: its own reasons say more."""


def _parse(
    row: TfliteOp, raw: RawOperator, given: TfliteNode, tensors: Mapping[int, TensorInfo]
) -> tuple[Node, Bounds | None]:
    """The operator as a node, and the bounds of the integers that it computes, if they are known."""
    folded = fold(row, given, lambda: rule_shapes(row, given))
    if folded is not None:
        return Node("CONSTANT", Constant(tuple(folded)), raw.inputs[:1], raw.outputs, (), (raw.index,)), None
    try:
        parsed = row.parse(given)
    except Unsupported:
        raise
    except Exception as error:  # damaged option tables raise whatever flatbuffers, NumPy and arithmetic do
        names = ", ".join(f"'{tensor.name}'" for tensor in (*given.inputs, *given.outputs) if tensor is not None)
        raise Unsupported(
            f"its options, or its tensors {names}, are not those of {raw.name} ({type(error).__name__}: {error})"
        ) from error
    epilogue = [
        op if op.operand is None else replace(op, operand=raw.inputs[op.operand])
        for op in (*parsed.epilogue, *rounding_epilogue(row, given, parsed))
    ]
    picked = [raw.inputs[i] for i in parsed.inputs]
    node = Node(raw.name, parsed.operation, tuple(picked), raw.outputs, tuple(epilogue), (raw.index,))
    if parsed.integers or needs_integers(node, tensors):
        node = replace(node, integers=True)
        check_integers(node, tensors)
    return node, parsed.bounds or (common_bounds(node, tensors) if node.integers or row.moves_values else None)


def _find(raw: RawOperator) -> TfliteOp:
    row = OPERATORS.get(raw.name)
    if row is None or row.custom != raw.custom:
        raise Unsupported(why_unsupported(raw.name))
    if row.max_version and raw.version > row.max_version:
        raise Unsupported(f"version {raw.version} is newer than {row.max_version}, the newest one supported")
    return row


def _output_shapes(node: Node, tensors: Mapping[int, TensorInfo], max_rank: int) -> list[Shape]:
    """The shapes of a node's outputs. Refuses ranks above the operator's, and empty sizes.

    A constant may be empty: nothing computes it. So may some of several outputs, which then have no memory.
    """
    given = [tensors[i] for i in node.operands]
    is_constant = isinstance(node.operation, Constant)
    for tensor in given:
        _refuse_shape(tensor, tensor.shape, max_rank, may_be_empty=is_constant)
    try:
        computed = node.operation.output_shapes([tensor.shape for tensor in given])
        may_be_empty = is_constant or any(0 not in shape for shape in computed)
        for output, shape in zip(node.outputs, computed, strict=True):
            _refuse_shape(tensors[output], shape, max_rank, may_be_empty=may_be_empty)
    except Unsupported:
        raise
    except ValueError as error:
        raise Unsupported(str(error)) from error
    except Exception as error:  # a shape rule may meet any attributes
        raise Unsupported(f"no output shapes follow from its inputs: {error}") from error
    return computed


def _refuse_shape(tensor: TensorInfo, shape: Shape, max_rank: int, *, may_be_empty: bool) -> None:
    if len(shape) > max_rank:
        raise Unsupported(f"tensor '{tensor.name}' has rank {len(shape)}; at most {max_rank} is supported")
    if shape and min(shape) < (0 if may_be_empty else 1):
        raise Unsupported(f"tensor '{tensor.name}' has the empty or dynamic shape {shape}")
