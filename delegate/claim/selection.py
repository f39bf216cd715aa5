"""Selection of the supported operators that run on the GPU: within the user's limits, and only if it is worth it.

A rule looks at operators that go to the GPU together, and returns the reason to leave them to the CPU, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ...interop.errors import counted
from ..litert.native import NativeGraph, Partitioned
from ..options import GpuDelegateOptions
from ..read.model import Subgraph
from .claims import Claims, unneeded_constants
from .complex_numbers import shared_with_cpu
from .payoff import reason_not_to_delegate
from .pooled_places import divided
from .variables import apart


@dataclass(frozen=True)
class Selection:
    """``operators`` go to the GPU, in execution order; ``not_selected`` has a reason for each other supported one."""

    operators: tuple[int, ...] = ()
    not_selected: dict[int, str] = field(default_factory=dict)
    preserves_tensors: bool = False
    """LiteRT makes a partition of each operator, because its interpreter shows the results of all of them."""
    does_not_pay: str = ""
    """The reason why nothing was selected, if the GPU has to be faster and is not likely to be; else ""."""


@dataclass(frozen=True)
class Request:
    """A subgraph, the operators that LiteRT will run, those that are supported, and the user's options."""

    graph: NativeGraph
    plan: frozenset[int]
    claims: Claims
    options: GpuDelegateOptions


Rule = Callable[[Request, Sequence[int]], str | None]


def select(
    graph: NativeGraph, claims: Claims, options: GpuDelegateOptions, least_multiply_adds: float | None = None
) -> Selection:
    """Select the largest partitions of a subgraph's supported operators; of two of one size, the earlier one.

    All operators of a variable, or of a pooling's indices, are selected, or none. With ``least_multiply_adds``, nothing
    is selected if the CPU is likely to be as fast (payoff.py).
    """
    left_out: dict[int, str] = {}
    while True:
        selection = _select(graph, claims, options, least_multiply_adds, left_out)
        selected = set(selection.operators)
        found = apart(claims.variables, selected, graph.subgraph) | divided(selected, graph.subgraph)
        if not selected & found.keys():
            return selection
        left_out |= found


def _select(
    graph: NativeGraph,
    claims: Claims,
    options: GpuDelegateOptions,
    least_multiply_adds: float | None,
    left_out: Mapping[int, str],
) -> Selection:
    """``left_out`` has a reason for each operator that is not to be selected."""
    plan = graph.plan()
    request = Request(graph, frozenset(plan), claims, options)
    not_selected = {**claims.unneeded, **left_out}

    def passes(rules: Sequence[Rule], operators: Sequence[int]) -> bool:
        for rule in rules:
            reason = rule(request, operators)
            if reason is not None:
                not_selected.update(dict.fromkeys(operators, reason))
                return False
        return True

    supported = {index for index in claims.nodes if index not in left_out and passes(OPERATOR_RULES, (index,))}
    found = graph.preview([index for index in plan if index in supported])
    preserves = _splits_neighbours(graph.subgraph, found)
    partitions = [partition for partition in found if passes(PARTITION_RULES, partition.operators)]
    partitions.sort(key=lambda partition: (-len(partition.operators), partition.operators))
    limit = options.max_delegated_partitions
    if limit is not None:
        for partition in partitions[limit:]:
            not_selected.update(dict.fromkeys(partition.operators, _beyond_limit(partition, limit)))
    selected = {index for partition in partitions[:limit] for index in partition.operators}
    unneeded = unneeded_constants({index: claims.nodes[index] for index in selected}, graph.subgraph)
    not_selected.update(unneeded)
    operators = tuple(sorted(selected - unneeded.keys()))
    if least_multiply_adds is not None:
        count = len(partitions[:limit])
        reason = reason_not_to_delegate(graph.subgraph, claims.tensors, operators, count, least_multiply_adds)
        if reason:
            return Selection(not_selected=not_selected | dict.fromkeys(operators, reason), does_not_pay=reason)
    return Selection(operators if passes(SUBGRAPH_RULES, operators) else (), not_selected, preserves)


def _splits_neighbours(subgraph: Subgraph, partitions: Sequence[Partitioned]) -> bool:
    """Whether LiteRT separates two operators without need, as with ``experimental_preserve_all_tensors=True``.

    Otherwise it joins an operator and the one that computes its input, if both wait for the same operators on the CPU.
    """
    if len(partitions) < 2 or any(len(partition.operators) > 1 for partition in partitions):
        return False
    on_gpu = {partition.operators[0] for partition in partitions}
    producers = {tensor: operator.index for operator in subgraph.operators for tensor in operator.outputs}
    waits_for: dict[int, int] = {}
    """The operators on the CPU for which each operator waits, as a bit mask of their numbers."""
    for operator in subgraph.operators:
        bits, before = 0, {producers[tensor] for tensor in operator.inputs if tensor in producers}
        for index in before & waits_for.keys():
            bits |= waits_for[index] | (0 if index in on_gpu else 1 << index)
        waits_for[operator.index] = bits
        if operator.index in on_gpu and any(waits_for.get(index) == bits for index in before & on_gpu):
            return True
    return False


def taken_by_another_delegate(request: Request, operators: Sequence[int]) -> str | None:
    return None if request.plan.issuperset(operators) else "another delegate has taken it"


def outside_node_range(request: Request, operators: Sequence[int]) -> str | None:
    first, last = request.options.first_delegate_node_index, request.options.last_delegate_node_index
    if first <= min(operators) and (last is None or max(operators) <= last):
        return None
    return "first_delegate_node_index or last_delegate_node_index leaves it out"


def only_constants(request: Request, operators: Sequence[int]) -> str | None:
    """The partition does no more than unpack constants."""
    raw, tensors = request.graph.subgraph.operators, request.claims.tensors
    if any(tensors[tensor].constant is None for index in operators for tensor in raw[index].outputs):
        return None
    return "it computes constants that the CPU alone reads"


def only_handles(request: Request, operators: Sequence[int]) -> str | None:
    """The partition names variables, and does nothing with them."""
    return None if any(request.claims.nodes[index] for index in operators) else "it would be alone on the GPU"


def divides_complex_numbers(request: Request, operators: Sequence[int]) -> str | None:
    """The partition has an operator of complex numbers, and not all of those that write and read them."""
    reasons = shared_with_cpu(operators, request.graph.subgraph, request.claims.tensors)
    return next(iter(reasons.values()), None)


def sparse_constants_on_cpu(request: Request, operators: Sequence[int]) -> str | None:
    """LiteRT's XNNPACK computes with zeros instead of sparse constants if it gets only a part of the graph."""
    raw = request.graph.subgraph.operators
    if all(operator.name != "DENSIFY" or operator.index in operators for operator in raw):
        return None
    return "sparse constants stay on the CPU, where LiteRT unpacks them for whole models only"


def _beyond_limit(partition: Partitioned, limit: int) -> str:
    size = counted(len(partition.operators), "operator")
    return f"its partition has {size}; max_delegated_partitions takes the {limit} largest"


OPERATOR_RULES: tuple[Rule, ...] = (taken_by_another_delegate, outside_node_range)
"""Rules that may leave out a supported operator, in order."""
PARTITION_RULES: tuple[Rule, ...] = (only_handles, only_constants, divides_complex_numbers)
"""Rules that may leave out a whole partition, in order."""
SUBGRAPH_RULES: tuple[Rule, ...] = (sparse_constants_on_cpu,)
"""Rules that may leave out everything that was selected."""
