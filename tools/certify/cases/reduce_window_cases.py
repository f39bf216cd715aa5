"""Cases of windows that are reduced: STABLEHLO_REDUCE_WINDOW, and the older REDUCE_WINDOW."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .operator_models import Const, ModelCase, options, values

KINDS = {"ADD": 0.0, "MUL": 1.0, "MAXIMUM": -np.inf, "MINIMUM": np.inf}
"""Each operator that joins two numbers, with the value that changes nothing."""
NUMBERS = {"ADD": 1, "MUL": 2, "MINIMUM": 3, "MAXIMUM": 4, "LOGICAL_AND": 5, "LOGICAL_OR": 6}
"""The number of each operator in the schema: a ReduceWindowFunction."""


def stablehlo(
    shape: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    base: Sequence[int] = (),
    padding: Sequence[int] = (),
) -> Any:
    """The option table; numbers that are left out change nothing."""
    ones = [1] * len(shape)
    return options(
        "StablehloReduceWindow", windowDimensions=list(window), windowStrides=list(strides or ones),
        windowDilations=list(dilations or ones), baseDilations=list(base or ones),
        padding=list(padding or [0] * (2 * len(shape))), bodySubgraphIndex=1,
    )  # fmt: skip


PICTURES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 6, 7, 5), {"window": (1, 2, 2, 1), "strides": (1, 2, 2, 1), "padding": (0, 0, 0, 0, 0, 1, 0, 0)}),
    ((1, 3, 8, 9), {"window": (1, 1, 3, 3), "strides": (1, 1, 2, 2), "padding": (0, 0, 0, 0, 1, 1, 1, 2)}),
    ((2, 7, 9, 8), {"window": (1, 2, 3, 1), "dilations": (1, 3, 2, 1)}),
    ((2, 4, 5, 3), {"window": (1, 2, 3, 2), "base": (1, 3, 2, 2), "padding": (0, 0, 1, 0, 0, 2, 1, 0)}),
    ((3, 6, 7, 7), {"window": (2, 2, 1, 4), "padding": (1, 1, -1, -2, 0, 0, -1, 3)}),
    ((1, 4, 5, 1), {"window": (1, 4, 5, 1)}),
    ((2, 5, 6), {"window": (1, 3, 2), "strides": (1, 1, 2), "padding": (0, 0, 2, 0, 0, 0)}),
    ((3, 9), {"window": (1, 9), "padding": (0, 0, 8, 0)}),
    ((10,), {"window": (4,), "strides": (3,), "dilations": (2,), "padding": (1, 0)}),
    ((2, 3, 4, 5, 6), {"window": (1, 1, 2, 3, 2), "strides": (1, 1, 2, 1, 2), "padding": (0,) * 6 + (1, 1, 0, 0)}),
]  # fmt: skip


def reduce_window_cases() -> Iterable[ModelCase]:
    for number, (shape, window) in enumerate(PICTURES):
        for kind, neutral in KINDS.items():
            initial = np.float32(neutral if number % 3 else 0.5)
            inputs = (1 + values(*shape) / 4, Const(initial))
            label = f"{shape} {number} {kind}"
            yield ModelCase(
                "STABLEHLO_REDUCE_WINDOW", label, inputs, stablehlo(shape, **window), body=kind,
                exact=kind in ("MAXIMUM", "MINIMUM"), halves=len(shape) < 5,
            )  # fmt: skip
        yield from _integers(number, shape, window)
    for number, shape in enumerate([(2, 5, 6, 7), (1, 4, 8), (3, 6), (9,)]):
        yield from _old(number, shape)


def _integers(number: int, shape: Sequence[int], window: dict[str, Any]) -> Iterable[ModelCase]:
    """Integers of 32 bits, whose sums and products wrap around; truth values; and integers of 8 bits."""
    table = stablehlo(shape, **window)
    kind = list(KINDS)[number % 4]
    x = np.random.default_rng(number).integers(-(1 << 31), 1 << 31, shape).astype(np.int32)
    initial = Const(np.int32({"MUL": 3, "ADD": 1 << 30, "MAXIMUM": -(1 << 31), "MINIMUM": 7}[kind]))
    plain: dict[str, Any] = {"exact": True, "halves": False}
    yield ModelCase(
        "STABLEHLO_REDUCE_WINDOW", f"int32 {number} {kind}", (x, initial), table, body=kind, dtype="int32", read=True,
        **plain,
    )  # fmt: skip
    kind = ("LOGICAL_AND", "LOGICAL_OR")[number % 2]
    truths = values(*shape) > (-0.6, 0.6)[number % 2]
    inputs = (truths, Const(np.array(number % 2 == 0)))
    yield ModelCase("STABLEHLO_REDUCE_WINDOW", f"bool {number} {kind}", inputs, table, body=kind, dtype="bool", **plain)
    kind = ("MAXIMUM", "MINIMUM")[number % 2]
    inputs = ((values(*shape) * 100).astype(np.int8), Const(np.int8(-128 if kind == "MAXIMUM" else 127)))
    yield ModelCase("STABLEHLO_REDUCE_WINDOW", f"int8 {number} {kind}", inputs, table, body=kind, dtype="int8", **plain)


def _old(number: int, shape: Sequence[int]) -> Iterable[ModelCase]:
    """REDUCE_WINDOW, whose window is in constants of 64 bits."""
    rank = len(shape)
    window = [min(size, n // 2 or 1) for size, n in zip((1, 2, 3, 2)[-rank:], shape, strict=True)]
    strides, dilations = (1, 1, 2, 1)[-rank:], (1, 2, 1, 3)[:rank]
    numbers = tuple(Const(np.array(given, np.int64)) for given in (window, strides, dilations))
    for kind, neutral in KINDS.items():
        table = options("ReduceWindow", reduceFunction=NUMBERS[kind])
        inputs = (1 + values(*shape) / 4, Const(np.float32(neutral)), *numbers)
        yield ModelCase("REDUCE_WINDOW", f"{shape} {kind}", inputs, table, exact=kind in ("MAXIMUM", "MINIMUM"))
    kind = ("LOGICAL_AND", "LOGICAL_OR")[number % 2]
    inputs = (values(*shape) > 0, Const(np.array(number % 2 == 0)), *numbers)
    table = options("ReduceWindow", reduceFunction=NUMBERS[kind])
    yield ModelCase("REDUCE_WINDOW", f"{shape} {kind}", inputs, table, dtype="bool", exact=True, halves=False)
