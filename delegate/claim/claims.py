"""Claims: the operators of a subgraph that the GPU can run, and the reasons why it does not run the others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from ...interop.binaries import BinaryStore
from ...kernels.operation import Unsupported
from ...kernels.ops.pointwise.quantize import Dequantize
from ...kernels.target import Target
from ...kernels.tensor import TensorInfo
from ..lower.lowering import check_lowering
from ..read.model import OPTIONAL, Subgraph
from ..transform.graph import Graph, Node
from .channels_first import with_layouts
from .complex_numbers import shared_with_cpu
from .integers import unread_integers
from .shape_rules import Shape
from .subgraphs import parse_operators
from .variables import Variable, Variables, apart

_VARYING = frozenset(
    "CALL CALL_ONCE HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE IF MULTINOMIAL RANDOM_STANDARD_NORMAL "
    "RANDOM_UNIFORM READ_VARIABLE STABLEHLO_COMPOSITE STABLEHLO_RNG_BIT_GENERATOR STABLEHLO_WHILE VAR_HANDLE "
    "WHILE".split()
)
"""Operators that may give another result for the same inputs."""


@dataclass(frozen=True)
class Claims:
    """The result of ``claim``; operators and tensors go by their numbers in the subgraph."""

    nodes: Mapping[int, tuple[Node, ...]]
    """The operators that the GPU can run, and has a use for. Each is one node, but for loops, whose steps have their
    own, and for the handles of variables, which need none.
    """
    unsupported: Mapping[int, str]
    """The reason for each operator that the GPU cannot run."""
    unneeded: Mapping[int, str]
    """The reason for each operator that the GPU could run, but has no use for."""
    tensors: Mapping[int, TensorInfo]
    """The subgraph's tensors with their shapes now, quantized ones as their float views. Those that follow from
    constants and shapes have values.
    """
    constant_derived: frozenset[int]
    """Computed tensors that depend on constants alone, so that they are the same for every frame."""
    variables: tuple[Variable, ...] = ()
    """The variables that stay on the GPU if all operators that read and assign them do."""

    def graph(self, operators: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
        """Make the graph of one partition: ``operators`` in execution order, and its boundary tensors.

        An output without elements is left out: it has no memory.
        """
        nodes = [node for index in operators for node in self.nodes[index]]
        used = {i for node in nodes for i in (*node.operands, *node.outputs)} | set(inputs) | set(outputs)
        tensors = {i: self.tensors[i] for i in used}
        read = tuple(i for i in inputs if tensors[i].constant is None and i in used)
        return Graph(tensors, nodes, read, tuple(i for i in outputs if 0 not in tensors[i].shape))


Store = Callable[[], BinaryStore | None]
"""Returns the cache between processes for this model and device; None if there is none."""


def _no_store() -> None:
    """Keep nothing."""


def claim(
    subgraph: Subgraph,
    target: Callable[[], Target],
    *,
    number: int = 0,
    store: Store = _no_store,
    quantized: bool = True,
    shapes: Mapping[int, Shape] | None = None,
    subgraphs: Sequence[Subgraph] = (),
    variables: Variables = Variables(),  # noqa: B008 - it is frozen
) -> Claims:
    """Find out which operators of a subgraph the GPU can run.

    Parameters
    ----------
    subgraph
        The operators and tensors of the file.
    target
        Returns the device to run on. It is called only if there is an operator to run, so that a model without any
        opens no device.
    number
        The subgraph's number in the model.
    store
        Returns the cache, which may know from an earlier process that the same operators can be lowered. It is called
        after ``target``.
    quantized
        Whether operators on quantized tensors are accepted.
    shapes
        LiteRT's current shapes, by tensor: those of the inputs, which may be resized, and of tensors that the CPU
        computes. All others follow from them; None stands for the file's shapes.
    subgraphs
        All subgraphs of the model: loops run them.
    variables
        Those of the subgraph, if it is the main one.
    """
    parsed = parse_operators(
        subgraph, quantized=quantized, shapes=shapes or {}, subgraphs=subgraphs, variables=variables
    )
    too_large = dict[int, str]()
    if any(parsed.nodes.values()):
        too_large = _unlowered_once(parsed.nodes, parsed.tensors, target(), store(), f"{number} {shapes}")
    unsupported = parsed.unsupported | too_large
    unsupported = apart(variables.on_gpu, parsed.nodes.keys() - unsupported.keys(), subgraph) | unsupported
    unsupported |= shared_with_cpu(parsed.nodes.keys() - unsupported.keys(), subgraph, parsed.tensors)
    supported = {index: nodes for index, nodes in parsed.nodes.items() if index not in unsupported}
    unneeded = unneeded_constants(supported, subgraph) | unread_integers(supported, parsed.tensors)
    nodes = {index: nodes for index, nodes in supported.items() if index not in unneeded}
    tensors = with_layouts(subgraph, parsed.tensors)
    return Claims(nodes, unsupported, unneeded, tensors, _constant_derived(subgraph), variables.on_gpu)


def claim_again(
    subgraph: Subgraph,
    target: Callable[[], Target],
    operators: Sequence[int],
    *,
    quantized: bool,
    shapes: Mapping[int, Shape],
    subgraphs: Sequence[Subgraph] = (),
    variables: Variables = Variables(),  # noqa: B008 - it is frozen
) -> Claims:
    """Claim these ``operators`` for other shapes than those for which ``claim`` was called.

    ``unsupported`` has those of them that the GPU cannot run with these shapes.
    """
    parsed = parse_operators(subgraph, quantized=quantized, shapes=shapes, subgraphs=subgraphs, variables=variables)
    nodes = {index: parsed.nodes[index] for index in operators if index in parsed.nodes}
    unsupported = {index: parsed.unsupported[index] for index in operators if index in parsed.unsupported}
    unsupported |= _unlowered(nodes, parsed.tensors, target())
    tensors = with_layouts(subgraph, parsed.tensors)
    return Claims(nodes, unsupported, {}, tensors, _constant_derived(subgraph), variables.on_gpu)


def _unlowered_once(
    claimed: Mapping[int, tuple[Node, ...]],
    tensors: Mapping[int, TensorInfo],
    target: Target,
    store: BinaryStore | None,
    where: str,
) -> dict[int, str]:
    """The reasons of ``_unlowered``, which is not called if an earlier process found no such operator. ``where`` has
    the subgraph and its shapes, which determine everything about the operators.
    """
    what = f"all can be lowered: {sorted(claimed)} of {where}"
    if store is not None and store.known_number(what) == 1:
        return {}
    reasons = _unlowered(claimed, tensors, target)
    if store is not None and not reasons:
        store.keep_number(what, 1)
    return reasons


def _unlowered(
    claimed: Mapping[int, tuple[Node, ...]], tensors: Mapping[int, TensorInfo], target: Target
) -> dict[int, str]:
    """The reason for each operator that cannot be lowered for the device.

    A program's constants lie in one buffer: an operator whose constants would overfill it stays on the CPU too.
    """
    reasons: dict[int, str] = {}
    known: set[Hashable] = set()
    total = 0
    for index, nodes in claimed.items():
        try:
            constants: dict[Hashable, int] = {}
            for node in nodes if len(nodes) == 1 else _distinct(nodes, tensors):
                constants |= check_lowering(node, tensors, target)
            more = sum(nbytes for key, nbytes in constants.items() if key not in known)
            if total + more > target.max_buffer_bytes:
                raise Unsupported(
                    f"with its constants those on the GPU take {total + more} bytes; a buffer of {target.name} holds "
                    f"{target.max_buffer_bytes}"
                )
        except Unsupported as reason:
            reasons[index] = str(reason)
            continue
        known |= constants.keys()
        total += more
    return reasons


def _distinct(nodes: Sequence[Node], tensors: Mapping[int, TensorInfo]) -> list[Node]:
    """The nodes of a loop without duplicates: one node for each set of facts on which launches depend. Equal nodes of
    several steps have the same name.
    """

    def facts(node: Node) -> Hashable:
        touched = [(i, tensors[i]) for i in (*node.operands, *node.outputs)]
        shapes = [(info.shape, info.dtype, i if info.constant is not None else None) for i, info in touched]
        expressions = [(op.expression, op.swapped, op.values) for op in node.epilogue]
        return node.name, node.operation, node.integers, *shapes, *expressions

    return list({facts(node): node for node in nodes}.values())


def unneeded_constants(claimed: Mapping[int, tuple[Node, ...]], subgraph: Subgraph) -> dict[int, str]:
    """The reason for each DEQUANTIZE of a constant that is ``claimed``, if the CPU runs an operator that needs it.

    They are the same for every frame: the CPU computes them once, and the GPU has them as constants.
    """
    reasons: dict[int, str] = {}
    on_cpu = {i for raw in subgraph.operators if raw.index not in claimed for i in raw.inputs} | set(subgraph.outputs)
    for index, nodes in sorted(claimed.items(), reverse=True):  # a DENSIFY after its DEQUANTIZE
        if nodes and nodes[0].outputs[0] in on_cpu and isinstance(nodes[0].operation, Dequantize):
            on_cpu.update(nodes[0].inputs)
            reasons[index] = "the CPU needs its result, which is constant; operators on the GPU have it already"
    return reasons


def _constant_derived(subgraph: Subgraph) -> frozenset[int]:
    known = {OPTIONAL, *(i for i, tensor in enumerate(subgraph.tensors) if tensor.constant is not None)}
    derived: set[int] = set()
    for raw in subgraph.operators:
        if raw.inputs and not raw.custom and known.issuperset(raw.inputs) and raw.name not in _VARYING:
            known.update(raw.outputs)
            derived.update(raw.outputs)
    return frozenset(derived)
