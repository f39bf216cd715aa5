"""Measurements as text: tables, CSV, and a trace of dispatches."""

from __future__ import annotations

import csv
import io
import math
import sys
from typing import Any

import numpy as np

from ..common.output import print_figures, print_line
from .measure import Measurement, TensorState
from .tool_flags import ToolFlags

LONGEST = 10
"""Number of dispatches in the table of a profile: those that take longest."""


def peak_rss() -> int | None:
    """Peak resident memory of this process in bytes; None on Windows."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


LATENCY = ("min", "median", "p95", "p99", "max", "avg", "std")
"""Figures of the time of a frame, by their names in Measurement and in tables."""
COUNTS = ("dispatches", "barriers", "api_calls", "kernels", "arena_nbytes", "constants_nbytes")
"""Counts of Statistics that are printed."""
PHASES = ("read", "claim", "transform", "lower", "pack", "plan", "compile", "upload", "record")
"""The phases of an initialization, in order."""


def print_csv(rows: list[Measurement]) -> None:
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


def print_tables(rows: list[Measurement], *, profiled: bool, tool: ToolFlags) -> None:
    """Print what benchmark_model prints of each row, and then tables of all rows."""
    for row in rows:
        _print_story(row)
        if tool.print_preinvoke_state:
            _print_state("before the first frame", row, row.before)
        if tool.print_postinvoke_state:
            _print_state("after the last frame", row, row.after)
    _print_latencies(rows)
    made = [row for row in rows if row.statistics is not None]
    if made:
        _print_initializations(made)
        _print_counts(made)
    if profiled and tool.op_profiling_output_mode == "csv" and tool.csv_file is None:
        print(profile_csv(made), end="")
    for row in made if profiled and tool.op_profiling_output_mode != "csv" else ():
        _print_profile(row)
    peak = peak_rss()
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


def profile_csv(rows: list[Measurement]) -> str:
    """The dispatches of a profile, in order, as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["model", "on", "dispatch", "kernel", "milliseconds"])
    for row in rows:
        writer.writerows([row.model, row.on, step.label, step.kernel, step.nanoseconds / 1e6] for step in row.steps)
    return text.getvalue()


def _print_state(when: str, row: Measurement, tensors: list[TensorState]) -> None:
    lines = [
        [str(tensor.number), tensor.name, tensor.dtype, "x".join(map(str, tensor.shape)),
         _number(math.prod(tensor.shape) * np.dtype(tensor.dtype).itemsize, 0)]
        for tensor in tensors
    ]  # fmt: skip
    print_figures(
        f"LiteRT's tensors of {row.model} on {row.on} {when}", ("tensor", "name", "type", "shape"), ("bytes",), lines
    )


def trace_of(rows: list[Measurement]) -> dict[str, Any]:
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
