"""The commands benchmark and diff: what they print, and that they count what the engine counts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch_peer
from typer.testing import CliRunner, Result

import framebind as fb
from framebind.__main__ import app
from framebind.delegate.lower.tuning import Tuning
from framebind.delegate.report import say_once
from framebind.delegate.run.tuner import Tuner
from framebind.interop.cl.compute.device import ClDevice
from framebind.interop.discovery.devices import open_device
from framebind.tools.measure import peers
from framebind.tools.measure.inputs import Inputs
from framebind.tools.measure.measure import Measurement, Schedule
from framebind.tools.measure.tensors import absolute_errors, tensor_errors
from framebind.video.network import Network
from support.gl_calls import counted_calls
from support.tiny_models import chain

FindModel = Callable[[str], Path]
GOLDEN = Path(__file__).parents[1] / "delegate" / "golden.txt"
MODEL = "face_detection_front"
desktop = pytest.mark.parametrize("context", ["gl"], indirect=True)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def rows(*arguments: object) -> list[dict[str, Any]]:
    done = run("benchmark", *arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["runs"]


def golden(storage: str) -> list[int]:
    """Dispatches, barriers, kernels, arena bytes, constant bytes."""
    (line,) = [line for line in GOLDEN.read_text().splitlines() if line.startswith(f"{MODEL} {storage}:")]
    return [int(word) for word in line.split()[2:]]


@desktop
def test_benchmark_counts_what_the_engine_counts(model_path: FindModel, context: fb.GlContext) -> None:
    found = rows(model_path(MODEL), "--precision", "f32,f16", "--runs", 2, "--warmup-runs", 0)
    assert [row["on"] for row in found] == ["gl f32", "gl f16"]
    for row, storage in zip(found, ("f32", "f16"), strict=True):
        dispatches, barriers = golden(storage)[:2]
        counts = row["statistics"]
        assert (counts["dispatches"], counts["barriers"]) == (dispatches, barriers)
        assert counts["device"] == context.renderer and counts["driver"] == context.gl.version
        assert counts["operators"] == counts["operators_on_gpu"] and counts["partitions"] == 1
        assert counts["constants_nbytes"] > 0 and row["latency"]["count"] == 2
        phases = "read claim transform lower pack plan compile upload record"
        assert set(phases.split()) == set(row["initialization"])
        assert all(took > 0 for took in row["initialization"].values())
        latency = row["latency"]
        assert 0 < latency["min"] <= latency["median"] <= latency["p95"] <= latency["p99"] <= latency["max"]
        samples = row["samples"]
        assert [len(samples[name]) for name in ("frame", "submit")] == [2, 2] and len(samples["stream"]) > 0
        assert max(samples["frame"]) == latency["max"] and np.median(samples["submit"]) == row["submit"]
        assert 0 < row["submit"] and 0 < row["stream"]


@desktop
def test_api_calls_are_all_that_invoke_issues(model_path: FindModel, context: fb.GlContext) -> None:
    interpreter = fb.Interpreter(model_path=model_path(MODEL))
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.set_allow_buffer_handle_output(True)
    (picture,) = interpreter.inputs()
    delegate.bind_buffer_to_tensor(fb.GlTexture(640, 480), picture)
    with counted_calls(context) as calls:
        interpreter.invoke()
        calls.clear()
        interpreter.invoke()
    figures = delegate.statistics()
    assert calls.total() == figures.api_calls and calls["glDispatchCompute"] == figures.dispatches
    assert delegate.profile()[0].label.startswith("0 CONV_2D")
    assert len(delegate.profile()) == figures.dispatches
    fence = delegate.fence()
    fence.wait()
    assert fence.done
    delegate.close()


@pytest.mark.parametrize("backend", ["gl", "cl"])
def test_the_profile_of_one_dispatch_has_its_steps(tmp_path: Path, backend: str) -> None:
    """Each is timed as a dispatch of its own, and the table says so."""
    model = tmp_path / "tiny.tflite"
    model.write_bytes(chain("EXP", "SOFTMAX", "TANH"))
    with fb.GlContext.headless() if backend == "gl" else fb.cl.ClContext("pocl"):
        device = open_device("opengl" if backend == "gl" else "opencl")
        options = (model, "--backend", backend, "--runs", 1, "--warmup-runs", 0, "--profile")
        (separate,) = rows(*options)
        device.dispatches = "one"
        done = run("benchmark", *options)
        (one,) = rows(*options)
        device.close()
    labels = [[step["label"] for step in row["steps"]] for row in (separate, one)]
    steps = len(labels[0])
    assert labels[0] == labels[1] and steps > 1
    assert (separate["statistics"]["dispatches"], one["statistics"]["dispatches"]) == (steps, 1)
    assert done.exit_code == 0, done.output
    printed = " ".join(done.stdout.split())
    assert (
        f"the longest of {steps} dispatches" in printed and "timed one by one, while a frame runs them in 1" in printed
    )


def test_what_was_measured_to_be_faster_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "tiny.tflite"
    model.write_bytes(chain("EXP", "SOFTMAX", "TANH"))
    with fb.cl.ClContext("pocl"):
        device = open_device("opencl")
        assert isinstance(device, ClDevice)
        device.traits = replace(device.traits, software=False)  # a CPU is not tuned
        monkeypatch.setattr(Tuner, "is_faster", lambda *given: given[2].tuning == Tuning(dispatches="parts"))
        options = (model, "--backend", "cl", "--runs", 1, "--warmup-runs", 0)
        (rules,), (tuned,) = rows(*options), rows(*options, "--preference", "sustained-speed")
        told = run("benchmark", *options, "--preference", "sustained-speed").stdout
        device.close()
    assert rules["statistics"]["tuning"] == [] and rules["statistics"]["dispatches"] > 1
    assert tuned["statistics"]["tuning"] == ["one dispatch for many steps"] and tuned["statistics"]["dispatches"] == 1
    assert "Measured to be faster: one dispatch for many steps" in told


def test_a_profile_shows_what_is_bound_now(cl_context: fb.cl.ClContext) -> None:
    """A texture of another size and another crop than when the one dispatch was recorded."""
    device = open_device("opencl")
    device.dispatches = "one"
    try:
        delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opencl"))
        interpreter = fb.Interpreter(model_content=chain("EXP", "SOFTMAX"))
        interpreter.modify_graph_with_delegate(delegate)
        interpreter.allocate_tensors()
        for side in (8, 16):
            texels = np.full((side, side, 4), -side, np.float32)
            delegate.bind_buffer_to_tensor(fb.cl.ClImage.from_array(texels), 0, crop=(1, 1, side - 2, side - 2))
            interpreter.invoke()
            expected = interpreter.get_tensor(interpreter.outputs()[0])
            labels = [step.label for step in delegate.profile()]
            assert delegate.statistics().dispatches == 1 == delegate.partitions()[0].dispatches < len(labels)
            np.testing.assert_allclose(expected, np.full_like(expected, 1 / 3), rtol=1e-5)
        delegate.close()
    finally:
        device.dispatches = "auto"
        device.close()


def test_statistics_and_profile_before_anything_ran() -> None:
    delegate = fb.GpuDelegate()
    with pytest.raises(fb.DelegateError, match="no operator runs on the GPU"):
        delegate.statistics()
    with pytest.raises(fb.DelegateError, match="call invoke"):
        delegate.profile()


@desktop
def test_a_trace_has_every_dispatch_in_order(model_path: FindModel, context: fb.GlContext, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    done = run("benchmark", model_path(MODEL), "--runs", 1, "--warmup-runs", 0, "--profile", "--trace", file)
    assert done.exit_code == 0, done.output
    events = [event for event in json.loads(file.read_text())["traceEvents"] if event["ph"] == "X"]
    assert len(events) == golden("f32")[0]
    assert [int(event["name"].split()[0]) for event in events] == list(range(len(events)))
    for event, after in pairwise(events):
        assert event["ts"] + event["dur"] == pytest.approx(after["ts"]), "a dispatch begins where the one before ends"
    assert f"the longest of {len(events)} dispatches" in " ".join(done.stdout.split())
    assert "will be completely executed by the delegate w/ 1 delegate kernels" in done.stdout


@desktop
def test_a_signature_is_measured(context: fb.GlContext, tmp_path: Path) -> None:
    model = tmp_path / "tiny.tflite"
    model.write_bytes(chain("EXP", "TANH", signature="serve"))
    (row,) = rows(model, "--runs", 2, "--warmup-runs", 0, "--signature_to_run_for=serve", "--input-shape", "x:2,4,5,3")
    assert row["io"] == "read" and row["latency"]["count"] == 2 and row["statistics"]["operators_on_gpu"] == 2


@desktop
def test_csv_has_a_line_for_each_row(model_path: FindModel, context: fb.GlContext) -> None:
    options = ("--backend", "gl,cpu", "--read", "--runs", 1, "--warmup-runs", 0, "--threads", 1, "--csv")
    done = run("benchmark", model_path(MODEL), *options)
    lines = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(line["on"], line["io"]) for line in lines] == [("gl f32", "read"), ("litert-cpu, 1 thread", "read")]
    # The input comes as numbers; a texture would take no dispatch more, as the first convolution samples it.
    assert int(lines[0]["dispatches"]) == golden("f32")[0] and lines[1]["dispatches"] == ""


@pytest.mark.parametrize("cl_context", ["cl:pocl"], indirect=True)
def test_models_run_on_opencl(model_path: FindModel, cl_context: fb.cl.ClContext) -> None:
    (row,) = rows(model_path("selfie_segmentation"), "--backend", "opencl", "--runs", 1, "--warmup-runs", 0)
    assert row["on"] == "cl f32" and row["statistics"]["api"] == "opencl" and row["io"] == "bound"
    assert row["statistics"]["device"] == cl_context.name


@desktop
def test_a_peer_that_is_not_there_is_said_to_be_missing(
    model_path: FindModel, context: fb.GlContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(path: Path, threads: int, schedule: Schedule, inputs: Inputs) -> Measurement:
        monkeypatch.setitem(__import__("sys").modules, "ai_edge_litert.compiled_model", None)
        return peers.litert_gpu(path, threads, schedule, inputs)

    monkeypatch.setitem(peers.PEERS, "litert-gpu", missing)
    options = ("--runs", 1, "--warmup-runs", 0, "--compare", "litert-gpu")
    row = rows(model_path(MODEL), *options)[1]
    assert row["on"] == "litert-gpu" and row["latency"] is None and row["error"].startswith("not available here")
    done = run("benchmark", model_path(MODEL), *options)
    assert done.exit_code == 0 and "not available here" in done.stdout


def test_pytorch_is_imported_when_it_is_measured_and_no_sooner(
    model_path: FindModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)  # importing it fails
    for name, way in torch_peer.TORCH_WAYS.items():
        row = torch_peer.measure_torch(name, model_path(MODEL), 1, Schedule(), Inputs())
        assert row.on == way.label and row.latency is None
        assert row.error == "not available here: it needs PyTorch (pip install torch)"


def test_the_command_names_pytorch_among_its_peers(
    model_path: FindModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """PyTorch's interpreter is a module of the repository, which an installed package does not have."""
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    assert set(peers.TORCH) <= set(torch_peer.TORCH_WAYS)
    found = rows(model_path(MODEL), "--backend", "cpu", "--runs", 1, "--compare", ",".join(peers.TORCH))[1:]
    assert [row["on"] for row in found] == [torch_peer.TORCH_WAYS[name].label for name in peers.TORCH]
    assert {row["error"] for row in found} == {"not available here: it needs PyTorch (pip install torch)"}
    packaged = peers.in_torch("torch-compile", model_path(MODEL), 1, Schedule(), Inputs(), folder=tmp_path)
    assert packaged.on == "torch-compile" and packaged.error.endswith("it needs a clone of framebind's repository")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--backend", "metal"), "'metal' is none of gl, opengl, cl, opencl, cuda, auto, cpu"),
        (("--precision", "f64"), "'f64' is none of f32, f16, false, true"),
        (("--compare", "torch"), "'torch' is none of litert-cpu, litert-gpu, torch-compile"),
        (("--runs", "0"), "Invalid value for '--runs'"),
    ],
    ids=str,
)
def test_benchmark_names_a_wrong_option(arguments: tuple[str, ...], message: str) -> None:
    done = run("benchmark", "any", *arguments)
    assert done.exit_code == 2 and message in " ".join(done.output.replace("│", "").split())


