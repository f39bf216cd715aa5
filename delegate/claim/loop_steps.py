"""The count of a loop's steps from its counters, before its steps are made, so that a long loop is refused at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...kernels.ops.constant.folding import MOST_VALUES
from ...kernels.registry import OPERATORS
from ..read.model import NUMPY_TYPES, RawOperator, Subgraph

_ENLARGING = frozenset({"BROADCAST_TO", "TILE"})
"""Operators that can make a large result from a few numbers. No counter needs them."""
Values = Sequence[np.ndarray | None]
"""The values of tensors; None if a value is not known before the model runs, or was not examined."""


def takes_more(condition: Subgraph, body: Subgraph, values: Values, limit: int) -> bool:
    """Whether the steps of a loop surely have more than ``limit`` operators.

    ``values`` are those of the loop's variables before its first step.
    """
    left = limit
    with np.errstate(all="ignore"):
        while left >= 0:
            (more,) = _results(condition, values)
            if more is None or not more.any():
                return False
            values = _results(body, values)
            left -= len(condition.operators) + len(body.operators) + 2
    return True


def _results(subgraph: Subgraph, arguments: Values) -> list[np.ndarray | None]:
    """The outputs of a subgraph, as far as small constants give them."""
    known = dict(zip(subgraph.inputs, arguments, strict=True))
    for raw in subgraph.operators:
        inputs = [known[i] if i in known else _constant(subgraph, i) for i in raw.inputs]
        given = [values for values in inputs if values is not None]
        results = _folded(raw, given) if len(given) == len(inputs) else [None] * len(raw.outputs)
        for output, values in zip(raw.outputs, results, strict=True):
            dtype = NUMPY_TYPES.get(subgraph.tensors[output].dtype)
            small = values is not None and np.size(values) <= MOST_VALUES
            known[output] = np.asarray(values).astype(dtype) if small and dtype is not None else None
    return [known[i] if i in known else _constant(subgraph, i) for i in subgraph.outputs]


def _constant(subgraph: Subgraph, tensor: int) -> np.ndarray | None:
    values = subgraph.tensors[tensor].constant if tensor >= 0 else None
    return values if values is not None and values.size <= MOST_VALUES else None


def _folded(raw: RawOperator, inputs: list[np.ndarray]) -> list[np.ndarray | None]:
    row = OPERATORS.get(raw.name)
    if row is None or row.fold is None or raw.name in _ENLARGING:
        return [None] * len(raw.outputs)
    try:
        folded = row.fold(raw.options, inputs)
    except (AttributeError, IndexError, TypeError, ValueError):
        return [None] * len(raw.outputs)
    results = folded if isinstance(folded, list) else [folded]
    return [*results] if len(results) == len(raw.outputs) else [None] * len(raw.outputs)
