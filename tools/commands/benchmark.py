"""``python -m framebind benchmark``: times models, as TFLite's benchmark_model does."""

from __future__ import annotations

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

import framebind as fb

from ...video.apis import GL, api_of
from ...video.models import find_model
from ..common.flags import PRECISIONS, SHORT_NAMES, DelegateFlags, backend_option, chart_option, split_names, with_flags
from ..common.output import AsJson, print_json, print_line, write_bytes, write_file
from ..measure.inputs import InputFlags, Inputs
from ..measure.measure import Measurement, Schedule, measure_on_gpu
from ..measure.peers import PEERS, litert_cpu
from ..measure.printing import peak_rss, print_csv, print_tables, profile_csv, trace_of
from ..measure.tool_flags import ToolFlags, refusing
from ..plots.files import save

CPU = "cpu"
CPUS = os.cpu_count() or 1

Models = Annotated[
    list[str] | None, typer.Argument(metavar="MODEL", help=".tflite files, or names that `models` lists.")
]
Backends = Annotated[
    str,
    backend_option(f"{SHORT_NAMES}, auto, cpu, or several: gl,cl.", also=CPU, several=True, show_default=GL.short),
]
Precisions = Annotated[str, typer.Option("--precision", show_default="f32", help="f32, f16, or both: f32,f16.")]
Runs = Annotated[int, typer.Option("--runs", min=1, help="Timed frames.")]
WarmUpRuns = Annotated[
    int,
    typer.Option("--warmup-runs", min=0, help="Frames before them, for --warmup-min-secs at least; 0: none."),
]
Signature = Annotated[str, typer.Option(help="Run this signature, with --read, by its name.")]
MaxSecs = Annotated[
    float, typer.Option("--max-secs", min=0.0, help="Begin no frame after this many seconds of frames.")
]
RunDelay = Annotated[float, typer.Option("--run-delay", help="Seconds of pause before each timed frame.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Time only initialization, and run nothing.")]
Bound = Annotated[
    bool | None,
    typer.Option(
        "--bound/--read",
        show_default="bound",
        help="Inputs and outputs on the GPU and nothing copied, or in CPU memory.",
    ),
]
Threads = Annotated[int, typer.Option("--threads", min=-1, help="Threads of the CPU interpreter; -1: all cores.")]
Compare = Annotated[str, typer.Option(help=f"Peers in the same run: {', '.join(PEERS)}.")]
Profile = Annotated[
    bool, typer.Option("--profile", help="Also the time of each step as a dispatch, by the GPU's own clock.")
]
Trace = Annotated[
    Path | None, typer.Option(help="Write the dispatches' times to this file, for chrome://tracing or ui.perfetto.dev.")
]
Plot = Annotated[Path | None, chart_option("Draw GPU and CPU times, each step with its lower bound, and memory")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV instead of tables.")]


@refusing
@with_flags
def benchmark(
    models: Models = None,
    backend: Backends = "",
    precision: Precisions = "",
    runs: Runs = 50,
    warmup_runs: WarmUpRuns = 1,
    signature: Signature = "",
    max_secs: MaxSecs = 150.0,
    run_delay: RunDelay = -1.0,
    dry_run: DryRun = False,
    bound: Bound = None,
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
    tool: ToolFlags,
) -> None:
    """Time models: latency, initialization, memory, dispatches and API calls, on one backend or several.

    Command lines of LiteRT's benchmark_model work, too: see docs/options.md.

    Example: python -m framebind benchmark selfie_segmentation --backend gl,cl --precision f16 --compare litert-cpu

    Example: python -m framebind benchmark model.tflite --read --profile --trace trace.json

    Example: python -m framebind benchmark --graph=model.tflite --use_gpu=true --num_runs=100
    """
    tool.check()
    names = [*(models or ()), *tool.graph]
    if not names:
        raise typer.BadParameter("give a model", param_hint="MODEL")
    if tool.list_signatures:
        return _print_signatures(names)
    plan = _planned(names, backend, precision, compare, bound, tool, charted=plot is not None)
    profiled = profile or trace is not None or plot is not None or tool.csv_file is not None
    if profiled and plot is None and plan.backends == [CPU]:
        raise typer.BadParameter("it times the GPU's steps: add --use_gpu=true or --backend", param_hint="--profile")
    schedule = Schedule(
        warmup_runs, runs, max_secs, run_delay, dry_run, tool.min_secs, tool.warmup_min_secs, tool.run_frequency,
        shows=tool.output_filepath is not None or tool.print_preinvoke_state or tool.print_postinvoke_state,
    )  # fmt: skip
    rows = _measured(plan, flags, schedule, given.read(signature), threads if threads > 0 else CPUS, profiled=profiled)
    _write_files(rows, trace, plot, tool)
    if as_json:
        print_json({"environment": _environment(), "runs": [_figures(row) for row in rows]})
    elif as_csv:
        print_csv(rows)
    else:
        print_tables(rows, profiled=profile, tool=tool)
    if tool.require_full_delegation:
        _require_full_delegation(rows)


@dataclasses.dataclass(frozen=True)
class Plan:
    """A plan of rows: each model on each backend with each precision, then by each peer."""

    models: list[str]
    backends: list[str]
    precisions: list[str]
    peers: list[str]
    bound: bool


def _planned(
    models: list[str],
    backend: str,
    precision: str,
    compare: str,
    bound: bool | None,
    tool: ToolFlags,
    *,
    charted: bool,
) -> Plan:
    """The plan of a command line. Raises typer.BadParameter if it contradicts itself.

    With benchmark_model's --use_gpu and --graph, what is not given is as there: f16 and tensors in CPU memory; or the
    CPU.
    """
    on_gpu = tool.use_gpu is True
    if not backend:
        on_cpu = tool.use_gpu is False or (tool.graph and not on_gpu)
        backend = CPU if on_cpu else GL.short
        if on_cpu and tool.use_gpu is None:
            typer.echo(
                "LiteRT's CPU interpreter is timed, as in benchmark_model: --use_gpu=true times the GPU.", err=True
            )
    backends = split_names(backend)
    if tool.use_gpu is not None and (CPU in backends) == on_gpu:
        raise typer.BadParameter(f"it contradicts --backend {backend}", param_hint="--use-gpu")
    names = "f16" if tool.allow_fp16 or (on_gpu and not precision) else precision or "f32"
    precisions = list(dict.fromkeys(PRECISIONS[name] for name in _listed("--precision", names, tuple(PRECISIONS))))
    peers = _listed("--compare", compare, tuple(PEERS)) if compare else []
    if charted and CPU not in backends and "litert-cpu" not in peers:
        peers.append("litert-cpu")
    on = sum(1 if name == CPU else len(precisions) for name in backends) + len(peers)
    if tool.output_filepath is not None and (len(models) * on > 1 or peers):
        raise typer.BadParameter("give one model, backend and precision, and no peer", param_hint="--output-filepath")
    return Plan(models, backends, precisions, peers, not on_gpu if bound is None else bound)


def _measured(
    plan: Plan, flags: DelegateFlags, schedule: Schedule, inputs: Inputs, threads: int, *, profiled: bool
) -> list[Measurement]:
    """A row for each part of the plan."""
    rows: list[Measurement] = []
    for path in [find_model(name) for name in plan.models]:
        for name in plan.backends:
            if name == CPU:
                rows.append(litert_cpu(path, threads, schedule, inputs))
            else:
                rows += _on_gpu(path, name, plan, flags, schedule, inputs, profiled=profiled)
        rows += [PEERS[name](path, threads, schedule, inputs) for name in plan.peers]
    return rows


def _write_files(rows: list[Measurement], trace: Path | None, plot: Path | None, tool: ToolFlags) -> None:
    """Write the files that the command line names."""
    if trace is not None:
        write_file(trace, json.dumps(trace_of(rows)) + "\n")
    if plot is not None:
        _plot(rows, plot)
    if tool.csv_file is not None:
        write_file(tool.csv_file, profile_csv(rows))
    if tool.output_filepath is not None:
        write_bytes(tool.output_filepath, b"".join(rows[0].outputs))


def _require_full_delegation(rows: list[Measurement]) -> None:
    """End with 1 if an operator of a row on the GPU stays on the CPU."""
    partial = [row for row in rows if row.statistics and row.statistics.operators > row.statistics.operators_on_gpu]
    for row in partial:
        assert row.statistics is not None
        left = row.statistics.operators - row.statistics.operators_on_gpu
        typer.echo(
            f"Disallowed CPU fallback detected: {left} of {row.statistics.operators} operators of {row.model} stay on "
            f"the CPU ({row.on}); `python -m framebind inspect` says why",
            err=True,
        )
    if partial:
        raise typer.Exit(1)


def _print_signatures(names: list[str]) -> None:
    for path in map(find_model, names):
        found: dict[str, Any] = fb.Interpreter(path, delegate="cpu").get_signature_list()
        print_line(f"{path.stem}: {', '.join(found) or 'no signature'}")


def _figures(row: Measurement) -> dict[str, Any]:
    """A row as JSON's types, without the tensors that have options of their own."""
    kept = dataclasses.replace(row, before=[], after=[], outputs=[])
    return {
        name: value for name, value in dataclasses.asdict(kept).items() if name not in ("before", "after", "outputs")
    }


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
    plan: Plan,
    flags: DelegateFlags,
    schedule: Schedule,
    inputs: Inputs,
    *,
    profiled: bool,
) -> list[Measurement]:
    """A row for each precision, on one backend."""
    api = api_of(backend)
    with api.open_context(flags.device):
        return [
            measure_on_gpu(
                path, api, flags.options_for(path, api.name, precision), schedule, inputs,
                bound=plan.bound, profiled=profiled,
            )
            for precision in plan.precisions
        ]  # fmt: skip


def _listed(option: str, text: str, known: tuple[str, ...]) -> list[str]:
    names = split_names(text)
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"'{name}' is none of {', '.join(known)}", param_hint=option)
    return names


def _environment() -> dict[str, Any]:
    packages = ("ai-edge-litert", "numpy")
    return {
        "command": f"python -m framebind {shlex.join(sys.argv[1:])}",
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "framebind": fb.__version__,
        **{package: version(package) for package in packages},
        "peak_rss_bytes": peak_rss(),
    }
