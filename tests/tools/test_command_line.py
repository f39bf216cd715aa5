"""``python -m framebind``: what every command has in common, and what each prints."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

import framebind as fb
from framebind.__main__ import COMMANDS, app, main
from framebind.interop.backends import backend_names
from framebind.interop.device import Device
from framebind.tools.commands.benchmark import benchmark
from framebind.tools.commands.diff import diff
from framebind.tools.commands.inspect import inspect
from framebind.video.apis import APIS, BY_NAME
from support.model_runs import backend_of
from support.tiny_models import CPU_ONLY, G, Op, T, build, chain, named

ROOT = Path(__file__).parents[2]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``python -m framebind`` in a process of its own, as a person runs it."""
    return subprocess.run(
        [sys.executable, "-m", "framebind", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "COLUMNS": "250", **environment},
    )


def test_help_lists_every_command() -> None:
    done = run("--help")
    assert done.returncode == 0, done.stderr
    listed = [line.split()[1] for line in done.stdout.partition("Commands")[2].splitlines() if line.startswith("│ ")]
    assert [word for word in listed if word in COMMANDS] == list(COMMANDS)


@pytest.mark.parametrize("command", [each for each in COMMANDS if each not in ("demo", "evaluate")])
def test_each_command_shows_an_example(command: str) -> None:
    done = CliRunner(env={"COLUMNS": "250"}).invoke(app, [command, "--help"])
    assert done.exit_code == 0, done.output
    assert f"Example: python -m framebind {command}" in done.output


def test_a_command_imports_no_other_command() -> None:
    program = (
        "import sys; from framebind.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: print(*(each for each in sys.modules if each.startswith('framebind.')))"
    )
    done = subprocess.run([sys.executable, "-c", program, "models"], capture_output=True, text=True, check=True)
    imported = {each.rpartition(".")[2] for each in done.stdout.split() if each.startswith("framebind.tools.commands.")}
    assert imported == {"models"}
    assert "framebind.demos" not in done.stdout


ADDED = '''
from ..tools.player.options import Options, demo

@demo("style_transfer")
def command(options: Options) -> None:
    """A demo that was added."""
    print(options.model, options.size)
'''


def test_a_full_disk_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["framebind", "models"])
    with open("/dev/full", "w") as full, pytest.raises(SystemExit, match=r"OSError: .*No space left on device"):
        monkeypatch.setattr(sys, "stdout", full)
        main()


def test_a_reader_of_the_output_that_vanishes_is_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["framebind", "models"])
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as closed, pytest.raises(SystemExit) as ended:
        monkeypatch.setattr(sys, "stdout", closed)
        main()
    assert ended.value.code == 1


def test_hostile_names_are_printed_harmlessly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hostile.tflite"
    path.write_bytes(named(chain("EXP", "TANH", shape=(1, 4)), b"\x1b[31mred\xff"))
    inspect(str(path))
    diff(str(path), runs=1)
    path.write_bytes(named(build(G([T("x", (1,)), T("y", (1,))], [Op("Own", [0], [1], b"")], [0], [1])), b"\x1b[2J"))
    for command in (lambda: inspect(str(path)), lambda: diff(str(path)), lambda: benchmark([str(path)], "cpu")):
        with pytest.raises(fb.ModelError, match=r"unresolved custom op: \\x1b\[2J") as raised:
            command()
        assert str(raised.value).isprintable()
    printed = capsys.readouterr()
    assert r"\x1b[31mred\xff" in printed.out and "\x1b" not in printed.out + printed.err


def test_the_package_is_imported_with_standard_streams_closed() -> None:
    """glfw finds its library by a process that needs standard error."""
    script = "import os; os.closerange(0, 3); import framebind"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_command_line_needs_no_docstrings() -> None:
    """``python -OO`` removes them."""
    done = run("demo", "--help", PYTHONOPTIMIZE="2")
    assert done.returncode == 0 and "style_transfer" in done.stdout, done.stderr


def test_a_demo_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "added.py").write_text(ADDED)
    program = f"import framebind.demos as d; d.__path__.append({str(tmp_path)!r}); from framebind.__main__ import main"
    command = [sys.executable, "-c", f"{program}; main()", "demo", "added", "--size", "64x48"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "style_transfer 64x48\n"), done.stderr


