"""Loaders of drivers (EGL, OpenCL, Vulkan, CUDA): the drivers that they name, and why one does not load."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import DeviceError

_SUFFIXES = (".json", ".icd")


@dataclass(frozen=True)
class Loader:
    """A library through which an API finds its drivers."""

    name: str
    packages: str
    """The command that installs it, with a driver that runs on any machine, by distribution."""
    installed: Callable[[], InstalledApi]
    """Finds the library and its drivers."""
    has_files: bool = True
    """Whether files name the drivers; else the drivers are parts that are installed or not."""


@dataclass(frozen=True)
class InstalledDriver:
    """A file that names a driver to a loader; for CUDA, the driver or the compiler (NVRTC)."""

    file: str
    """Path of the file; for a driver that no file names, its owner: a vendor's driver, or a Python package."""
    library: str
    """The shared library that the file names; without files its name and version, "" if it is missing."""
    problem: str
    """The reason why the driver does not load; "" if it does."""


@dataclass(frozen=True)
class InstalledApi:
    """A loader and its drivers."""

    api: str
    """"EGL", "OpenCL", "Vulkan" or "CUDA"."""
    drivers: tuple[InstalledDriver, ...]
    """The drivers that the loader's files name, on Linux; none elsewhere. For CUDA, its driver and its compiler."""
    devices: int
    """The number of devices that the loader lists."""
    problem: str
    """The reason why it lists no device; "" if it lists one."""


def installed_by_files(
    api: str, places: Sequence[Path], library_of: Callable[[str], str], count: Callable[[], int]
) -> InstalledApi:
    """A loader whose drivers are named in files. ``places`` are files and folders, ``library_of`` takes a file's text.

    ``count`` gives the number of devices; its DeviceError is the problem.
    """
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


def driver_places(files: str, folders: str, usual: tuple[str, ...]) -> list[Path]:
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


def installed_part(owner: str, library: Callable[[], str]) -> InstalledDriver:
    """A part of a driver that is not named in a file. ``library`` gives its name and version, or raises DeviceError."""
    try:
        return InstalledDriver(owner, library(), "")
    except DeviceError as error:
        return InstalledDriver(owner, "", str(error))


def _driver(path: Path, library_of: Callable[[str], str]) -> InstalledDriver:
    try:
        library = library_of(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        return InstalledDriver(str(path), "", f"the file cannot be read: {error}")
    beside = path.parent / library  # a path in such a file is relative to it; a bare name is the system's to find
    name = str(beside) if "/" in library else library
    return InstalledDriver(str(path), library, _why_not(name))


def library_of_json(text: str) -> str:
    """The library that a driver's JSON file names, as EGL's and Vulkan's loaders read it."""
    content: Any = json.loads(text)
    return str(content["ICD"]["library_path"])


def library_of_icd(text: str) -> str:
    """The library that a driver's file for OpenCL names."""
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
