"""Devices to certify, by name: "gl", "gles", "cuda", each OpenCL device as "cl:NAME"; and the versions of software."""

from __future__ import annotations

import platform
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import framebind as fb
from framebind.interop.backends import FoundDevice, Variant

PACKAGES = ("framebind", "ai-edge-litert", "numpy", "pyopencl", "PyOpenGL", "tflite")


@dataclass(frozen=True)
class Device:
    """A device as its driver describes it. ``name`` is the one that ``open_context`` takes."""

    name: str
    gpu: str
    driver: str
    software: bool


def backend_of(name: str) -> str:
    """The backend of GpuDelegateOptions for a device's name. Raises DeviceError if there is none."""
    return _edition(name)[0].name


def open_context(name: str) -> AbstractContextManager[Any]:
    """A context on the device, current on this thread until it is closed. Raises DeviceError if there is none."""
    return _edition(name)[1].new_context(name.partition(":")[2])


def _edition(name: str) -> tuple[fb.Backend, fb.Backend | Variant]:
    """The API of a device's name, and itself or the variant that the name means."""
    editions = {each.short: (api, each) for api in fb.list_backends() for each in (api, *api.variants)}
    short, _, device = name.partition(":")
    if short not in editions or (device and not editions[short][0].named_devices):
        named = [f"{api.short}:NAME with a part of its name" for api in fb.list_backends() if api.named_devices]
        raise fb.DeviceError(f"there is no device '{name}': take {', '.join(editions)}, or {', '.join(named)}")
    return editions[short]


def usable_devices() -> list[str]:
    """Names of this machine's devices on which models run: its GPUs, or without a GPU the drivers that use the CPU."""
    found = [device for device in fb.CompatibilityList().devices if not device.unusable]
    gpus = [device for device in found if not device.software]
    return list(dict.fromkeys(_name_of(device) for device in gpus or found))


def _name_of(device: FoundDevice) -> str:
    """The name of a device for ``open_context``."""
    for api in fb.list_backends():
        for each in (api, *api.variants):
            if each.title == device.api:
                return f"{each.short}:{device.name}" if api.named_devices else each.short
    raise ValueError(f"no API has the title '{device.api}'")


def versions() -> dict[str, str]:
    """The versions that decide results: of Python, the system and packages. No name of a user, host or folder."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "a checkout"
    return found
