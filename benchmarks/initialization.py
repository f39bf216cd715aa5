"""Prints the time of a start with and without the cache of an earlier process (serialization_dir).

python benchmarks/initialization.py [MODEL ...] [--backend opengl|opencl|cuda] [--precision f32|f16] [--runs N]
    [--cores N] [--beside N] [--json FILE]

A start is everything from the model's file to the end of the first inference; each runs in a separate process. The
drivers' own caches are off (NVIDIA, PoCL), or in a fresh folder for each process (Mesa, which exports no programs
without its cache). With ``--beside`` several models start beside each other, each on cores of its own.
`benchmarks/report.py add FILE` keeps every start's time.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from names import FLOAT, QUANTIZED
from samples import Series, measured, write

import framebind as fb
from framebind.video.apis import BY_NAME, GL
from framebind.video.models import find_model

NO_CACHES = {
    "__GL_SHADER_DISK_CACHE": "0", "CUDA_CACHE_DISABLE": "1", "POCL_KERNEL_CACHE": "0", "PYOPENCL_NO_CACHE": "1",
}  # fmt: skip
PHASES = ("read", "claim", "transform", "lower", "pack", "plan", "compile", "upload", "record")

app = typer.Typer()


@app.command()
def start(path: Path, backend: str, precision: str, folder: str) -> None:
    """Print the milliseconds of one start as JSON. ``folder`` is the cache's; "" keeps nothing."""
    with BY_NAME[backend].open_context() as context:
        context.finish()
        gc.collect()  # the objects of all imports: 16 ms, which fell into some starts and not into others
        started = time.perf_counter()
        interpreter = fb.Interpreter(model_path=path)
        options = fb.GpuDelegateOptions(
            backend=backend,
            is_precision_loss_allowed=precision == "f16",
            serialization_dir=folder or None,
            model_token="benchmark" if folder else None,
        )
        delegate = fb.GpuDelegate(options)
        interpreter.modify_graph_with_delegate(delegate)
        interpreter.allocate_tensors()
        delegate.record()
        recorded = time.perf_counter()
        interpreter.invoke()
        took = {"total": time.perf_counter() - started, "first inference": time.perf_counter() - recorded}
        took.update((phase, seconds) for phase, seconds in delegate.statistics().initialization.items())
        again = time.perf_counter()
        interpreter.invoke()
        took["inference"] = time.perf_counter() - again
        known = delegate.statistics()
        delegate.close()
    milliseconds = {what: seconds * 1e3 for what, seconds in took.items()}
    print(json.dumps({"device": known.device, "driver": known.driver, "ms": milliseconds}))


def _start(path: Path, backend: str, precision: str, folder: str, cores: str) -> dict[str, Any]:
    """The output of ``start`` in a new process, on these cores ("0-1"); "" is any."""
    with tempfile.TemporaryDirectory() as mesa:
        command = [sys.executable, __file__, "start", str(path), backend, precision, folder]
        command = ["taskset", "-c", cores, *command] if cores else command
        environment = {**os.environ, **NO_CACHES, "MESA_SHADER_CACHE_DIR": mesa}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


@app.command()
def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names, or .tflite files.")] = None,
    backend: str = GL.name,
    precision: Literal["f32", "f16"] = "f32",
    runs: Annotated[int, typer.Option(min=1, help="Starts of each kind, of which the median is shown.")] = 1,
    cores: Annotated[int, typer.Option(min=0, help="CPU cores that a start may use; 0: all of them.")] = 0,
    beside: Annotated[int, typer.Option(min=1, help="Models that start beside each other, on other cores.")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows to this file, too.")] = None,
) -> None:
    """Print a row for each model: cold (no cache), keeping (makes the cache), warm (uses it) and the phases of warm."""
    print(f"Milliseconds of a start, {backend}, {precision}")
    columns = ("cold", "keeping", "warm", "    %", "first inference", "inference", *PHASES)
    print(f"{'model':30}", *columns, sep="  ", flush=True)
    rows, free = list[dict[str, Any]](), queue.SimpleQueue[str]()
    for first in range(beside):
        free.put(f"{first * cores}-{(first + 1) * cores - 1}" if cores else "")

    def measured_on_free_cores(path: Path) -> dict[str, Any]:
        taken = free.get()
        try:
            return _measured(path, backend, precision, runs, taken)
        finally:
            free.put(taken)

    paths = list(map(find_model, models or FLOAT + QUANTIZED))
    for path, row in zip(paths, ThreadPoolExecutor(beside).map(measured_on_free_cores, paths), strict=True):
        rows.append(row)
        figures = [f"{row['cold']:,.0f}", f"{row['keeping']:,.0f}", f"{row['warm']:,.0f}"]
        figures += [f"{100 * row['warm'] / row['cold']:.1f}", *(f"{row['phases'][what]:,.1f}" for what in columns[4:])]
        cells = [figure.rjust(len(column)) for column, figure in zip(columns, figures, strict=True)]
        print(f"{path.stem[:30]:30}", *cells, sep="  ", flush=True)
        if json_file is not None:
            series = [each for row in rows for each in row["series"]]
            write(json_file, measured("starts", [(row["device"], row["driver"]) for row in rows], "ms", series))


def _measured(path: Path, backend: str, precision: str, runs: int, cores: str) -> dict[str, Any]:
    """A row: the model, the device, medians of cold and warm starts in ms, the parts of the warm ones, all samples."""
    given = path, backend, precision
    cold = [_start(*given, "", cores)["ms"]["total"] for _ in range(runs)]
    with tempfile.TemporaryDirectory() as folder:
        keeping = _start(*given, folder, cores)
        starts = [_start(*given, folder, cores)["ms"] for _ in range(runs)]
    times = {"cold": cold, "keeping": [keeping["ms"]["total"]], "warm": [start.pop("total") for start in starts]}
    labels = {"model": path.stem, "on": f"{BY_NAME[backend].short} {precision}"}
    series = [Series({**labels, "figure": figure}, samples) for figure, samples in times.items()]
    known = {"device": keeping["device"], "driver": keeping["driver"], "series": series}
    phases = {what: statistics.median(start[what] for start in starts) for what in starts[0]}
    return known | {figure: statistics.median(samples) for figure, samples in times.items()} | {"phases": phases}


if __name__ == "__main__":
    if sys.argv[1:2] != ["start"]:
        app(["main", *sys.argv[1:]])
    app()
