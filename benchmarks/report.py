"""Writes docs/performance.md, tensor-batch-times.md and peers.md from benchmarks/results; adds measurements there.

It also writes the figures that other pages quote: see quotes.py.

python benchmarks/report.py                              write the pages
python benchmarks/report.py add FILE... --commit HASH    keep measurements of one kind, and write the pages

A FILE is what `benchmarks/frames.sh --json` printed, or what another script of this folder wrote with `--json FILE`.
A kind that no page here shows gets a folder of its own in benchmarks/results, for a page that is written by hand.
Files in benchmarks/results have every sample (see samples.py). Those in results/medians are older: tables of medians
without samples, which a page shows, and says so, until they are measured again. results/counts has tables of counts.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).parent))  # tests run this file by runpy, which does not
import quotes
import samples
from samples import Label, Measured, Series

import framebind as fb

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "performance.md"
BATCH_PAGE, PEERS_PAGE = PAGE.with_name("tensor-batch-times.md"), PAGE.with_name("peers.md")
WIDTH = 120
"""The longest line of text on the page, in characters."""
Cell = str | float | None
ENGINES = {api.short: api.title for api in fb.list_backends()} | {"litert-gpu": quotes.LITERT}
"""The names of engines on the page."""


@dataclass(frozen=True)
class Layout:
    """The tables of a kind of measurement: the labels of rows and columns, and the words above each figure's table.

    ``digits`` are decimals; ``share`` names two figures, of which the first is shown as percent of the second, too.
    """

    rows: tuple[str, ...]
    column: str
    figures: dict[str, str]
    digits: int = 3
    share: tuple[str, str] | None = None


LAYOUTS = {
    "frames": Layout(("model",), "on", {
        "frame": "Frames, with a wait after each",
        "stream": "Streams, per frame",
        "submit": "Submit, the CPU's part of a frame",
    }),
    "read": Layout(("model",), "on", {"frame": "Frames"}),
    "starts": Layout(("model",), "on", {"cold": "Cold", "warm": "Warm"}, 0, ("warm", "cold")),
    "trees": Layout(("model", "on"), "tree", {
        "frame": "Frames, with a wait after each",
        "stream": "Streams, per frame",
    }),
    "clocks": Layout(("on", "rate", "pause"), "until", {"frame": "Frames"}),
    "batch": Layout(("model", "on"), "batch", {"frame": "Frames"}, 4),
    "peers": Layout(("model",), "on", {"frame": "Frames"}),
    "batch-peers": Layout(("model", "on"), "batch", {"frame": "Frames"}, 4),
}  # fmt: skip


@dataclass(frozen=True)
class Result:
    """A table without samples: medians that were measured before samples were kept, or counts.

    ``kind`` is a key of SECTIONS, or that of another page; the other fields are those of ``Measured``. The first column
    is the model or subject; ``note`` is one or two sentences below the table without
    figures, or ""; ``samples`` says that there are none of medians.
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
    samples: str = ""


MEDIANS_ONLY = "Medians only, no samples kept."
Shown = Measured | Result
"""A measurement that a page shows."""

