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
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from batch import COLUMNS, Row, Way, as_measured, compiled, inputs_of, row_of
from names import FLOAT
from processes import answers, is_ready, start, take_turn
from samples import write
from torch_peer import TORCH_WAYS, prepare

from framebind.tools.measure.measure import Schedule
from framebind.video.apis import BY_NAME
from framebind.video.models import find_model

Timed = Callable[[], Row | str]


def work(path: Path, way: str, sizes: list[int], schedule: Schedule, connection: Any) -> None:
    """Compile, wait for the turn, and send a row for each number of frames; a process's function."""
    with contextlib.ExitStack() as stack:
        if way in BY_NAME:
            stack.enter_context(BY_NAME[way].new_context())
        take_turn(connection, [ready(path, way, size, schedule, stack) for size in sizes])


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
    children = [start(path.stem, way, work, path, way, sizes, schedule) for path in paths for way in ways.split(",")]
    print(COLUMNS, flush=True)
    waiting = [child for child in children if is_ready(child, began, began + seconds)]
    for child in waiting:
        for row in answers(child):
            print(row, f" after {time.monotonic() - began:.0f} s", flush=True)
            rows += [row] if isinstance(row, Row) else []
        if json_file is not None:
            write(json_file, as_measured(rows))


if __name__ == "__main__":
    typer.run(main)
