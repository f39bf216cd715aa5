"""The documentation says what is so: its Python runs, its commands and links exist, its messages are in the source."""

from __future__ import annotations

import ast
import functools
import inspect
import io
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import cv2
import numpy as np
import pytest
import typer
import typer.core
from ai_edge_litert import schema_py_generated as schema

from framebind.__main__ import app
from framebind.delegate.cache.stopwatch import Phase
from framebind.tools.common.flags import canonical
from framebind.video.assets import PHOTOGRAPH
from framebind.video.models import find_local
from support.command_line import commands_in
from support.demo_models import brightness, two_boxes
from support.environment import CUDA_DEVICES
from support.public_names import public_names
from support.tiny_models import G, Op, T, build, constants, named
from support.video.clips import write_clip
from support.video.task_bundles import one_face, one_person

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
TEXTS = [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "scripts").rglob("README.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`([^`]+)`")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# Python ---------------------------------------------------------------------------------------------------------------

INSTEAD = {"fb.open_source(0, size=(640, 480))": f"fb.open_source({str(PHOTOGRAPH)!r})"}
"""Nobody has a camera here. A picture ends after one frame, as a closed window does."""
SETUP = re.compile(r"^(?:cp|mkdir) .+$|^python -m framebind demo .+ --output clip\.mp4$", re.MULTILINE)
"""Lines of shell fences that make the files of a page's programs."""
MADE: dict[tuple[str, bool], dict[str, bytes]] = {}
"""The files that a line of a page makes by a command of ours, with a real model or not: pages have the same lines."""
FILE_NAME = re.compile(r"# (\w+\.py)\n")
"""First line of a fence that is a program of its own: it starts processes, which run their file again."""


def program(page: Path) -> str:
    """The Python of a page, each line at its own number, for errors that say where they are; without FILE_NAME's."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * text.count("\n")
    for fence in FENCE.finditer(text):
        if fence[1] == "python" and not FILE_NAME.match(fence[2]):
            first = text[: fence.start(2)].count("\n")
            lines[first : first + fence[2].count("\n")] = fence[2].splitlines()
    joined = "\n".join(lines)
    for what, instead in INSTEAD.items():
        joined = joined.replace(what, instead)
    return joined


def person_mask() -> bytes:
    """A model with the shapes of selfie_segmentation's: the largest channel of each pixel."""
    options = schema.ReducerOptionsT()
    options.keepDims = True
    tensors = [T("x", (1, 256, 256, 3)), T("axis", (1,), [3], "int32"), T("y", (1, 256, 256, 1))]
    return build(G(tensors, [Op("REDUCE_MAX", [0, 1], [2], options)], [0], [2]))


ADDING_AN_OPERATOR = DOCS / "internals" / "adding-an-operator.md"
ADDING_A_TASK = DOCS / "internals" / "adding-a-task.md"
WITH_CUDA = DOCS / "cuda.md"
WITH_PYTHON = [page for page in PAGES if program(page).strip() and page not in (ADDING_AN_OPERATOR, ADDING_A_TASK)]


def test_pages_with_python_are_found() -> None:
    assert {"README.md", "docs/tutorial.md", "docs/textures.md", "docs/opencl.md"} <= {name_of(p) for p in WITH_PYTHON}


WITH_REAL_MODELS = {"README.md", "docs/tutorial.md", "docs/your-model.md", "docs/from-litert.md"}
"""Pages whose programs run the real model in each tier: the others show what goes around it."""


