"""Times two source trees in turn: bound frames and cold starts of models on APIs that both have.

    python benchmarks/compare_trees.py BEFORE/framebind AFTER/framebind [MODEL ...] --backend gl,cl --rounds 5
        [--ready] [--json FILE]

Each tree is a folder named framebind, in a folder named after its commit. The trees take turns, and the order changes
each round, so a machine whose speed drifts slows both alike. A start runs with the drivers' caches off; frames may use
them. A figure is the median of its rounds, in ms; `benchmarks/report.py add FILE` keeps that of each round.

With ``--ready`` a process for each tree and model gets ready beside the others, and then times it in each round
(benchmarks/ready.py), so that a round of many models takes seconds.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from names import FLOAT
from samples import Series, measured, write

from framebind.video.apis import APIS, BY_NAME
from framebind.video.models import find_model

NO_CACHES = {"__GL_SHADER_DISK_CACHE": "0", "CUDA_CACHE_DISABLE": "1", "POCL_KERNEL_CACHE": "0"}
WARM_UP = "3000"
"""Frames of the warm-up, for all trees alike: those before 4c1a5bb time frames before NVIDIA's clock is up."""
Figures = dict[tuple[str, str, str], list[float]]
"""A time of each round in ms, by figure, API with precision, and model."""
Devices = list[tuple[str, str]]
"""Names and drivers."""


def path_of(tree: Path) -> str:
    """The folders in which a process of the tree finds its package, and others."""
    return os.pathsep.join([str(tree.absolute().parent), os.environ.get("PYTHONPATH", "")])


def run(tree: Path, *arguments: str, caches: bool) -> Any:
    """The JSON that a Python program of the tree prints last."""
    environment = os.environ | {"PYTHONPATH": path_of(tree)} | ({} if caches else NO_CACHES)
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{tree}: {' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}")
    return json.loads(done.stdout)


def add_frames(tree: Path, models: list[str], backends: list[str], figures: Figures) -> Devices:
    """Append the median, stream and submit times of each model's bound frames on each API."""
    options = ["--backend", ",".join(backends), "--precision", "f16", "--runs", "300", "--warmup-runs", WARM_UP]
    rows = run(tree, "-m", "framebind", "benchmark", *models, *options, "--json", caches=True)["runs"]
    for row in rows:
        for figure, time in (("frame", row["latency"]["median"]), ("stream", row["stream"]), ("submit", row["submit"])):
            figures[figure, row["on"], row["model"]].append(time)
    return [(row["statistics"]["device"], row["statistics"]["driver"]) for row in rows]


class Waiting(NamedTuple):
    """A process of a tree that has a model ready, and times it whenever it gets a line."""

    tree: Path
    process: subprocess.Popen[str]

    @classmethod
    def start(cls, tree: Path, command: list[str]) -> Waiting:
        """Start the process, which ends with this one."""
        pipe, environment = subprocess.PIPE, os.environ | {"PYTHONPATH": path_of(tree)}
        return cls(tree, subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment))

    def answer(self) -> Any:
        """The next line that the process prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else sys.exit(f"it ended: {self.process.args}")

    def time(self, figures: Figures) -> None:
        """Append the medians of its frames and streams."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        model, on, times = self.answer()
        for figure, time in times.items():
            figures[figure, on, model].append(time)


def add_ready_frames(
    trees: tuple[Path, Path], models: list[str], backends: list[str], rounds: int, found: dict[Path, Figures]
) -> Iterator[Devices]:
    """Append the medians of each model's bound frames and streams, by processes that got ready side by side. Yields the
    devices after each round.
    """
    script, pairs = str(Path(__file__).with_name("ready.py")), list[list[Waiting]]()
    for backend, model in itertools.product(backends, models):
        commands = [[sys.executable, script, str(tree.absolute()), model, backend] for tree in trees]
        pairs.append([Waiting.start(tree, command) for tree, command in zip(trees, commands, strict=True)])
    devices = [tuple(each.answer()) for pair in pairs for each in pair]
    for number in range(rounds):
        for pair in pairs:
            for each in pair if number % 2 else reversed(pair):
                each.time(found[each.tree])
        print(f"round {number + 1}", file=sys.stderr, flush=True)
        yield devices
    for each in itertools.chain(*pairs):
        each.process.kill()
        each.process.wait()


def add_starts(tree: Path, models: list[str], backends: list[str], figures: Figures) -> Devices:
    """Append the time from a model's file to the end of the first inference, each in a process of its own."""
    script = str(tree.absolute() / "benchmarks" / "initialization.py")
    devices: Devices = []
    for backend in backends:
        for model in models:
            row = run(tree, script, "start", model, BY_NAME[backend].name, "f16", "", caches=False)
            figures["start", f"{backend} f16", Path(model).stem].append(row["ms"]["total"])
            devices.append((row["device"], row["driver"]))
    return devices


def show(before: Figures, after: Figures) -> None:
    """Print the medians of the figures that both trees have, and the number of rounds."""
    print(f"{'':52} before   after  ratio rounds")
    for figure in sorted(before.keys() & after.keys()):
        old, new = statistics.median(before[figure]), statistics.median(after[figure])
        rounds = min(len(before[figure]), len(after[figure]))
        print(f"{' '.join(reversed(figure)):52} {old:6.3f} {new:7.3f} {new / old:6.3f} {rounds:6}")


def write_rounds(file: Path, found: dict[Path, Figures], devices: Devices) -> None:
    """Write every round's figures of both trees, a tree by the name of the folder it is in."""
    series = [
        Series({"model": model, "on": on, "tree": tree.absolute().parent.name, "figure": figure}, times)
        for tree, figures in found.items()
        for (figure, on, model), times in figures.items()
    ]
    write(file, measured("trees", devices, "ms", series))


def main(
    before: Annotated[Path, typer.Argument(help="The earlier tree, a folder named framebind.")],
    after: Annotated[Path, typer.Argument(help="The later tree.")],
    models: Annotated[list[str] | None, typer.Argument(help="Names, or .tflite files.")] = None,
    backend: Annotated[str, typer.Option(help=f"{', '.join(api.short for api in APIS)}, or several.")] = "gl,cl",
    rounds: Annotated[int, typer.Option(help="How often each tree's frames are timed.")] = 5,
    starts: Annotated[int, typer.Option(help="How often each start is timed.")] = 2,
    ready: Annotated[bool, typer.Option("--ready", help="Frames are timed by processes that wait.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write each round's figures to this file.")] = None,
) -> None:
    paths = [str(find_model(model).resolve()) for model in models or FLOAT]
    backends = backend.split(",")
    found: dict[Path, Figures] = {tree: defaultdict(list) for tree in (before, after)}
    devices: Devices = []
    try:
        for told in add_ready_frames((before, after), paths, backends, rounds, found) if ready else ():
            devices = told
            if json_file is not None:  # a lent machine's time may end
                write_rounds(json_file, found, devices)
        for number in range(max(0 if ready else rounds, starts)):
            for tree in (before, after) if number % 2 else (after, before):
                if number < rounds and not ready:
                    devices += add_frames(tree, paths, backends, found[tree])
                if number < starts:
                    devices += add_starts(tree, paths, backends, found[tree])
            print(f"round {number + 1}", file=sys.stderr, flush=True)
    finally:  # Ctrl-C, or a lent machine's time: the rounds so far are figures too
        show(found[before], found[after])
        if json_file is not None:
            write_rounds(json_file, found, devices)


if __name__ == "__main__":
    typer.run(main)