@desktop
def test_diff_finds_what_the_engine_is_off_by(model_path: FindModel, context: fb.GlContext) -> None:
    options = (model_path(MODEL), "--runs", 3, "--json")
    done = run("diff", *options, "--tolerance", 2e-4)  # a millionth of the regressors' largest value, 200 pixels
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    assert [output["name"] for output in figures["outputs"]] == ["regressors", "classificators"]
    assert all(0 < output["avg_error"] < output["max_error"] <= 1e-4 for output in figures["outputs"])
    pictures = {row["picture"]: row["max_errors"] for row in figures["pictures"]}
    assert {"astronaut", "black", "white", "gradient", "hand, from -1 to 1"} <= set(pictures)
    assert all(len(errors) == 2 and 0 < max(errors) <= 2e-4 for errors in pictures.values())
    assert json.loads(run("diff", *options).stdout)["outputs"] == figures["outputs"], "the same seed, the same errors"
    assert json.loads(run("diff", *options, "--seed", 1).stdout)["outputs"] != figures["outputs"]
    assert figures["passed"] is True and json.loads(run("diff", *options).stdout)["passed"] is None
    failed = run("diff", *options, "--tolerance", 1e-12)
    assert failed.exit_code == 1 and json.loads(failed.stdout)["passed"] is False