def set_up(page: Path, folder: Path, config: pytest.Config) -> dict[str, str]:
    """Make the files of a page's programs, as it says. The result is the environment for them.

    A small model stands in the folder of models if there are none on this machine, and, except in the tier "all", for
    pages that are not WITH_REAL_MODELS: drivers compile it in a tenth of the time.
    """
    python = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{python}{os.pathsep}{os.environ['PATH']}", "RAY_USAGE_STATS_ENABLED": "0"}
    is_wanted = name_of(page) in WITH_REAL_MODELS or config.getoption("--tier") == "all"
    is_real = is_wanted and find_local("selfie_segmentation") is not None
    if not is_real:
        models = folder / "models"
        models.mkdir()
        (models / "selfie_segmentation.tflite").write_bytes(person_mask())
        environment["FRAMEBIND_MODELS"] = str(models)
    if "face_landmarker.task" in page.read_text(encoding="utf-8"):
        (folder / "face_landmarker.task").write_bytes(one_face())
        (folder / "pose_landmarker_full.task").write_bytes(one_person())
        environment["FRAMEBIND_MODELS"] = str(folder)
    if '"yolo11n.tflite"' in page.read_text(encoding="utf-8"):
        (folder / "yolo11n.tflite").write_bytes(two_boxes())
    shell = [fence[2] for fence in FENCE.finditer(page.read_text(encoding="utf-8")) if fence[1] == "sh"]
    for line in SETUP.findall("".join(shell)):
        for name, content in MADE.get((line, is_real), {}).items():
            (folder / name).write_bytes(content)
        if (line, is_real) in MADE:
            continue
        before = {*folder.iterdir()}
        done = subprocess.run(
            line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
        if "python -m framebind" in line:
            MADE[line, is_real] = {path.name: path.read_bytes() for path in {*folder.iterdir()} - before}
    return environment


def run_python(name: str, folder: Path, environment: dict[str, str], screen: Sequence[str] = ()) -> None:
    done = subprocess.run(
        [*screen, sys.executable, name], cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
@pytest.mark.usefixtures("gl_and_cl")
def test_the_python_of_a_page_runs(
    page: Path, tmp_path: Path, tool: Callable[[str], str], request: pytest.FixtureRequest
) -> None:
    """The code runs from top to bottom in one folder, as somebody who follows the page types it."""
    if page == WITH_CUDA and not CUDA_DEVICES:
        pytest.skip("the page needs NVIDIA's GPU and PyTorch: name cuda in FRAMEBIND_DEVICES")
    code = program(page)
    (tmp_path / "page.py").write_text(code)
    screen = [tool("xvfb-run"), "-a"] if "fb.Window(" in code else []
    run_python("page.py", tmp_path, set_up(page, tmp_path, request.config), screen)


OWN_PROGRAMS = {
    name[1]: (page, fence[2])
    for page in PAGES
    for fence in FENCE.finditer(page.read_text(encoding="utf-8"))
    if (name := FILE_NAME.match(fence[2]))
}


@pytest.mark.parametrize("name", OWN_PROGRAMS)
@pytest.mark.usefixtures("gl_and_cl")
def test_a_program_of_its_own_runs(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    page, code = OWN_PROGRAMS[name]
    assert len([line for line in code.splitlines() if line]) <= 20
    (tmp_path / name).write_text(code)
    run_python(name, tmp_path, set_up(page, tmp_path, request.config))


def test_the_main_code_of_the_readme_runs_as_printed(tmp_path: Path, gl_and_cl: object) -> None:
    """The code needs nothing before it: the folder is empty."""
    first = next(fence[2] for fence in FENCE.finditer(PAGES[0].read_text(encoding="utf-8")) if fence[1] == "python")
    (tmp_path / "main.py").write_text(first)
    done = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    painted = cv2.imread(str(tmp_path / "painted.png"))
    assert painted is not None and painted.std() > 30, "a picture of one colour is no painting"


def copy_code(package: Path, *folders: str) -> None:
    """Copy folders of the package, with what Python has compiled of them; not what another process writes just now."""
    for folder in folders:
        shutil.copytree(ROOT / folder, package / folder, ignore=shutil.ignore_patterns("*.pyc.*"))


def test_the_tutorial_adds_an_operator(tmp_path: Path) -> None:
    """The page's files, written into a copy of the package, are an operator there: nothing else is edited."""
    package = tmp_path / "framebind"
    copy_code(package, "delegate", "interop", "kernels", "tools", "video")
    shutil.copy(ROOT / "__init__.py", package)
    *files, (_, program) = FENCE.findall(ADDING_AN_OPERATOR.read_text(encoding="utf-8"))
    written = []
    for language, text in files:
        if language:
            path = re.sub(r"^(#|//) ", "", text.splitlines()[0])
            assert not (package / path).exists()
            (package / path).write_text(text)
            written.append(Path(path).suffix)
    assert sorted(written) == [".kern", ".py"]
    (tmp_path / "try.py").write_text(program)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "try.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "the same on GPU and CPU" in done.stdout


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_the_page_of_tasks_adds_a_task(tmp_path: Path) -> None:
    """The page's file, in a copy of the package, is a task of demo, process and watch: nothing else is edited. A small
    model has the shapes of selfie_segmentation: four programs compile it.
    """
    package, model = tmp_path / "framebind", str(tmp_path / "selfie_segmentation.tflite")
    copy_code(package, "delegate", "demos", "interop", "kernels", "tools", "video")
    for name in ("__init__.py", "__main__.py", "cl.py", "mp.py", "public_cuda.py"):
        shutil.copy(ROOT / name, package)
    texts = [
        text for language, text in FENCE.findall(ADDING_A_TASK.read_text(encoding="utf-8")) if language == "python"
    ]
    places = {text.splitlines()[0].removeprefix("# ") for text in texts}
    assert places == {"video/tasks/heat.py", "video/heads/box.py"}
    for place in places:
        assert not (package / place).exists()
        (package / place).write_text("\n\n".join(text for text in texts if text.startswith(f"# {place}\n")))
    write_clip(tmp_path / "clip.mp4", frames=3)
    (tmp_path / "h.tflite").write_bytes(named(brightness(1), b"heat"))
    Path(model).write_bytes(person_mask())
    (tmp_path / "box.tflite").write_bytes(constants(np.array([[[0.25, 0, 0.75, 0.5, 0.875]]], np.float32)))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    process = ["process", "clip.mp4", "--task", "heat", "--model", model]
    for words, made in (
        (["demo", "heat", "--model", model, "--size", "64x48", "--frames", "2", "--output", "a.png"], ["a.png"]),
        ([*process, "--output", "drawn", "--save", "video,jsonl"], ["drawn/clip.mp4", "drawn/clip.jsonl"]),
        ([*process, "--output", "rows", "--save", "jsonl"], ["rows/clip.jsonl"]),
        (["watch", "clip.mp4", "--task", "heat", "--model", model, "--jsonl", "seen.jsonl"], ["seen.jsonl"]),
        (["process", "clip.mp4", "--model", "h.tflite", "--output", "alone", "--save", "jsonl"], ["alone/clip.jsonl"]),
        (["process", "clip.mp4", "--model", "box.tflite", "--output", "box", "--save", "jsonl"], ["box/clip.jsonl"]),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "framebind", *words], cwd=tmp_path, env=environment, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert all((tmp_path / each).stat().st_size for each in made)
    files = [(tmp_path / name / "clip.jsonl").read_text().splitlines() for name in ("drawn", "rows", "alone")]
    boxes = [json.loads(line) for line in (tmp_path / "box" / "clip.jsonl").read_text().splitlines()]
    assert [(row["class"], row["box"]) for row in boxes] == 3 * [("thing", [16, 0, 48, 24])]
    assert {json.loads(line)["class"] for line in files.pop()} == {"heat"}, "the model's outputs have named the task"
    for one, other in zip(*files, strict=True):
        drawn, found = json.loads(one), json.loads(other)
        assert drawn["class"] == found["class"] == "heat" and drawn["score"] == pytest.approx(found["score"], abs=0.05)


def test_the_tutorials_webcam_takes_ten_lines() -> None:
    """Below the import; what it shows and that it runs is tested above."""
    text = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    (loop,) = (fence[2] for fence in FENCE.finditer(text) if "fb.open_source(0" in fence[2])
    lines = [line for line in loop.splitlines() if line]
    assert lines[0] == "import framebind as fb" and len(lines) == 1 + 10


# Commands -------------------------------------------------------------------------------------------------------------

Command = Any
"""A command of typer, whose class is click's or, in newer versions of typer, its own copy of that one."""
OTHER_PROGRAMS = ("--gpus", "--device", "--no-deps", "--tier")
"""Options of docker, pip and this suite that pages speak of."""


def commands(text: str) -> Iterator[list[str]]:
    """The words after ``python -m`` of each command line that starts this package, in fences and in code spans."""
    fenced = [fence[2].replace("\\\n", " ") for fence in FENCE.finditer(text) if fence[1] == "sh"]
    spans = [span.replace("\n", " ") for span in CODE_SPAN.findall(FENCE.sub("", text))]
    for code in [*(line for fence in fenced for line in fence.splitlines()), *spans]:
        for found in re.findall(r"python3? -m ((?:framebind|training\.)[^)#|;&]*)", code):
            yield shlex.split(found)


@functools.cache
def command_line() -> Command:
    """The command line, whose commands are made once."""
    return typer.main.get_command(app)


@functools.cache
def known_options() -> frozenset[str]:
    """The options of all commands and scripts, and OTHER_PROGRAMS."""
    scripts = [
        path for folder in ("benchmarks", "scripts", "scripts/training") for path in (ROOT / folder).glob("*.py")
    ]
    known = all_options(command_line()) | set(OTHER_PROGRAMS)
    known.update(*(re.findall(r'"(--[a-z-]+)"', path.read_text(encoding="utf-8")) for path in scripts))
    hosts = (ROOT / "demos" / "hosts").glob("*.py")
    return frozenset(known | {option for path in hosts for option in options_of_main(path)})


def command_of(words: list[str]) -> tuple[Command, list[str]] | None:
    """The command that these words name, and those after its name; None for scripts of scripts/training."""
    module, *rest = words
    if module == "framebind":
        found = command_line()
        while isinstance(found, typer.core.TyperGroup) and rest and not rest[0].startswith("-") and rest[0] != "NAME":
            inner = commands_in(found)
            assert rest[0] in inner, f"there is no command {' '.join(words)}"
            found, rest = inner[rest[0]], rest[1:]
        return found, rest
    assert find_spec(module) is not None, f"there is no module {module}"
    if module.startswith("training."):
        return None  # needs PyTorch
    alone = typer.Typer()
    alone.command()(import_module(module).command)
    return typer.main.get_command(alone), rest


def options_of(command: Command) -> set[str]:
    return {"--help"} | {option for p in command.params for option in (*p.opts, *p.secondary_opts)}


def all_options(command: Command) -> set[str]:
    return options_of(command).union(*map(all_options, commands_in(command).values()))


def without_help(command: Command) -> Iterator[str]:
    """The visible options of a command, and of those in it, that say nothing about themselves."""
    for parameter in command.params:
        if parameter.param_type_name == "option" and not (parameter.help or parameter.hidden):
            yield f"{command.name} {parameter.name}"
    for inner in commands_in(command).values():
        yield from without_help(inner)


def test_every_option_has_a_help() -> None:
    """Python 3.10 shows them too: there a default of None hid the help and the names of a parameter."""
    assert not list(without_help(command_line()))


def options_of_main(path: Path) -> list[str]:
    """The options of a program whose function ``main`` typer runs; its packages need not be installed."""
    functions = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)]
    return [f"--{argument.arg}" for function in functions if function.name == "main" for argument in function.args.args]


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_commands_and_their_options_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for fence in FENCE.finditer(text):
        assert fence[1] != "sh" or not re.search("#.*python -m", fence[2]), f"two commands in one line: {fence[2]}"
    for words in commands(text):
        found = command_of(words)
        if found is not None:
            command, rest = found
            given = {f"--{canonical(word[2:].partition('=')[0])}" for word in rest if word.startswith("--")}
            assert given <= options_of(command), f"{' '.join(words)}: there is no {given - options_of(command)}"
    for span in CODE_SPAN.findall(FENCE.sub("", text)):
        if span.startswith("--"):
            option = re.split(r"[ =\n]", span)[0]
            assert {option, f"--{canonical(option[2:])}"} & known_options(), f"no command has `{span}`"


def test_the_pages_list_every_command_and_demo_with_its_model() -> None:
    commands = commands_in(command_line())
    readme, demos = (path.read_text(encoding="utf-8") for path in (ROOT / "README.md", DOCS / "demos.md"))
    assert set(re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE)) == set(commands)
    table = demos.partition("| demo |")[2].partition("\n\n")[0]
    listed = dict(re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", table, re.MULTILINE))
    assert set(listed) == set(commands_in(commands["demo"]))
    for name, demo in commands_in(commands["demo"]).items():
        (model,) = [p.default for p in demo.params if p.name == "model"]
        bundled = "the bundled one" if name == "style_transfer" else "name one"
        assert listed[name] == (f"`{model}`" if model else bundled)


def test_the_command_reader_sees_what_is_wrong() -> None:
    text = "```sh\n.venv/bin/python -m framebind demo style_transfer --camera 0 \\\n  --nonsense\n```\n"
    ((module, *rest),) = commands(text)
    assert (module, rest) == ("framebind", ["demo", "style_transfer", "--camera", "0", "--nonsense"])
    found = command_of([module, *rest])
    assert found is not None and "--camera" in options_of(found[0]) and "--nonsense" not in options_of(found[0])
    with pytest.raises(AssertionError, match="there is no command"):
        command_of(["framebind", "nonsense"])


# Links ----------------------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """GitHub's, which the built pages have as well."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)} links to '{link}', which is not there"
        assert not anchor or anchor in anchors(target), f"{name_of(page)}: '{link}' is no heading there"


def test_every_page_is_in_an_index_and_links_to_no_page_outside() -> None:
    """Sphinx cannot link Markdown outside its folder."""
    listed: set[Path] = {DOCS / "index.md"}
    for index in DOCS.rglob("index.md"):
        for toctree in re.findall(r"^```\{toctree\}\n(.*?)^```", index.read_text(encoding="utf-8"), re.M | re.S):
            listed |= {index.parent / f"{line}.md" for line in toctree.split()}
    for page in PAGES[1:]:
        assert page in listed, f"{name_of(page)} is in no index.md"
        for link in re.findall(r"\]\(([^)#\s]+\.md)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).resolve().is_relative_to(DOCS), f"{name_of(page)} links to {link}"


# Paths ----------------------------------------------------------------------------------------------------------------

FOLDERS = ("benchmarks", "delegate", "demos", "docs", "interop", "kernels", "scripts", "tests", "tools", "video")
SUFFIXES = (".py", ".kern", ".fragments", ".glsl", ".cl", ".sh", ".toml")
PATH = re.compile(r"(?!(?:fb|framebind)\.cl$)\w[\w.*-]*(?:/[\w.*-]+)*/?")
"""A path; the module fb.cl is none, although sources of OpenCL end so."""


def paths(text: str) -> Iterator[str]:
    """The words of code spans that name a file or folder of the repository. NAME in a path stands for any name."""
    for span in CODE_SPAN.findall(FENCE.sub("", text)):
        for word in span.split():
            inside = word.split("/")[0] in FOLDERS and "/" in word
            if PATH.fullmatch(word) and (inside or word.endswith(SUFFIXES)) and not re.search(r"\b[A-Z]+\b", word):
                yield word


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_the_paths_that_a_page_names_exist(page: Path) -> None:
    named = set(paths(page.read_text(encoding="utf-8")))
    assert not [path for path in sorted(named) if not any(ROOT.glob(path)) and not any(page.parent.glob(path))]


FILE_WORD = re.compile(r"(?<![\w/*.-])[\w/-]+\.(?:py|kern|md|fragments)\b")


def remarks(path: Path) -> Iterator[str]:
    """The comments and docstrings of a Python file."""
    source = path.read_text(encoding="utf-8")
    yield from (t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.COMMENT)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


INSIDE = {"benchmarks/ready.py", "benchmarks/twin.py", "scripts/mediapipe_programs.py", "scripts/pythons.py"}
"""Programs that other programs and the Makefile start."""


def test_a_page_names_each_program_of_benchmarks_and_scripts() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in TEXTS)
    programs = [path for folder in ("benchmarks", "scripts") for path in (ROOT / folder).rglob("*.py")]
    unnamed = {
        path.relative_to(ROOT).as_posix()
        for path in programs
        if '__name__ == "__main__"' in path.read_text(encoding="utf-8") and path.name not in pages
    }
    assert unnamed == INSIDE


def test_the_files_that_comments_name_exist() -> None:
    """A name without a folder may be any file's. Words in capitals stand for others; a wildcard for some."""
    folders = [folder for folder in ROOT.iterdir() if folder.name in FOLDERS]
    files = [*ROOT.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]
    files = [path for path in files if path.suffix in {".py", ".kern", ".md", ".fragments"}]
    known = {part for path in files for part in (path.name, name_of(path))}
    missing: list[str] = []

    @functools.cache
    def is_missing(word: str) -> bool:
        named = word in known or ("/" in word and any(file.endswith(f"/{word}") for file in known))
        return not named and not re.search(r"\b[A-Z]+\b", word)

    for package in ("kernels", "interop", "delegate", "video", "tools", "demos", "benchmarks"):
        for path in (ROOT / package).rglob("*.py"):
            if not any(map(is_missing, FILE_WORD.findall(path.read_text(encoding="utf-8")))):
                continue  # to find the remarks takes longer
            missing += [
                f"{name_of(path)}: {word}" for word in FILE_WORD.findall("\n".join(remarks(path))) if is_missing(word)
            ]
    assert not missing


def test_the_path_reader_sees_what_is_missing() -> None:
    text = "`python benchmarks/gone.py --check`, `kernels/ops/`, `gone.kern`, `delegate/NAME.py`, `fb.transfers`, `a/b`"
    assert list(paths(text)) == ["benchmarks/gone.py", "kernels/ops/", "gone.kern"]


def test_the_words_of_the_kernel_language_are_generated() -> None:
    page = (DOCS / "internals" / "kernel-language.md").read_text(encoding="utf-8")
    table = page.partition("| word |")[2].partition("\n\n")[0]
    words = {word.removeprefix("dst_") for span in CODE_SPAN.findall(table) for word in re.findall(r"^\w+", span)}
    folder = ROOT / "kernels" / "codegen"
    source = "\n".join(path.read_text(encoding="utf-8") for path in folder.iterdir() if path.is_file())
    assert len(words) > 20
    assert not [word for word in words if not re.search(rf"\b{word}\b", source)]


def test_the_map_is_short_and_names_the_phases_of_an_initialization() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert len(re.findall(r"^\| \*\*", text.partition("## Glossary")[2], re.MULTILINE)) <= 15
    assert re.findall(r"^ +\|  (\w+)\b", text, re.MULTILINE) == list(get_args(Phase))


# Performance ----------------------------------------------------------------------------------------------------------


def test_the_pages_of_measurements_are_what_their_scripts_write() -> None:
    report = runpy.run_path(str(ROOT / "benchmarks" / "report.py"))
    text = (DOCS / "performance.md").read_text(encoding="utf-8")
    assert text == report["page"](report["read_results"]()), "run python benchmarks/report.py"
    batches = (DOCS / "tensor-batch-times.md").read_text(encoding="utf-8")
    assert batches == report["batch_page"](report["read_results"]()), "run python benchmarks/report.py"
    peers = (DOCS / "peers.md").read_text(encoding="utf-8")
    assert peers == report["peers_page"](report["read_results"]()), "run python benchmarks/report.py"
    for path, text in report["quoting_pages"](report["read_results"]()).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run python benchmarks/report.py"
    larger = runpy.run_path(str(ROOT / "benchmarks" / "larger.py"))
    text = (DOCS / "larger-models.md").read_text(encoding="utf-8")
    assert text == larger["page"](), "run python benchmarks/larger.py"
    videos = runpy.run_path(str(ROOT / "benchmarks" / "video" / "page.py"))
    text = (DOCS / "video-times.md").read_text(encoding="utf-8")
    assert text == videos["page"](), "run python benchmarks/video/page.py"


def test_the_pages_give_the_errors_that_were_measured() -> None:
    """One table is the source: a page has its sentence as it is, and none has a round figure instead."""
    precision = runpy.run_path(str(ROOT / "benchmarks" / "precision.py"))
    results = precision["read_results"]()
    sentence = precision["sentence"](results)
    texts = {path.name: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *DOCS.glob("*.md")]}
    assert texts["precision.md"] == precision["page"](results), "run python benchmarks/precision.py"
    for name in ("precision.md", "troubleshooting.md", "from-litert.md", "your-model.md"):
        assert sentence in " ".join(texts[name].split()), f"{name} lacks: {sentence}"
    assert not [name for name, text in texts.items() if re.search(r"about\s+1e-\d", text)]


