"""Times two source trees in turn: bound frames and cold starts of models on APIs that both have.

    python benchmarks/compare_trees.py BEFORE/framebind AFTER/framebind [MODEL ...] --backend gl,cl --rounds 5

Each tree is a folder named framebind. The trees take turns, and the order changes each round, so a machine whose speed
drifts slows both alike. A start runs with the drivers' caches off; frames may use them. A figure is the median of its
rounds, in ms.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any

import typer

from framebind.demos.measuring.names import FLOAT
from framebind.demos.models import find_model

NO_CACHES = {"__GL_SHADER_DISK_CACHE": "0", "CUDA_CACHE_DISABLE": "1", "POCL_KERNEL_CACHE": "0"}
BACKENDS = {"gl": "opengl", "cl": "opencl", "cuda": "cuda"}
"""The API's name for ``framebind benchmark``, and for ``benchmarks/initialization.py``."""
Figures = dict[str, list[float]]


def run(tree: Path, *arguments: str, caches: bool) -> Any:
    """The JSON that a Python program of the tree prints last."""
    path = os.pathsep.join([str(tree.absolute().parent), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path} | ({} if caches else NO_CACHES)
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{tree}: {' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}")
    return json.loads(done.stdout)


def add_frames(tree: Path, models: list[str], backends: list[str], figures: Figures) -> None:
    """Append the median, stream and submit times of each model's bound frames on each API."""
    options = ("--backend", ",".join(backends), "--precision", "f16", "--runs", "300", "--json")
    for row in run(tree, "-m", "framebind", "benchmark", *models, *options, caches=True)["runs"]:
        name = f"{row['model']} {row['on']}"
        figures[f"{name} frame"].append(row["latency"]["median"])
        figures[f"{name} stream"].append(row["stream"])
        figures[f"{name} submit"].append(row["submit"])


def add_starts(tree: Path, models: list[str], backends: list[str], figures: Figures) -> None:
    """Append the time from a model's file to the end of the first inference, each in a process of its own."""
    script = str(tree.absolute() / "benchmarks" / "initialization.py")
    for backend in backends:
        for model in models:
            row = run(tree, script, "start", model, BACKENDS[backend], "f16", "", caches=False)
            figures[f"{Path(model).stem} {backend} f16 start"].append(row["ms"]["total"])


def show(before: Figures, after: Figures) -> None:
    """Print the medians of the figures that both trees have, and the number of rounds."""
    print(f"{'':52} before   after  ratio rounds")
    for figure in sorted(before.keys() & after.keys(), key=lambda name: name.split()[::-1]):
        old, new = statistics.median(before[figure]), statistics.median(after[figure])
        rounds = min(len(before[figure]), len(after[figure]))
        print(f"{figure:52} {old:6.3f} {new:7.3f} {new / old:6.3f} {rounds:6}")


def main(
    before: Annotated[Path, typer.Argument(help="The earlier tree, a folder named framebind.")],
    after: Annotated[Path, typer.Argument(help="The later tree.")],
    models: Annotated[list[str] | None, typer.Argument(help="Names, or .tflite files.")] = None,
    backend: Annotated[str, typer.Option(help="gl, cl, cuda, or several: gl,cl.")] = "gl,cl",
    rounds: Annotated[int, typer.Option(help="How often each tree's frames are timed.")] = 5,
    starts: Annotated[int, typer.Option(help="How often each start is timed.")] = 2,
) -> None:
    paths = [str(find_model(model).resolve()) for model in models or FLOAT]
    backends = backend.split(",")
    trees = {"before": before, "after": after}
    found: dict[str, Figures] = {name: defaultdict(list) for name in trees}
    try:
        for number in range(max(rounds, starts)):
            for name in sorted(trees, reverse=number % 2 == 0):
                if number < rounds:
                    add_frames(trees[name], paths, backends, found[name])
                if number < starts:
                    add_starts(trees[name], paths, backends, found[name])
            print(f"round {number + 1}", file=sys.stderr, flush=True)
    finally:  # Ctrl-C, or a lent machine's time: the rounds so far are figures too
        show(found["before"], found["after"])


if __name__ == "__main__":
    typer.run(main)
