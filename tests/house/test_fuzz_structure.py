"""``scripts/fuzz_structure.py``: the same mutants in each run, without a fault, and faults that it must tell apart."""

from __future__ import annotations

import copy
import json
import os
import random
import runpy
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ai_edge_litert.interpreter as litert
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from framebind.interop.device import Device
from framebind.tools.certify.cases.operator_cases import CASES
from framebind.tools.certify.cases.operator_models import case_model, output_shapes
from framebind.tools.certify.graphs.comparison import case_of
from framebind.tools.certify.graphs.recipe import draw
from support.environment import ROOT

SCRIPT = ROOT / "scripts" / "fuzz_structure.py"
SCRIPTS = {**runpy.run_path(str(SCRIPT.parent / "windows.py")), **runpy.run_path(str(SCRIPT.parent / "mutants.py")),
           **runpy.run_path(str(SCRIPT.parent / "refusals.py"))}  # fmt: skip
FOUND = ("crash", "hang", "odd exception", "wrong result", "memory", "undecided")


def run(road: str, count: int, folder: Path) -> str:
    """The output of the script in a process of its own: drivers of this one would not survive its forks."""
    summary = folder / "summary.json"
    command = [sys.executable, str(SCRIPT), "--road", road, "--seed", "3", "--count", str(count), "--processes", "2"]
    command += ["--keep", str(folder / "faults"), "--summary", str(summary), "--windows", "20"]
    (folder / "graph.tflite").write_bytes(case_of(draw(21)).model)
    environment = {**os.environ, "FRAMEBIND_MODELS": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(summary.read_text(encoding="utf-8"))
    assert found["run"] == found["asked"] == sum(found["outcomes"].values()) == count
    assert found["faults"] == [] and not (folder / "faults").exists()
    return done.stdout


def test_mutants_are_read_claimed_and_lowered(tmp_path: Path) -> None:
    printed = run("null", 200, tmp_path)
    assert "lowered" in printed and "refused by the reader" in printed


@pytest.mark.parametrize("gpu", ["gl"], indirect=True)
def test_mutants_are_run(gpu: Device, tmp_path: Path) -> None:
    printed = run("gl", 20, tmp_path)
    assert gpu.traits.api == "opengl" and "the same" in printed


def parsed(model: bytes) -> Any:
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(model, 0))


def computed(model: bytes, given: dict[str, Any]) -> dict[str, Any]:
    """LiteRT's values of every tensor by name, for inputs by name."""
    interpreter: Any = litert.Interpreter(
        model_content=model,
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], given[detail["name"]])
    interpreter.invoke()
    return {detail["name"]: interpreter.get_tensor(detail["index"]) for detail in interpreter.get_tensor_details()}


@pytest.mark.parametrize("seed", range(3))
def test_windows_compute_what_their_operators_compute_in_the_whole_model(seed: int) -> None:
    case = case_of(draw(seed))
    names = [tensor.name.decode() for tensor in parsed(case.model).subgraphs[0].tensors]
    assert len(set(names)) == len(names)
    whole = computed(case.model, {names[parsed(case.model).subgraphs[0].inputs[0]]: case.input})
    windows = SCRIPTS["windows_of"](case.model, 20, random.Random(0))
    assert len(windows) == 20
    for window in windows:
        graph = parsed(window).subgraphs[0]
        assert 1 <= len(graph.operators) <= 6
        found = computed(window, whole)
        for number in graph.outputs:
            name = graph.tensors[number].name.decode()
            assert np.array_equal(found[name], whole[name]), name


def test_windows_are_cut_from_the_models_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEBIND_MODELS", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="set FRAMEBIND_MODELS"):
        SCRIPTS["windows"](3)
    model = case_of(draw(0)).model
    (tmp_path / "a.tflite").write_bytes(model)
    with zipfile.ZipFile(tmp_path / "b.task", "w") as bundle:
        bundle.writestr("c.tflite", model)
    assert len(SCRIPTS["windows"](3)) == 6


