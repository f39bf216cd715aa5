"""Holds the source to DESIGN.md: which room may import which, no cycles, no GL or CL outside interop, sizes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "kernels": {"kernels"},
    "interop": {"interop", "kernels"},
    "delegate": {"delegate", "interop", "kernels"},
    "demos": {"demos", ""},
    "__main__": {"demos", ""},
    "": {"delegate", "interop", "kernels"},
}
"""By room ("" is __init__.py, "__main__" the file __main__.py): the rooms whose modules its files may import."""
SUB_ROOMS = {"gl": set[str](), "video": {"gl"}, "share": {"gl", "cl"}, "cl": {"gl", "share"}}
"""Of interop: whose modules each may import besides its own and interop's. (OpenCL's device borrows GL objects.)"""
GPU_LIBRARIES = {"OpenGL", "pyopencl", "glfw", "ctypes", "moderngl"}
CTYPES_FOR_LITERT = {"delegate/tflite.py", "delegate/tflite_abi.py"}
"""LiteRT's delegate is a C structure too; no other file outside interop may touch C."""
HOSTS = "demos/hosts/with_"
"""Programs of other GL libraries, into which framebind is bound."""
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50

PATTERNS = {"": "__init__.py", "__main__": "__main__.py"}
FILES = sorted(p for room in MAY_IMPORT for p in ROOT.glob(PATTERNS.get(room, f"{room}/**/*.py")))


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_of(path: Path) -> str:
    """The dotted name below framebind: "interop.gl", "interop" for a room's __init__.py, "" for the package's."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def imports(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Every import of a file, also inside functions: (line, dotted name, whether it is ours and so below framebind)."""
    package = module_of(path).split(".") if path.name == "__init__.py" else module_of(path).split(".")[:-1]
    package = [part for part in package if part]
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                ours = alias.name.split(".")[0] == "framebind"
                yield node.lineno, alias.name.partition(".")[2] if ours else alias.name, ours
        elif isinstance(node, ast.ImportFrom):
            base = (node.module or "").split(".") if node.module else []
            if node.level:
                base = package[: len(package) - node.level + 1] + base
            ours = bool(node.level) or base[:1] == ["framebind"]
            if not node.level and ours:
                base = base[1:]
            for alias in node.names:
                full = ".".join([*base, alias.name])
                yield node.lineno, full if ours and full in MODULES else ".".join(base), ours


def room_of(module: str) -> str:
    return module.split(".")[0]


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_imports_only_what_its_room_may(path: Path) -> None:
    allowed = MAY_IMPORT[room_of(module_of(path))]
    upward = [
        f"{name_of(path)}:{line} imports {module or 'framebind'}"
        for line, module, ours in imports(path)
        if ours and room_of(module) not in allowed
    ]
    assert not upward


@pytest.mark.parametrize("room", SUB_ROOMS)
def test_a_sub_room_of_interop_imports_only_what_it_may(room: str) -> None:
    others = {f"interop.{other}" for other in SUB_ROOMS.keys() - SUB_ROOMS[room] - {room}}
    files = [path for module, path in MODULES.items() if module.startswith(f"interop.{room}.")]
    found = [
        f"{name_of(path)}:{line} imports {module}"
        for path in files
        for line, module, ours in imports(path)
        if ours and any(f"{module}.".startswith(f"{other}.") for other in others)
    ]
    assert files and not found


def test_no_two_files_import_each_other() -> None:
    edges = {
        module: {target for _, target, ours in imports(path) if ours and target in MODULES and target != module}
        for module, path in MODULES.items()
    }
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, "imports in a circle: " + " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for target in sorted(edges[module]):
                visit(target, (*path, module))
            done.add(module)

    for module in edges:
        visit(module, ())
    assert done == set(MODULES)


@pytest.mark.parametrize("path", [p for p in FILES if not name_of(p).startswith("interop/")], ids=name_of)
def test_gpu_calls_live_in_interop(path: Path) -> None:
    allowed = {"ctypes"} if name_of(path) in CTYPES_FOR_LITERT else set[str]()
    found = [
        f"{name_of(path)}:{line} imports {module}"
        for line, module, ours in imports(path)
        if not ours and module.split(".")[0] in GPU_LIBRARIES - allowed and not name_of(path).startswith(HOSTS)
    ]
    assert not found


@pytest.mark.parametrize("path", [p for p in FILES if room_of(module_of(p)) in ("demos", "__main__")], ids=name_of)
def test_demos_use_public_names_only(path: Path) -> None:
    import framebind

    used = {
        (node.attr, node.lineno)
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "fb"
    }
    assert not [f"{name_of(path)}:{line} uses fb.{name}" for name, line in used if name not in framebind.__all__]


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_files_and_functions_stay_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_FILE_LINES, f"{name_of(path)} has {lines} lines: does it still do one thing?"
    long = [
        f"{name_of(path)}:{node.lineno} {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert not long


def test_every_room_and_sub_room_is_installed() -> None:
    """setuptools takes the packages that pyproject.toml lists, and no others."""
    listed = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    folders = [path.relative_to(ROOT).parent for path in FILES if path.name == "__init__.py"]
    packages = [".".join(["framebind", *folder.parts]) for folder in folders]
    assert "framebind.demos.commands" in packages
    assert not [package for package in packages if f'"{package}"' not in listed]


@pytest.mark.parametrize("folder", ["kernels", "demos/assets"])
def test_files_that_are_no_python_are_installed(folder: str) -> None:
    """A wheel has only what pyproject.toml's package-data matches: a kernel that is left out is missed on a GPU."""
    package = ".".join(["framebind", *Path(folder).parts])
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (patterns,) = re.findall(rf'^"{re.escape(package)}" = \[(.*)\]$', text, re.MULTILINE)
    files = [path for path in (ROOT / folder).iterdir() if path.is_file() and path.suffix != ".py"]
    assert files
    assert not [p.name for p in files if not any(p.match(pattern) for pattern in re.findall(r'"([^"]+)"', patterns))]


def test_the_rules_see_what_they_forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """The import reader itself: relative, absolute, and inside a function."""
    source = "from ..interop import errors\nimport framebind.delegate.graph\n"
    source += "def f():\n    from . import layout\n    import glfw\n"
    path = ROOT / "kernels" / "invented.py"
    monkeypatch.setattr(Path, "read_text", lambda self, **_: source)
    assert list(imports(path)) == [
        (1, "interop.errors", True),
        (2, "delegate.graph", True),
        (4, "kernels.layout", True),
        (5, "glfw", False),
    ]