HEADER = """# Performance

This page has the times of six models on one GPU, the commands that measure them, and their limits. The
[internals](internals/index.md) explain the speed, experiment by experiment. `python benchmarks/report.py` writes this
page from the files of `benchmarks/results`.

## How to measure

You need `make setup`, a driver and the [models](demos.md). Without a display the programs use EGL.

| command | measures |
| --- | --- |
| `python -m framebind benchmark MODEL` | latency, initialization by phase, memory, counts; `--profile`: each step |
| `python -m framebind diff MODEL` | the distance of the results from LiteRT's CPU interpreter |
| `benchmarks/precision.py` | the same for all models, noise and pictures: [precision](precision.md) |
| `benchmarks/frames.sh` | all six models on CUDA, OpenCL and OpenGL, in 16 bits |
| `benchmarks/host.py` | the host's part of a bound frame: LiteRT, Python, the driver's calls, the fence |
| `benchmarks/bound.py` | GPU time of each network, and of the frame that samples a camera texture for it |
| `benchmarks/initialization.py` | starts with and without the files that an earlier process kept |
| `benchmarks/imports.py` | `import framebind` and a first GL context, in fresh processes |
| `benchmarks/one_dispatch.py`, `benchmarks/inside.py` | one dispatch for all steps: times, equal bits, each step |
| `benchmarks/barriers.cu` | barriers between the work-groups of one launch |
| `benchmarks/batch.py` | N frames at once: milliseconds per frame by N, beside LiteRT |
| `benchmarks/peers.py` | frames and batches on CUDA [beside PyTorch](peers.md), compiled or not |
| `benchmarks/heavy.py` | [larger models](larger-models.md) on each API, beside PyTorch and LiteRT's accelerator |
| `benchmarks/costly_steps.py` | the steps that hold a frame's time, each beside the machine's limits |
| `benchmarks/growth.py`, `benchmarks/resized.py` | the cost over pixels and frames at once; models of other sizes |
| `benchmarks/stock_models.py` | [PyTorch's exports](pytorch-models.md): operators, partitions, steps, errors, times |
| `benchmarks/kinds_of_steps.py` | the steps of models by kernel, without a GPU |
| `benchmarks/dense.py` | dense convolutions by each kernel of matrix units |
| `benchmarks/int8/frames.py` | frames of quantized models |
| `benchmarks/convolutions.py`, `benchmarks/roofline.py` | single convolutions by each tile; lower bounds from shapes |
| `benchmarks/gl_dispatch.py` | dispatches, barriers, bindings and waits on OpenGL, without a model |
| `benchmarks/cl_launches.py` | launches on NVIDIA's OpenCL, without a model |
| `benchmarks/compare_trees.py` | two source trees in turn: frames and starts, before and after a change |
| `benchmarks/clocks.py` | frames after a pause, free and paced, with the GPU's clock |
| `benchmarks/soak.py` | a demo for half an hour: memory, GL objects, longest frames |
| `benchmarks/endurance.py` | a million bound frames on several threads: wrong ones, memory |
| `benchmarks/mediapipe_endurance.py` | a million followed frames of faces, hands or persons: wrong rows, memory |
| `benchmarks/mediapipe_agreement.py` | results beside [MediaPipe's](from-mediapipe.md) |
| `benchmarks/mediapipe_chain.py` | chains of MediaPipe's networks on the GPU, beside their results on the CPU |
| `benchmarks/mediapipe_peer.py` | MediaPipe's own delegates on the same clips |
| `benchmarks/video/compare.py` | [whole videos](video-times.md) beside other programs |
| `benchmarks/video/in_turn.py` | whole videos by two models, or by two source trees, in turn |
| `benchmarks/video/browser.py` | pictures in [browsers](browser.md) |
| `benchmarks/between_processes.py` | frames to [another process](processes.md) |
| `benchmarks/drivers.py` | results of `certify` on [other drivers](drivers.md) |

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
    "trees": """## Beside an earlier commit

Bound frames of two commits, which ran by turns on one GPU. A sample is the median of a process of its own. The CPU's
part of a frame differs from process to process, which streams hide.
""",
    "inside": """## GPU time inside the one dispatch

Times of all steps of a frame, in us. The *lower bound* is computed from shapes: the time to move every tensor once at
4.3 TB/s, or to do every multiply-add at 33.5 per picosecond, whichever is longer, plus 1.3 us per step. The last column
is the time that an input texture of 1280x720 adds to the network with its input in a buffer.
""",
    "clocks": """## After a pause

Frames of face_detection_front in the first seconds after a pause without work for the GPU, as long as compiling takes.
NVIDIA's driver lowers the clock meanwhile. [The checklist](checklist.md) says what to do. Each column is a part of the
run, up to that second.
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
"""The heading and text of each part of the page by kind of result, in order."""
BATCH, PEERS, BATCH_PEERS = "batch", "peers", "batch-peers"
"""The kinds of results that are on other pages."""
BATCH_HEADER = """# Times of tensors with a batch

How much time does a frame take if N frames run at once, as [tensors with a batch](tensor-batches.md) says? The tables
have milliseconds per frame: medians of runs of N frames with a wait after each, divided by N. Inputs and outputs are
on the GPU, in one buffer for all frames or in *N objects*: a texture of 640x480 for each picture, and a buffer for each
other tensor. LiteRT's inputs are written from CPU memory, and its outputs are read back. `python benchmarks/report.py`
writes this page from `benchmarks/results`.
"""
PEERS_HEADER = """# Beside PyTorch

This page has the times of framebind and PyTorch in milliseconds per frame: float16, bound, with a wait after each run,
one engine after the other in one call on one GPU. PyTorch runs the same graph, read from the .tflite file
(`benchmarks/torch_graph.py`), and its results are compared with LiteRT's before it is timed. All its
kernels are captured as one CUDA graph, without PyTorch's own wrapper for this (mode "reduce-overhead"):

- *torch CUDA graph*: PyTorch's own kernels; cuDNN chooses the fastest convolutions by trying them.
- *torch.compile*: the whole graph by Inductor, without tuning; the same convolutions.

`benchmarks/peers.py` has two more engines without figures here: `torch-compile-tuned` runs the 1x1 convolutions as
products of matrices and tries six tiles for them, and `torch-compile-max-autotune` tunes everything. For a model of
yours, `python -m framebind benchmark model.tflite --backend cuda --precision f16 --compare
torch-compile,torch-cuda-graph,litert-gpu` prints the engines beside each other, and with `--json` all samples. ONNX
Runtime is not among them, because it reads no .tflite file.
`python benchmarks/report.py` writes this page from `benchmarks/results`.
"""
LIMITS = """
## Limits of these figures

Each figure holds for one machine, driver and day. A software device (llvmpipe, PoCL) shows that the programs work, not
the speed of a GPU: LiteRT's own CPU interpreter is 6 to 40 times faster there, and framebind says so. This
documentation explains the times of kernels from times and instructions, not from a profiler's counters. The only
exception are the 9x9 convolutions in [tensor cores](internals/tensor-cores.md).
"""


