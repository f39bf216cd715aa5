"""Prints the time of a start with and without the cache of an earlier process (serialization_dir).

python benchmarks/initialization.py [MODEL ...] [--backend opengl|opencl] [--precision f32|f16] [--runs N]

A start is everything from the model's file to the end of the first inference; each runs in a separate process. The
drivers' own caches are off (NVIDIA, PoCL), or in a fresh folder for each process (Mesa, which exports no programs
without its cache).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

import framebind as fb
from framebind.demos.apis import BY_NAME, GL, Backend
from framebind.demos.measuring.names import FLOAT, QUANTIZED
from framebind.demos.models import find_model

NO_CACHES = {
    "__GL_SHADER_DISK_CACHE": "0", "CUDA_CACHE_DISABLE": "1", "POCL_KERNEL_CACHE": "0", "PYOPENCL_NO_CACHE": "1",
}  # fmt: skip
PHASES = ("read", "claim", "transform", "lower", "pack", "plan", "compile", "upload", "record")

app = typer.Typer()


@app.command()
def start(path: Path, backend: Backend, precision: str, folder: str) -> None:
    """Print the milliseconds of one start as JSON. ``folder`` is the cache's; "" keeps nothing."""
    with BY_NAME[backend].open_context() as context:
        context.finish()
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
        delegate.close()
    print(json.dumps({what: seconds * 1e3 for what, seconds in took.items()}))


def _start(path: Path, backend: str, precision: str, folder: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as mesa:
        command = [sys.executable, __file__, "start", str(path), backend, precision, folder]
        environment = {**os.environ, **NO_CACHES, "MESA_SHADER_CACHE_DIR": mesa}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


@app.command()
def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names, or .tflite files.")] = None,
    backend: Backend = GL.backend,
    precision: Literal["f32", "f16"] = "f32",
    runs: Annotated[int, typer.Option(min=1, help="Starts of each kind, of which the median is shown.")] = 1,
) -> None:
    """Print a row for each model: cold (no cache), keeping (makes the cache), warm (uses it) and the phases of warm."""
    print(f"Milliseconds of a start, {backend}, {precision}")
    columns = ("cold", "keeping", "warm", "    %", "first inference", "inference", *PHASES)
    print(f"{'model':30}", *columns, sep="  ", flush=True)
    for path in map(find_model, models or FLOAT + QUANTIZED):
        cold = statistics.median(_start(path, backend, precision, "")["total"] for _ in range(runs))
        with tempfile.TemporaryDirectory() as folder:
            keeping = _start(path, backend, precision, folder)["total"]
            starts = [_start(path, backend, precision, folder) for _ in range(runs)]
        warm = {what: statistics.median(start[what] for start in starts) for what in starts[0]}
        share = 100 * warm["total"] / cold
        figures = [f"{cold:,.0f}", f"{keeping:,.0f}", f"{warm['total']:,.0f}", f"{share:.1f}"]
        figures += [f"{warm[what]:,.1f}" for what in columns[4:]]
        cells = [figure.rjust(len(column)) for column, figure in zip(columns, figures, strict=True)]
        print(f"{path.stem[:30]:30}", *cells, sep="  ", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] not in (["start"], ["main"]):
        sys.argv.insert(1, "main")
    app()
