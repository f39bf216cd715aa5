"""``python -m framebind benchmark``: times models, as TFLite's benchmark_model does."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from ..apis import APIS, BY_NAME, GL, api_of
from ..flags import AUTO, PRECISIONS, DelegateFlags, with_flags
from ..measuring.inputs import InputFlags, Inputs
from ..measuring.measure import Measurement, Schedule, measure_on_gpu
from ..measuring.peers import PEERS, litert_cpu
from ..models import find_model
from ..plots.files import chart_option, save
from .output import AsJson, print_figures, print_json, print_line, write_file

CPU = "cpu"
BACKENDS = (*BY_NAME, AUTO, CPU)
SHORT_NAMES = ", ".join(api.short for api in APIS)
CPUS = os.cpu_count() or 1
LONGEST = 10
"""Number of dispatches in the table of a profile: those that take longest."""

Models = Annotated[list[str], typer.Argument(metavar="MODEL", help=".tflite files, or names that `models` lists.")]
Backends = Annotated[str, typer.Option("--backend", help=f"{SHORT_NAMES}, auto, cpu, or several: gl,cl.")]
Precisions = Annotated[str, typer.Option("--precision", help="f32, f16, or both: f32,f16.")]
Runs = Annotated[int, typer.Option("--runs", min=1, help="Timed frames.")]
WarmUpRuns = Annotated[
    int,
    typer.Option("--warmup-runs", min=0, help="Frames before them, for a second at least."),
]
Signature = Annotated[str, typer.Option(help="Run this signature, with --read, by its name.")]
MaxSecs = Annotated[
    float, typer.Option("--max-secs", min=0.0, help="Begin no frame after this many seconds of frames.")
]
RunDelay = Annotated[float, typer.Option("--run-delay", help="Seconds of pause before each timed frame.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Time only initialization, and run nothing.")]
Bound = Annotated[
    bool, typer.Option("--bound/--read", help="Inputs and outputs on the GPU and nothing copied, or in CPU memory.")
]
Threads = Annotated[int, typer.Option("--threads", min=1, help="Threads of the CPU interpreter.")]
Compare = Annotated[str, typer.Option(help=f"Peers in the same run: {', '.join(PEERS)}.")]
Profile = Annotated[
    bool, typer.Option("--profile", help="Also the time of each step as a dispatch, by the GPU's own clock.")
]
Trace = Annotated[
    Path | None, typer.Option(help="Write the dispatches' times to this file, for chrome://tracing or ui.perfetto.dev.")
]
Plot = Annotated[Path | None, chart_option("Draw GPU and CPU times, each step with its lower bound, and memory")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV instead of tables.")]


@with_flags
def benchmark(
    models: Models,
    backend: Backends = GL.short,
    precision: Precisions = "f32",
    runs: Runs = 50,
    warmup_runs: WarmUpRuns = 1,
    signature: Signature = "",
    max_secs: MaxSecs = 150.0,
    run_delay: RunDelay = -1.0,
    dry_run: DryRun = False,
    bound: Bound = True,
    threads: Threads = CPUS,
    compare: Compare = "",
    profile: Profile = False,
    trace: Trace = None,
    plot: Plot = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    *,
    flags: DelegateFlags,
    given: InputFlags,
) -> None:
    """Time models: latency, initialization, memory, dispatches and API calls, on one backend or several.

    Example: python -m framebind benchmark selfie_segmentation --backend gl,cl --precision f16 --compare litert-cpu

    Example: python -m framebind benchmark model.tflite --read --profile --trace trace.json
    """
    backends = _listed("--backend", backend, BACKENDS)
    precisions = list(dict.fromkeys(PRECISIONS[name] for name in _listed("--precision", precision, tuple(PRECISIONS))))
    peers = _listed("--compare", compare, tuple(PEERS)) if compare else []
    if plot is not None and CPU not in backends and "litert-cpu" not in peers:
        peers.append("litert-cpu")
    profiled = profile or trace is not None or plot is not None
    inputs, schedule = given.read(signature), Schedule(warmup_runs, runs, max_secs, run_delay, dry_run)
    rows: list[Measurement] = []
    for path in [find_model(name) for name in models]:
        for name in backends:
            if name == CPU:
                rows.append(litert_cpu(path, threads, schedule, inputs))
            else:
                rows += _on_gpu(path, name, precisions, flags, schedule, inputs, bound=bound, profiled=profiled)
        rows += [PEERS[name](path, threads, schedule, inputs) for name in peers]
    if trace is not None:
        write_file(trace, json.dumps(_trace(rows)) + "\n")
    if plot is not None:
        _plot(rows, plot)
    if as_json:
        print_json({"environment": _environment(), "runs": [dataclasses.asdict(row) for row in rows]})
    elif as_csv:
        _print_csv(rows)
    else:
        _print_tables(rows, profiled=profile)


def _plot(rows: Sequence[Measurement], path: Path) -> None:
    """Draw the rows, by model."""
    from ..plots.profile import Benchmark, Profile, Timed, benchmark_chart  # packages of the extra `plot`

    found: list[Benchmark] = []
    for model in dict.fromkeys(row.model for row in rows):
        own = [row for row in rows if row.model == model and row.latency is not None]
        devices = dict.fromkeys(row.statistics.device for row in own if row.statistics is not None)
        timed = [
            Timed(row.on, row.latency.median, row.latency.p95, row.statistics is not None) for row in own if row.latency
        ]
        profiles = [Profile(row.on, row.steps, row.costs, row.memory) for row in own if row.steps]
        found.append(Benchmark(model, ", ".join(devices), timed, profiles))
    save(benchmark_chart(found), path)


def _on_gpu(
    path: Path,
    backend: str,
    precisions: Sequence[str],
    flags: DelegateFlags,
    schedule: Schedule,
    inputs: Inputs,
    *,
    bound: bool,
    profiled: bool,
) -> list[Measurement]:
    """A row for each precision, on one backend."""
    api = api_of(backend)
    with api.open_context(flags.device):
        return [
            measure_on_gpu(
                path, api, flags.options_for(path, api.backend, precision), schedule, inputs,
                bound=bound, profiled=profiled,
            )
            for precision in precisions
        ]  # fmt: skip


def _listed(option: str, text: str, known: tuple[str, ...]) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"'{name}' is none of {', '.join(known)}", param_hint=option)
    return list(dict.fromkeys(names))


def _environment() -> dict[str, Any]:
    packages = ("framebind", "ai-edge-litert", "numpy")
    return {
        "command": f"python -m framebind {shlex.join(sys.argv[1:])}",
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        **{package: version(package) for package in packages},
        "peak_rss_bytes": _peak_rss(),
    }


def _peak_rss() -> int | None:
    """Peak resident memory of this process in bytes; None on Windows."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# Output ---------------------------------------------------------------------------------------------------------------