def test_every_api_is_a_row_of_one_table() -> None:
    assert {*BY_NAME, "auto"} == set(backend_names())
    assert all(BY_NAME[api.short] is BY_NAME[api.name] is api for api in APIS)


def test_a_wrong_command_line_ends_with_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    done = run("devices", "--nonsense")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "Usage: python -m framebind devices" in done.stdout + done.stderr
    for arguments in ([], ["nonsense"]):
        monkeypatch.setattr(sys, "argv", ["framebind", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 2 and "Usage: " in "".join(capsys.readouterr())


def test_a_terminal_gets_colours(tmp_path: Path) -> None:
    """Operators on the CPU are in another colour, on a terminal alone."""
    (tmp_path / "tiny.tflite").write_bytes(chain("EXP", CPU_ONLY))
    terminal, stdout = os.openpty()
    command = [sys.executable, "-m", "framebind", "inspect", str(tmp_path / "tiny.tflite")]
    environment = {**os.environ, "TERM": "xterm-256color"}
    done = subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL, env=environment)
    os.close(stdout)
    text = b""
    with contextlib.suppress(OSError), os.fdopen(terminal, "rb", buffering=0) as reader:  # EIO at the end on Linux
        while read := reader.read(4096):
            text += read
    assert done.wait(60) == 0
    assert b"\x1b[33m" in text, "yellow"


def test_the_version_is_the_packages() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"framebind {fb.__version__}\n"), done.stderr
    assert f"## {fb.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_command_line_needs_no_extra() -> None:
    """Only pictures need the extra: whoever wants them is told what to install."""
    program = "import sys; sys.modules['skimage'] = None\nfrom framebind.video.tasks.style import prepare_styles\n"
    program += "from framebind.__main__ import app\nprepare_styles(())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert "name some by the demo's --style" in done.stderr and "pip install scikit-image" in done.stderr


def test_no_message_names_a_project_of_a_package_index_that_is_not_ours() -> None:
    """Anyone could register that name there."""
    sources = [path for path in ROOT.rglob("*.py") if not {".venv", "tests", "build"} & set(path.parts)]
    assert len(sources) > 200
    assert not [path for path in sources if re.search(r"install[^\n]*framebind\[", path.read_text(encoding="utf-8"))]


# inspect -------------------------------------------------------------------------------------------------------------

NEWER = G([T("x", (1, 4)), T("y", (1, 4))], [Op("EXP", [0], [1], version=99)], [0], [1])
NO_GPU = {"EGL_PLATFORM": "nonsense", "OCL_ICD_VENDORS": "/nonexistent"}
"""An environment in which neither GL nor OpenCL has a device."""


