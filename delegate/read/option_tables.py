"""The option table of an operator, if it is of the operator's own kind."""

from __future__ import annotations

from typing import Any

import tflite

from . import tables
from .tables import child, numbers

_NAMES = {code: name for name, code in vars(tflite.BuiltinOptions).items() if not name.startswith("_")}
_NAMES_2 = {code: name for name, code in vars(tflite.BuiltinOptions2).items() if not name.startswith("_")}
"""The second list of tables, which the schema began when the first was full: most are of StableHLO's operators."""
_BY_LOWER = {name.removesuffix("Options").lower(): name for name in (*_NAMES.values(), *_NAMES_2.values())}
_SHARED = {
    **dict.fromkeys("AVERAGE_POOL_2D L2_POOL_2D MAX_POOL_2D".split(), "Pool2DOptions"),
    **dict.fromkeys("MEAN REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD SUM".split(), "ReducerOptions"),
    "L2_NORMALIZATION": "L2NormOptions",
}
"""The tables of operators that do not have one of their own name."""
_OWN = {
    name: _SHARED.get(name) or _BY_LOWER.get(name.replace("_", "").lower()) for name in vars(tflite.BuiltinOperator)
}
"""The table of each operator, if it has one of its own."""


def read_options(operator: tflite.Operator, name: str, *, custom: bool) -> Any:
    """The options of an operator: a table of tflite, the bytes of a custom operator's, or None.

    As in LiteRT, a table of another operator counts as none: its fields would be taken for others.
    """
    if custom:
        (data,) = numbers(operator, tables.OPERATOR_CUSTOM_OPTIONS, "s")
        return data
    for kind, field in (
        (_NAMES.get(operator.BuiltinOptionsType(), "NONE"), tables.OPERATOR_OPTIONS),
        (_NAMES_2.get(operator.BuiltinOptions2Type(), "NONE"), tables.OPERATOR_OPTIONS_2),
    ):
        if kind != "NONE" and _OWN.get(name) in (None, kind):
            return child(getattr(tflite, kind), operator, field)  # one outside the file raises here, not in a parse
    return None