def test_measurements_with_all_samples_become_tables(tmp_path: Path) -> None:
    """The output of ``benchmark --json``: medians, p99 and the number of samples are computed from the kept file."""
    report = runpy.run_path(str(ROOT / "benchmarks" / "report.py"))
    samples = report["samples"]
    gpu: dict[str, Any] = {"model": "m", "on": "cl f16", "io": "bound", "latency": {"median": 0.5}}
    gpu["statistics"] = {"device": "GPU", "driver": "1.2"}
    gpu["samples"] = {"frame": [n / 1e3 for n in range(101)], "stream": [0.123456]}
    cpu = {**gpu, "on": "litert-cpu", "io": "read", "statistics": None, "samples": {"frame": [2.0, 2.5]}}
    refused = {**gpu, "latency": None, "samples": {}}
    printed = {"environment": {"command": "python -m framebind benchmark m"}, "runs": [gpu, cpu, refused]}
    frames = samples.merged([samples.from_benchmark(printed)], "abc")
    assert (frames.kind, frames.machine, frames.driver, frames.commit) == ("frames", "GPU", "1.2", "abc")
    kept = samples.read(report["keep"](frames, tmp_path))
    assert kept.series[0].samples == gpu["samples"]["frame"] and kept.series[1].samples == [0.1235]
    doubled = samples.merged([frames, frames], "abc")
    assert [each.labels for each in doubled.series] == [each.labels for each in frames.series]
    assert doubled.series[0].samples == [*frames.series[0].samples, *frames.series[0].samples]
    older = report["Result"](
        "frames", "GPU", "1.2", "2026-11-30", "abc", "command", ["model", "CUDA f16"], [["m", 0.5]]
    )
    assert report["newest"]([older, kept]) == [kept], (
        "a page shows one of a kind and machine, with samples if it has them"
    )
    text = report["tables"](kept)
    assert "abc: `python -m framebind benchmark m`." in text
    assert "median / p99 of 2 to 101 samples, in ms" in text and "median / p99 of 1 samples" in text
    assert "| model | OpenCL f16 | litert-cpu |" in text and "| m | 0.050 / 0.099 | 2.250 / 2.495 |" in text
    with pytest.raises(ValueError, match="not of one kind"):
        samples.merged([frames, replace(frames, kind="read")], "abc")
    with pytest.raises(ValueError, match="no section of the page shows results of kind new"):
        report["page"]([replace(kept, kind="new")])


