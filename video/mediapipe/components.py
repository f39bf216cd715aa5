"""``mp.tasks.components``: the parts of results, ``containers``."""

from .core import containers

__all__ = ["containers"]
