"""Writes docs/performance.md, batch-times.md and peers.md from the measurements in benchmarks/results; adds new ones.

python benchmarks/report.py                                         write the page
python benchmarks/report.py add FRAMES.json --commit HASH           keep what `benchmarks/frames.sh --json` printed
python benchmarks/report.py batches ROWS.json --commit HASH         keep what `benchmarks/batch.py --json` wrote
python benchmarks/report.py peers ROWS.json --commit HASH           keep what `benchmarks/peers.py --json` wrote
python benchmarks/report.py starts ROWS.json --commit HASH          keep what `initialization.py --json` wrote
python benchmarks/report.py compare TREES.txt --commits HASH,HASH    keep what `benchmarks/compare_trees.py` printed

A file in benchmarks/results is one table. Its keys are those of ``Result``; files may be written by hand. The page
shows the newest table of each kind and machine.
"""

from __future__ import annotations

import datetime
import json
import re
import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "performance.md"
BATCH_PAGE, PEERS_PAGE = PAGE.with_name("batch-times.md"), PAGE.with_name("peers.md")
FRAMES = "benchmarks/frames.sh"
WIDTH = 120
"""The longest line of text on the page, in characters."""
Cell = str | float | None
APIS = {"cuda": "CUDA", "opencl": "OpenCL", "opengl": "OpenGL"}
"""The names of backends on the page."""


@dataclass(frozen=True)
class Result:
    """A table of measurements, with everything that is needed to measure it again.

    ``kind`` is a key of SECTIONS. ``date`` is YYYY-MM-DD, ``commit`` the tree that was measured. The first column is
    the model or subject; ``note`` is one or two sentences below the table, or "".
    """

    kind: str
    machine: str
    driver: str
    date: str
    commit: str
    command: str
    columns: list[str]
    rows: list[list[Cell]]
    note: str = ""


HEADER = """# Performance

This page has the times of six models on one GPU, the commands that measure them, and their limits. The
[internals](internals/index.md) explain the speed, experiment by experiment. `python benchmarks/report.py` writes this
page from `benchmarks/results/*.json`; edit those files instead.

## How to measure

You need `make setup`, a driver and the [models](demos.md). Without a display the programs use EGL.

| command | measures |
| --- | --- |
| `python -m framebind benchmark MODEL` | latency, initialization by phase, memory, counts; `--profile`: each step |
| `python -m framebind diff MODEL` | the distance of the results from LiteRT's CPU interpreter |
| `benchmarks/frames.sh` | all six models, on both APIs, beside LiteRT's CPU interpreter and GPU accelerator |
| `benchmarks/host.py` | the host's part of a bound frame: LiteRT, Python, the driver's calls, the fence |
| `benchmarks/bound.py` | GPU time of each network, and of the frame that samples a camera texture for it |
| `benchmarks/initialization.py` | starts with and without the files that an earlier process kept |
| `benchmarks/imports.py` | `import framebind` and a first GL context, in fresh processes |
| `benchmarks/one_dispatch.py`, `benchmarks/inside.py` | one dispatch for all steps: times, equal bits, each step |
| `benchmarks/barriers.cu` | barriers between the work-groups of one launch |
| `benchmarks/batch.py` | N frames at once: milliseconds per frame by N, beside LiteRT |
| `benchmarks/peers.py` | frames and batches on CUDA [beside PyTorch](peers.md), compiled or not |
| `benchmarks/convolutions.py`, `benchmarks/roofline.py` | single convolutions by each tile; lower bounds from shapes |
| `benchmarks/gl_dispatch.py` | dispatches, barriers, bindings and waits on OpenGL, without a model |
| `benchmarks/compare_trees.py` | two source trees in turn: frames and starts, before and after a change |
| `benchmarks/clocks.py` | frames after a pause, free and paced, with the GPU's clock |
| `benchmarks/soak.py` | a demo for half an hour: memory, GL objects, longest frames |
| `benchmarks/endurance.py` | a million bound frames on several threads: wrong ones, memory |

Times are taken after a warm-up of a second (of half a second before 2026-11-24).

- *Bound*: inputs and outputs stay on the GPU. A frame binds the next texture of a ring, calls `invoke()` and waits for
  a fence.
- *Read*: a frame writes every input from CPU memory and reads every output back.
- *Stream*: many frames run back to back without a wait; the time is that of one.
- *Submit*: the CPU's part of a frame.

`--profile` runs each step as its own dispatch, with a wait before it, so the steps add up to more than a frame's time.
"""

