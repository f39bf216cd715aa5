"""Sources of a partition's shapes: the tensors whose shapes come from LiteRT, and determine all others."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..read.model import Subgraph

Shape = tuple[int, ...]
"""A TFLite shape, of any rank."""


def shape_sources(subgraph: Subgraph, operators: Sequence[int], on_gpu: Collection[int]) -> tuple[int, ...]:
    """The tensors whose shapes determine the shapes of all tensors of these ``operators``, and the values of SHAPE.

    They are inputs of the subgraph, variables, and outputs of operators that are not ``on_gpu``.
    """
    producers = {tensor: operator for operator in subgraph.operators for tensor in operator.outputs}
    computed = {tensor for index in on_gpu for tensor in subgraph.operators[index].outputs}
    found: set[int] = set()
    seen: set[int] = set()
    waiting = [tensor for index in operators for tensor in subgraph.operators[index].inputs]
    while waiting:
        tensor = waiting.pop()
        if tensor < 0 or tensor in seen or subgraph.tensors[tensor].constant is not None:
            continue
        seen.add(tensor)
        if tensor not in computed:
            found.add(tensor)
        if tensor in producers:
            waiting.extend(producers[tensor].inputs)
    return tuple(sorted(found))
