"""Which of the operators that the GPU could run it is given: within the user's limits, and where it is worth it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..litert.native import NativeGraph, Partitioned
from ..options import GpuDelegateOptions
from .claims import Claims


@dataclass(frozen=True)
class Selection:
    """``operators`` go to the GPU, in execution order; ``not_selected`` has a reason for each other one that it
    could run.
    """

    operators: tuple[int, ...] = ()
    not_selected: dict[int, str] = field(default_factory=dict)


def select(graph: NativeGraph, claims: Claims, options: GpuDelegateOptions) -> Selection:
    """The largest partitions of a subgraph's claimed operators; of two that are as large the earlier one."""
    not_selected = dict(claims.unneeded)
    plan, first, last = set(graph.plan()), options.first_delegate_node_index, options.last_delegate_node_index
    for index in claims.nodes:
        if index not in plan:
            not_selected[index] = "another delegate has taken it"
        elif index < first or (last is not None and index > last):
            not_selected[index] = "first_delegate_node_index or last_delegate_node_index leaves it out"
    partitions: list[Partitioned] = []
    for partition in graph.preview([i for i in graph.plan() if i in claims.nodes and i not in not_selected]):
        if _computes(partition, graph, claims):
            partitions.append(partition)
        else:
            not_selected |= dict.fromkeys(partition.operators, "it computes constants that the CPU alone reads")
    partitions.sort(key=lambda p: (-len(p.operators), p.operators))
    limit = options.max_delegated_partitions
    for partition in partitions[limit:] if limit is not None else []:
        size = f"its partition has {len(partition.operators)} operators"
        not_selected |= dict.fromkeys(
            partition.operators, f"{size}; max_delegated_partitions takes the {limit} largest"
        )
    chosen = tuple(sorted(i for p in partitions[:limit] for i in p.operators))
    if any(operator.name == "DENSIFY" and operator.index not in chosen for operator in graph.subgraph.operators):
        # LiteRT's XNNPACK computes with zeros in place of sparse constants when it is given a part of the graph.
        not_selected |= dict.fromkeys(
            chosen, "sparse constants stay on the CPU, where LiteRT unpacks them for whole models only"
        )
        return Selection((), not_selected)
    return Selection(chosen, not_selected)


def _computes(partition: Partitioned, graph: NativeGraph, claims: Claims) -> bool:
    """Whether the partition does more than unpack constants."""
    outputs = (tensor for i in partition.operators for tensor in graph.subgraph.operators[i].outputs)
    return any(claims.tensors[tensor].constant is None for tensor in outputs)
