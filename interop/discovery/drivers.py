"""The drivers that are installed for EGL, OpenCL, Vulkan and CUDA, and why one does not load."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyopencl

from ..cl.sharing import vulkan
from ..cuda import api as cuda
from ..cuda import nvrtc
from ..errors import DeviceError
from ..gl import egl
from ..gl.platform import egl_library

_EGL_FOLDERS = ("/etc/glvnd/egl_vendor.d", "/usr/share/glvnd/egl_vendor.d")
_VULKAN_FOLDERS = ("/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d")
_OPENCL_FOLDERS = ("/etc/OpenCL/vendors",)
_SUFFIXES = (".json", ".icd")


@dataclass(frozen=True)
class InstalledDriver:
    """A file that names a driver to a loader; for CUDA, the driver and the compiler (NVRTC)."""

    file: str
    """For CUDA, what has it: NVIDIA's driver, or a Python package."""
    library: str
    """The shared library that the file names; for CUDA its name and version, "" if it is missing."""
    problem: str
    """The reason why the driver does not load; "" if it does."""


@dataclass(frozen=True)
class InstalledApi:
    """A loader and its drivers."""

    api: str
    """"EGL", "OpenCL", "Vulkan" or "CUDA"."""
    drivers: tuple[InstalledDriver, ...]
    """On Linux, the drivers that the loader's files name; elsewhere none. For CUDA, its driver and its compiler."""
    devices: int
    """The number of devices that the loader lists."""
    problem: str
    """The reason why it lists no device; "" if it lists one."""


def installed_apis() -> list[InstalledApi]:
    """The loaders of EGL (OpenGL without a window), OpenCL, Vulkan (memory that both share) and CUDA; their drivers.

    Loads every driver, makes no context and allocates nothing on a GPU. The drivers' files are looked for as the
    loaders do, also in the folders that ``__EGL_VENDOR_LIBRARY_DIRS``, ``OCL_ICD_VENDORS``, ``VK_DRIVER_FILES`` and
    their like name.

    Returns
    -------
    list of InstalledApi
        For EGL, OpenCL, Vulkan and CUDA in this order: ``api``, ``drivers``, ``devices`` (how many it lists) and
        ``problem`` (why it lists none, else ""). A driver has ``file``, ``library`` and ``problem`` (why it does not
        load, or ""). CUDA has two on every machine, there or not: NVIDIA's driver, and NVIDIA's compiler.

    Examples
    --------
    >>> [api.api for api in fb.installed_apis()]
    ['EGL', 'OpenCL', 'Vulkan', 'CUDA']
    """
    egl_places = _places("__EGL_VENDOR_LIBRARY_FILENAMES", "__EGL_VENDOR_LIBRARY_DIRS", _EGL_FOLDERS)
    opencl_places = _places("", "OCL_ICD_VENDORS", _OPENCL_FOLDERS)
    variable = "VK_DRIVER_FILES" if os.environ.get("VK_DRIVER_FILES") else "VK_ICD_FILENAMES"
    vulkan_places = _places(variable, "", _VULKAN_FOLDERS)
    return [
        _installed("EGL", egl_places, _library_of_json, _count_egl),
        _installed("OpenCL", opencl_places, _library_of_icd, _count_opencl),
        _installed("Vulkan", vulkan_places, _library_of_json, lambda: len(vulkan.device_uuids())),
        _cuda(),
    ]


def _installed(
    api: str, places: Sequence[Path], library_of: Callable[[str], str], count: Callable[[], int]
) -> InstalledApi:
    files = [file for place in places for file in ([place] if place.suffix in _SUFFIXES else _files(place))]
    drivers = tuple(_driver(file, library_of) for file in files)
    try:
        devices, problem = count(), ""
    except DeviceError as error:
        devices, problem = 0, str(error)
    if not devices:
        problem = problem or "it lists no device"
        if places and not drivers:
            problem += f"; no driver is named in {', '.join(map(str, places))}"
    return InstalledApi(api, drivers, devices, problem)


def _places(files: str, folders: str, usual: tuple[str, ...]) -> list[Path]:
    """The files and folders that a loader reads: those that one of two variables names, else the usual folders."""
    if sys.platform != "linux":
        return []
    for variable in (files, folders):
        given = os.environ.get(variable)
        if given:
            return [Path(part) for part in given.split(":") if part]
    return [Path(folder) for folder in usual]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.suffix in _SUFFIXES)


def _count_egl() -> int:
    if egl_library() is None:
        raise DeviceError("there is no EGL library (libEGL.so.1)")
    return egl.count_devices()


def _count_opencl() -> int:
    try:
        return sum(len(_devices(platform)) for platform in pyopencl.get_platforms())
    except pyopencl.Error as error:
        raise DeviceError(f"there is no OpenCL platform ({error})") from error


def _cuda() -> InstalledApi:
    """CUDA's driver, and its compiler, each with its own reason if it is missing."""
    parts = (
        _part("NVIDIA's driver", lambda: f"libcuda (CUDA {cuda.driver_version()})"),
        _part("nvidia-cuda-nvrtc", lambda: f"NVRTC {'.'.join(map(str, nvrtc.version()))}"),
    )
    devices = 0 if parts[0].problem else cuda.device_count()
    return InstalledApi("CUDA", parts, devices, "" if devices else parts[0].problem or "it lists no device")


def _part(owner: str, library: Callable[[], str]) -> InstalledDriver:
    try:
        return InstalledDriver(owner, library(), "")
    except DeviceError as error:
        return InstalledDriver(owner, "", str(error))


def _devices(platform: pyopencl.Platform) -> list[pyopencl.Device]:
    try:
        return platform.get_devices()
    except pyopencl.Error:  # a driver without its hardware
        return []


def _driver(path: Path, library_of: Callable[[str], str]) -> InstalledDriver:
    try:
        library = library_of(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        return InstalledDriver(str(path), "", f"the file cannot be read: {error}")
    beside = path.parent / library  # a path in such a file is relative to it; a bare name is the system's to find
    name = str(beside) if "/" in library else library
    return InstalledDriver(str(path), library, _why_not(name))


def _library_of_json(text: str) -> str:
    content: Any = json.loads(text)
    return str(content["ICD"]["library_path"])


def _library_of_icd(text: str) -> str:
    library = text.strip()
    if not library:
        raise ValueError("it is empty")
    return library


def _why_not(library: str) -> str:
    """The reason why a shared library does not load; "" if it does."""
    try:
        ctypes.CDLL(library)
    except OSError as error:
        return str(error)
    return ""
