"""Rules of folders and files: who may import whom, no circles, GPU calls in interop only, short functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from framebind.interop.backends import all_backends

ROOT = Path(__file__).parents[2]
MAY_IMPORT = {
    "kernels": {"kernels"},
    "interop": {"interop", "kernels"},
    "delegate": {"delegate", "interop", "kernels"},
    "video": {"video", ""},
    "video.__init__": {"video", "interop"},
    "tools.certify": {"tools.certify", "tools", "video", "delegate", "interop", "kernels", ""},
    "tools": {"tools", "tools.certify", "video", ""},
    "demos": {"demos", "tools", "video", ""},
    "__main__": {"demos", "tools", ""},
    "cl": {"interop"},
    "mp": {"video"},
    "public_cuda": {"interop"},
    "": {"delegate", "interop", "kernels"},
}
"""The packages that files may import, by package ("" is __init__.py; "__main__", "cl", "mp" and "public_cuda" are
files).
"""
DOOR = "video.__init__"
"""The file that names what is public in ``fb.video``, as __init__.py does for ``fb``."""
CERTIFICATION = "tools.certify"
"""Certification runs passes and kernels one by one, so it may look into the engine; other tools use public names."""
LATE = {("", "cl"), ("", "mp"), ("", "public_cuda"), ("", "video"), ("", "video.session.stage")}
"""Imports that ``framebind.__getattr__`` makes when a name is first used, by file and module: importing framebind does
not, and video may import framebind.
"""
APIS = sorted(all_backends(), key=lambda api: (api.rank is not None, api.gl_objects != "own", -(api.rank or 0)))
"""The entries of interop's folders, from the ground up: all share OpenGL's objects, OpenCL asks CUDA for its GPU."""
API_FLOORS = " ".join(
    f"{folder} {folder}.draw {folder}.sharing {folder}.compute {folder}.backend"
    for folder in (api.open.__module__.split(".")[2] for api in APIS)
)
FLOORS = {
    "kernels": "tensor colours views target operation codegen ops.arguments ops.window ops.pointwise ops.movement "
    "ops.indexing ops.convolution ops.bottleneck ops.reduction ops.recurrent ops.constant ops cpu_shapes "
    "registry",
    "interop": "errors deprecated uncopied arrays dlpack forks transfers binaries pixel_formats yuv device "
    f"host_arrays loaders backends contexts memory record {API_FLOORS} "
    "processes frames.frame frames.decode frames.read "
    "frames.paint frames.virtual_cameras frames.write frames discovery",
    "delegate": "options read report litert transform lower cache compiler plan claim run statistics engine "
    "gpu_delegate automatic alone signature_runner interpreter custom_operators "
    "tensor_buffer signatures buffer_runs compiled_model",
    "video": "basic_types assets tflite_writer embedded_network bundles models apis feedback further_inputs "
    "model_options copies signals layouts model_metadata sampling answers network_outputs copying_mode network "
    "answers.prototypes model_file task vision head heads mediapipe.core.containers mediapipe.core.errors "
    "mediapipe.calculators mediapipe.graphs mediapipe.core mediapipe.vision mediapipe.solutions mediapipe "
    "times results.rows tasks work results session workers live",
    "tools.certify": "cases graphs *",
    "tools": "common.console common measure plots evaluation displays player commands",
    "demos": "hosts * command",
}
"""The folders and top-level files of a package, from the ground up. Each imports itself and those before it only.
"*" is every file that is not named: a demo is a file that no list names.
"""
GPU_LIBRARIES = {"OpenGL", "pyopencl", "glfw", "ctypes", "moderngl", "cuda"}
CTYPES_FOR_OTHERS = {"delegate/litert/native.py", "delegate/litert/abi.py", "video/mediapipe/calculators/c_math.py"}
"""LiteRT's delegate is a C structure too, and MediaPipe rounds as the C library's cosine and its like do; no other file
outside interop may touch C.
"""
HOSTS = "demos/hosts/with_"
"""Programs of other GL libraries, into which framebind is bound."""
MAX_FUNCTION_LINES = 50

PATTERNS = {"": "__init__.py"} | {name: f"{name}.py" for name in ("__main__", "cl", "mp", "public_cuda")}
FILES = sorted(p for package in MAY_IMPORT for p in ROOT.glob(PATTERNS.get(package, f"{package}/**/*.py")))


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def dotted(node: ast.expr) -> str:
    """The name that an expression spells, such as "fb.video", or "". ast.unparse takes seconds for a tree of files."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_of(path: Path) -> str:
    """The dotted name below framebind: "interop.gl", "interop" for a folder's __init__.py, "" for the package's."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


@cache
def imports(path: Path) -> tuple[tuple[int, str, bool], ...]:
    """Every import of a file, also inside functions: (line, dotted name, whether it is ours and so below framebind)."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[int, str, bool]]:
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
                module = full if ours and full in MODULES else ".".join(base)
                if (module_of(path), module) not in LATE:
                    yield node.lineno, module, ours


