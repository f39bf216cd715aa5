"""Prints what a frame of each model costs that no clock is needed for: dispatches, GL calls, barriers, memory.

python benchmarks/counts.py [MODEL ...]
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from bound import MODELS, WIDTH, bind, model_path
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import framebind as fb
from framebind.interop.devices import open_device
from framebind.interop.gl_api import counting
from framebind.interop.gl_commands import GlCommandList

COLUMNS = ("model", "storage", "dispatches", "barriers", "GL calls", "others", "arena KiB", "constants KiB")
"""Barriers are those between dispatches; others, the GL calls that are in no recorded list of commands."""


def count(context: fb.GlContext, path: Path, storage: str) -> list[str]:
    """A row of COLUMNS."""
    model = bind(path, storage, open_device("opengl"), "opengl")
    model.frame()
    with counting(context.gl) as calls:
        model.frame()
    programs = model.programs
    recorded = sum(c.calls_per_run for c in model.commands if isinstance(c, GlCommandList))
    barriers = sum(commands.barriers for commands in model.commands)
    memory = [sum(p.arena_nbytes for p in programs) / 1024, sum(p.weights_nbytes for p in programs) / 1024]
    model.delegate.close()
    counts = (calls["glDispatchCompute"], barriers, calls.total(), calls.total() - recorded, *memory)
    return [path.stem, storage, *(f"{n:,.0f}" for n in counts)]


def main(models: Annotated[list[str] | None, typer.Argument(help="Names, or .tflite files.")] = None) -> None:
    with fb.GlContext.headless() as context:
        table = Table(title=f"One frame, everything bound, on {context}", box=SIMPLE, padding=(0, 1, 0, 0))
        for number, column in enumerate(COLUMNS):
            table.add_column(column, no_wrap=True, justify="left" if number < 2 else "right")
        for path in map(model_path, models or MODELS):
            for storage in ("f32", "f16"):
                table.add_row(*count(context, path, storage))
        Console(width=WIDTH, soft_wrap=True).print(table)


if __name__ == "__main__":
    typer.run(main)