SECTIONS = {
    "frames": """## A bound frame

Medians in ms. CUDA runs a graph with one launch per step; OpenCL runs all steps in one dispatch; NVIDIA's OpenGL runs
one dispatch for every ten steps, and ran one per step until 2026-11-22.
""",
    "comparison": """## Before and after

Two commits, measured in turn on one machine: medians of bound frames in ms, and the change of a cold start.
""",
    "inside": """## GPU time inside the one dispatch

Times of all steps of a frame, in us. The *lower bound* is computed from shapes: the time to move every tensor once at
4.3 TB/s, or to do every multiply-add at 33.5 per picosecond, whichever is longer, plus 1.3 us per step. The last column
is the time that an input texture of 1280x720 adds to the network with its input in a buffer.
""",
    "read": """## A frame through CPU memory

Medians in ms, beside LiteRT's GPU accelerator in the same process.
""",
    "starts": """## Starts

Times from the model's file to the end of the first inference, in ms, with the drivers' own caches off. *Warm* starts
read the file of an earlier process (`serialization_dir`); *%* is warm as a part of cold.
""",
    "counts": """## What is counted

Counts need no clock, so they are the same on a busy machine. `tests/delegate/golden.txt` has them for the null device,
and a test compares them. *API calls* are all calls of one `invoke()` with bound inputs and outputs.
""",
}
"""By kind of result: the heading and text of its part of the page, in order."""
BATCH, PEERS, BATCH_PEERS = "batch", "peers", "batch-peers"
"""The kinds of results that are on other pages."""
BATCH_HEADER = """# Time of N frames at once

This page has milliseconds per frame when N frames run at once, as [batches](batches.md) describes. They are medians of
runs of N frames with a wait after each run, divided by N. Inputs and outputs are on the GPU, in one buffer for all
frames or in *N objects*: a texture of 640x480 for each picture, and a buffer for each other tensor. LiteRT's inputs are
written from CPU memory, and its outputs are read back. `python benchmarks/report.py` writes this page from
`benchmarks/results/batch-*.json`.
"""
PEERS_HEADER = """# Beside PyTorch

This page has the times of framebind and PyTorch in milliseconds per frame: float16, bound, with a wait after each run,
one engine after the other in one call on one GPU. PyTorch runs the same graph, read from the .tflite file
(`demos/measuring/torch_graph.py`), and its results are compared with LiteRT's before it is timed. All its
kernels are captured as one CUDA graph, without PyTorch's own wrapper for this (mode "reduce-overhead"):

- *torch CUDA graph*: PyTorch's own kernels; cuDNN chooses the fastest convolutions by trying them.
- *torch.compile*: the whole graph by Inductor, without tuning; the same convolutions.

`benchmarks/peers.py` has two more engines without figures here: `torch-compile-tuned` runs the 1x1 convolutions as
products of matrices and tries six tiles for them, and `torch-compile-max-autotune` tunes everything.
`python benchmarks/report.py` writes this page from `benchmarks/results`.
"""
LIMITS = """
## Limits of these figures

Each figure holds for one machine, driver and day. A software device (llvmpipe, PoCL) shows that the programs work, not
the speed of a GPU: LiteRT's own CPU interpreter is 6 to 40 times faster there, and framebind says so. This
documentation explains the times of kernels from times and instructions, not from a profiler's counters. The only
exception are the 9x9 convolutions in [tensor cores](internals/tensor-cores.md).
"""


def newest(results: Iterable[Result]) -> list[Result]:
    """The newest result of each kind on each machine."""
    ordered = sorted(results, key=lambda result: result.date)
    return list({(result.kind, result.machine): result for result in ordered}.values())


def batch_page(results: Iterable[Result]) -> str:
    """The page of batches."""
    return BATCH_HEADER + "".join("\n" + table(result) for result in newest(results) if result.kind == BATCH)


def peers_page(results: Iterable[Result]) -> str:
    """The page of PyTorch: single frames, then batches. All measurements are shown, as each may have a few models."""
    shown = list(results)
    frames, several = ([table(each) for each in shown if each.kind == kind] for kind in (PEERS, BATCH_PEERS))
    return "\n".join([PEERS_HEADER, *frames, *(["## Several frames at once\n"] if several else []), *several])


def page(results: Iterable[Result]) -> str:
    """The whole page. Raises ValueError for a result of a kind that is neither in SECTIONS nor on another page."""
    shown = [result for result in newest(results) if result.kind not in (BATCH, PEERS, BATCH_PEERS)]
    if unknown := {result.kind for result in shown} - SECTIONS.keys():
        raise ValueError(f"no section of the page shows results of kind {', '.join(sorted(unknown))}")
    text = HEADER
    for kind, introduction in SECTIONS.items():
        parts = [table(result) for result in shown if result.kind == kind]
        if parts:
            text += "\n" + "\n".join([introduction, *parts])
    return text + LIMITS


