"""Environment of the tests: devices by name, the variables FRAMEBIND_DEVICES and FRAMEBIND_EXPECT, the root folder."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import skimage

ROOT = Path(__file__).parents[2]
GL_DEVICES = ("gl", "gles")
NAMED = os.environ.get("FRAMEBIND_DEVICES", "").split(",")
CL_DEVICES = tuple(dict.fromkeys(["cl:pocl", *(name for name in NAMED if name.startswith("cl:"))]))
"""PoCL's and the named ones. Mesa's ("cl:rusticl") runs a few operator cases also without being named."""
CUDA_DEVICES = tuple(name for name in NAMED if name == "cuda")
"""The GPU of number 0, if it is named: CUDA has no device that is the CPU."""
DEVICES = ("null", *GL_DEVICES, *CL_DEVICES, *CUDA_DEVICES)
TOOLS = (
    "models", "xvfb", "xdotool", "apitrace", "nvrtc", "rtsp", "chromium", "pipewire",
    "share:objects", "share:semaphores", "share:external", "share:host",
)  # fmt: skip
"""Tools that FRAMEBIND_EXPECT can promise besides devices."""


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the repository's root as a folder; pytest itself decides on all others.

    The root is the package, so it has an ``__init__.py``. pytest would import that under the name of the folder, which
    is not "framebind" in an unpacked source distribution.
    """
    return pytest.Dir.from_parent(parent, path=path) if path == ROOT else None


def listed(variable: str) -> frozenset[str] | None:
    """The names in an environment variable, None if it is not set. Raises pytest.UsageError for an unknown name."""
    text = os.environ.get(variable)
    if text is None:
        return None
    names = frozenset(part.strip() for part in text.split(",") if part.strip())
    if unknown := names - {*DEVICES, *TOOLS}:
        raise pytest.UsageError(f"{variable} names {sorted(unknown)}; known are {[*DEVICES, *TOOLS]}")
    return names


def is_wanted(device: str) -> bool:
    """Whether FRAMEBIND_DEVICES, if it is set, names the device."""
    wanted = listed("FRAMEBIND_DEVICES")
    return wanted is None or device in wanted


def absent(name: str, reason: str) -> None:
    """Skip the test for want of ``name``, or fail it if FRAMEBIND_EXPECT promises it."""
    if name in (listed("FRAMEBIND_EXPECT") or ()):
        pytest.fail(f"FRAMEBIND_EXPECT promises {name}, but {reason}", pytrace=False)
    pytest.skip(f"no {name}: {reason}")


def photograph_path(name: str = "astronaut") -> Path:
    """The file of a photograph in scikit-image's wheel: astronaut, coffee or chelsea (a cat)."""
    return Path(skimage.__file__).parent / "data" / f"{name}.png"


@contextmanager
def without_descriptors(room: int = 0) -> Iterator[None]:
    """Let this process open so many files more within the block."""
    free = [os.open("/dev/null", os.O_RDONLY) for _ in range(room + 1)]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    for each in free:
        os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[-1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
