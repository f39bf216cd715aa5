"""Fixtures that all tests share (devices, GL and OpenCL contexts, models, photographs), and the choice of tests.

``--tier quick|default|all`` chooses the tests: see support/tiers.py.
``FRAMEBIND_DEVICES=null,gl`` narrows the devices; ``cl:NAME`` is the OpenCL device ``ClContext("NAME")``, of any name.
Without it OpenCL is PoCL's; Mesa's (``cl:rusticl``) runs a case of each kernel, and everything if it is named. ``cuda``
is NVIDIA's GPU of number 0, and runs if it is named.
``FRAMEBIND_EXPECT=gl,gles,cl:pocl,models`` (set by CI) turns a missing one, or missing models or tools, into a failure
instead of a skip. ``FRAMEBIND_MODELS`` is a folder of models.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
import skimage

# Before anything loads EGL: software GL without a display server, unless the caller chose otherwise.
os.environ.setdefault("EGL_PLATFORM", "surfaceless")
# Before anything loads OpenCL: Mesa's driver for the CPU, which is off by default.
os.environ.setdefault("RUSTICL_ENABLE", "llvmpipe")

import framebind as fb
from framebind.interop.cl.compute.device import ClDevice
from framebind.interop.cuda.compute.device import CudaDevice
from framebind.interop.device import Device
from framebind.interop.gl.compute.device import GlDevice
from framebind.interop.null.device import NullDevice
from support import environment, tiers
from support.cases import cover
from support.environment import CL_DEVICES, DEVICES, GL_DEVICES, ROOT, absent, is_wanted, listed, photograph_path

# A shell's background job ignores SIGINT, and every process that it starts does too. Tests interrupt their processes.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = (
    "support.screen",
    "support.webcam",
    "support.recording_driver",
    "support.video.live_server",
    "support.pipewire",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=tiers.TIERS, default="default", help="which tests run (support/tiers.py)")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(environment)  # its hook is for the folder above this one
    for variable in ("FRAMEBIND_DEVICES", "FRAMEBIND_EXPECT"):
        listed(variable)  # which checks the names
    tier = config.getoption("--tier")
    tiers.load_profile(tier)
    if tier != "all":  # PoCL compiles a fifth to two fifths faster so, and the texts are the same
        os.environ.setdefault("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes ``operator_run`` runs the tier's operator cases on each device."""
    if "operator_run" in metafunc.fixturenames:
        tier = metafunc.config.getoption("--tier")
        pairs = [
            (device, run) for device in cover.DEVICES if is_wanted(device) for run in cover.chosen_runs(tier, device)
        ]
        ids = [f"{device} {run}" for device, run in pairs]
        metafunc.parametrize("operator_run", pairs, ids=ids, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the tier leaves out."""
    chosen = dict.fromkeys(tiers.chosen(config.getoption("--tier"), items))
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep the modules and the tests out of garbage collections: of those, tests make hundreds, at 0.2 s each."""
    gc.collect()
    gc.freeze()


class _Gpu:
    """The contexts and devices of a session, each made when it is first asked for, or why it could not be."""

    def __init__(self) -> None:
        self._contexts: dict[str, fb.GlContext | fb.cl.ClContext | fb.cuda.CudaContext | fb.DeviceError] = {}
        self._devices: dict[str, Device] = {}

    def _make(self, name: str) -> fb.GlContext | fb.cl.ClContext | fb.cuda.CudaContext | fb.DeviceError:
        try:
            if name in GL_DEVICES:
                return fb.GlContext.headless(es=name == "gles")
            return fb.cuda.CudaContext() if name == "cuda" else fb.cl.ClContext(name.removeprefix("cl:"))
        except fb.DeviceError as error:
            return error

    def _context(self, name: str) -> fb.GlContext | fb.cl.ClContext | fb.cuda.CudaContext:
        if name not in self._contexts:
            self._contexts[name] = self._make(name)
        context = self._contexts[name]
        if isinstance(context, fb.DeviceError):
            absent(name, str(context))
            raise context
        context.make_current()
        return context

    def context(self, name: str) -> fb.GlContext:
        context = self._context(name)
        assert isinstance(context, fb.GlContext)
        return context

    def cl_context(self, name: str) -> fb.cl.ClContext:
        context = self._context(name)
        assert isinstance(context, fb.cl.ClContext)
        return context

    def device(self, name: str) -> Device:
        if name == "null":
            return NullDevice()
        context = self._context(name)
        if name not in self._devices:
            self._devices[name] = _device_on(context)
        return self._devices[name]

    def close(self) -> None:
        for context in self._contexts.values():
            if not isinstance(context, fb.DeviceError):
                context.make_current()
                context.close()


def _device_on(context: fb.GlContext | fb.cl.ClContext | fb.cuda.CudaContext) -> Device:
    if isinstance(context, fb.GlContext):
        return GlDevice(context)
    return CudaDevice(context) if isinstance(context, fb.cuda.CudaContext) else ClDevice(context)


@pytest.fixture(scope="session")
def _gpu() -> Iterator[_Gpu]:
    gpu = _Gpu()
    yield gpu
    gpu.close()


def _wanted(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if not is_wanted(name):
        pytest.skip(f"FRAMEBIND_DEVICES leaves out {name}")
    return name


def _errors(context: fb.GlContext) -> list[int]:
    context.make_current()
    return context.gl.clear_errors()


@pytest.fixture(params=GL_DEVICES)
def context(request: pytest.FixtureRequest, _gpu: _Gpu) -> Iterator[fb.GlContext]:
    """A headless GL context, current on this thread: desktop GL, then GL ES. The test leaves no GL error in it."""
    context = _gpu.context(_wanted(request))
    assert _errors(context) == [], "a GL error was there before the test"
    yield context
    assert [hex(error) for error in _errors(context)] == [], "the test left GL errors"


@pytest.fixture(params=CL_DEVICES)
def cl_context(request: pytest.FixtureRequest, _gpu: _Gpu) -> Iterator[fb.cl.ClContext]:
    """An OpenCL context, current on this thread: PoCL's, then those that are named."""
    context = _gpu.cl_context(_wanted(request))
    yield context
    context.release()


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, _gpu: _Gpu) -> Iterator[Device]:
    """Every device in turn: null, desktop GL, GL ES, OpenCL's, CUDA's. Its context is current; no GL error is left."""
    yield from _device(_wanted(request), _gpu)


@pytest.fixture(params=DEVICES[1:])
def gpu(request: pytest.FixtureRequest, _gpu: _Gpu) -> Iterator[Device]:
    """The devices that compute: all but the null device."""
    yield from _device(_wanted(request), _gpu)


@pytest.fixture
def operator_run(request: pytest.FixtureRequest, _gpu: _Gpu) -> Iterator[cover.Run]:
    """An operator case; the context of the device that it runs on is current. The test leaves no GL error."""
    name, run = request.param
    for _ in _device(name, _gpu):
        yield run


@pytest.fixture
def gl_and_cl(_gpu: _Gpu) -> Iterator[tuple[Device, Device]]:
    """Desktop GL and PoCL at once, their contexts current on this thread."""
    if not (is_wanted("gl") and is_wanted("cl:pocl")):
        pytest.skip("FRAMEBIND_DEVICES leaves out gl or cl:pocl")
    for gl in _device("gl", _gpu):
        for opencl in _device("cl:pocl", _gpu):
            yield gl, opencl


def _device(name: str, gpu: _Gpu) -> Iterator[Device]:
    device = gpu.device(name)
    if name in GL_DEVICES:
        assert _errors(gpu.context(name)) == [], "a GL error was there before the test"
    yield device
    if name in GL_DEVICES:
        assert [hex(error) for error in _errors(gpu.context(name))] == [], "the test left GL errors"
    elif isinstance(device, ClDevice | CudaDevice):
        device.context.release()


@pytest.fixture(autouse=True)
def _fresh_counter() -> None:
    fb.transfers.reset()


@pytest.fixture(scope="session")
def model_path() -> Callable[[str], Path]:
    """``model_path("deeplabv3_257_mv_gpu")`` is the model's file, and ``model_path("face_landmarker.task")`` a bundle.

    It skips, saying so, if no models are there.
    """
    given = os.environ.get("FRAMEBIND_MODELS")
    folder = Path(given) if given else ROOT.parent / "shared" / "models"

    def find(name: str) -> Path:
        if not folder.is_dir():
            absent("models", f"the folder '{folder}' is not there (set FRAMEBIND_MODELS to a folder of .tflite files)")
        path = folder / (name if name.endswith(".task") else f"{name}.tflite")
        assert path.is_file(), f"there is a folder of models, '{folder}', without {path.name}"
        return path

    return find


@pytest.fixture
def tier(request: pytest.FixtureRequest) -> str:
    """The tier that runs: a test may be longer in "all"."""
    return str(request.config.getoption("--tier"))


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """``tool("xvfb-run")`` is the path of a program of that name; skips, saying so, if it is not installed."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            absent(name.removesuffix("-run"), f"{name} is not installed ('make setup' installs it)")
        return str(path)

    return find


@pytest.fixture(scope="session")
def photograph() -> Callable[..., npt.NDArray[np.uint8]]:
    """``photograph("coffee", width, height)``: one of scikit-image's photographs as RGB uint8 (height, width, 3)."""

    def load(name: str = "astronaut", width: int = 0, height: int = 0) -> npt.NDArray[Any]:
        picture = cv2.imread(os.fspath(photograph_path(name)), cv2.IMREAD_COLOR)
        assert picture is not None, f"scikit-image {skimage.__version__} ships no {name}.png"
        if width:
            picture = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)
        return np.ascontiguousarray(picture[:, :, ::-1]).astype(np.uint8, copy=False)

    return load
