"""Times models that run N frames at once: milliseconds per frame, by N, on each API and beside LiteRT.

    python benchmarks/batch.py --backend gl,cl,cuda --batch 1,4,8,16,32 [MODEL ...]

The inputs are resized to N, everything is bound, and a run is waited for. *fenced* is the median of runs with a wait
after each, *stream* the time of runs back to back; both are divided by N. *submit* is the CPU's part of a run, which is
paid once for all N. LiteRT writes its inputs and reads its outputs, so that *read* is what to compare it with.

``--keep FOLDER --dry-run`` compiles all programs and keeps them there; a later run with ``--keep`` starts at once.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from names import FLOAT

import framebind as fb
from framebind.demos.apis import BY_NAME, Api
from framebind.demos.measuring.inputs import Inputs
from framebind.demos.measuring.measure import Schedule, Subject, read_and_write, time_frames
from framebind.demos.measuring.torch_peer import torch_compile
from framebind.demos.models import find_model
from framebind.interop.device import Dispatches

COLUMNS = ("model", "on", "N", "fenced", "stream", "submit", "dispatches", "arena MiB", "of a single frame %")
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Row:
    """Figures of one model with one N on one engine; times in milliseconds, per frame but for ``submit``."""

    model: str
    on: str
    batch: int
    fenced: float
    stream: float | None = None
    submit: float | None = None
    dispatches: int | None = None
    arena_nbytes: int | None = None


def resized(interpreter: fb.Interpreter, batch: int) -> None:
    """Give every input N frames, and allocate."""
    details: list[dict[str, Any]] = interpreter.get_input_details()
    for detail in details:
        interpreter.resize_tensor_input(detail["index"], [batch, *(int(n) for n in detail["shape"][1:])])
    interpreter.allocate_tensors()


def bind_all(interpreter: fb.Interpreter, delegate: fb.GpuDelegate, api: Api) -> None:
    """Bind every input and output to one buffer that holds all N frames."""
    random = np.random.default_rng(0)
    interpreter.set_allow_buffer_handle_output(True)
    inputs: list[dict[str, Any]] = interpreter.get_input_details()
    outputs: list[dict[str, Any]] = interpreter.get_output_details()
    for detail in inputs:
        delegate.bind_buffer_to_tensor(api.buffer(random.random(detail["shape"], np.float32)), detail["index"])
    for detail in outputs:
        zeros = np.zeros(math.prod(int(n) for n in detail["shape"]), np.float32)
        delegate.bind_buffer_to_tensor(api.buffer(zeros), detail["index"])


def measure(
    path: Path, api: Api, batch: int, schedule: Schedule, *, precision: str, dispatches: Dispatches, keep: Path | None
) -> Row | None:
    """Time a model on an API whose context is current; None if nothing is to be run."""
    kept = None if keep is None else keep / f"{api.short}-{path.stem}-{batch}-{dispatches}"  # one writer per folder
    options = fb.GpuDelegateOptions(
        api.backend, is_precision_loss_allowed=precision == "f16", serialization_dir=kept,
        model_token=None if kept is None else path.stem,
    )  # fmt: skip
    interpreter, delegate = fb.Interpreter(model_path=path), fb.GpuDelegate(options)
    interpreter.modify_graph_with_delegate(delegate)
    try:
        resized(interpreter, batch)
        bind_all(interpreter, delegate, api)
        device: Any = delegate.engine.running_device()
        device.dispatches = dispatches
        interpreter.invoke()
        delegate.fence().wait()
        if schedule.dry:
            return None
        latency, submit = time_frames(Subject(interpreter.invoke, lambda: delegate.fence().wait()), schedule)
        stream = streamed(interpreter.invoke, lambda: delegate.fence().wait(), schedule.runs)
        figures = delegate.statistics()
        name = f"{api.short} {precision}" + ("" if dispatches == "auto" else f" {dispatches}")
        return Row(
            path.stem, name, batch, latency.median / batch, stream / batch, submit, figures.dispatches,
            figures.arena_nbytes,
        )  # fmt: skip
    finally:
        delegate.close()


def streamed(frame: Callable[[], Any], wait: Callable[[], Any], runs: int) -> float:
    """Milliseconds of a run if ``runs`` are submitted back to back."""
    started = time.perf_counter()
    for _ in range(runs):
        frame()
    wait()
    return (time.perf_counter() - started) * 1e3 / runs


def litert_cpu(path: Path, batch: int, schedule: Schedule, threads: int) -> Row:
    """LiteRT's CPU interpreter, resized to N; inputs are written and outputs read."""
    interpreter = fb.Interpreter(model_path=path, num_threads=threads, delegate="cpu")
    resized(interpreter, batch)
    latency, _ = time_frames(read_and_write(interpreter, Inputs()), schedule)
    return Row(path.stem, f"litert-cpu, {threads} threads", batch, latency.median / batch)


