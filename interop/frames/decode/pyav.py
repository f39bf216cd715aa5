"""PyAV (the module av), loaded when the first video is opened. The extra ``video`` brings it."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from types import ModuleType

from ...errors import SourceError


def has_av() -> bool:
    """Whether PyAV is installed. Does not load it."""
    return importlib.util.find_spec("av") is not None


@functools.cache
def load_av() -> ModuleType:
    """The module av. Raises SourceError if it is missing."""
    try:
        return importlib.import_module("av")
    except ImportError as error:
        raise SourceError(
            f"this needs PyAV, and it cannot be imported ({error}): pip install av, or framebind's extra 'video'"
        ) from error
