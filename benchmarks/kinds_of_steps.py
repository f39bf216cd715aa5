"""Prints the steps of models by kernel: what passes leave of a model, without a GPU.

    python benchmarks/kinds_of_steps.py MODEL ... [--storage f32|f16] [--json FILE]

The null device counts as an NVIDIA H200: it has matrix units, and kernels are chosen for its size. Pictures are bound
as textures are. The file has one row for each model: its name, its steps, and those of each kernel.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

import typer
from roofline import paths_of, program_for
from samples import command_line, today

from framebind.kernels.views import Storage


def kinds_of(path: Path, storage: Storage) -> Counter[str]:
    """The number of steps of each kernel."""
    steps = program_for(path, storage, matrix_units=True).record().steps
    return Counter(step.kernel.source.name for step in steps)


def main(
    models: Annotated[list[str], typer.Argument(help="Names, .tflite files, or folders of them.")],
    storage: Annotated[Literal["f32", "f16"], typer.Option(help="Of constants and intermediates.")] = "f16",
    out: Annotated[Path | None, typer.Option("--json", help="Write the rows to this file, too.")] = None,
) -> None:
    rows = [(path.stem, kinds_of(path, storage)) for path in paths_of(models)]
    kernels = list(sum((kinds for _, kinds in rows), Counter[str]()))
    kernels.sort(key=lambda kernel: -sum(kinds[kernel] for _, kinds in rows))
    columns = ["model", "steps", *kernels]
    table = [[name, kinds.total(), *(kinds[kernel] for kernel in kernels)] for name, kinds in rows]
    for row in (columns, ["---"] + ["---:"] * (len(columns) - 1), *table):
        print("| " + " | ".join(map(str, row)) + " |")
    if out is not None:
        about = {"kind": "counts", "machine": "null device", "date": today(), "command": command_line(sys.argv)}
        out.write_text(json.dumps(about | {"columns": columns, "rows": table}, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
