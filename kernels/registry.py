"""The table of operators: every row that a file below ``ops/`` lists in its ``TFLITE``. And the reasons why other
operators have no kernel.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from . import ops
from .operation import TfliteOp


def discover(package: ModuleType) -> dict[str, TfliteOp]:
    """The rows of all files of a package, by operator name. Raises ValueError if two files list the same operator."""
    found: dict[str, TfliteOp] = {}
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for row in getattr(importlib.import_module(module.name), "TFLITE", ()):
            if row.name in found:
                raise ValueError(f"{module.name} lists {row.name}, which another file lists too")
            found[row.name] = row
    return found


OPERATORS = discover(ops)
"""The rows by TensorFlow Lite name (CONV_2D ...), or by a custom operator's name."""

CPU_ONLY = {
    "the sizes of its results are known only while it runs": "MULTINOMIAL NON_MAX_SUPPRESSION_V5 UNIQUE WHERE",
    "it runs other subgraphs": "CALL_ONCE IF STABLEHLO_CASE",
    "it runs other subgraphs, and this is one whose number of steps does not follow from constants and shapes": "WHILE",
    "it runs another subgraph, and this is one with an operator that stays on the CPU": "STABLEHLO_COMPOSITE",
    "it keeps a state between invokes, which the CPU does": "BIDIRECTIONAL_SEQUENCE_LSTM "
    "BIDIRECTIONAL_SEQUENCE_RNN RNN SVDF UNIDIRECTIONAL_SEQUENCE_LSTM UNIDIRECTIONAL_SEQUENCE_RNN",
    "it works on strings, tables or lists": "EMBEDDING_LOOKUP_SPARSE HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT "
    "HASHTABLE_LOOKUP HASHTABLE_SIZE LSH_PROJECTION SKIP_GRAM",
    "it draws random numbers": "RANDOM_STANDARD_NORMAL RANDOM_UNIFORM STABLEHLO_RNG_BIT_GENERATOR",
}
"""Operators of LiteRT that have no kernel for the GPU, by the reason. An operator that is in no list has no kernel yet.
"""


def why_unsupported(name: str) -> str:
    """The sentence why an operator that is not in the table stays on the CPU."""
    reasons = [reason for reason, names in CPU_ONLY.items() if name in names.split()]
    return ": ".join(["the operator is not supported", *reasons])