def table(result: Result) -> str:
    """A caption that says how it was measured, the table, and its note."""
    columns = list(zip(*result.rows, strict=True))
    cells = list(zip(*(texts(column) for column in columns), strict=True))
    aligned = ["---" if any(isinstance(cell, str) for cell in column) else "---:" for column in columns]
    lines = [result.columns, aligned, *cells]
    caption = f"{result.machine}, {result.driver}; {result.date}, commit {result.commit}: `{result.command}`"
    rows = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    note = f"\n{textwrap.fill(result.note, WIDTH)}\n" if result.note else ""
    return f"{textwrap.fill(caption, WIDTH, break_on_hyphens=False)}\n\n{rows}{note}"


def texts(column: Iterable[Cell]) -> list[str]:
    """The cells of a column, numbers with as many decimals as the most exact of them; None is empty."""
    column = list(column)
    decimals = max((len(str(cell).partition(".")[2]) for cell in column if isinstance(cell, float)), default=0)
    return ["" if cell is None else cell if isinstance(cell, str) else f"{cell:,.{decimals}f}" for cell in column]


def read_results(folder: Path = RESULTS) -> list[Result]:
    """All results of a folder, by file name."""
    return [Result(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.json"))]


# New results ----------------------------------------------------------------------------------------------------------


def frames(measured: dict[str, Any], commit: str) -> Result:
    """A table of what `benchmark --json` printed: a row for each model, the median in ms on each API."""
    runs = [run for run in measured["runs"] if run["latency"] is not None]
    on = list(dict.fromkeys(run["on"] for run in runs))
    by_model: dict[str, dict[str, float]] = {}
    for run in runs:
        by_model.setdefault(run["model"], {})[run["on"]] = round(run["latency"]["median"], 3)
    rows: list[list[Cell]] = [[model, *(row.get(name) for name in on)] for model, row in by_model.items()]
    bound = any(run["io"] == "bound" for run in runs)
    kind, command = ("frames", f"{FRAMES} --json") if bound else ("read", f"{FRAMES} --read --json")
    measured_on = [run["statistics"] for run in runs if run["statistics"] is not None]
    return Result(kind, *machine_and_driver(measured_on), today(), commit, command, ["model", *on], rows)


def batches(rows: list[dict[str, Any]], commit: str, command: str, kind: str = BATCH) -> Result:
    """A table of what `benchmarks/batch.py` wrote: a row for each model and engine, a column for each N."""
    sizes = sorted({row["batch"] for row in rows})
    fenced = {(row["model"], row["on"], row["batch"]): round(row["fenced"], 4) for row in rows}
    names = list(dict.fromkeys((row["model"], row["on"]) for row in rows))
    cells: list[list[Cell]] = [[*name, *(fenced.get((*name, size)) for size in sizes)] for name in names]
    return Result(kind, *machine_and_driver(rows), today(), commit, command, ["model", "on", *map(str, sizes)], cells)


def beside(rows: list[dict[str, Any]], commit: str, command: str) -> Result:
    """A table of what `benchmarks/peers.py` wrote for single frames: a row for each model, a column for each engine."""
    on = list(dict.fromkeys(row["on"] for row in rows))
    fenced = {(row["model"], row["on"]): round(row["fenced"], 3) for row in rows}
    models = list(dict.fromkeys(row["model"] for row in rows))
    cells: list[list[Cell]] = [[model, *(fenced.get((model, name)) for name in on)] for model in models]
    return Result(PEERS, *machine_and_driver(rows), today(), commit, command, ["model", *on], cells)


def starts(rows: list[dict[str, Any]], commit: str, command: str) -> Result:
    """A table of what `benchmarks/initialization.py` wrote: a row for each model, cold and warm starts on each API."""
    backends = list(dict.fromkeys(row["backend"] for row in rows))
    by_model: dict[str, dict[str, tuple[float, float]]] = {}
    for row in rows:
        by_model.setdefault(row["model"], {})[row["backend"]] = (row["cold"], row["warm"])
    cells: list[list[Cell]] = []
    for model, found in by_model.items():
        line: list[Cell] = [model]
        for backend in backends:
            cold, warm = found.get(backend, (None, None))
            share = None if cold is None or warm is None else round(100 * warm / cold, 1)
            line += [cold and round(cold), warm and round(warm), share]
        cells.append(line)
    columns = ["model", *(column for backend in backends for column in (f"{APIS[backend]} cold", "warm", "%"))]
    return Result("starts", *machine_and_driver(rows), today(), commit, command, columns, cells)


def machine_and_driver(rows: list[dict[str, Any]]) -> tuple[str, str]:
    """The machine, by the shortest name that an API gives its device, and the drivers' versions."""
    machine = min((row["device"] for row in rows if row["device"]), key=len)
    return machine, "; ".join(dict.fromkeys(row["driver"] for row in rows if row["driver"]))


def comparison(printed: str, machine: str, driver: str, commits: str) -> Result:
    """A table of what `benchmarks/compare_trees.py` printed: a row for each model, frames and starts on each API."""
    figures: dict[str, dict[str, tuple[float, float]]] = {}
    for line in printed.splitlines():
        words = line.split()
        if len(words) == 7 and words[3] in ("frame", "start"):
            figures.setdefault(words[0], {})[" ".join(words[1:4])] = (float(words[4]), float(words[5]))
    on = sorted({name.rpartition(" ")[0] for row in figures.values() for name in row})
    rows: list[list[Cell]] = []
    for model, row in figures.items():
        cells: list[Cell] = [model]
        for name in on:
            before, after = row[f"{name} frame"]
            cells += [before, after, _change(before, after), _change(*row.get(f"{name} start", (0.0, 0.0)))]
        rows.append(cells)
    columns = ["model", *(column for name in on for column in (f"{name} before", "after", "change", "start"))]
    return Result("comparison", machine, driver, today(), commits, "benchmarks/compare_trees.py", columns, rows)


def _change(before: float, after: float) -> str:
    return f"{(after / before - 1) * 100:+.1f}%" if before else ""


def today() -> str:
    return datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()


def keep(result: Result) -> Path:
    """Write the result's file, one row a line, and the page."""
    machine = re.sub(r"\W+", "-", result.machine.lower()).strip("-")[:32]
    commit = f"-{result.commit}" if result.kind in (PEERS, BATCH_PEERS) else ""  # several on a day may be shown
    path = RESULTS / f"{result.kind}-{machine}-{result.date}{commit}.json"
    fields = asdict(result)
    rows = ",\n".join(f"    {json.dumps(row)}" for row in fields.pop("rows"))
    text = json.dumps(fields, indent=2).removesuffix("\n}")
    path.write_text(f'{text},\n  "rows": [\n{rows}\n  ]\n}}\n', encoding="utf-8")
    write_page()
    return path


def write_page() -> None:
    PAGE.write_text(page(read_results()), encoding="utf-8")
    BATCH_PAGE.write_text(batch_page(read_results()), encoding="utf-8")
    PEERS_PAGE.write_text(peers_page(read_results()), encoding="utf-8")


app = typer.Typer(help=__doc__)


@app.callback(invoke_without_command=True)
def write(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        write_page()


@app.command()
def add(measured: Path, commit: Annotated[str, typer.Option(help="The commit that was measured.")]) -> None:
    """Keep what `benchmarks/frames.sh --json` printed, with --read or without."""
    print(keep(frames(json.loads(measured.read_text()), commit)))


@app.command("batches")
def add_batches(
    measured: Annotated[list[Path], typer.Argument(help="Files of `benchmarks/batch.py --json`.")],
    commit: Annotated[str, typer.Option(help="The commit that was measured.")],
    command: Annotated[str, typer.Option(help="The command that measured it.")] = "benchmarks/batch.py",
) -> None:
    """Keep what `benchmarks/batch.py --json` wrote."""
    rows = [row for path in measured for row in json.loads(path.read_text())]
    print(keep(batches(rows, commit, command)))


@app.command()
def peers(
    measured: Annotated[list[Path], typer.Argument(help="Files of `benchmarks/peers.py --json`.")],
    commit: Annotated[str, typer.Option(help="The commit that was measured.")],
    command: Annotated[str, typer.Option(help="The command that measured it.")] = "benchmarks/peers.py",
) -> None:
    """Keep what `benchmarks/peers.py --json` wrote, of single frames or of batches."""
    rows = [row for path in measured for row in json.loads(path.read_text())]
    are_single = {row["batch"] for row in rows} == {1}
    print(keep(beside(rows, commit, command) if are_single else batches(rows, commit, command, BATCH_PEERS)))


@app.command("starts")
def add_starts(
    measured: Annotated[list[Path], typer.Argument(help="Files of `benchmarks/initialization.py --json`.")],
    commit: Annotated[str, typer.Option(help="The commit that was measured.")],
    command: Annotated[str, typer.Option(help="The command that measured it.")] = "benchmarks/initialization.py",
) -> None:
    """Keep what `benchmarks/initialization.py --json` wrote."""
    print(keep(starts([row for path in measured for row in json.loads(path.read_text())], commit, command)))


@app.command()
def compare(
    printed: Path,
    commits: Annotated[str, typer.Option(help="Both commits, with a comma between.")],
    machine: Annotated[str, typer.Option(help="The GPU.")] = "NVIDIA H200",
    driver: Annotated[str, typer.Option(help="Its driver.")] = "",
) -> None:
    """Keep what `benchmarks/compare_trees.py` printed: two commits, measured in turn."""
    print(keep(comparison(printed.read_text(), machine, driver, commits.replace(",", " and "))))


if __name__ == "__main__":
    app()
