"""Devices to certify, by name: "gl", "gles", "cuda", each OpenCL device as "cl:NAME"; and the versions of software."""

from __future__ import annotations

import platform
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Literal

import framebind as fb

Backend = Literal["opengl", "opencl", "cuda"]
PACKAGES = ("framebind", "ai-edge-litert", "numpy", "pyopencl", "PyOpenGL", "tflite")
APIS = {"OpenGL": "gl", "OpenGL ES": "gles", "CUDA": "cuda"}
"""Names of devices by the API of a FoundDevice. OpenCL devices are named after themselves."""


@dataclass(frozen=True)
class Device:
    """A device as its driver describes it. ``name`` is the one that ``open_context`` takes."""

    name: str
    gpu: str
    driver: str
    software: bool


def backend_of(name: str) -> Backend:
    """The backend of GpuDelegateOptions for a device's name."""
    return "cuda" if name == "cuda" else "opencl" if name.partition(":")[0] == "cl" else "opengl"


def open_context(name: str) -> AbstractContextManager[Any]:
    """A context on the device, current on this thread until it is closed. Raises DeviceError if there is none."""
    if name in ("gl", "gles"):
        return fb.GlContext.headless(es=name == "gles")
    if name == "cuda":
        return fb.CudaContext()
    api, _, text = name.partition(":")
    if api != "cl":
        raise fb.DeviceError(
            f"there is no device '{name}': take gl, gles, cuda, cl, or cl:NAME with a part of its name"
        )
    return fb.ClContext(text or None)


def usable_devices() -> list[str]:
    """Names of this machine's devices on which models run: its GPUs, or without a GPU the drivers that use the CPU."""
    found = [device for device in fb.CompatibilityList().devices if not device.unusable]
    gpus = [device for device in found if not device.software]
    return list(dict.fromkeys(APIS.get(device.api) or f"cl:{device.name}" for device in gpus or found))


def versions() -> dict[str, str]:
    """The versions that decide results: of Python, the system and packages. No name of a user, host or folder."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "a checkout"
    return found
