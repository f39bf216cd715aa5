"""Times models in PyTorch beside framebind on any API: everything is compiled at once, and then timed one by one.

    python benchmarks/peers.py --ways cuda,torch-cuda-graph,torch-compile --seconds 50 [MODEL ...]
    python benchmarks/peers.py --ways cuda,cl,gl --batch 1,4,8,16,32 --seconds 75

Each model and way has a separate process. All compile side by side, because compilers mostly use the CPU. A process
that is not ready after ``--seconds`` is ended, which is reported. Then each process in turn has the machine for itself:
cuDNN chooses its kernels, the results are compared with LiteRT's, and runs are timed. Everything is bound, and in 16
bits. The columns are those of ``benchmarks/batch.py``, whose ``--batch`` this has, too.

``benchmarks/report.py add FILE`` keeps what ``--json FILE`` wrote.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from batch import COLUMNS, Row, Way, as_measured, compiled, inputs_of, row_of
from names import FLOAT
from samples import write
from torch_peer import TORCH_WAYS, prepare

from framebind.tools.measure.measure import Schedule
from framebind.video.apis import BY_NAME
from framebind.video.models import find_model

LONGEST = 60.0
"""Seconds that the figures of one process may take, when it has the machine for itself."""
Timed = Callable[[], Row | str]


class Child(NamedTuple):
    """A process and its connection, for the messages "ready" and "go on", and for rows."""

    model: str
    way: str
    process: BaseProcess
    connection: Any


def work(path: Path, way: str, sizes: list[int], schedule: Schedule, connection: Any) -> None:
    """Compile, wait for the turn, and send a row for each number of frames; a process's function."""
    with contextlib.ExitStack() as stack:
        if way in BY_NAME:
            stack.enter_context(BY_NAME[way].new_context())
        timed = [ready(path, way, size, schedule, stack) for size in sizes]
        connection.send("ready")
        connection.recv()
        for measure in timed:
            connection.send(measure())
        connection.send(None)


def ready(path: Path, way: str, size: int, schedule: Schedule, stack: contextlib.ExitStack) -> Timed:
    """A function that times the model. Everything that can run beside other processes is done before it returns."""
    if way in BY_NAME:
        measure = stack.enter_context(compiled(path, BY_NAME[way], size, Way("f16", "auto", "one", None)))
        return lambda: measure(schedule)
    other = prepare(way, path, inputs_of(path, size))
    return lambda: on_device(row_of(other(schedule), size))


def on_device(row: Row | str) -> Row | str:
    """PyTorch's row with its GPU and versions."""
    if isinstance(row, str):
        return row
    import torch  # pyright: ignore[reportMissingImports]

    versions = f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"
    return replace(row, device=torch.cuda.get_device_name(), driver=versions)


def start(path: Path, way: str, sizes: list[int], schedule: Schedule) -> Child:
    """Start the process of a model and a way."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=work, args=(path, way, sizes, schedule, theirs), daemon=False
    )
    process.start()
    theirs.close()  # so that the end of the process is the end of the connection
    return Child(path.stem, way, process, ours)


def next_message(child: Child, until: float) -> Row | str | None:
    """The next message of the process. Raises TimeoutError at that time, and EOFError if the process has ended."""
    if not child.connection.poll(max(until - time.monotonic(), 0.0)):
        raise TimeoutError
    return child.connection.recv()


def is_ready(child: Child, began: float, until: float) -> bool:
    """Whether the process has compiled by then; else it is ended."""
    try:
        next_message(child, until)
    except (TimeoutError, EOFError) as error:
        why = "it was not compiled by then" if isinstance(error, TimeoutError) else "its process ended"
        print(f"{child.model} {child.way}: {why}, after {time.monotonic() - began:.0f} s", flush=True)
        end(child)
        return False
    print(f"{child.model} {child.way}: compiled after {time.monotonic() - began:.0f} s", flush=True)
    return True


def rows_of(child: Child) -> Iterator[Row | str]:
    """Let the process measure, and end it."""
    try:
        child.connection.send("go on")
        while (row := next_message(child, time.monotonic() + LONGEST)) is not None:
            yield row
    except (TimeoutError, EOFError, BrokenPipeError):
        yield f"{child.model} {child.way}: its process did not answer"
    end(child)


def end(child: Child) -> None:
    """End the process; those that torch.compile started for it end with it."""
    child.process.kill()
    child.process.join()


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names, or .tflite files.")] = None,
    ways: Annotated[str, typer.Option(help=f"Any of {','.join((*BY_NAME, *TORCH_WAYS))}.")] = "cuda,torch-compile",
    batch: Annotated[str, typer.Option(help="The numbers of frames.")] = "1",
    seconds: Annotated[float, typer.Option(help="Seconds until all must be compiled.")] = 50.0,
    runs: Annotated[int, typer.Option(help="Runs of which medians are taken.")] = 300,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows there.")] = None,
) -> None:
    began, rows = time.monotonic(), list[Row]()
    sizes, schedule = [int(n) for n in batch.split(",")], Schedule(1, runs, 1.0)
    paths = [find_model(name) for name in models or FLOAT]
    count = len(paths) * len(ways.split(","))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(max(2 * (os.cpu_count() or 1) // count, 2)))
    children = [start(path, way, sizes, schedule) for path in paths for way in ways.split(",")]
    print(COLUMNS, flush=True)
    waiting = [child for child in children if is_ready(child, began, began + seconds)]
    for child in waiting:
        for row in rows_of(child):
            print(row, f" after {time.monotonic() - began:.0f} s", flush=True)
            rows += [row] if isinstance(row, Row) else []
        if json_file is not None:
            write(json_file, as_measured(rows))


if __name__ == "__main__":
    typer.run(main)
