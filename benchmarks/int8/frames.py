"""Times quantized models with convolutions that sum integers, and with all arithmetic on real values.

python benchmarks/int8/frames.py [MODEL ...] [--backend cuda,opencl] [--runs N] [--json FILE]

*floats* leaves out the pass ``sum_integers`` (delegate/transform/quantized/steps.py): convolutions are then computed
by the general kernel. *apart* leaves out the passes that join two convolutions of integers.
*stream* is the time per frame of many back to back, *frame* that of a bound frame and the wait for it, *kernels* the
GPU's own times of the steps as dispatches of their own, by kernel; medians, in microseconds.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parents[1]))

from one_dispatch import bind, milliseconds, record

from framebind.delegate.transform.graph import Graph
from framebind.delegate.transform.pipeline import Pass, Rewrite
from framebind.delegate.transform.quantized.steps import sum_integers
from framebind.delegate.transform.separable import fuse_expanded, fuse_separable
from framebind.demos.apis import BY_NAME, Backend
from framebind.demos.measuring.names import QUANTIZED
from framebind.demos.models import find_model
from framebind.interop.device import Device
from framebind.interop.discovery.devices import open_device

compiler: Any = import_module("framebind.delegate.compiler")
"""The module whose pipeline of passes is replaced."""


WAYS: dict[str, tuple[Rewrite, ...]] = {
    "floats": (sum_integers,), "apart": (fuse_separable, fuse_expanded), "integers": ()
}  # fmt: skip
"""The passes that are left out, by the name of what is measured."""


@contextmanager
def passes_without(dropped: tuple[Rewrite, ...]) -> Iterator[None]:
    """Within the block, programs are made without these passes."""
    whole = compiler.transform

    def without(graph: Graph, passes: Sequence[Pass]) -> Graph:
        return whole(graph, [each for each in passes if each.run not in dropped])

    compiler.transform = without
    try:
        yield
    finally:
        compiler.transform = whole


def measure(device: Device, backend: Backend, path: Path, runs: int) -> dict[str, object]:
    """Figures of a model as it is compiled now."""
    model = bind(path, "f16", device, backend)
    model.frame()
    program = model.program
    frame, stream, submit = (1e3 * each for each in milliseconds(device, model.frame, runs))
    commands = record(device, program, "separate")
    kernels: dict[str, list[float]] = defaultdict(list)
    for _ in range(20):
        spent: dict[str, float] = defaultdict(float)
        for step, (_, nanoseconds) in zip(program.steps, commands.timings(), strict=True):
            spent[step.kernel.source.name] += nanoseconds / 1e3
        for name, each in spent.items():
            kernels[name].append(each)
    commands.release()
    steps = len(program.steps)
    model.delegate.close()
    by_kernel = {name: round(float(np.median(each)), 1) for name, each in sorted(kernels.items())}
    return {"steps": steps, "frame": frame, "stream": stream, "submit": submit, "kernels": by_kernel}


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names, or .tflite files.")] = None,
    backend: Annotated[str, typer.Option(help="APIs, with commas.")] = "cuda,opencl",
    ways: Annotated[str, typer.Option(help="What is measured, with commas.")] = ",".join(WAYS),
    runs: Annotated[int, typer.Option(help="Frames that are timed.")] = 300,
    output: Annotated[Path | None, typer.Option("--json", help="A file for the results.")] = None,
) -> None:
    rows: list[dict[str, object]] = []
    for api in backend.split(","):
        with BY_NAME[api].new_context():  # pyright: ignore[reportArgumentType]
            device = open_device(api)  # pyright: ignore[reportArgumentType]
            for path in map(find_model, models or QUANTIZED):
                for way in ways.split(","):
                    with passes_without(WAYS[way]):
                        found = measure(device, api, path, runs)  # pyright: ignore[reportArgumentType]
                    rows.append({"model": path.stem, "api": api, "way": way, **found})
                    print(json.dumps(rows[-1]), flush=True)
            machine = {"machine": device.traits.name, "driver": device.traits.driver}
            device.close()
        if output is not None:
            output.write_text(json.dumps({**machine, "runs": runs, "rows": rows}, indent=1))


if __name__ == "__main__":
    typer.run(main)