def litert_gpu(path: Path, batch: int, schedule: Schedule) -> Row | str:
    """LiteRT's GPU accelerator, resized to N, or the reason why it does not run so."""
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator

    try:
        model = CompiledModel.from_file(str(path), HardwareAccelerator.GPU)
        details: list[dict[str, Any]] = fb.Interpreter(model_path=path, delegate="cpu").get_input_details()
        for number, detail in enumerate(details if batch > 1 else ()):
            model.resize_input_tensor(number, [batch, *map(int, detail["shape"][1:])], strict=False)
        written, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        sizes = [batch * math.prod(map(int, b.get_tensor_details()["shape"][1:])) for b in written]
        values = [np.random.default_rng(0).random(size, np.float32) for size in sizes]
        results = [math.prod(map(int, buffer.get_tensor_details()["shape"])) for buffer in outputs]

        def frame() -> None:
            for buffer, value in zip(written, values, strict=True):
                buffer.write(value)
            model.run_by_index(0, written, outputs)
            for buffer, size in zip(outputs, results, strict=True):
                buffer.read(size, np.float32)

        latency, _ = time_frames(Subject(frame), schedule)
    except (RuntimeError, OSError, ValueError) as error:
        return f"{path.stem} {batch}: LiteRT's GPU accelerator does not run it: {str(error).splitlines()[0]}"
    return Row(path.stem, "litert-gpu", batch, latency.median / batch)


def pytorch(path: Path, batch: int, schedule: Schedule) -> Row | str:
    """PyTorch's compiled graph for N frames, everything bound, or the reason why it does not run so."""
    details: list[dict[str, Any]] = fb.Interpreter(model_path=path, delegate="cpu").get_input_details()
    shapes = {detail["name"]: (batch, *map(int, detail["shape"][1:])) for detail in details}
    row = torch_compile(path, 1, schedule, Inputs(shapes))
    if row.latency is None or row.stream is None:
        return f"{path.stem} {batch}: {row.error}"
    return Row(path.stem, row.on, batch, row.latency.median / batch, row.stream / batch, row.submit)


def show(row: Row, single: dict[tuple[str, str], float]) -> None:
    """Print a line of the table. ``single`` has the fenced time of N = 1."""
    alone = single.setdefault((row.model, row.on), row.fenced) if row.batch == 1 else single.get((row.model, row.on))
    part = f"{100 * row.fenced / alone:6.0f}" if alone else ""
    stream, submit = (f"{t:8.4f}" if t is not None else " " * 8 for t in (row.stream, row.submit))
    arena = "" if row.arena_nbytes is None else f"{row.arena_nbytes / MEBIBYTE:.0f}"
    print(
        f"{row.model[:24]:24} {row.on:22} {row.batch:3} {row.fenced:8.4f} {stream} {submit} {row.dispatches or '':>5} "
        f"{arena:>6} {part}",
        flush=True,
    )


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names, or .tflite files.")] = None,
    backend: Annotated[str, typer.Option(help="gl, cl, cuda, or several: gl,cl.")] = "gl",
    batch: Annotated[str, typer.Option(help="The numbers of frames.")] = "1,4,8,16,32",
    precision: Annotated[str, typer.Option(help="f32 or f16.")] = "f16",
    dispatches: Annotated[str, typer.Option(help="auto, one, separate, or several.")] = "auto",
    compare: Annotated[str, typer.Option(help="Peers: litert-cpu,litert-gpu,torch-compile.")] = "",
    threads: Annotated[int, typer.Option(help="Threads of LiteRT's CPU interpreter.")] = 16,
    runs: Annotated[int, typer.Option(help="Runs of which medians are taken.")] = 100,
    seconds: Annotated[float, typer.Option(help="The longest that one figure may take.")] = 3.0,
    keep: Annotated[Path | None, typer.Option(help="Folder of compiled programs.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows there.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only compile.")] = False,
) -> None:
    schedule, rows, single = Schedule(1, runs, seconds, dry=dry_run), list[Row](), dict[tuple[str, str], float]()
    peers, sizes = compare.split(",") if compare else [], [int(n) for n in batch.split(",")]

    def add(row: Row | str | None) -> None:
        if isinstance(row, Row):
            rows.append(row)
            show(row, single)
        elif row is not None:
            print(row, flush=True)

    print("milliseconds per frame:", ", ".join(COLUMNS))
    for path in map(find_model, models or FLOAT):
        for name in backend.split(",") if backend else ():
            with BY_NAME[name].new_context():
                for way in dispatches.split(","):
                    for size in sizes:
                        add(
                            measure(path, BY_NAME[name], size, schedule, precision=precision, dispatches=way, keep=keep)
                        )
        for size in sizes if not dry_run else ():
            if "litert-cpu" in peers:
                add(litert_cpu(path, size, schedule, threads))
            if "litert-gpu" in peers:
                add(litert_gpu(path, size, schedule))
            if "torch-compile" in peers:
                add(pytorch(path, size, schedule))
        if json_file is not None:
            json_file.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    typer.run(main)
