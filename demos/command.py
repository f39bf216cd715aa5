"""``python -m framebind demo NAME``: every module in demos/ that has a ``command``."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import typer

from .. import demos

demo = typer.Typer(
    no_args_is_help=True,
    help="Show what a model makes of a camera, a video or a picture.\n\nExample: python -m framebind demo "
    "style_transfer --camera 0",
)
for found in iter_modules(demos.__path__):
    if not found.ispkg:
        module = import_module(f"{demos.__name__}.{found.name}")
        if hasattr(module, "command"):
            demo.command(found.name)(module.command)