def test_pages_quote_the_newest_measurement() -> None:
    """Sentences keep their words and their lines; only figures change."""
    report = runpy.run_path(str(ROOT / "benchmarks" / "report.py"))
    quotes = report["quotes"]
    engines = [("cuda f16", 0.0614), ("cl f16", 0.1), ("gl f16", 0.2)]
    series = [
        report["Series"]({"model": model, "on": on, "figure": "frame"}, [time, time * times, 9.0])
        for model, times in ((quotes.SELFIE, 1.0), (quotes.FACE, 3.0))
        for on, time in engines
    ]
    measured = report["Measured"]("frames", quotes.MACHINE, "", "2026-11-24", "abc", "command", "ms", series)
    kinds = {"frames": report["medians_of"](measured)}
    assert kinds["frames"][quotes.SELFIE, "CUDA f16", "1"] == 0.0614
    (row,) = (quote for quote in quotes.QUOTES if "On OpenCL the same two" in quote.words)
    assert row.figures(kinds) == ["0.100", "0.300"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=r"no measurement on NVIDIA H200 has the figures of README\.md: they run"):
        quotes.quoted("README.md", text, kinds)
    with pytest.raises(ValueError, match=r"docs/cuda\.md has these words 0 times: takes"):
        quotes.quoted("docs/cuda.md", "another page", kinds)


