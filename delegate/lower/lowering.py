"""Lowering of a graph to launches."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from ...kernels.codegen.texts import INTEGER_KERNELS
from ...kernels.operation import Lowering, Operation, Unsupported
from ...kernels.ops.arguments import is_exact
from ...kernels.ops.bottleneck.expanded import Expanded
from ...kernels.ops.convolution.conv import Convolution
from ...kernels.ops.convolution.depthwise import Depthwise
from ...kernels.ops.convolution.fully_connected import FullyConnected
from ...kernels.ops.convolution.separable import Separable
from ...kernels.ops.convolution.transpose_conv import TransposeConvolution
from ...kernels.target import Target
from ...kernels.tensor import INDEX_DTYPES, Shape, TensorId, TensorInfo
from ...kernels.views import Sliced
from ..transform.graph import Graph, Node
from ..transform.ranks import align_ranks, collapse_ranks
from .launches import ROUNDING, Lowered, check_launch
from .precision import find_exact


def lower(graph: Graph, target: Target) -> Lowered:
    """Ask every node's operation for its launches on a device of this ``target``."""
    constants = frozenset(i for i, tensor in graph.tensors.items() if tensor.constant is not None)
    shapes: dict[TensorId, Shape] = {i: tensor.bhwc for i, tensor in graph.tensors.items()}
    lowered = Lowered(target, shapes, graph.aliases, constants, frozenset(graph.outputs), integers=_integers(graph))
    exact = find_exact(graph) if target.halves else frozenset[Node]()
    for node in graph.nodes:
        lower_node(node, lowered, exact=node in exact)
    return lowered


def _integers(graph: Graph) -> set[TensorId]:
    """The tensors that are int32 in memory: results of nodes that compute on integers, and constants that need it.

    Tensors that share memory are of the same kind.
    """
    exact = {tensor for node in graph.nodes if node.integers for tensor in (*node.operands, *node.outputs)}
    found: set[TensorId] = {tensor for tensor in exact if graph.tensors[tensor].dtype in INDEX_DTYPES}
    found |= {i for i, tensor in graph.tensors.items() if tensor.constant is not None and not is_exact(tensor)}
    parents = {alias.parent for tensor, alias in graph.aliases.items() if {tensor, alias.parent} & found}
    return found | parents | {tensor for tensor, alias in graph.aliases.items() if alias.parent in parents}


def lower_node(node: Node, lowered: Lowered, *, exact: bool = False) -> None:
    """Append one node's launches. Its epilogue belongs to the last one, which writes its output; the operations on its
    input belong to the first. ``exact``: nothing is rounded to 16 bits.
    """
    target = lowered.target
    rounds = any(op.expression in ROUNDING for op in node.epilogue)
    if (rounds or exact or not target.halves) and not _has_integer_weights(node.operation):
        # Matrix units take weights of 16 bits, which would move sums across steps if halves did not hold them.
        target = replace(target, matrix_units=False, halves=False)
    lowering = Lowering(node.inputs, node.outputs, lowered.shapes.__getitem__, lowered.scratch, target)
    known = set(lowered.shapes) if node.integers else set[TensorId]()
    launches = node.operation.lower(lowering)
    if node.integers:
        lowered.integers |= lowered.shapes.keys() - known  # intermediate results of an operator
    integers = [node.integers if launch.integers is None else launch.integers for launch in launches]
    foreign = [
        launch.kernel
        for launch, of_integers in zip(launches, integers, strict=True)
        if of_integers and launch.kernel not in INTEGER_KERNELS
    ]
    if foreign:
        raise Unsupported(f"its kernel '{foreign[0]}' computes in float32, and integers may need more bits")
    label = f"{node.name} {','.join(map(str, node.indices))}"
    for launch, of_integers in zip(launches, integers, strict=True):
        epilogue = (*launch.epilogue, *(node.epilogue if launch is launches[-1] else ()))
        input_ops = node.input_ops if launch is launches[0] else ()
        lowered.add(launch, label, epilogue, input_ops, integers=of_integers, exact=exact)


def _has_integer_weights(operation: Operation) -> bool:
    """Whether the weights that matrix units would take are whole numbers, which halves hold."""
    if isinstance(operation, Expanded):
        filtered = operation.filter
        return operation.expansion.integer_weights and (
            isinstance(filtered, Depthwise) or filtered.pointwise.integer_weights
        )
    if isinstance(operation, Separable):
        return operation.pointwise.integer_weights
    return isinstance(operation, Convolution | FullyConnected | TransposeConvolution) and operation.integer_weights


def check_lowering(node: Node, tensors: Mapping[int, TensorInfo], target: Target) -> dict[Hashable, int]:
    """Lower one node by itself. Returns the bytes that each of its constants takes in 32 bits.

    Raises Unsupported if its operation fails, or a kernel needs more than the device has.
    """
    touched = dict.fromkeys((*node.operands, *node.outputs))
    graph = Graph({i: tensors[i] for i in touched}, [node], node.operands, node.outputs)
    try:
        if any(len(tensors[i].shape) > 4 for i in touched):
            collapse_ranks(graph)
            align_ranks(graph)
        lowered = lower(graph, target)
    except Unsupported:
        raise
    except Exception as error:  # any error that unexpected attributes and shapes raise
        raise Unsupported(f"it cannot be lowered ({type(error).__name__}: {error})") from error
    for tensor, shape in lowered.shapes.items():
        nbytes = Sliced(shape).nbytes
        if nbytes > target.max_buffer_bytes:
            name = f"tensor '{graph.tensors[tensor].name}'" if isinstance(tensor, int) else "an intermediate result"
            raise Unsupported(f"{name} takes {nbytes} bytes; a buffer of {target.name} holds {target.max_buffer_bytes}")
    constants: dict[Hashable, int] = {}
    for entry in lowered.launches:
        check_launch(entry, lowered)
        constants |= {i: Sliced(lowered.shapes[i]).nbytes for i in entry.reads if i in lowered.constants}
        constants |= {f"{entry.label} {entry.number} {name}": a.rows * 16 for name, a in entry.arrays.items()}
    return constants
