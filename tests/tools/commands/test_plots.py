"""Charts of commands: what they show is what the model's records say, and they need no package before one is drawn."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

import framebind as fb
from framebind.__main__ import app
from framebind.tools.measure.tensors import OutputDifference
from framebind.tools.plots.errors import LEAST, MOST, errors_chart, shown
from framebind.tools.plots.files import save, without_less_than
from framebind.tools.plots.graph import edges_of, graph_chart, live_operators, rows_of
from framebind.tools.plots.pipeline import pipeline_chart
from framebind.tools.plots.profile import Benchmark, Profile, Timed, benchmark_chart, best_of
from framebind.video.workers.job_queue import add_times
from support.tiny_models import CPU_ONLY, chain

ROOT = Path(__file__).parents[3]


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def recorded(content: bytes) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """The model on the null device."""
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="null"))
    interpreter = fb.Interpreter(model_content=content, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    delegate.record()
    return interpreter, delegate


def values(chart: Any) -> Iterator[dict[str, Any]]:
    """The rows of data in a chart."""
    if isinstance(chart, dict):
        for key, part in chart.items():
            yield from part if key == "values" and isinstance(part, list) else values(part)
    elif isinstance(chart, list):
        for part in chart:
            yield from values(part)


def rows_with(chart: Any, key: str) -> list[dict[str, Any]]:
    return [row for row in values(chart.to_dict()) if isinstance(row, dict) and key in row]


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("benchmark", "style_transfer", "--plot", "a.pdf"), "'a.pdf' is no .html, .svg or .png file"),
        (("diff", "style_transfer", "--plot", "gone/a.svg"), "there is no folder 'gone'"),
    ],
    ids=["a type", "a folder"],
)
def test_a_file_that_cannot_be_a_chart_is_an_error_before_the_command_begins(
    words: tuple[str, ...], message: str
) -> None:
    done = run(*words)
    assert done.exit_code == 2 and message in " ".join(done.output.replace("│", "").split())


def test_without_the_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    done = run("inspect", "style_transfer", "--graph", "a.svg")
    assert done.exit_code == 2
    assert "pip install vl-convert-python" in " ".join(done.output.replace("│", "").split())


def test_commands_import_no_plotting_package_before_a_chart_is_drawn() -> None:
    drawing = {"altair", "vl_convert", "matplotlib"}
    for path in ROOT.glob("tools/**/*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if path.parent.name != "plots":
                assert not drawing & {name.split(".")[0] for name in [*names, module]}, path
                assert not module.startswith("plots.") or module == "plots.files", path


HOSTILE = "</script><script>alert(1)</script>"
"""Names of tensors and operators come from a file that somebody else made."""


def test_a_hostile_name_is_text_in_a_picture(tmp_path: Path) -> None:
    chart = errors_chart("model", "a GPU", [OutputDifference(HOSTILE, 0.1, 0.0, 0.2)], [])
    assert "<" not in json.dumps(without_less_than(chart.to_dict()))
    save(chart, tmp_path / "a.svg")
    assert HOSTILE in {element.text for element in ElementTree.parse(tmp_path / "a.svg").iter()}


def test_a_hostile_name_runs_nothing_in_a_page(tmp_path: Path) -> None:
    save(errors_chart("model", "a GPU", [OutputDifference(HOSTILE, 0.1, 0.0, 0.2)], []), tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert HOSTILE not in page and r"\u003c/script>\u003cscript>alert(1)" in page


# Benchmark ------------------------------------------------------------------------------------------------------------


def test_floors_are_the_times_of_the_fastest_step() -> None:
    costs = [
        fb.StepCost(0, "0 EXP 0", "copy", (0,), 1000, 0),
        fb.StepCost(0, "1 EXP 1", "copy", (1,), 1000, 0),
        fb.StepCost(0, "2 CONV_2D 2", "conv", (2,), 100, 5000),
    ]
    times = [fb.StepTime(cost.label, cost.kernel, ns) for cost, ns in zip(costs, (100, 400, 1000), strict=True)]
    profile = Profile("gl f32", times, costs, [])
    peaks = best_of(profile)
    assert [peaks.floor(cost) for cost in costs] == [100, 100, 1000], "bytes, bytes, multiply-adds"
    chart = benchmark_chart([Benchmark("tiny", "a GPU", [Timed("gl f32", 1.0, 2.0, True)], [profile])])
    rows = rows_with(chart, "floor")
    assert {row["kind"] for row in rows} == {"elementwise", "convolutions"}
    assert all(row["floor"] <= row["us"] for row in rows)


def test_memory_lies_where_the_plan_puts_it() -> None:
    _, delegate = recorded(chain("SOFTMAX", "EXP", "SOFTMAX", "TANH", "SOFTMAX"))
    costs, memory = delegate.steps(), delegate.memory()
    times = [fb.StepTime(cost.label, cost.kernel, 1000) for cost in costs]
    chart = benchmark_chart([Benchmark("tiny", "", [], [Profile("null", times, costs, memory)])])
    drawn = {(row["step"], row["end"], row["nbytes"]) for row in rows_with(chart, "low")}
    assert drawn == {(use.first_step, use.last_step + 1, use.nbytes) for use in memory} and len(memory) > 1


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_benchmark_and_a_diff_are_drawn(context: fb.GlContext, tmp_path: Path) -> None:
    model = tmp_path / "tiny.tflite"
    model.write_bytes(chain("EXP", CPU_ONLY, "TANH"))
    page, picture = tmp_path / "a.html", tmp_path / "b.svg"
    done = run("benchmark", model, "--read", "--runs", 1, "--warmup-runs", 0, "--plot", page, "--json")
    assert done.exit_code == 0 and "litert-cpu" in done.stdout, "the CPU is drawn beside the GPU"
    text = page.read_text(encoding="utf-8")
    assert "Steps on gl f32" in text and 'src="http' not in text, "a page without the network"
    assert run("diff", model, "--runs", 1, "--plot", picture).exit_code == 0
    assert all(name in picture.read_text(encoding="utf-8") for name in ("Outputs", "Every tensor", "float16 rounds"))


# Graph ----------------------------------------------------------------------------------------------------------------


def test_inspect_draws_the_graph(tmp_path: Path) -> None:
    model, picture = tmp_path / "tiny.tflite", tmp_path / "a.svg"
    model.write_bytes(chain("EXP", CPU_ONLY, "TANH"))
    assert run("inspect", model, "--graph", picture).exit_code == 0
    assert all(name in picture.read_text(encoding="utf-8") for name in ("EXP", CPU_ONLY, "2 on the GPU, as 2 steps"))


def operator(index: int, inputs: tuple[int, ...], outputs: tuple[int, ...], on: str = "gpu") -> fb.DelegatedOp:
    return fb.DelegatedOp(index, "ADD", 0, "gpu" if on == "gpu" else "cpu", 0, "", inputs, outputs)


def test_the_graph_has_each_operator_where_it_runs(tmp_path: Path) -> None:
    interpreter, delegate = recorded(chain("EXP", "TANH", CPU_ONLY, "NEG"))
    chart = graph_chart("tiny", interpreter.delegated_ops(), delegate.steps(), {1: (1, 4, 5, 3)}, interpreter.inputs())
    rows = [row for row in rows_with(chart, "place") if "tx" in row][:4]
    assert [row["place"] for row in rows] == ["GPU", "GPU", "CPU", "GPU"]
    assert rows[0]["shape"] == "1 x 4 x 5 x 3" and rows[0]["step"] == rows[1]["step"], "EXP and TANH are one step"
    assert rows[2]["reason"] == "the operator is not supported"
    assert [row["part"] for row in rows_with(chart, "part")] == ["partition 0", "partition 1"]


def test_operators_of_one_step_are_below_each_other() -> None:
    operators = [operator(0, (0,), (1,)), operator(1, (0,), (2,)), operator(2, (1, 2), (3,))]
    step = fb.StepCost(0, "1 ADD 0,2", "copy", (0, 2), 8, 0)
    rows = rows_of(operators, [fb.StepCost(0, "0 ADD 1", "copy", (1,), 8, 0), step], {})
    assert [row.operator.index for row in rows] == [0, 2, 1]


def test_operators_that_compute_constants_are_left_out() -> None:
    constant, live = operator(0, (7,), (8,)), operator(1, (0, 8), (1,))
    assert live_operators([constant, live], [0]) == [live]


def test_a_tensor_that_skips_rows_has_one_lane_for_all_its_readers() -> None:
    operators = [operator(i, (i,), (i + 1,)) for i in range(5)]
    operators[3] = operator(3, (3, 1), (4,))
    operators[4] = operator(4, (4, 1, 2), (5,))
    skipping = {(edge.source, edge.target): edge.lane for edge in edges_of(operators) if edge.lane}
    assert skipping == {(0, 3): 1, (0, 4): 1, (1, 4): 2}


def test_errors_are_drawn_within_the_axis() -> None:
    assert [shown(error) for error in (0.0, 1e-3, float("inf"), float("nan"))] == [LEAST, 1e-3, MOST, MOST]


# Videos ---------------------------------------------------------------------------------------------------------------


def test_the_time_of_videos_is_drawn_per_frame() -> None:
    times = {
        "decoder": {"decode": 1.0, "wait": 7.0, "cpu": 0.5},
        "thread": {"upload": 1.0, "model": 2.0, "draw": 0.5, "read back": 0.5, "wait for the encoder": 4.0, "cpu": 2.0},
        "encoder": {"encode": 8.0, "wait": 0.0, "cpu": 1.0},
    }
    result = {"frames": 100, "seconds": 8.0, "cpu_seconds": 9.0, "times": times}
    chart = pipeline_chart("style", [result, result], add_times([times, times]))
    parts = {(row["track"], row["stage"]): row for row in rows_with(chart, "begin")}
    assert ("encoder's thread", "wait") not in parts, "too short to be seen"
    assert parts["encoder's thread", "encode"]["ms"] == pytest.approx(80.0)
    waiting = parts["thread with the GPU's context", "wait for the encoder"]
    assert (waiting["begin"], waiting["end"], waiting["kind"]) == (pytest.approx(40.0), pytest.approx(80.0), "waiting")
    cpu = {row["thread"]: row["seconds"] for row in rows_with(chart, "seconds")}
    assert sum(cpu.values()) == pytest.approx(90.0) and cpu["decoder's thread"] == pytest.approx(5.0)
