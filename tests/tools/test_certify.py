"""``python -m framebind certify``: what it counts, and how it goes on after a crash, a stop or the end of its time."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.tools.certify.certificate import Certificate, certificate_from, device_result, text
from framebind.tools.certify.checks import Subject
from framebind.tools.certify.devices import Device, versions
from framebind.tools.certify.outcomes import Journal, Outcome
from framebind.tools.certify.pictures import picture_inputs
from framebind.tools.certify.runner import run
from framebind.tools.certify.worker import outcome_of
from support.environment import ROOT

LLVMPIPE = Device("gl", "llvmpipe", "Mesa", True)
EXP = Subject("operator", "EXP (2, 3, 5, 7)")
MISSING = Subject("model", "/nowhere/missing.tflite")
OUTCOMES = [
    Outcome(EXP, "passed", 1e-7, 1e-5, 0.5),
    Outcome(Subject("operator", "EXP (5,) halves", True), "wrong", 0.5, 1e-2, 0.25, "differs from LiteRT"),
    Outcome(MISSING, "crashed", reason="SIGSEGV: there is no '/nowhere/missing.tflite' or C:\\nowhere\\x.dll, 3 m/s"),
]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """The journal of a certification of llvmpipe with one outcome."""
    kept = Journal(tmp_path / "certificate.journal")
    kept.begin({"key": "a plan"})
    kept.add_device(LLVMPIPE)
    kept.add("gl", OUTCOMES[0])
    return kept


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_checks_run_in_a_process_of_their_own() -> None:
    """A sound check passes, and one whose model is gone is an error that names the file; the device is described."""
    devices, outcomes = list[Device](), list[Outcome]()
    run("gl", [EXP, MISSING], time.monotonic() + 60, devices.append, outcomes.append)
    (device,) = devices
    assert device.name == "gl" and device.gpu and device.driver
    assert [outcome.status for outcome in outcomes] == ["passed", "error"]
    assert outcomes[0].error is not None and outcomes[0].error <= 1e-5 and outcomes[0].seconds > 0
    assert "missing.tflite" in outcomes[1].reason


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
@pytest.mark.parametrize(
    ("model", "half"), [("hair_segmentation", False), ("hair_segmentation", True), ("face_detection_front", True)]
)
def test_a_model_is_checked_with_pictures(model_path: Callable[[str], Path], model: str, half: bool) -> None:
    """hair_segmentation's result depends on which of equal maxima counts. Bounds are LiteRT's own differences."""
    outcome = outcome_of(Subject("model", str(model_path(model)), half), "opengl")
    assert outcome.status == "passed", outcome
    assert outcome.error is not None and outcome.bound is not None and 1e-4 < outcome.error < outcome.bound < 0.5


def test_pictures_have_the_form_of_the_input_that_takes_them() -> None:
    details: list[dict[str, Any]] = [
        {"shape": (2, 6, 8, 4), "dtype": np.float32},
        {"shape": (1, 1, 6, 8), "dtype": np.int8},
        {"shape": (1, 5), "dtype": np.float32},
    ]
    values = [np.zeros(detail["shape"], detail["dtype"]) for detail in details]
    pictures = picture_inputs(details, values)
    assert list(pictures)[:6] == ["astronaut", "astronaut's face", "hand", "black", "white", "gradient"]
    for inputs in pictures.values():
        assert [(x.shape, x.dtype) for x in inputs] == [(x.shape, x.dtype) for x in values]
        assert not inputs[0][..., 3].any() and inputs[2] is values[2]
    white, signed = pictures["white"], pictures["astronaut, from -1 to 1"]
    assert (white[0][..., :3] == 1).all() and (white[1] == 127).all() and (pictures["black"][1] == -128).all()
    np.testing.assert_array_equal(signed[0][..., :3], pictures["astronaut"][0][..., :3] * 2 - 1)
    assert len(np.unique(pictures["astronaut"][1])) > 20
    assert picture_inputs(details[2:], values[2:]) == {}


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(fb.DeviceError, match="no context can be made on 'vulkan'"):
        run("vulkan", [EXP], time.monotonic() + 60, print, print)


def test_a_journal_goes_on_after_a_line_that_was_cut_off(journal: Journal) -> None:
    journal.path.write_text(journal.path.read_text() + '\n["gl", "outco')
    assert journal.read() == ({"gl": LLVMPIPE}, {"gl": OUTCOMES[:1]})
    journal.add("gl", OUTCOMES[1])
    assert journal.read() == ({"gl": LLVMPIPE}, {"gl": OUTCOMES[:2]})
    assert journal.plan() == {"key": "a plan"}
    assert Journal(journal.path.with_name("none")).plan() is None


def test_a_certificate_counts_by_operator_and_status() -> None:
    result = device_result(LLVMPIPE, OUTCOMES, planned=10)
    certificate = Certificate("2026-11-22", "default", versions(), [result])
    assert certificate_from(json.loads(json.dumps(certificate.to_json()))) == certificate
    assert (result.checks, result.passed, result.not_run, certificate.failures) == (3, 1, 7, 2)
    assert result.failures == {"wrong": 1, "crashed": 1}
    exp = next(group for group in result.groups if group.name == "EXP")
    assert (exp.checks, exp.passed, exp.error, exp.case) == (2, 1, 0.5, "EXP (5,) halves")
    page = text(certificate)
    assert "1 of 3 checks passed (1 wrong, 1 crashed)" in page
    assert "CRASHED missing.tflite: SIGSEGV: there is no 'missing.tflite' or x.dll, 3 m/s" in page
    assert "nowhere" not in page + json.dumps(certificate.to_json()), "a folder is nobody's business"
    with pytest.raises(ValueError, match="format 99"):
        certificate_from({**certificate.to_json(), "format": 99})


def test_the_command_says_what_the_file_holds_before_it_writes(tmp_path: Path) -> None:
    """The command goes on with a plan of its own that has no time left: nothing is checked, and nothing fails."""
    output = tmp_path / "mine.json"
    program = (
        "import typer; from framebind.tools.certify import checks\n"
        "from framebind.tools.commands import certify\n"
        f"checks.subjects = lambda *_, **__: [checks.Subject('operator', {EXP.name!r})]\n"
        "typer.run(certify.certify)"
    )
    command = [sys.executable, "-c", program, "--device", "gl", "--minutes", "0", "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("The file has:") and "Nothing is sent anywhere" in done.stdout
    assert json.loads(output.read_text())["devices"] == [] and output.with_suffix(".journal").is_file()


@pytest.fixture
def drivers() -> ModuleType:
    """The script benchmarks/drivers.py."""
    spec = importlib.util.spec_from_file_location("drivers", ROOT / "benchmarks" / "drivers.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["drivers"] = module  # dataclasses look their own module up
    spec.loader.exec_module(module)
    return module


def test_the_page_of_drivers_is_written_from_the_results(drivers: ModuleType) -> None:
    kept = drivers.read_results()
    assert drivers.PAGE.read_text(encoding="utf-8") == drivers.page(kept)
    failing = Certificate("2026-01-01", "default", versions(), [device_result(LLVMPIPE, OUTCOMES, planned=3)])
    page = drivers.page([drivers.Kept("abc", failing)])
    assert re.search(
        r"\| llvmpipe \| OpenGL \| Mesa \| 3 \| 1 \| 1 wrong, 1 crashed \| 0 \| .*\| 2026-01-01, abc \|", page
    )
    assert "- crashed: `missing.tflite` SIGSEGV" in page and "certificate.json" in page
