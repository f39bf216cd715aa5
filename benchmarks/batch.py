"""Times models that run N frames at once: milliseconds per frame, by N, on each API and beside other engines.

    python benchmarks/batch.py --backend gl,cl,cuda --batch 1,4,8,16,32 [MODEL ...]

The inputs are resized to N, and everything is bound. *fenced* is the median of runs with a wait after each, *stream*
the time of runs back to back; both are divided by N. *submit* is the CPU's part of a run, once for all N. With
``--objects one`` a buffer holds all N frames of a tensor; with ``many`` pictures are N textures of 640x480, and every
other tensor N buffers. LiteRT's frames are written from CPU memory and read back.

``--keep FOLDER --dry-run`` compiles all programs and keeps them there; a later run with ``--keep`` starts at once.
``benchmarks/report.py add FILE`` keeps what ``--json FILE`` wrote.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer
from names import FLOAT
from samples import Measured, Series, measured, write
from torch_peer import TORCH_WAYS, measure_torch

import framebind as fb
from framebind.interop.device import Dispatches
from framebind.tools.measure.inputs import Inputs
from framebind.tools.measure.measure import FRAME, Measurement, Samples, Schedule, Subject
from framebind.tools.measure.peers import PEERS as ENGINES
from framebind.video.apis import BY_NAME
from framebind.video.models import find_model

PEERS = ENGINES | {name: partial(measure_torch, name) for name in TORCH_WAYS}

COLUMNS = (
    f"{'model':24} {'on':26} {'N':>3} {'fenced':>8} {'stream':>8} {'submit':>8} {'dispatches':>10} {'arena MiB':>9}"
)
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Row:
    """Figures of one model with one N on one engine; times in milliseconds, per frame except ``submit``.

    ``difference`` is the distance of a peer's results from LiteRT's, as a share of an output's largest value.
    """

    model: str
    on: str
    batch: int
    fenced: float
    stream: float | None = None
    submit: float | None = None
    dispatches: int | None = None
    arena_nbytes: int | None = None
    device: str = ""
    driver: str = ""
    difference: float | None = None
    samples: Samples = field(default_factory=dict)

    def series(self) -> list[Series]:
        """The samples per frame; those of ``submit`` are of a run, once for all N."""
        labels = {"model": self.model, "on": self.on, "batch": self.batch}
        divisors = {"submit": 1}
        return [
            Series(labels | {"figure": figure}, [time / divisors.get(figure, self.batch) for time in times])
            for figure, times in self.samples.items()
        ]

    def __str__(self) -> str:
        stream, submit = (f"{t:8.4f}" if t is not None else " " * 8 for t in (self.stream, self.submit))
        arena = "" if self.arena_nbytes is None else f"{self.arena_nbytes / MEBIBYTE:.0f}"
        return (
            f"{self.model[:24]:24} {self.on:26} {self.batch:3} {self.fenced:8.4f} {stream} {submit} "
            f"{self.dispatches or '':>10} {arena:>9}"
            f"{'' if self.difference is None else f' off by {self.difference:.1e}'}"
        )


@dataclass(frozen=True)
class Way:
    """One way to run a model with N frames: precision, dispatches (see Device.dispatches), and objects."""

    precision: str
    dispatches: Dispatches
    objects: str
    keep: Path | None

    def options(self, path: Path, api: fb.Backend, batch: int) -> fb.GpuDelegateOptions:
        """The options of a delegate; its cache has its own folder, so that several processes may fill theirs."""
        name = f"{api.short}-{path.stem}-{batch}-{self.dispatches}-{self.objects}"
        return fb.GpuDelegateOptions(
            api.name, is_precision_loss_allowed=self.precision == "f16",
            serialization_dir=None if self.keep is None else self.keep / name,
            model_token=None if self.keep is None else path.stem,
        )  # fmt: skip

    def label(self, api: fb.Backend) -> str:
        words = [api.short, self.precision, "" if self.dispatches == "auto" else self.dispatches]
        return " ".join([*filter(None, words), *(["N objects"] if self.objects == "many" else [])])


def shapes_of(path: Path, batch: int) -> dict[str, tuple[int, ...]]:
    """The shapes of a model's inputs with so many frames, by name."""
    details: list[dict[str, Any]] = fb.Interpreter(model_path=path, delegate="cpu").get_input_details()
    return {str(d["name"]): (batch, *(int(n) for n in d["shape"][1:])) for d in details}


def bind_all(interpreter: fb.Interpreter, delegate: fb.GpuDelegate, api: fb.Backend, batch: int, objects: str) -> None:
    """Bind every input and output, to one buffer each or to an object per frame."""
    random = np.random.default_rng(0)
    interpreter.set_allow_buffer_handle_output(True)

    def bind(detail: dict[str, Any], make: Any) -> None:
        """Bind what ``make`` returns for a shape: once, or for each frame."""
        shape = tuple(int(n) for n in detail["shape"])
        many = objects == "many" and shape[0] == batch
        obj = [make((1, *shape[1:])) for _ in range(batch)] if many else make(shape)
        delegate.bind_buffer_to_tensor(obj, detail["index"])

    def given(shape: tuple[int, ...]) -> Any:
        if objects == "many" and len(shape) == 4 and shape[3] <= 4:
            return api.new_texture(random.integers(0, 256, (FRAME[1], FRAME[0], 4), np.uint8))
        return api.new_buffer(random.random(shape, np.float32))

    inputs = interpreter.get_input_details()
    outputs = interpreter.get_output_details()
    for detail in inputs:
        bind(detail, given)
    for detail in outputs:
        bind(detail, lambda shape: api.new_buffer(np.zeros(math.prod(shape), np.float32)))


