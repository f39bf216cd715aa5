"""Each GL call that changes state of the context stands where the state is put back in somebody else's context."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from support.environment import ROOT
from support.gl_calls import changes_state

EXEMPT = {"interop/gl/state.py", "interop/gl/settings.py"}
"""The files that save and restore."""
MARK = "inside a block that keeps"
"""A function whose docstring has it may change state: it tells its callers to keep it. Tests with GuardedApi see it."""


def test_each_call_that_changes_state_is_in_a_block_that_restores_it() -> None:
    found = list(_outside())
    assert found == [], "\n".join(found)


def test_the_check_sees_calls_outside_of_blocks() -> None:
    text = "def f(gl):\n  with kept(c, program):\n    gl.glUseProgram(1)\n  gl.glUseProgram(0)\n"
    assert [call.lineno for call in _calls(ast.parse(text), guarded=False)] == [4]


def _outside() -> Iterator[str]:
    for path in sorted((ROOT / "interop").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name not in EXEMPT:
            tree = ast.parse(path.read_text())
            yield from (f"{name}:{call.lineno}: {ast.unparse(call)}" for call in _calls(tree, guarded=False))


def _calls(node: ast.AST, *, guarded: bool) -> Iterator[ast.Call]:
    """The calls below a node that change state and are not guarded. What a function's body says holds for it alone."""
    if isinstance(node, ast.FunctionDef):
        guarded = MARK in " ".join((ast.get_docstring(node) or "").split())
    if isinstance(node, ast.With):
        guarded = guarded or any(_is_block(item.context_expr) for item in node.items)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and changes_state(node.func.attr)
        and not guarded
    ):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, guarded=guarded)


def _is_block(expression: ast.expr) -> bool:
    return (
        isinstance(expression, ast.Call)
        and isinstance(expression.func, ast.Name)
        and expression.func.id in ("kept", "restored")
    )