def package_of(module: str) -> str:
    """The key of MAY_IMPORT. Certification has a key of its own."""
    return CERTIFICATION if f"{module}.".startswith(f"{CERTIFICATION}.") else module.split(".")[0]


def importer_of(path: Path) -> str:
    """The key of MAY_IMPORT for a file that imports. The door of ``fb.video`` has a key of its own."""
    return DOOR if name_of(path) == "video/__init__.py" else package_of(module_of(path))


def floor_of(module: str) -> int:
    """The number of the floor of a module below its package. The longest name in FLOORS that fits counts."""
    package = package_of(module)
    below = module.removeprefix(package).removeprefix(".")
    floors = FLOORS[package].split()
    fitting = [floor for floor in floors if f"{below}.".startswith(f"{floor}.")] or list({"*"}.intersection(floors))
    assert fitting, f"{module} is on no floor of {package}: add its folder to FLOORS"
    return floors.index(max(fitting, key=len))


def test_a_file_imports_only_what_its_package_may() -> None:
    assert not [
        f"{name_of(path)}:{line} imports {module or 'framebind'}"
        for path in FILES
        for line, module, ours in imports(path)
        if ours and package_of(module) not in MAY_IMPORT[importer_of(path)]
    ]


def test_a_folder_imports_only_folders_below_it() -> None:
    assert not [
        f"{name_of(path)}:{line} imports {module}, which is on a floor above"
        for importer, path in MODULES.items()
        if "." in importer
        for line, module, ours in imports(path)
        if ours and "." in module and package_of(module) == package_of(importer)
        if floor_of(module) > floor_of(importer)
    ]


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


def test_gpu_calls_live_in_interop() -> None:
    found = []
    for path in FILES:
        name = name_of(path)
        forbidden = GPU_LIBRARIES - ({"ctypes"} if name in CTYPES_FOR_OTHERS else set())
        if not name.startswith(("interop/", HOSTS)):
            found += [
                f"{name}:{line} imports {module}"
                for line, module, ours in imports(path)
                if not ours and module.split(".")[0] in forbidden
            ]
    assert not found


def test_video_tools_and_demos_use_public_names_only() -> None:
    import framebind

    public = {"fb": [*framebind.__all__, "__version__"]}
    public |= {f"fb.{name}": getattr(framebind, name).__all__ for name in ("cl", "cuda", "mp", "video")}
    found = []
    for path in FILES:
        if package_of(module_of(path)) in ("video", "tools", "demos", "__main__"):
            found += [
                f"{name_of(path)}:{node.lineno} uses {module}.{node.attr}"
                for node in ast.walk(parse(path))
                if isinstance(node, ast.Attribute) and (module := dotted(node.value)) in public
                if node.attr not in public[module]
            ]
    assert not found


def test_functions_stay_short() -> None:
    found = [
        f"{name_of(path)}:{node.lineno} {node.name} has {_code_lines(node)} lines"
        for path in FILES
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _code_lines(node) > MAX_FUNCTION_LINES
    ]
    assert not found


def _code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its docstring: what a public one needs to be explained makes it no longer."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines


RIDDLE = re.compile(r"(Of|What|How|Where|Which)\b")
RIDDLE_WITHOUT_THE_CODE = re.compile(r"(See|The same|It|By|As|If|For|Why|Both|Those|Whether it)\b")
"""First words of docstrings that a reader understands once the code is read. CLEAN packages have none."""
CLEAN = {"kernels", "interop", "delegate", "video", "tools", "tools.certify", "demos"}


def test_no_docstring_continues_the_name() -> None:
    """A docstring says what the thing is or does. One that begins with Of, What, How, Where or Which does not."""
    found = []
    for path in FILES:
        clean = package_of(module_of(path)) in CLEAN
        for node in ast.walk(parse(path)):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                text = node.value.value
                if RIDDLE.match(text) or (clean and RIDDLE_WITHOUT_THE_CODE.match(text)):
                    found.append(f"{name_of(path)}:{node.lineno} {node.value.value.splitlines()[0]}")
    assert not found


