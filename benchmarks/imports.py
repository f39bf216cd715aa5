"""Times ``import framebind`` and the making of a GL context, each in fresh processes, for one or more source trees.

    python benchmarks/imports.py [TREE ...] --runs 21

A tree is a folder named framebind; the default is the tree of this file. The trees take turns, and the order changes
each round. The script prints milliseconds of CPU time and wall clock: the median and the minimum of the processes. On a
busy machine the minimum is closest to the time of the work. A first process, which does not count, makes Python's .pyc
files.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

PROGRAM = """
import json, sys, time

def clocks():
    return time.process_time(), time.perf_counter()

began = clocks()
import framebind
imported = clocks()
if framebind.__path__[0] != sys.argv[1]:
    sys.exit(f"Python finds framebind in {framebind.__path__[0]}")
framebind.GlContext.headless()
made = clocks()
print(json.dumps([[(b - a) * 1e3 for a, b in zip(*pair)] for pair in ((began, imported), (imported, made))]))
"""
STAGES = ("import framebind", "GlContext.headless()")
CLOCKS = ("CPU", "wall")


def run(tree: Path) -> list[list[float]]:
    """The milliseconds of one process: by stage, then by clock."""
    path = os.pathsep.join([str(tree.parent), os.environ.get("PYTHONPATH", "")])
    environment = {"EGL_PLATFORM": "surfaceless", **os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tree)], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{tree} failed:\n{done.stdout}\n{done.stderr}")
    return json.loads(done.stdout)


def main(
    trees: Annotated[list[Path] | None, typer.Argument(help="Folders named framebind.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Processes per tree.")] = 21,
) -> None:
    """Print a row for each tree, stage and clock."""
    paths = [path.resolve() for path in trees or [Path(__file__).parents[1]]]
    found: dict[Path, list[list[list[float]]]] = {path: [] for path in paths}
    for path in paths:
        run(path)
    for number in range(runs):
        for path in reversed(paths) if number % 2 else paths:
            found[path].append(run(path))
    print(f"Milliseconds, {runs} processes per tree")
    width = max(len(str(path)) for path in paths)
    print(f"{'tree':{width}}  {'':20} {'':4}  median      min")
    for path in paths:
        for stage, label in enumerate(STAGES):
            for clock, name in enumerate(CLOCKS):
                taken = [process[stage][clock] for process in found[path]]
                print(f"{path!s:{width}}  {label:20} {name:4}  {statistics.median(taken):6.1f}  {min(taken):7.1f}")


if __name__ == "__main__":
    typer.run(main)
