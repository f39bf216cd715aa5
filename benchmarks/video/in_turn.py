"""Times ``framebind process`` of one clip with two models, or two source trees, in turn.

    python benchmarks/video/in_turn.py models FIRST.tflite SECOND.tflite --rounds 5 --json FILE -- --backend cuda
    python benchmarks/video/in_turn.py trees BEFORE/framebind AFTER/framebind --rounds 5 -- --task detect --backend gl

The clip has 600 frames of 1920x1080 pixels, H.264. The words behind ``--`` go to ``process``, which saves rows. *wall*
is the whole command, with Python's start and the compilation of the model; *cpu* the CPU time of all its threads; both
in seconds. The order changes each round, and a first run of each is not counted.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Literal

import av
import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parents[1]))
from samples import Series, measured, write

import framebind as fb

FRAMES, SIZE = 600, (1920, 1080)


def main(
    what: Annotated[Literal["models", "trees"], typer.Argument(help="What differs.")],
    first: Annotated[Path, typer.Argument(help="A model, or a folder named framebind.")],
    second: Annotated[Path, typer.Argument(help="The other one.")],
    words: Annotated[list[str] | None, typer.Argument(help="Words for process.")] = None,
    rounds: Annotated[int, typer.Option(min=1)] = 5,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the samples to this file.")] = None,
) -> None:
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder) / "clip.mp4"
        _write(clip)
        for number in range(rounds + 1):
            for path in (first, second) if number % 2 else (second, first):
                model = ["--model", str(path)] if what == "models" else []
                wall, cpu = _run(path if what == "trees" else None, clip, [*model, *(words or [])])
                if number:
                    name = path.stem if what == "models" else path.absolute().parent.name
                    times[name, "wall"].append(wall)
                    times[name, "cpu"].append(cpu)
    for (name, figure), each in times.items():
        print(f"{name:30} {figure:4} {statistics.median(each):7.3f} s, least {min(each):7.3f}")
    if json_file is not None:
        series = [Series({what[:-1]: name, "figure": figure}, each) for (name, figure), each in times.items()]
        found = [(device.name, "") for device in fb.CompatibilityList().devices if not device.unusable]
        write(json_file, measured("in_turn", found, "s", series))


def _write(clip: Path) -> None:
    """Write a video of moving colours."""
    width, height = SIZE
    rows, columns = np.mgrid[0:height, 0:width]
    with av.open(str(clip), "w") as file:
        stream = file.add_stream("libx264", rate=30, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(FRAMES):
            planes = (columns + 3 * number) % 256, (rows + number) % 256, (columns + rows) // 12 % 256
            frame = av.VideoFrame.from_ndarray(np.stack(planes, -1).astype(np.uint8), format="rgb24")
            file.mux(stream.encode(frame))
        file.mux(stream.encode())


def _run(tree: Path | None, clip: Path, words: list[str]) -> tuple[float, float]:
    """Run ``process``, of a source tree if there is one, and return the seconds of the clock and of the CPU."""
    paths = [] if tree is None else [str(tree.absolute().parent)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])}
    output = clip.with_name("output")
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-m", "framebind", "process", str(clip), "--output", str(output), "--save", "jsonl"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([*command, *words], env=environment, capture_output=True, text=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{tree or words}: process failed:\n{done.stdout}\n{done.stderr}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    typer.run(main)
