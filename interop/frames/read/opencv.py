"""OpenCV (the module cv2), loaded when the first frame, picture or letter needs it.

Models run on the GPU without it: ``import framebind`` does not load it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Iterator
from types import ModuleType

from ...errors import SourceError

DISPLAY_PACKAGES = "libgl1 libglib2.0-0 libxcb1"
"""Debian and Ubuntu packages with the shared libraries that opencv-python loads and opencv-python-headless does not."""


@functools.cache
def load_cv2() -> ModuleType:
    """The module cv2 of whichever build of OpenCV is installed.

    Raises SourceError, saying what to install, if there is none or if a shared library that it needs is missing.
    """
    try:
        return importlib.import_module("cv2")
    except ModuleNotFoundError as error:
        raise SourceError(
            f"cameras and pictures need OpenCV, and it cannot be imported ({error}): "
            "pip install opencv-python, or opencv-python-headless on a server"
        ) from error
    except ImportError as error:
        raise SourceError(
            f"cameras and pictures need OpenCV, and it does not load here ({error}). Debian, Ubuntu: "
            f"apt-get install {DISPLAY_PACKAGES}; or use the build without windows: "
            "pip uninstall opencv-python && pip install opencv-python-headless"
        ) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence OpenCV's own log, which says in several lines what our error says in one."""
    cv2 = load_cv2()
    set_log_level = getattr(cv2.utils, "logging", cv2).setLogLevel  # cv2's own before OpenCV 4.13
    before = set_log_level(0)  # LOG_LEVEL_SILENT
    try:
        yield
    finally:
        set_log_level(before)
