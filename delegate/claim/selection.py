"""Which of the operators that the GPU could run it is given: within the user's limits, and where it is worth it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..litert.native import NativeGraph, Partitioned
from ..options import GpuDelegateOptions
from .claims import Claims


@dataclass(frozen=True)
class Choice:
    """``operators`` go to the GPU, in execution order; ``left`` has a reason for each other one that it could run."""

    operators: tuple[int, ...] = ()
    left: dict[int, str] = field(default_factory=dict)


def choose(graph: NativeGraph, claims: Claims, options: GpuDelegateOptions) -> Choice:
    """The largest partitions of a subgraph's claimed operators; of two that are as large the earlier one."""
    left = dict(claims.needless)
    plan, first, last = set(graph.plan()), options.first_delegate_node_index, options.last_delegate_node_index
    for index in claims.nodes:
        if index not in plan:
            left[index] = "another delegate has taken it"
        elif index < first or (last is not None and index > last):
            left[index] = "first_delegate_node_index or last_delegate_node_index leaves it out"
    partitions: list[Partitioned] = []
    for partition in graph.preview([i for i in graph.plan() if i in claims.nodes and i not in left]):
        if _computes(partition, graph, claims):
            partitions.append(partition)
        else:
            left |= dict.fromkeys(partition.operators, "it computes constants that the CPU alone reads")
    partitions.sort(key=lambda p: (-len(p.operators), p.operators))
    limit = options.max_delegated_partitions
    for partition in partitions[limit:] if limit is not None else []:
        size = f"its partition has {len(partition.operators)} operators"
        left |= dict.fromkeys(partition.operators, f"{size}; max_delegated_partitions takes the {limit} largest")
    chosen = tuple(sorted(i for p in partitions[:limit] for i in p.operators))
    if any(operator.name == "DENSIFY" and operator.index not in chosen for operator in graph.subgraph.operators):
        # LiteRT's XNNPACK computes with zeros in place of sparse constants when it is given a part of the graph.
        left |= dict.fromkeys(
            chosen, "sparse constants stay on the CPU, where LiteRT unpacks them for whole models only"
        )
        return Choice((), left)
    return Choice(chosen, left)


def _computes(partition: Partitioned, graph: NativeGraph, claims: Claims) -> bool:
    """Whether the partition does more than unpack constants."""
    outputs = (tensor for i in partition.operators for tensor in graph.subgraph.operators[i].outputs)
    return any(claims.tensors[tensor].constant is None for tensor in outputs)