PATCHED = {
    "classify.draw_best", "detect.draw_boxes",
    "models.SHARED", "fb.video.Source.waits",
    "Tuner.is_faster", "fb.Interpreter.get_tensor",
    "cl_one_dispatch.render_program", "tflite_abi.*", "Node.__getattribute__",
}  # fmt: skip
"""The attributes of framebind that tests replace, because no argument leads there. Two functions are watched while
they draw: a demo finds in pixels what it shows. Demos and commands are run as whole programs, with a folder of models
that is not there, a camera that is soon given up, a device that takes no time to measure, and an engine that is wrong.
benchmarks/inside.py puts clocks into the program there, as its main does. Structures of LiteRT are those of a version
that does not exist. What passes read of any node, also of those that they make, is counted.
"""


def test_tests_set_no_attributes_of_framebind() -> None:
    """A test passes what it wants: an argument, a field of a Target, a Tuner. Fake clocks, the environment, and what
    other packages do may be replaced.
    """
    patched = {target for path in (ROOT / "tests").rglob("*.py") for target in _patched(parse(path))}
    assert patched == PATCHED


def _patched(tree: ast.Module) -> Iterator[str]:
    """The attributes of what a file imports from framebind that it sets, by monkeypatch, mock or assignment."""
    ours = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if f"{node.module if isinstance(node, ast.ImportFrom) else alias.name}.".startswith("framebind.")
    }
    for name in filter(None, map(_attribute_set, ast.walk(tree))):
        if name.partition(".")[0] in {*ours, "framebind"}:
            yield name


PATCHING = ("setattr", "delattr", "patch", "patch.object")


def _attribute_set(node: ast.AST) -> str | None:
    """The attribute that a statement or a call sets, as the file spells it; "*" if its name is computed."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
        return ast.unparse(node.targets[0])
    if not isinstance(node, ast.Call) or not dotted(node.func).endswith(PATCHING) or not node.args:
        return None
    parts = [arg.value if isinstance(arg, ast.Constant) else ast.unparse(arg) for arg in node.args[:1]]
    if not isinstance(node.args[0], ast.Constant):
        parts += [arg.value if isinstance(arg, ast.Constant) else "*" for arg in node.args[1:2]]
    return ".".join(map(str, parts))


def test_every_folder_is_installed() -> None:
    """setuptools takes the packages that pyproject.toml lists, and no others."""
    listed = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    folders = [path.relative_to(ROOT).parent for path in FILES if path.name == "__init__.py"]
    packages = [".".join(["framebind", *folder.parts]) for folder in folders]
    assert "framebind.tools.commands" in packages
    assert not [package for package in packages if f'"{package}"' not in listed]
    assert {path.parent for path in FILES} == {ROOT / folder for folder in folders}, "a folder without __init__.py"


def test_files_that_are_no_python_are_installed() -> None:
    """A wheel has only what pyproject.toml's package-data matches: a kernel that is left out is missed on a GPU."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (section,) = re.findall(r"^\[tool\.setuptools\.package-data\]\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    patterns = {
        package: re.findall(r'"([^"]+)"', rest) for package, rest in re.findall(r'^"?([\w.]+)"? = (.*)$', section, re.M)
    }
    files = [path for package in FLOORS for path in (ROOT / package).rglob("*") if path.is_file()]
    files = [path for path in files if path.suffix not in (".py", ".pyc")]
    assert all(f'    "{package}",\n' in text for package in patterns), (
        "setuptools ignores package-data of other folders"
    )
    assert any(path.name == "conv.kern" for path in files)
    assert not [
        name_of(path)
        for path in files
        if not any(
            path.match(p) for p in patterns.get(".".join(["framebind", *path.relative_to(ROOT).parent.parts]), ())
        )
    ]


def test_the_rules_see_what_is_patched() -> None:
    source = "import framebind as fb\nfrom framebind.kernels import target as t\nfrom numpy import random\n"
    source += "monkeypatch.setattr(t.Target, 'take', 1)\nmock.patch.object(t, name, 1)\nfb.Sink = None\n"
    source += "monkeypatch.setattr('framebind.kernels.x', 1)\nmonkeypatch.setattr(random, 'x', 1)\nlocal.x = 1\n"
    assert {*_patched(ast.parse(source))} == {"t.Target.take", "t.*", "fb.Sink", "framebind.kernels.x"}


def test_the_rules_see_what_they_forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """The import reader itself: relative, absolute, and inside a function."""
    source = "from ..interop import errors\nimport framebind.delegate.transform.graph\n"
    source += "def f():\n    from . import views\n    import glfw\n"
    path = ROOT / "kernels" / "invented.py"
    monkeypatch.setattr(Path, "read_text", lambda self, **_: source)
    assert list(imports(path)) == [
        (1, "interop.errors", True),
        (2, "delegate.transform.graph", True),
        (4, "kernels.views", True),
        (5, "glfw", False),
    ]
