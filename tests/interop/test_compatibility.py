"""The devices of this machine, the options that are best on them, and ``python -m framebind devices``."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pyopencl
import pytest

import framebind as fb
from framebind.interop.backends import FoundDevice
from framebind.interop.cl.sharing.sharing import SharingReport
from framebind.interop.discovery.compatibility import best_options
from support.recording_driver import RecordingDriver, forget_libraries

GL_GPU, GL_CPU = FoundDevice("OpenGL", "GPU 1", "4.6"), FoundDevice("OpenGL", "llvmpipe", "4.5", software=True)
CL_GPU, CL_CPU = FoundDevice("OpenCL", "GPU 2", "3.0"), FoundDevice("OpenCL", "PoCL", "3.0", software=True)
BROKEN = FoundDevice("OpenGL", "GPU 3", "3.0", unusable="too old")
CUDA_GPU, NO_CUDA = FoundDevice("CUDA", "GPU 4", "13.0"), FoundDevice("CUDA", "none", "", unusable="no driver")


@pytest.fixture
def nothing_current() -> Iterator[None]:
    """No GL context is current on this thread; one that was is so again afterwards."""
    before = fb.GlContext.current() if fb.GlContext.is_current() else None
    if before is not None:
        before.release()
    yield
    if before is not None:
        before.make_current()


@pytest.mark.parametrize(
    ("devices", "backend", "said"),
    [
        ((GL_GPU, CL_GPU), "opengl", "GPU 1"),
        ((GL_GPU, CL_GPU, NO_CUDA), "opengl", "GPU 1"),
        ((GL_GPU, CL_GPU, CUDA_GPU), "cuda", "GPU 4"),
        ((GL_GPU, CL_CPU), "opengl", "GPU 1"),
        ((GL_CPU, CL_GPU), "opencl", "GPU 2"),
        ((BROKEN, CL_GPU, CL_CPU), "opencl", "GPU 2"),
        ((GL_CPU, CL_CPU), None, "llvmpipe, PoCL run on the CPU"),
        ((BROKEN,), None, "no GPU driver"),
        ((), None, "no GPU driver"),
    ],
)
def test_the_best_options(devices: tuple[FoundDevice, ...], backend: str | None, said: str) -> None:
    best = best_options(devices, [])
    assert best.backend == backend
    assert said in best.reason
    assert best.num_threads == (min(4, len(os.sched_getaffinity(0))) if backend is None else None)
    if best.backend is not None:
        fb.GpuDelegateOptions(backend=best.backend, is_precision_loss_allowed=best.is_precision_loss_allowed)


def test_opencl_is_best_where_it_takes_gl_objects() -> None:
    shared = SharingReport("GPU 1", "GPU 2", "by the test", {}, 0)
    assert best_options([GL_GPU, CL_GPU], [shared]).backend == "opencl"
    assert best_options([GL_GPU, CL_GPU], []).backend == "opengl"


def test_cuda_is_not_best_for_whoever_has_a_gl_context() -> None:
    assert best_options([GL_GPU, CL_GPU, CUDA_GPU], [], gl_is_current=True).backend == "opengl"
    assert best_options([GL_CPU, CL_GPU, CUDA_GPU], [], gl_is_current=True).backend == "opencl"


def test_no_other_api_is_opened_to_learn_that_cuda_is_best(nothing_current: None, recorder: RecordingDriver) -> None:
    found = fb.CompatibilityList()
    assert found.best_options_for_this_device().backend == "cuda" and found.is_delegate_supported_on_this_device()
    assert [device.name for device in found.devices_of("cuda")] == ["Recorder"]
    assert "devices" not in vars(found) and found._found.keys() == {"cuda"}


def test_it_finds_what_runs_here_and_leaves_nothing_current(nothing_current: None, cl_context: fb.cl.ClContext) -> None:
    with fb.GlContext.headless() as gl:
        renderer, software = gl.renderer, gl.software
    assert not fb.GlContext.is_current()
    found = fb.CompatibilityList()
    assert not fb.GlContext.is_current()
    assert fb.cl.ClContext.current() is cl_context
    works = [device for device in found.devices if not device.unusable]
    assert ("OpenGL", renderer, software) in [(device.api, device.name, device.software) for device in works]
    assert ("OpenCL", cl_context.name, cl_context.software) in [(d.api, d.name, d.software) for d in works]
    best = found.best_options_for_this_device()
    assert found.is_delegate_supported_on_this_device() == (best.backend is not None)
    gl_count, cl_count = (sum(d.api.startswith(api) for d in works) for api in ("OpenGL", "OpenCL"))
    assert len(found.sharing) == gl_count * cl_count


def test_a_context_that_is_current_is_looked_at_and_left() -> None:
    with fb.GlContext.headless(es=True) as gl:
        found = fb.CompatibilityList()
        assert fb.GlContext.current() is gl
        assert [d.api for d in found.devices if d.api not in ("OpenCL", "CUDA")] == ["OpenGL ES"]
        assert not gl.gl.clear_errors()


def test_without_drivers_it_says_why(nothing_current: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_platform() -> None:
        raise pyopencl.LogicError("PLATFORM_NOT_FOUND_KHR")

    def no_library(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(pyopencl, "get_platforms", no_platform)
    monkeypatch.setattr(ctypes, "CDLL", no_library)
    forget_libraries()
    found = fb.CompatibilityList()
    reasons = {device.api: device.unusable for device in found.devices}
    assert reasons.keys() == {"OpenGL", "OpenCL", "CUDA"} and len(found.devices) == 3
    assert "install NVIDIA's driver" in reasons["CUDA"]
    assert "there is no OpenCL platform" in reasons["OpenCL"] and "EGL" in reasons["OpenGL"]
    assert found.sharing == []
    assert not found.is_delegate_supported_on_this_device()
    forget_libraries()  # that none was found


def test_a_platform_without_devices_says_what_pocl_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyopencl, "get_platforms", lambda: [SimpleNamespace(get_devices=list, name="PoCL")])
    with pytest.raises(fb.DeviceError, match=r"no OpenCL platform has a device: .* POCL_CACHE_DIR"):
        fb.cl.ClContext()
    (installed,) = [api for api in fb.installed_apis() if api.api == "OpenCL"]
    assert installed.devices == 0 and "POCL_CACHE_DIR" in installed.problem


def command(*arguments: str) -> str:
    environment = {**os.environ, "COLUMNS": "250"}
    run = [sys.executable, "-m", "framebind", *arguments]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_prints_tables(context: fb.GlContext) -> None:
    text, found = command("devices"), fb.CompatibilityList()
    for name in {device.name for device in found.devices if device.api == "OpenCL"}:
        assert name in text
    assert "GL objects in models on OpenCL" in text
    assert "Best here: " in text


def test_the_command_prints_json(nothing_current: None) -> None:
    content = json.loads(command("devices", "--json"))
    found = fb.CompatibilityList()
    assert [device["name"] for device in content["devices"]] == [device.name for device in found.devices]
    assert [pair["strategy"] for pair in content["sharing"]] == [report.strategy for report in found.sharing]
    assert content["best_options"]["backend"] == found.best_options_for_this_device().backend
    assert [camera["name"] for camera in content["cameras"]] == [camera.name for camera in fb.video.list_cameras()]
    assert content["delegate_supported"] == found.is_delegate_supported_on_this_device()


def test_gpus_have_their_uuids_and_the_cpu_is_none(recorder: RecordingDriver) -> None:
    first, *others = fb.find_gpus()
    assert first == fb.FoundGpu("GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", "Recorder", {"cuda": 0})
    assert all(gpu.cuda is None and "llvmpipe" not in gpu.name for gpu in others), "OpenGL's, if this machine has one"


def test_the_old_name_of_cuda_s_devices_says_the_new_one() -> None:
    listed = fb.CompatibilityList()
    with pytest.deprecated_call(match=r'use devices_of\("cuda"\)'):
        old = listed.cuda_devices
    assert old == listed.devices_of("cuda")
