"""Writes docs/operators.md, the table of operators that run on the GPU, from the code itself.

What an operator refuses is read from its own source: every reason that its parse and shape rule can give.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from framebind.kernels.operator import Operator
from framebind.kernels.registry import OPERATORS

TARGET = Path(__file__).parent.parent / "docs" / "operators.md"

HEADER = """# Operators on the GPU

Written by `python scripts/operators_table.py` from the code; `tests/test_operators_table.py` fails where it is out of
date. The same kernels run on OpenGL, OpenGL ES and OpenCL. An operator that is not here, or that gives one of its
reasons below ("..." stands for the model's own numbers), runs on LiteRT's CPU kernels in the same interpreter.

For every operator: tensors have rank 0 to 4 and no empty or dynamic dimension; they are float32 or, with quantization
enabled, 8-bit or 16-bit integers that stand for real numbers; weights, axes, sizes and the like are constants.

| operator | versions | stays on the CPU where |
| --- | --- | --- |
"""

COMMON = {"require_float"}
"""What the header says already."""


def table() -> str:
    """The whole document."""
    return HEADER + "".join(_row(OPERATORS[name]) for name in sorted(OPERATORS, key=str.lower))


def _row(operator: Operator) -> str:
    versions = f"1 to {operator.max_version}" if operator.max_version > 1 else "1" if operator.max_version else "all"
    found = dict.fromkeys([*_reasons(operator.parse, set()), *_reasons(operator.output_shapes, set())])
    custom = " (custom)" if operator.custom else ""
    return f"| {operator.name}{custom} | {versions} | {'; '.join(found)} |\n"


def _reasons(function: Callable[..., Any], seen: set[Callable[..., Any]]) -> Iterator[str]:
    """The texts of every Unsupported or ValueError that the function, or one of ours that it calls, raises."""
    if function in seen or function.__name__ in COMMON or not function.__module__.startswith("framebind."):
        return
    seen.add(function)
    known = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    if function.__name__ == "<lambda>":  # its source is half a line, and it raises nothing
        nodes, names = [], list(function.__code__.co_names)
    else:
        nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))))
        names = [node.id for node in nodes if isinstance(node, ast.Name)]
    for name in dict.fromkeys(names):
        called = known.get(name)
        if inspect.isfunction(called):
            yield from _reasons(called, seen)
        elif inspect.isclass(called) and inspect.isfunction(check := getattr(called, "__post_init__", None)):
            yield from _reasons(check, seen)
    for node in nodes:
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            text = _text(node.exc.args[0])
            if getattr(node.exc.func, "id", "") in ("Unsupported", "ValueError") and text:
                yield text


def _text(node: ast.expr) -> str:
    """A message with "..." for what is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)
    return ""


if __name__ == "__main__":
    TARGET.write_text(table(), encoding="utf-8")