@desktop
def test_diff_says_a_verdict(context: fb.GlContext, tmp_path: Path) -> None:
    (tmp_path / "a.tflite").write_bytes(chain("EXP"))
    model = tmp_path / "a.tflite"
    wanted: list[tuple[object, ...]] = [("--tolerance", 1e-3), ("--tolerance", 0), ()]
    passed, failed, neither = (run("diff", model, "--runs", 2, *given) for given in wanted)
    assert passed.exit_code == neither.exit_code == 0 and failed.exit_code == 1
    last = passed.stdout.splitlines()[-1]
    assert last.startswith("Passed: no element of an output is off by more than 0.001 (largest error ")
    assert failed.stdout.splitlines()[-1].startswith("Failed: off by more than 0: t1 (largest error ")
    assert "Passed" not in neither.stdout and "Failed" not in neither.stdout


@desktop
def test_diff_counts_no_error_if_neither_is_a_number(context: fb.GlContext, tmp_path: Path) -> None:
    """Half of the random values have no root; the zeros of a picture have one."""
    (model := tmp_path / "roots.tflite").write_bytes(chain("SQRT"))
    done = run("diff", model, "--runs", 2, "--tolerance", 1e-5, "--json")
    assert done.exit_code == 0, done.output
    (output,) = json.loads(done.stdout)["outputs"]
    assert output["avg_error"] <= output["max_error"] <= 1e-5
    one, other = np.array([np.nan, np.inf, -np.inf, 1]), np.array([np.nan, np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(absolute_errors(one, other), [0, 0, np.inf, np.nan])


@desktop
def test_commands_do_not_speak_of_the_library_s_choice(
    context: fb.GlContext, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The commands' interpreters on the CPU are meant to be there."""
    (tmp_path / "a.tflite").write_bytes(chain("EXP"))
    say_once.cache_clear()
    tensor_errors(tmp_path / "a.tflite", fb.GpuDelegateOptions(backend="opengl"), 0)
    network = Network(tmp_path / "a.tflite", fb.GpuDelegateOptions(backend="opengl"), fb.GlTimer())
    network.mode = "cpu"
    network._without_bindings().invoke()
    assert "runs on the CPU, as in LiteRT" not in caplog.text


@desktop
def test_diff_counts_the_errors_for_pictures(model_path: FindModel, context: fb.GlContext) -> None:
    """hair_segmentation decides between nearly equal values of pictures, but not of noise: LiteRT's own results differ
    as much if its weights are rounded differently.
    """
    done = run("diff", model_path("hair_segmentation"), "--runs", 1, "--json", "--tolerance", 1e-3)
    figures = json.loads(done.stdout)
    (output,), pictures = figures["outputs"], [max(row["max_errors"]) for row in figures["pictures"]]
    assert output["max_error"] < 1e-3 < max(pictures)
    assert done.exit_code == 1, "pictures count"


@desktop
def test_diff_sees_an_engine_that_is_wrong(
    model_path: FindModel, context: fb.GlContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fb.Interpreter.get_tensor

    def wrong(self: fb.Interpreter, tensor_index: int, subgraph_index: int = 0) -> Any:
        value = real(self, tensor_index, subgraph_index)
        return value * np.float32("nan") if self._gpu_delegate is not None else value

    monkeypatch.setattr(fb.Interpreter, "get_tensor", wrong)
    done = run("diff", model_path(MODEL), "--runs", 2, "--tolerance", 1e9)
    assert done.exit_code == 1 and "Failed: off by more than" in done.stdout
    assert "Num evaluation runs: 2" in done.stdout and "OutputDiff[1]: avg_error=nan" in done.stdout