def test_warm_starts_are_a_share_of_cold_ones() -> None:
    report = runpy.run_path(str(ROOT / "benchmarks" / "report.py"))
    series = [
        report["Series"]({"model": "m", "on": "cuda f16", "figure": figure}, times)
        for figure, times in (("cold", [800.0, 900.0, 1000.0]), ("warm", [45.0]))
    ]
    starts = report["Measured"]("starts", "GPU", "1.2", "2026-11-24", "abc", "command", "ms", series)
    assert "as % of cold ones.\n\n| model | CUDA f16 |\n| --- | ---: |\n| m | 5.0 |\n" in report["tables"](starts)


# The reference, and the messages --------------------------------------------------------------------------------------

REFERENCE = "\n".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "api").glob("*.md")))


def referenced() -> dict[str, str]:
    """The options of a public name's entry in the reference, by the name as it stands after ``fb.``."""
    found: dict[str, str] = {}
    module = ""
    entry = r"^\.\. (currentmodule|auto\w+|py:\w+):: ([\w.]+)(?:\(.*\))?\n((?:   .*\n)*)"
    for kind, name, options in re.findall(entry, REFERENCE, re.MULTILINE):
        if kind == "currentmodule":
            module = f"{name}."
        else:
            found[(name if name.startswith("framebind.") else module + name).removeprefix("framebind.")] = options
    return found


