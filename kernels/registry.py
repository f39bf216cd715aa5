"""The table of operators: every row that a file below ``ops/`` lists in its ``OPERATORS``."""

from __future__ import annotations

import importlib
import pkgutil

from . import ops
from .operation import Operator


def discover() -> dict[str, Operator]:
    """The rows of all operator files, by TensorFlow Lite name. Raises ValueError if two files have the same name."""
    found: dict[str, Operator] = {}
    for module in pkgutil.walk_packages(ops.__path__, f"{ops.__name__}."):
        for operator in getattr(importlib.import_module(module.name), "OPERATORS", ()):
            if operator.name in found:
                raise ValueError(f"{module.name} lists {operator.name}, which another file lists too")
            found[operator.name] = operator
    return found


OPERATORS = discover()
"""By TensorFlow Lite name (CONV_2D ...) or custom operator's name."""
