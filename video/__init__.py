"""Whole videos, folders of them and live streams through a model. This library imports public names only."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .live.result import WatchResult
    from .live.watch import Watch

__all__ = ["Watch", "WatchResult"]

_LATE = {"Watch": ".live.watch", "WatchResult": ".live.result"}
"""Public names with their modules, which are imported when they are first used: commands start faster."""


def __getattr__(name: str) -> Any:
    """Import a name of ``_LATE``."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_LATE[name], __name__), name)
    return value