def newest(found: Iterable[Shown]) -> list[Shown]:
    """The newest measurement of each kind on each machine; one with samples replaces tables of medians."""
    ordered = sorted(found, key=lambda each: (isinstance(each, Measured), each.date))
    return list({(each.kind, each.machine): each for each in ordered}.values())


def batch_page(found: Iterable[Shown]) -> str:
    """The page of batches."""
    return BATCH_HEADER + "".join("\n" + shown(each) for each in newest(found) if each.kind == BATCH)


def peers_page(found: Iterable[Shown]) -> str:
    """The page of PyTorch: single frames, then batches."""
    frames, several = ([shown(each) for each in newest(found) if each.kind == kind] for kind in (PEERS, BATCH_PEERS))
    return "\n".join([PEERS_HEADER, *frames, *(["## Several frames at once\n"] if several else []), *several])


def page(found: Iterable[Shown]) -> str:
    """The whole page. Raises ValueError for a measurement of a kind that is neither in SECTIONS nor on another page."""
    here = [each for each in newest(found) if each.kind not in (BATCH, PEERS, BATCH_PEERS)]
    if unknown := {each.kind for each in here} - SECTIONS.keys():
        raise ValueError(f"no section of the page shows results of kind {', '.join(sorted(unknown))}")
    text = HEADER
    for kind, introduction in SECTIONS.items():
        parts = [shown(each) for each in here if each.kind == kind]
        if parts:
            text += "\n" + "\n".join([introduction, *parts])
    return text + LIMITS


def shown(each: Shown) -> str:
    return tables(each) if isinstance(each, Measured) else table(each)


# Measurements with samples --------------------------------------------------------------------------------------------


def tables(measurement: Measured) -> str:
    """A caption that says how it was measured, and a table of medians and p99 for each figure."""
    layout = LAYOUTS[measurement.kind]
    parts = [textwrap.fill(caption_of(measurement), WIDTH, break_on_hyphens=False)]
    for figure, words in layout.figures.items():
        series = [each for each in measurement.series if each.labels.get("figure") == figure]
        if series:
            counts = sorted({len(each.samples) for each in series})
            count = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
            parts += [f"{words}: median / p99 of {count} samples, in {measurement.unit}.", pivot(series, layout)]
    if layout.share is not None:
        parts.append(shares(measurement, *layout.share))
    return "\n\n".join(parts) + "\n"


def caption_of(each: Shown) -> str:
    return f"{each.machine}, {each.driver}; {each.date}, commit {each.commit}: `{each.command}`."


def pivot(series: Sequence[Series], layout: Layout) -> str:
    """A table of one figure: a row for each combination of the layout's rows, a column for each value of its column."""
    columns = list(dict.fromkeys(each.labels[layout.column] for each in series))
    rows: dict[tuple[str, ...], dict[Label, str]] = {}
    for each in series:
        cell = f"{each.median:,.{layout.digits}f} / {each.p99:,.{layout.digits}f}"
        rows.setdefault(tuple(named(each.labels[name]) for name in layout.rows), {})[each.labels[layout.column]] = cell
    cells = [[*row, *(found.get(column, "") for column in columns)] for row, found in rows.items()]
    return lines_of([*layout.rows, *map(named, columns)], cells, len(layout.rows))


def shares(measurement: Measured, part: str, whole: str) -> str:
    """A table of medians of one figure as percent of another's."""
    medians = {(each.labels["figure"], each.labels["model"], each.labels["on"]): each.median
               for each in measurement.series}  # fmt: skip
    on = list(dict.fromkeys(each.labels["on"] for each in measurement.series))
    rows: list[list[str]] = []
    for model in dict.fromkeys(each.labels["model"] for each in measurement.series):
        pairs = [(medians.get((part, model, name)), medians.get((whole, model, name))) for name in on]
        rows.append([str(model), *(f"{100 * some / all_:.1f}" if some and all_ else "" for some, all_ in pairs)])
    return f"Medians of {part} ones as % of {whole} ones.\n\n" + lines_of(["model", *map(named, on)], rows, 1)