def test_the_reference_has_every_public_name() -> None:
    """LiteRT's own names are described there, the others by their docstrings."""
    assert {name for name in referenced() if not name.startswith(("interop.", "mp.tasks."))} == set(public_names())


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_is_documented(name: str) -> None:
    """Every method that the reference shows is documented, too."""
    public = public_names()[name]
    what = public if inspect.isroutine(public) or inspect.isclass(public) else type(public)
    assert what.__doc__
    if not inspect.isclass(what):
        return
    left_out = set(re.findall(r"\w+", referenced()[name].partition("exclude-members:")[2]))
    for member, value in vars(what).items():
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if not member.startswith("_") and inspect.isroutine(function) and member not in left_out:
            assert function.__doc__, f"{name}.{member} has no docstring"


def texts() -> Iterator[str]:
    """Every text of the source, with … for what is put in."""
    for room in ("interop", "delegate", "video", "tools", "demos"):
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
                    yield "".join(map(str, parts))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def test_troubleshooting_has_messages_that_are_in_the_source() -> None:
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"^### `(.*)`$", page, re.MULTILINE)
    assert len(messages) > 30
    source = "\n".join(texts())
    for message in messages:
        parts = [re.escape(part.strip()) for part in message.split("…") if part.strip(" ,:;.")]
        pattern = "[^\n]*?".join(parts)
        assert re.search(pattern, source), f"no message of the source is: {message}"


def test_troubleshooting_has_every_error() -> None:
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    errors = [name for name, value in public_names().items() if inspect.isclass(value) and issubclass(value, Exception)]
    assert not [name for name in errors if f"`{name}`" not in page and name != "FramebindError"]