class Done(NamedTuple):
    """The output of a command that ran in this process, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def inspected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Runs ``inspect`` on a model's bytes in this process, which a Python of its own for each would make slow."""
    monkeypatch.setenv("COLUMNS", "250")

    def inspect(content: bytes, *arguments: str) -> Done:
        (tmp_path / "tiny.tflite").write_bytes(content)
        monkeypatch.setattr(sys, "argv", ["framebind", "inspect", str(tmp_path / "tiny.tflite"), *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        code, printed = ended.value.code, capfd.readouterr()
        failed = isinstance(code, str)  # the message, which Python prints before it exits with 1
        return Done(1 if failed else int(code or 0), printed.out, printed.err + (f"{code}\n" if failed else ""))

    return inspect


def rows(text: str, title: str) -> list[list[str]]:
    """The cells of a table, by row."""
    lines = text.partition(f"{title} ")[2].splitlines()
    last = next(i for i, line in enumerate(lines) if line.startswith("└"))
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines[:last] if line.startswith("│")]


def test_inspect_shows_the_split_without_any_gpu(tmp_path: Path) -> None:
    (tmp_path / "tiny.tflite").write_bytes(chain("EXP", "TANH", CPU_ONLY, "NEG"))
    done = run("inspect", str(tmp_path / "tiny.tflite"), **NO_GPU)
    assert done.returncode == 0, done.stderr
    assert rows(done.stdout, "Inputs and outputs") == [
        ["input", "0", "x", "1 x 4 x 5 x 3", "NHWC", "float32", ""],
        ["output", "4", "t4", "1 x 4 x 5 x 3", "NHWC", "float32", ""],
    ]
    assert rows(done.stdout, "Operators") == [
        ["0", "EXP", "GPU", "0", ""],
        ["1", "TANH", "GPU", "0", ""],
        ["2", CPU_ONLY, "CPU", "", "the operator is not supported"],
        ["3", "NEG", "GPU", "1", ""],
    ]
    assert [row[:5] for row in rows(done.stdout, "Partitions")] == [
        ["0", "2", "0", "2", "1"],
        ["1", "1", "3", "4", "1"],
    ]
    assert done.stdout.startswith("tiny.tflite: 3 of 4 operators run on the GPU, in 2 partitions; 1 on the CPU.\n")
    assert "\x1b" not in done.stdout, "colours are for terminals"
    assert "not supported by GPU delegate" not in done.stderr, "the table says it already"


def test_inspect_shows_pictures_with_channels_first(inspected: Callable[..., Done]) -> None:
    done = inspected(chain("EXP", shape=(1, 3, 8, 8)))
    assert [row[4] for row in rows(done.stdout, "Inputs and outputs")] == ["NCHW", "NCHW"]
    (tensor,) = json.loads(inspected(chain("EXP", shape=(1, 8)), "--json").stdout)["inputs"]
    assert tensor["layout"] == "nhwc"


def test_inspect_of_a_large_model_shows_the_answer_and_the_reasons(inspected: Callable[..., Done]) -> None:
    content = chain(*["EXP", "TANH"] * 10, CPU_ONLY, "NEG", CPU_ONLY)
    done = inspected(content)
    assert done.stdout.startswith("tiny.tflite: 21 of 23 operators run on the GPU, in 2 partitions; 2 on the CPU.\n")
    assert rows(done.stdout, "Operators on the CPU") == [[CPU_ONLY, "2", "20, 22", "the operator is not supported"]]
    assert "TANH" not in done.stdout and "--all shows the rows of all 23 operators." in done.stdout
    every = inspected(content, "--all")
    assert len(rows(every.stdout, "Operators")) == 23 and "--all" not in every.stdout


@pytest.mark.parametrize(
    ("operators", "answer"),
    [
        (("EXP",), "its operator runs on the GPU, in 1 partition."),
        (("EXP", "TANH"), "all 2 operators run on the GPU, in 1 partition."),
        (("EXP", CPU_ONLY), "1 of 2 operators runs on the GPU, in 1 partition; 1 on the CPU."),
        ((CPU_ONLY,), "none of 1 operator runs on the GPU. Run the model without a delegate."),
    ],
)
def test_inspect_says_the_answer_first(operators: tuple[str, ...], answer: str, inspected: Callable[..., Done]) -> None:
    assert inspected(chain(*operators)).stdout.startswith(f"tiny.tflite: {answer}\n")


def test_inspect_tells_subgraphs_apart(inspected: Callable[..., Done]) -> None:
    def graph(key: str, operator: str) -> G:
        return G([T("x", (1, 4, 5, 3)), T("y", (1, 4, 5, 3))], [Op(operator, [0], [1])], [0], [1], key, key)

    done = inspected(build(graph("one", "EXP"), graph("two", CPU_ONLY), graph("three", "NEG")))
    assert rows(done.stdout, "Operators") == [
        ["0", "0", "EXP", "GPU", "0", ""],
        ["1", "0", CPU_ONLY, "CPU", "", "the operator is not supported"],
        ["2", "0", "NEG", "GPU", "1", ""],
    ]
    assert [row[4] for row in rows(done.stdout, "Partitions")] == ["1", "1"]


def test_inspect_prints_json(inspected: Callable[..., Done]) -> None:
    x = T("x", (1, 4), dtype="int8", scales=[0.5], zero_points=[3], signature=(-1, 4))
    y = T("y", (1, 4), dtype="int8", scales=[0.5], zero_points=[3], signature=(-1, 4))
    done = inspected(build(G([x, y], [Op("RELU", [0], [1], version=2)], [0], [1])), "--json")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    partition = content["partitions"][0]
    assert content == {
        "model": "tiny.tflite",
        "tasks": [{"task": "raw", "because": "no other task knows its inputs and outputs"}],
        "feedback": {},
        "values": {},
        "inputs": [
            {
                "index": 0,
                "name": "x",
                "shape": [-1, 4],
                "layout": "nhwc",
                "dtype": "int8",
                "scales": [0.5],
                "zero_points": [3],
                "quantized_dimension": None,
            }
        ],
        "outputs": [{**content["inputs"][0], "index": 1, "name": "y"}],
        "operators": [
            {
                "index": 0,
                "name": "RELU",
                "subgraph": 0,
                "runs_on": "gpu",
                "partition": 0,
                "reason": "",
                "composite": "",
                "inputs": [0],
                "outputs": [1],
            },
        ],
        "partitions": [{**partition, "number": 0, "operators": [0], "inputs": [0], "outputs": [1]}],
        "steps": content["steps"],
        "advice": content["advice"],
        "error": None,
    }
    assert partition["dispatches"] >= 1 and partition["constants_nbytes"] > 0
    assert logging.getLogger("framebind").level == logging.NOTSET, "later calls in this process warn"


def test_inspect_counts_what_a_real_model_takes(
    model_path: Callable[[str], Path], inspected: Callable[..., Done]
) -> None:
    """golden.txt has the same constants; and no fewer dispatches, although there a picture is bound to the input."""
    golden = (Path(__file__).parents[1] / "delegate" / "golden.txt").read_text()
    (line,) = [line for line in golden.splitlines() if line.startswith("face_detection_front f32:")]
    done = inspected(model_path("face_detection_front").read_bytes(), "--json")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    (partition,) = content["partitions"]
    assert partition["constants_nbytes"] == int(line.split()[6])
    assert 0 < partition["dispatches"] <= int(line.split()[2])
    assert partition["operators"] == [operator["index"] for operator in content["operators"]]


@pytest.mark.parametrize("gpu", ["gl", "cl:pocl"], indirect=True)
def test_inspect_records_on_a_named_api(gpu: Device, inspected: Callable[..., Done]) -> None:
    done = inspected(chain("EXP", "TANH"), "--backend", backend_of(gpu), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["partitions"][0]["dispatches"] == 1


def test_a_backend_that_is_missing_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "tiny.tflite").write_bytes(chain("EXP"))
    done = run("inspect", str(tmp_path / "tiny.tflite"), "--backend", "opencl", **NO_GPU)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("DeviceError: ") and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"<html>", ".tflite: this is no TensorFlow Lite model: 6 bytes"),
        (chain("EXP", "TANH")[:200], ".tflite: the operator codes cannot be read"),
        (
            build(NEWER),
            "LiteRT does not take the model: Didn't find op for builtin opcode 'EXP' version '99'",
        ),
    ],
    ids=["a web page", "truncated", "an operator that LiteRT does not know"],
)
def test_inspect_says_what_is_wrong_with_a_broken_model(
    content: bytes, says: str, inspected: Callable[..., Done]
) -> None:
    done = inspected(content)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("ModelError: ") and says in done.stderr and "Traceback" not in done.stderr


def test_inspect_names_a_file_that_is_not_there() -> None:
    done = run("inspect", "gone.tflite")
    assert (done.returncode, done.stderr) == (1, "ModelError: there is no model file 'gone.tflite'\n")


def test_a_model_that_nobody_can_run_is_shown_and_then_an_error(inspected: Callable[..., Done]) -> None:
    """A custom operator that neither the GPU nor LiteRT has. Its name is no markup for the terminal."""
    done = inspected(chain("EXP", "Mine[bold]"))
    assert rows(done.stdout, "Operators")[1] == ["1", "Mine[bold]", "CPU", "", "the operator is not supported"]
    assert rows(done.stdout, "Partitions")[0][4:] == ["unknown", "unknown", "unknown"]
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "does not run: LiteRT cannot prepare the model: Encountered unresolved custom op: Mine[bold]" in done.stderr
