"""``python -m framebind doctor``: on this machine, and if drivers, display or models are gone."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import framebind as fb
from framebind.tools.commands import doctor
from support.environment import ROOT
from support.recording_driver import RecordingDriver, forget_libraries
from support.screen import Screen

NAMED = ("__EGL_VENDOR_LIBRARY_FILENAMES",)
"""Variables that name the drivers of the tests themselves: they come before folders."""
NO_DRIVER = "CUDA's driver library (libcuda) is not there: install NVIDIA's driver"
NO_NVRTC = (
    "nvidia-cuda-nvrtc: the backend 'cuda' needs NVIDIA's compiler NVRTC, which is not there: pip install "
    "nvidia-cuda-nvrtc cuda-pathfinder"
)


def run(*arguments: str, without: tuple[str, ...] = (), **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if name not in without}
    return subprocess.run(
        [sys.executable, "-m", "framebind", "doctor", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**variables, "COLUMNS": "250", **environment},
    )


def checks(done: subprocess.CompletedProcess[str]) -> dict[str, list[dict[str, Any]]]:
    """The findings by what was looked at."""
    assert "Traceback" not in done.stderr, done.stderr
    found: dict[str, list[dict[str, Any]]] = {}
    for finding in json.loads(done.stdout)["checks"]:
        found.setdefault(finding["check"], []).append(finding)
    return found


@pytest.mark.usefixtures("gl_and_cl")
def test_every_device_of_this_machine_has_its_line() -> None:
    """A missing display is a line, and no failure."""
    done = run("--json", without=("DISPLAY", "WAYLAND_DISPLAY"))
    found = checks(done)
    assert done.returncode == 0 and json.loads(done.stdout)["usable"]
    machine = fb.CompatibilityList()
    for device in machine.devices:
        if device.name == "none":  # its API's line says so
            assert any(line["found"].startswith(device.unusable) for line in found[device.api])
            continue
        (line,) = [line for line in found[device.api] if line["found"].startswith(device.name)]
        assert line["state"] == ("missing" if device.unusable else "warning" if device.software else "ok")
        assert bool(line["advice"]) == (line["state"] != "ok")
    assert found["OpenGL"] and len(found["sharing"]) >= len(machine.sharing) >= 1
    assert found["EGL"][0]["state"] == found["OpenCL"][0]["state"] == "ok"
    assert re.match(r"by [a-z ]+, .* wait", found["between processes"][0]["found"])
    assert {"extra 'hosts'", "extra 'evaluate'", "extra 'plot'"} <= found.keys()
    (display,) = found["display"]
    assert display["optional"] and not found["packages"][0]["optional"]
    assert display["state"] == "missing" and "--output FILE" in display["advice"] and "xvfb-run" in display["advice"]
    assert "ssh" not in display["advice"]  # its GL is too old: docs/troubleshooting.md
    assert all(line["advice"] for lines in found.values() for line in lines if line["state"] != "ok")


def test_the_extras_of_the_page_on_installing_are_looked_for() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `pip install '\.\[(\w+)\]'`", page, re.MULTILINE)) == set(doctor.EXTRAS)


@pytest.mark.usefixtures("gl_and_cl")
def test_with_a_display_a_window_is_tried(tmp_path: Path, tool: Callable[[str], str]) -> None:
    tool("xvfb-run")  # skips, or fails if it is promised
    with Screen(tmp_path) as screen:
        done = run("--json", without=("EGL_PLATFORM", "WAYLAND_DISPLAY"), DISPLAY=screen.display)
    (display,) = checks(done)["display"]
    assert display["state"] == "ok" and "a window with the GL context" in display["found"]


def test_without_any_driver_it_says_what_to_install_and_fails(tmp_path: Path) -> None:
    folder = str(tmp_path)
    done = run("--json", without=NAMED, OCL_ICD_VENDORS=folder, __EGL_VENDOR_LIBRARY_DIRS=folder)
    assert done.returncode == 1 and not json.loads(done.stdout)["usable"]
    found = checks(done)
    egl, opencl = found["EGL"][0], found["OpenCL"][0]
    assert egl["state"] == opencl["state"] == "missing"
    assert all(f"no driver is named in {folder}" in line["found"] for line in (egl, opencl))
    assert "libegl1" in egl["advice"] and "dnf install mesa-libEGL" in egl["advice"]
    assert "pocl-opencl-icd" in opencl["advice"] and "dnf install pocl" in opencl["advice"]
    assert found["OpenGL"][0]["state"] == "missing" and "sharing" not in found
    table = run(without=NAMED, OCL_ICD_VENDORS=folder, __EGL_VENDOR_LIBRARY_DIRS=folder)
    assert table.returncode == 1 and table.stderr == ""
    threads = min(4, len(os.sched_getaffinity(0)))
    assert f"Run models on the CPU, with num_threads={threads}: no GPU driver was found" in table.stdout


@pytest.mark.usefixtures("gl_and_cl")
def test_one_api_alone_is_usable(tmp_path: Path) -> None:
    """The doctor also names a driver's file whose library is gone."""
    (tmp_path / "gone.icd").write_text("libgone.so.9\n")
    done = run("--json", OCL_ICD_VENDORS=str(tmp_path), FRAMEBIND_MODELS=str(tmp_path / "nothing"))
    found = checks(done)
    assert done.returncode == 0
    assert found["OpenGL"][0]["state"] in ("ok", "warning")
    _, broken, none = found["OpenCL"]
    assert broken["state"] == "warning" and f"{tmp_path / 'gone.icd'}: libgone.so.9" in broken["found"]
    assert "install the package that has libgone.so.9" in broken["advice"]
    assert none["state"] == "missing" and "there is no OpenCL platform" in none["found"]
    (models,) = found["models"]
    assert models["state"] == "missing" and "which is no folder" in models["found"]


