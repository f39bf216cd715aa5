"""``mp.tasks.components``: the parts of results, ``containers``, and ``processors``, the options of classifiers."""

from .core import categories as processors
from .core import containers

__all__ = ["containers", "processors"]
