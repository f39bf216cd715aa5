"""Prints sizes that deserve a second look. They are no limits: a reader decides whether the code is divided well.

    python scripts/sizes.py

Classes with more than 15 attributes may hold two states. A file of less than 40 lines with one importer may belong into
that one. Files above 600 lines and functions above 50 lines, without their docstrings, may do two jobs.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_ATTRIBUTES, FEWEST_LINES, MOST_LINES, MOST_FUNCTION_LINES = 15, 40, 600, 50
PACKAGES = ("kernels", "interop", "delegate", "video", "tools", "demos")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def attributes(node: ast.ClassDef) -> set[str]:
    """The attributes that methods of a class set on ``self``."""
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
        if isinstance(each.value, ast.Name) and each.value.id == "self"
    }


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    head = function.body[0].lineno - function.lineno
    return head + ((body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0)


def imported_files(path: Path) -> Iterator[Path]:
    """The files of ours that a file imports, by relative imports."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            names = [base / alias.name for alias in node.names]
            yield from {found.with_suffix(".py") for found in (base, *names) if found.with_suffix(".py").exists()}


def rows() -> Iterator[tuple[str, int, str]]:
    """The unusual sizes: their kind, number and place."""
    importers = Counter(found for path in FILES for found in {*imported_files(path)})
    for path in FILES:
        name, lines = path.relative_to(ROOT).as_posix(), len(path.read_text(encoding="utf-8").splitlines())
        if lines > MOST_LINES:
            yield "lines of a file", lines, name
        if path.name != "__init__.py" and lines < FEWEST_LINES and importers[path] == 1:
            yield "lines of a file with one importer", lines, name
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.ClassDef) and len(attributes(node)) > MOST_ATTRIBUTES:
                yield "attributes of a class", len(attributes(node)), f"{name}:{node.lineno} {node.name}"
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and code_lines(node) > MOST_FUNCTION_LINES:
                yield "lines of a function", code_lines(node), f"{name}:{node.lineno} {node.name}"


def main() -> None:
    for what, number, place in sorted(rows(), key=lambda row: (row[0], -row[1])):
        print(f"{number:5} {what:35} {place}")


if __name__ == "__main__":
    main()
