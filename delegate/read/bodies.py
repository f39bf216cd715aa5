"""The operators inside other operators: STABLEHLO_REDUCE_WINDOW names a subgraph of one operator, which joins two
values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .model import RawOperator, Subgraph

_OPTIONS = {"STABLEHLO_REDUCE_WINDOW": "BodySubgraphIndex"}
"""The options that name such a subgraph."""


def body_number(operator: RawOperator) -> int | None:
    """The number of the subgraph that is an operator's body; None if it has none."""
    option = _OPTIONS.get(operator.name)
    return None if option is None or operator.options is None else getattr(operator.options, option)()


def with_bodies(subgraphs: Sequence[Subgraph]) -> tuple[Subgraph, ...]:
    """The subgraphs, in which each operator with a body has the name of the body's only operator."""

    def complete(operator: RawOperator) -> RawOperator:
        number = body_number(operator)
        if number is None or not 0 <= number < len(subgraphs) or len(subgraphs[number].operators) != 1:
            return operator
        return replace(operator, body=subgraphs[number].operators[0].name)

    return tuple(
        replace(graph, operators=tuple(map(complete, graph.operators)))
        if any(operator.name in _OPTIONS for operator in graph.operators)
        else graph
        for graph in subgraphs
    )
