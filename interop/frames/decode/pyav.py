"""PyAV (the module av), loaded when the first video is opened: programs without videos start without it."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType

from ...errors import SourceError


@functools.cache
def load_av() -> ModuleType:
    """The module av. Raises SourceError if it is missing."""
    try:
        return importlib.import_module("av")
    except ImportError as error:
        raise SourceError(f"videos need PyAV, and it cannot be imported ({error}): pip install av") from error