@pytest.mark.usefixtures("gl_and_cl")
def test_what_is_optional_is_one_line() -> None:
    """The states of all rows are there with --all."""
    done, every = (run(*flags, without=("DISPLAY", "WAYLAND_DISPLAY")) for flags in ((), ("--all",)))
    assert done.stdout.startswith("Run models ") and "missing" not in done.stdout
    (absent,) = [line for line in done.stdout.splitlines() if line.startswith("Optional, and not here: ")]
    assert "display" in absent and "--all says what each of these is for" in done.stdout
    assert "xvfb-run" in every.stdout and "Optional, and" not in every.stdout


def cuda_lines() -> list[tuple[str, str]]:
    """The lines of the loaders of CUDA, without those of devices."""
    machine: Any = SimpleNamespace(devices=())
    return [(line.state, line.found) for line in doctor._apis(machine) if line.check == "CUDA"]


def test_what_of_cuda_is_there_is_said(recorder: RecordingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cuda_lines() == [("ok", "devices: 1; drivers: libcuda (CUDA 13.0), NVRTC 13.0")]
    before = ctypes.CDLL
    for missing, lines in (
        ("libcuda", [("missing", f"{NO_DRIVER}; drivers: NVRTC 13.0")]),
        ("libnvrtc", [("ok", "devices: 1; drivers: libcuda (CUDA 13.0)"), ("missing", NO_NVRTC)]),
    ):

        def without(name: str, missing: str = missing) -> object:
            if name.startswith(missing):
                raise OSError(name)
            return before(name)

        monkeypatch.setattr(ctypes, "CDLL", without)
        forget_libraries()
        assert cuda_lines() == lines
    recorder.failing["cuInit"] = 100
    forget_libraries()
    assert cuda_lines()[0] == ("missing", "CUDA does not start: CUDA error 100")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"ICD": 3}'])
def test_a_damaged_driver_file_is_named(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_text(content)
    (tmp_path / "b.icd").write_text("")
    monkeypatch.setenv("__EGL_VENDOR_LIBRARY_FILENAMES", str(tmp_path / "a.json"))
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "b.icd"))
    egl, opencl, *_ = fb.installed_apis()
    for api, name in ((egl, "a.json"), (opencl, "b.icd")):
        (driver,) = api.drivers
        assert driver.file == str(tmp_path / name) and driver.problem.startswith("the file cannot be read")


def test_two_opencvs_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if "opencv" in name:
            return "1.0"
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    _, opencv = doctor._packages()
    assert opencv.state == "warning" and "pip uninstall opencv-python " in opencv.advice


def test_an_opencv_that_does_not_load_is_named(tmp_path: Path) -> None:
    """The command line starts without cv2, and says what to install."""
    (tmp_path / "cv2.py").write_text("raise ImportError('libGL.so.1: cannot open shared object file')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    found = checks(run("--json", PYTHONPATH=path))
    (opencv,) = found["OpenCV"]
    assert opencv["state"] == "missing" and "libGL.so.1" in opencv["found"]
    assert "libgl1" in opencv["advice"] and "opencv-python-headless" in opencv["advice"]


@pytest.mark.skipif(sys.platform != "linux", reason="cameras are listed on Linux alone")
def test_a_camera_that_gives_no_picture_is_named() -> None:
    """Number 77 stands for a camera that is listed and cannot be opened."""
    (camera,) = doctor._cameras([fb.video.Camera(77, "a webcam")])
    assert camera.state == "missing" and camera.found.startswith("a webcam: camera 77 cannot be opened")
    (none,) = doctor._cameras([])
    assert none.state == "missing" and "--device /dev/video0" in none.advice


def test_virtual_cameras_have_a_line_with_what_to_do() -> None:
    ready = fb.video.VirtualCameraPlace("pipewire", True, "PipeWire answers (libpipewire 1.0.5)")
    missing = fb.video.VirtualCameraPlace("v4l2", False, "there is no device: 'modprobe v4l2loopback' makes one")
    one, other = doctor._virtual_cameras([ready, missing])
    assert (one.check, one.state, one.advice) == ("virtual camera (pipewire)", "ok", "") and one.optional
    assert (other.state, other.advice) == ("missing", "'modprobe v4l2loopback' makes one")