LATENCY = ("min", "median", "p95", "p99", "max", "avg", "std")
COUNTS = ("dispatches", "barriers", "api_calls", "kernels", "arena_nbytes", "constants_nbytes")
PHASES = ("read", "claim", "transform", "lower", "pack", "plan", "compile", "upload", "record")


def _print_csv(rows: list[Measurement]) -> None:
    """Print a line for each row, in milliseconds and bytes; a cell without a figure is empty."""
    writer = csv.writer(sys.stdout)
    times = ("first", "warm_up", *LATENCY)
    writer.writerow(["model", "on", "io", "error", "init", *times, "stream", "submit", *PHASES, *COUNTS])
    for row in rows:
        latency = [getattr(row.latency, name) if row.latency else "" for name in times]
        other = ["" if figure is None else figure for figure in (row.stream, row.submit)]
        phases = [row.initialization.get(phase, "") for phase in PHASES]
        counts = [getattr(row.statistics, name) if row.statistics else "" for name in COUNTS]
        writer.writerow([row.model, row.on, row.io, row.error, row.init, *latency, *other, *phases, *counts])


def _print_tables(rows: list[Measurement], *, profiled: bool) -> None:
    for row in rows:
        _print_story(row)
    _print_latencies(rows)
    made = [row for row in rows if row.statistics is not None]
    if made:
        _print_initializations(made)
        _print_counts(made)
    for row in made if profiled else ():
        _print_profile(row)
    peak = _peak_rss()
    if peak is not None:
        print_line(f"Peak memory footprint (MB) of this process, all models and peers: {peak / 1e6:.1f}")


