"""What tests share: the devices, the GL and OpenCL contexts, the models and the photographs.

``FRAMEBIND_DEVICES=null,gl`` narrows the devices; ``cl:NAME`` is the OpenCL device ``ClContext("NAME")``, of any name.
Without it OpenCL is PoCL's; Mesa's (``cl:rusticl``) runs two cases of each operator, and everything where it is named.
``FRAMEBIND_EXPECT=gl,gles,cl:pocl,models`` (set by CI) turns a missing one, or missing models or tools, into a failure
instead of a skip. ``FRAMEBIND_MODELS`` is a folder of models.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
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
from framebind.interop.device import Device
from framebind.interop.gl.compute.device import GlDevice
from framebind.interop.record.null import NullDevice

pytest_plugins = ("support.webcam",)

GL_DEVICES = ("gl", "gles")
NAMED = os.environ.get("FRAMEBIND_DEVICES", "").split(",")
CL_DEVICES = tuple(dict.fromkeys(["cl:pocl", *(name for name in NAMED if name.startswith("cl:"))]))
DEVICES = ("null", *GL_DEVICES, *CL_DEVICES)
OTHERS = ("models", "xvfb", "xdotool", "apitrace", "share:objects", "share:semaphores", "share:external", "share:host")
"""What FRAMEBIND_EXPECT can promise besides devices."""
ROOT = Path(__file__).parent.parent


def _listed(variable: str) -> frozenset[str] | None:
    text = os.environ.get(variable)
    return None if text is None else frozenset(part.strip() for part in text.split(",") if part.strip())


def absent(name: str, reason: str) -> None:
    """Skip the test for want of ``name``, or fail it where FRAMEBIND_EXPECT promises it."""
    if name in (_listed("FRAMEBIND_EXPECT") or ()):
        pytest.fail(f"FRAMEBIND_EXPECT promises {name}, but {reason}", pytrace=False)
    pytest.skip(f"no {name}: {reason}")


def pytest_configure(config: pytest.Config) -> None:
    for variable in ("FRAMEBIND_DEVICES", "FRAMEBIND_EXPECT"):
        unknown = (_listed(variable) or frozenset()) - {*DEVICES, *OTHERS}
        if unknown:
            raise pytest.UsageError(f"{variable} names {sorted(unknown)}; known are {[*DEVICES, *OTHERS]}")


class _Gpu:
    """The contexts and devices of a session, each made when it is first asked for, or why it could not be."""

    def __init__(self) -> None:
        self._contexts: dict[str, fb.GlContext | fb.ClContext | fb.DeviceError] = {}
        self._devices: dict[str, Device] = {}

    def _make(self, name: str) -> fb.GlContext | fb.ClContext | fb.DeviceError:
        try:
            if name in GL_DEVICES:
                return fb.GlContext.headless(es=name == "gles")
            return fb.ClContext(name.removeprefix("cl:"))
        except fb.DeviceError as error:
            return error

    def _context(self, name: str) -> fb.GlContext | fb.ClContext:
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

    def cl_context(self, name: str) -> fb.ClContext:
        context = self._context(name)
        assert isinstance(context, fb.ClContext)
        return context

    def device(self, name: str) -> Device:
        if name == "null":
            return NullDevice()
        context = self._context(name)
        if name not in self._devices:
            self._devices[name] = GlDevice(context) if isinstance(context, fb.GlContext) else ClDevice(context)
        return self._devices[name]

    def close(self) -> None:
        for context in self._contexts.values():
            if not isinstance(context, fb.DeviceError):
                context.make_current()
                context.close()


@pytest.fixture(scope="session")
def _gpu() -> Iterator[_Gpu]:
    gpu = _Gpu()
    yield gpu
    gpu.close()


def _wanted(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    wanted = _listed("FRAMEBIND_DEVICES")
    if wanted is not None and name not in wanted:
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
def cl_context(request: pytest.FixtureRequest, _gpu: _Gpu) -> Iterator[fb.ClContext]:
    """An OpenCL context, current on this thread: PoCL's, then those that are named."""
    context = _gpu.cl_context(_wanted(request))
    yield context
    context.release()


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, _gpu: _Gpu) -> Iterator[Device]:
    """Every device in turn: null, desktop GL, GL ES, OpenCL's. Its context is current; the test leaves no GL error."""
    yield from _device(_wanted(request), _gpu)


@pytest.fixture
def without_matrix_units(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device computes convolutions as those do that have no matrix units."""
    monkeypatch.setattr(device, "traits", replace(device.traits, matrix_units=False))


@pytest.fixture(params=DEVICES[1:])
def gpu(request: pytest.FixtureRequest, _gpu: _Gpu) -> Iterator[Device]:
    """The same without the null device: those that compute."""
    yield from _device(_wanted(request), _gpu)


@pytest.fixture
def gl_and_cl(_gpu: _Gpu) -> Iterator[tuple[Device, Device]]:
    """Desktop GL and PoCL at once, their contexts current on this thread."""
    wanted = _listed("FRAMEBIND_DEVICES")
    if wanted is not None and not {"gl", "cl:pocl"} <= wanted:
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
    elif isinstance(device, ClDevice):
        device.context.release()


@pytest.fixture(autouse=True)
def _fresh_counter() -> None:
    fb.transfers.reset()


@pytest.fixture(scope="session")
def model_path() -> Callable[[str], Path]:
    """``model_path("deeplabv3_257_mv_gpu")`` is the model's file; skips, saying so, where no models are there."""
    given = os.environ.get("FRAMEBIND_MODELS")
    folder = Path(given) if given else ROOT.parent / "shared" / "models"

    def find(name: str) -> Path:
        if not folder.is_dir():
            absent("models", f"the folder '{folder}' is not there (set FRAMEBIND_MODELS to a folder of .tflite files)")
        path = folder / f"{name}.tflite"
        assert path.is_file(), f"there is a folder of models, '{folder}', without {path.name}"
        return path

    return find


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """``tool("xvfb-run")`` is the path of a program of that name; skips, saying so, where it is not installed."""

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


def photograph_path(name: str = "astronaut") -> Path:
    """Where scikit-image keeps a photograph that its wheel ships: astronaut, coffee, chelsea (a cat)."""
    return Path(skimage.__file__).parent / "data" / f"{name}.png"