def test_directed_changes() -> None:
    case = next(case for case in CASES if case.operator == "PAD")
    before = parsed(case_model(case, output_shapes(case)))
    model, random_one = copy.deepcopy(before), random.Random(0)
    scale_integers, declare_type, repeat_values = SCRIPTS["CHANGES"]
    scale_integers(model, random_one)
    (scaled,) = (tensor for tensor in model.subgraphs[0].tensors if tensor.quantization is not None)
    assert scaled.type == schema.TensorType.INT32 and len(scaled.quantization.scale) == 1
    for _ in range(4):
        declare_type(model, random_one)
    types = [[tensor.type for tensor in each.subgraphs[0].tensors] for each in (before, model)]
    assert types[0] != types[1]
    tensor = before.subgraphs[0].tensors[1]
    tensor.type = schema.TensorType.FLOAT32
    before.buffers[tensor.buffer].data = np.linspace(-1, 1, 100, dtype=np.float32).view(np.uint8)
    repeat_values(before, random_one)
    assert len(np.unique(before.buffers[tensor.buffer].data.view(np.float32))) <= 5


def test_what_litert_refuses_has_a_decision() -> None:
    said = (ROOT / "docs" / "internals" / "trust.md").read_text(encoding="utf-8")
    assert SCRIPTS["table"]() in said, "put what python scripts/refusals.py prints into the page"
    promise_for = SCRIPTS["promise_for"]
    assert promise_for("l2norm.cc:72 params->activation != kTfLiteActNone (3 != 0)").startswith("an activation")
    assert promise_for("NumOutputs(node) != op_context.params->num_splits (2 != 3)").startswith("an option")
    assert promise_for("activations.cc:202 NumInputs(node) != 1 (2 != 1)").startswith("an operator has more inputs")
    assert promise_for("add.cc:109 input1->type != input2->type (FLOAT32 != FLOAT16)").startswith("operands have types")
    assert promise_for("something else") == ""


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int32", "bool"])
def test_inputs_have_ties_and_pictures(script: dict[str, Any], dtype: str) -> None:
    detail = {"shape": (1, 16, 12, 7), "dtype": np.dtype(dtype)}
    noise, ties, picture = (script["input_of"](kind, detail) for kind in script["INPUTS"])
    assert {given.shape for given in (noise, ties, picture)} == {(1, 16, 12, 7)}
    assert {given.dtype.name for given in (noise, ties, picture)} == {dtype}
    assert len(np.unique(ties)) <= 5
    assert np.array_equal(picture[..., 0], picture[..., 3]) == (dtype in ("float32", "int8", "uint8"))
    assert np.array_equal(noise, script["input_of"]("noise", detail))


@pytest.fixture
def script() -> Iterator[dict[str, Any]]:
    """The names of the script, where a test puts others."""
    names = runpy.run_path(str(SCRIPT))["batches"].__globals__
    before = dict(names)
    yield names
    names.update(before)


def _fake(content: bytes, road: str) -> str:
    if content == b"crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if content == b"hang":
        time.sleep(60)
    if content == b"memory":
        return f"the same {len(bytearray(1 << 30))}"  # above the highest that the tests before it had
    return "the same" if road == "null" else ""


def test_a_process_that_dies_takes_one_mutant_with_it(script: dict[str, Any]) -> None:
    seconds = {"null": 3}  # a busy machine takes more than one to fill the gibibyte
    script.update(outcome_of=_fake, on_litert=lambda *_: [], SECONDS=seconds, PATIENCE=1, RESIDENT=200 << 20)
    mutants = [b"fine", b"crash", b"fine", b"hang", b"memory", b"fine"]
    outcomes = dict(script["batches"](mutants, "null"))
    kinds = [outcomes[number].split(":")[0] for number in range(len(mutants))]
    assert kinds == ["the same", "crash", "the same", "hang", "memory", "the same"]


def test_a_crash_of_litert_alone_is_litert_s(script: dict[str, Any]) -> None:
    script.update(
        outcome_of=_fake, on_litert=lambda content, _: _fake(content, ""), SECONDS={"null": 1, "LiteRT": 1}, PATIENCE=1
    )
    outcomes = dict(script["batches"]([b"crash", b"hang", b"fine"], "null"))
    assert outcomes == {0: "LiteRT's own crash", 1: "LiteRT's own hang", 2: "the same"}
    assert set(script["FAULTS"]) == set(FOUND)