def _print_story(row: Measurement) -> None:
    """Print a row in the words of benchmark_model, which scripts look for."""
    print_line(f"{row.model} on {row.on}")
    if row.statistics is not None:
        figures = row.statistics
        completely = "completely" if figures.operators == figures.operators_on_gpu else "partially"
        print_line(f"  {figures.device} ({figures.driver})")
        print_line(
            f"  Explicitly applied GPU delegate, and the model graph will be {completely} executed by the delegate "
            f"w/ {figures.partitions} delegate kernels."
        )
        for line in figures.tuning:
            print_line(f"  Measured to be faster: {line}")
    if row.latency is None:
        print_line(f"  {row.error or f'Initialized session in {row.init:.3f}ms. Nothing was run.'}")
        return
    microseconds = [row.init, row.latency.first, row.latency.warm_up, row.latency.avg]
    init, first, warm_up, average = (f"{time * 1e3:.1f}" for time in microseconds)
    print_line(
        f"  Inference timings in us: Init: {init}, First inference: {first}, Warmup (avg): {warm_up}, "
        f"Inference (avg): {average}"
    )


def _number(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _print_latencies(rows: list[Measurement]) -> None:
    lines: list[list[str]] = []
    for row in rows:
        if row.latency is not None:
            latency = [_number(getattr(row.latency, name)) for name in LATENCY]
            lines.append([row.model, row.on, row.io, *latency, _number(row.stream), _number(row.submit)])
    print_figures("Milliseconds per frame", ("model", "on", "in, out"), (*LATENCY, "stream", "submit"), lines)


def _print_initializations(rows: list[Measurement]) -> None:
    lines: list[list[str]] = []
    for row in rows:
        first = row.latency.first if row.latency else None
        phases = [_number(row.initialization[phase], 1) for phase in PHASES]
        lines.append([row.model, row.on, _number(row.init, 1), _number(first, 1), *phases])
    print_figures("Milliseconds of initialization", ("model", "on"), ("init", "first inference", *PHASES), lines)


def _print_counts(rows: list[Measurement]) -> None:
    columns = ("dispatches", "barriers", "API calls", "kernels", "arena KiB", "constants KiB")
    lines: list[list[str]] = []
    for row in rows:
        figures = [getattr(row.statistics, name) for name in COUNTS]
        kibibytes = [_number(n / 1024, 0) for n in figures[4:]]
        lines.append([row.model, row.on, *(_number(n, 0) for n in figures[:4]), *kibibytes])
    print_figures("Resources per frame", ("model", "on"), columns, lines)


def _print_profile(row: Measurement) -> None:
    total = sum(step.nanoseconds for step in row.steps) or 1
    assert row.statistics is not None
    title = f"{row.model} on {row.on}: the longest of {len(row.steps)} dispatches, {total / 1e6:.3f} ms in all"
    if row.statistics.dispatches < len(row.steps):
        title += f"; timed one by one, while a frame runs them in {row.statistics.dispatches}"
    lines: list[list[str]] = []
    for step in sorted(row.steps, key=lambda step: -step.nanoseconds)[:LONGEST]:
        share = 100 * step.nanoseconds / total
        lines.append([step.label, step.kernel, _number(step.nanoseconds / 1e6), _number(share, 1)])
    print_figures(title, ("dispatch", "kernel"), ("milliseconds", "%"), lines)


def _trace(rows: list[Measurement]) -> dict[str, Any]:
    """Chrome's trace events: a process for each row, its dispatches one after the other, in microseconds."""
    events: list[dict[str, Any]] = []
    for number, row in enumerate(row for row in rows if row.steps):
        name = {"name": f"{row.model} on {row.on}"}
        events.append({"ph": "M", "name": "process_name", "pid": number, "tid": 0, "args": name})
        start = 0.0
        for step in row.steps:
            took = step.nanoseconds / 1e3
            event = {
                "ph": "X",
                "name": step.label,
                "cat": step.kernel,
                "ts": start,
                "dur": took,
                "pid": number,
                "tid": 0,
            }
            events.append(event)
            start += took
    return {"traceEvents": events, "displayTimeUnit": "ns"}