@contextlib.contextmanager
def ready(path: Path, api: fb.Backend, batch: int, way: Way) -> Iterator[tuple[Subject, fb.GpuDelegate]]:
    """A model on an API whose context is current, compiled, bound and run once; and its delegate."""
    interpreter, delegate = fb.Interpreter(model_path=path), fb.GpuDelegate(way.options(path, api, batch))
    interpreter.modify_graph_with_delegate(delegate)
    try:
        Inputs(shapes_of(path, batch)).fitted(interpreter)
        interpreter.allocate_tensors()
        bind_all(interpreter, delegate, api, batch, way.objects)
        device: Any = delegate.engine.running_device()
        device.dispatches = way.dispatches
        interpreter.invoke()
        delegate.fence().wait()
        yield Subject(interpreter.invoke, lambda: delegate.fence().wait()), delegate
    finally:
        delegate.close()


@contextlib.contextmanager
def compiled(path: Path, api: fb.Backend, batch: int, way: Way) -> Iterator[Callable[[Schedule], Row]]:
    """A function that times a model on an API whose context is current. The model is compiled and was run once."""
    with ready(path, api, batch, way) as (subject, delegate):

        def measure(schedule: Schedule) -> Row:
            timed, figures = Measurement(path.stem, way.label(api)), delegate.statistics()
            timed.time(subject, schedule, streams=True)
            row = row_of(timed, batch)
            assert isinstance(row, Row)
            return replace(
                row, dispatches=figures.dispatches, arena_nbytes=figures.arena_nbytes, device=figures.device,
                driver=figures.driver,
            )  # fmt: skip

        yield measure


def measure(path: Path, api: fb.Backend, batch: int, schedule: Schedule, way: Way) -> Row | None:
    """Time a model on an API whose context is current; None if nothing is to be run."""
    with compiled(path, api, batch, way) as timed:
        return None if schedule.dry else timed(schedule)


def measure_peer(name: str, path: Path, batch: int, schedule: Schedule, threads: int) -> Row | str:
    """Time another engine, or say why it does not run the model so."""
    return row_of(PEERS[name](path, threads, schedule, inputs_of(path, batch)), batch)


def inputs_of(path: Path, batch: int) -> Inputs:
    """The inputs of so many frames; a single one has the model's own shapes."""
    return Inputs(shapes_of(path, batch) if batch > 1 else {})


def row_of(timed: Measurement, batch: int) -> Row | str:
    """The row of another engine's measurement per frame, or with the reason why there is none."""
    if timed.latency is None:
        return f"{timed.model} {timed.on} {batch}: {timed.error}"
    stream = None if timed.stream is None else timed.stream / batch
    return Row(
        timed.model, timed.on, batch, timed.latency.median / batch, stream, timed.submit,
        difference=timed.difference, samples=timed.samples,
    )  # fmt: skip


def as_measured(rows: list[Row]) -> Measured:
    """The rows with all samples; of kind "batch", or with PyTorch "batch-peers", or "peers" for single frames."""
    sizes = {row.batch for row in rows}
    kind = "batch" if not any("torch" in row.on for row in rows) else "peers" if sizes == {1} else "batch-peers"
    series = [each for row in rows for each in row.series()]
    return measured(kind, [(row.device, row.driver) for row in rows], "ms", series)


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names, or .tflite files.")] = None,
    backend: Annotated[str, typer.Option(help="gl, cl, cuda, several (gl,cl), or none.")] = "gl",
    batch: Annotated[str, typer.Option(help="The numbers of frames.")] = "1,4,8,16,32",
    precision: Annotated[str, typer.Option(help="f32 or f16.")] = "f16",
    dispatches: Annotated[str, typer.Option(help="auto, one, separate, or several.")] = "auto",
    objects: Annotated[str, typer.Option(help="one buffer for all frames, many objects, or both: one,many.")] = "one",
    compare: Annotated[str, typer.Option(help=f"Peers: {','.join(PEERS)}.")] = "",
    threads: Annotated[int, typer.Option(help="Threads of LiteRT's CPU interpreter.")] = 16,
    runs: Annotated[int, typer.Option(help="Runs of which medians are taken.")] = 100,
    seconds: Annotated[float, typer.Option(help="The longest that one figure may take.")] = 3.0,
    keep: Annotated[Path | None, typer.Option(help="Folder of compiled programs.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows there.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only compile.")] = False,
) -> None:
    schedule, rows = Schedule(1, runs, seconds, dry=dry_run), list[Row]()
    sizes, apis = [int(n) for n in batch.split(",")], [BY_NAME[name] for name in backend.split(",") if name != "none"]
    ways = [
        Way(precision, cast(Dispatches, way), kind, keep)
        for way in dispatches.split(",")
        for kind in objects.split(",")
    ]

    def add(row: Row | str | None) -> None:
        if row is not None:
            print(row, flush=True)
        if isinstance(row, Row):
            rows.append(row)

    print(COLUMNS)
    for path in map(find_model, models or FLOAT):
        for api in apis:
            with api.new_context():
                for way in ways:
                    for size in sizes:
                        add(measure(path, api, size, schedule, way))
        for name in compare.split(",") if compare and not dry_run else ():
            for size in sizes:
                add(measure_peer(name, path, size, schedule, threads))
        if json_file is not None:
            write(json_file, as_measured(rows))


if __name__ == "__main__":
    typer.run(main)
