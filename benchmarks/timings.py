"""Measures how long each model takes a frame, inputs and outputs bound and nothing read. See docs/performance.md.

python benchmarks/timings.py [MODEL ...] [--backend opengl|opencl] [--runs N] [--profile] [--compare litert-cpu]
                             [--json FILE]
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import ai_edge_litert.interpreter as litert
import numpy as np
import typer
from bound import MODELS, WIDTH, Backend, BoundModel, bind, model_path
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import framebind as fb
from framebind.interop.device import Device
from framebind.interop.devices import open_device

WARM_UP_SECONDS = 0.5
"""At least; GPUs that idled raise their clocks meanwhile."""
PROFILES = 20
"""Profiled runs, of which each step's median is shown."""

Row = dict[str, Any]
console = Console(width=WIDTH, soft_wrap=True)


def milliseconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1e3


def summary(times: list[float]) -> dict[str, float]:
    """Median, least and 95th percentile."""
    return {"median": statistics.median(times), "min": min(times), "p95": float(np.percentile(times, 95))}


def warm_up(frame: Callable[[], Any]) -> None:
    until = time.perf_counter() + WARM_UP_SECONDS
    frame()
    while time.perf_counter() < until:
        frame()


def time_frames(device: Device, model: BoundModel, runs: int) -> Row:
    """Milliseconds until a fence after the frame is passed; of that the CPU's to submit it, and to make the recorded
    calls alone; and of a frame in a stream, where nobody waits between frames.
    """
    waited, submitted, recorded = [], [], []

    def stream() -> None:
        for _ in range(runs):
            model.frame()
        device.finish()

    def run_recorded() -> None:
        for commands in model.commands:
            commands.run()

    for _ in range(runs):
        started = time.perf_counter()
        submitted.append(milliseconds(model.frame))
        device.fence().wait()
        waited.append((time.perf_counter() - started) * 1e3)
    for _ in range(runs):
        recorded.append(milliseconds(run_recorded))
        device.finish()
    return {
        **summary(waited),
        "stream": milliseconds(stream) / runs,
        "submit": statistics.median(submitted),
        "recorded": statistics.median(recorded),
    }


def profile(model: BoundModel) -> list[tuple[str, float]]:
    """Each step's milliseconds on the GPU, the longest first. Here each waits for the one before."""
    steps: list[tuple[str, float]] = []
    for commands in model.commands:
        runs = [commands.timings() for _ in range(PROFILES)]
        for step in zip(*runs, strict=True):
            steps.append((step[0][0], statistics.median(nanoseconds for _, nanoseconds in step) / 1e6))
    return sorted(steps, key=lambda step: -step[1])


def measure(device: Device, backend: Backend, path: Path, storage: str, runs: int, profiled: bool) -> Row:
    model = bind(path, storage, device, backend)
    first = milliseconds(lambda: (model.frame(), device.finish()))
    warm_up(lambda: (model.frame(), device.finish()))
    row = {"model": path.stem, "on": f"gpu {storage}", **time_frames(device, model, runs), "first": first}
    if profiled:
        row["steps"] = profile(model)
    model.delegate.close()
    return row


def measure_litert(path: Path, runs: int) -> Row:
    """LiteRT's CPU interpreter (XNNPACK) with a thread for each CPU; inputs are in place already."""
    interpreter = litert.Interpreter(str(path), num_threads=os.cpu_count())
    interpreter.allocate_tensors()
    first = milliseconds(interpreter.invoke)
    warm_up(interpreter.invoke)
    times = [milliseconds(interpreter.invoke) for _ in range(runs)]
    return {"model": path.stem, "on": "litert-cpu", **summary(times), "first": first}


def environment(device: Device) -> dict[str, str]:
    packages = ("framebind", "ai-edge-litert", "numpy")
    return {
        "device": f"{device.traits.name} ({device.traits.api})",
        "driver": device.traits.driver,
        "system": f"{platform.platform()}, {os.cpu_count()} CPUs",
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }


def print_rows(rows: list[Row]) -> None:
    table = Table(title="Milliseconds a frame", box=SIMPLE, padding=(0, 1, 0, 0))
    columns = ("median", "min", "p95", "stream", "submit", "recorded", "first")
    for column in ("model", "on", *columns):
        table.add_column(column, no_wrap=True, justify="left" if column in ("model", "on") else "right")
    for row in rows:
        table.add_row(row["model"], row["on"], *(f"{row[c]:.3f}" if c in row else "" for c in columns))
    console.print(table)
    for row in rows:
        if "steps" in row:
            total = sum(took for _, took in row["steps"])
            text = f"{row['model']}, {row['on']}: the longest of {len(row['steps'])} steps, {total:.3f} ms in all"
            console.print(text, highlight=False)
            for label, took in row["steps"][:10]:
                console.print(f"  {took:8.3f} ms  {label}", highlight=False)


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names, or .tflite files.")] = None,
    backend: Annotated[Literal["opengl", "opencl"], typer.Option(help="The API that the models run on.")] = "opengl",
    runs: Annotated[int, typer.Option(min=1, help="Frames of each measurement.")] = 200,
    profiled: Annotated[bool, typer.Option("--profile", help="Also the ten longest steps on the GPU.")] = False,
    compare: Annotated[Literal["litert-cpu"] | None, typer.Option(help="Also time LiteRT's CPU interpreter.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all figures there.")] = None,
) -> None:
    rows: list[Row] = []
    with fb.GlContext.headless() if backend == "opengl" else fb.ClContext():
        device = open_device(backend)
        about = environment(device)
        for what, text in about.items():
            console.print(f"{what:15}{text}", highlight=False)
        for path in map(model_path, models or MODELS):
            rows += [measure(device, backend, path, storage, runs, profiled) for storage in ("f32", "f16")]
            if compare is not None:
                rows.append(measure_litert(path, runs))
    print_rows(rows)
    if json_file is not None:
        json_file.write_text(json.dumps({"environment": about, "runs": runs, "milliseconds": rows}, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
