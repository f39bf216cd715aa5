"""The table of operators: every row that a file below ``ops/`` lists in its ``TFLITE``."""

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
"""By TensorFlow Lite name (CONV_2D ...) or custom operator's name."""