def named(label: Label) -> str:
    """A label as pages spell it: "cl f16" is "OpenCL f16"."""
    name, space, rest = str(label).partition(" ")
    return f"{ENGINES.get(name, name)}{space}{rest}"


def lines_of(header: list[str], rows: list[list[str]], names: int) -> str:
    """The lines of a table, whose first columns are names and the others numbers."""
    aligned = [*["---"] * names, *["---:"] * (len(header) - names)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, aligned, *rows])


# Tables without samples -----------------------------------------------------------------------------------------------


def table(result: Result) -> str:
    """A caption that says how it was measured, the table, and its note."""
    columns = list(zip(*result.rows, strict=True))
    cells = list(zip(*(texts(column) for column in columns), strict=True))
    aligned = ["---" if any(isinstance(cell, str) for cell in column) else "---:" for column in columns]
    lines = [result.columns, aligned, *cells]
    kept = f" {MEDIANS_ONLY}" if result.samples else ""
    caption = caption_of(result) + kept
    rows = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    note = f"\n{textwrap.fill(result.note, WIDTH, break_on_hyphens=False)}\n" if result.note else ""
    return f"{textwrap.fill(caption, WIDTH, break_on_hyphens=False)}\n\n{rows}{note}"


def texts(column: Iterable[Cell]) -> list[str]:
    """The cells of a column, numbers with as many decimals as the most exact of them; None is empty."""
    column = list(column)
    decimals = max((len(str(cell).partition(".")[2]) for cell in column if isinstance(cell, float)), default=0)
    return ["" if cell is None else cell if isinstance(cell, str) else f"{cell:,.{decimals}f}" for cell in column]


def read_results(folder: Path = RESULTS) -> list[Shown]:
    """All measurements that pages show, by file name: those with samples, and the tables."""
    tabulated = [*sorted((folder / "medians").glob("*.json")), *sorted((folder / "counts").glob("*.json"))]
    return [
        *(samples.read(path) for path in sorted(folder.glob("*.json"))),
        *(Result(**json.loads(path.read_text(encoding="utf-8"))) for path in tabulated),
    ]


def medians_of(each: Shown) -> quotes.Medians:
    """The medians of a measurement's frames."""
    if isinstance(each, Measured):
        return {
            (str(one.labels["model"]), named(one.labels["on"]), str(one.labels.get("batch", 1))): one.median
            for one in each.series
            if one.labels["figure"] == "frame"
        }
    names = 2 if each.columns[1] == "on" else 1
    found: dict[tuple[str, str, str], float] = {}
    for row in each.rows:
        for column, cell in zip(each.columns[names:], row[names:], strict=True):
            if isinstance(cell, (int, float)):
                on, count = (named(str(row[1])), column) if names == 2 else (named(column), "1")
                found[str(row[0]), on, count] = cell
    return found


def quoting_pages(found: Iterable[Shown]) -> dict[Path, str]:
    """The other pages that quote measurements, with the figures of the newest ones."""
    kinds = {each.kind: medians_of(each) for each in newest(found) if each.machine == quotes.MACHINE}
    pages = dict.fromkeys(quote.page for quote in quotes.QUOTES)
    root = HERE.parent
    return {root / name: quotes.quoted(name, (root / name).read_text(encoding="utf-8"), kinds) for name in pages}


def keep(measurement: Measured, folder: Path = RESULTS) -> Path:
    """Write the measurement's file. Older ones of its kind and machine stay; pages show the newest."""
    machine = re.sub(r"\W+", "-", measurement.machine.lower()).strip("-")[:32]
    pages = {*SECTIONS, BATCH, PEERS, BATCH_PEERS}
    place = folder if measurement.kind in pages else folder / measurement.kind  # for a page that is written by hand
    place.mkdir(exist_ok=True)
    path = place / f"{measurement.kind}-{machine}-{measurement.date}.json"
    samples.write(path, measurement)
    return path


def write_pages() -> None:
    for path, text in ((PAGE, page), (BATCH_PAGE, batch_page), (PEERS_PAGE, peers_page)):
        path.write_text(text(read_results()), encoding="utf-8")
    for path, text in quoting_pages(read_results()).items():
        path.write_text(text, encoding="utf-8")


app = typer.Typer(help=__doc__)


@app.callback(invoke_without_command=True)
def write(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        write_pages()


@app.command()
def add(files: list[Path], commit: Annotated[str, typer.Option(help="The commit that was measured.")]) -> None:
    """Keep measurements of one kind, commit and machine as one file."""
    parts = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    found = [samples.from_benchmark(part) if "runs" in part else samples.from_fields(part) for part in parts]
    print(keep(samples.merged(found, commit)))
    write_pages()


if __name__ == "__main__":
    app()
